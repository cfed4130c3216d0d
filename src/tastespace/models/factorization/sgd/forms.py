"""The three forms of PMF, which compare scores with ratings in different ways (Kim, Part III essay).

    centred   r - g            ~ u.v + c + d       g the mean of all ratings
    raw       r                ~ u.v + c + d
    sigmoid   (r - low) / (high - low) ~ sigmoid(g + u.v + c + d)      g the log odds of the mean

The last is fitted in quarters of the range: e = 4 (y - sigmoid(s)). Its slope is then 1 where it is steepest, like that
of the others everywhere, and the same strengths and learning rates suit all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.als.posterior import EitherPosterior, PointPosterior
from tastespace.models.factorization.rows import Factors, RatingBlock, row_scores, score_pairs, solve_rows

FormName = Literal["centred", "raw", "sigmoid"]
STEEPEST = 4.0  # 1 over the slope of the sigmoid at 0
FURTHEST = 1e-3  # of the range: the minimum distance of the mean from its ends


@dataclass(frozen=True)
class Form:
    """A form: maps ratings to targets, and scores to ratings."""

    offset: float  # g
    low: float
    high: float
    is_squashed: bool
    unit: float  # of scores: the spread of ratings

    @classmethod
    def of(cls, name: FormName, mean: float, standard_deviation: float, within: tuple[float, float]) -> Form:
        low, high = within
        if name == "sigmoid":
            share = (mean - low) / (high - low) if high > low else 0.5
            return cls(float(scipy.special.logit(np.clip(share, FURTHEST, 1 - FURTHEST))), low, high, True, 1.0)
        offset = mean if name == "centred" else 0.0
        # Scores that include the mean would make the factors too large for steps in units of the spread.
        return cls(offset, low, high, False, max(standard_deviation, abs(mean - offset) / 4) or 1.0)

    @property
    def has_no_mean(self) -> bool:
        """Whether a score of zero is far from any rating, so that a row without ratings must not be zero."""
        return not self.is_squashed and self.offset == 0

    def targets(self, values: FloatArray, dtype: Any) -> AnyFloats:
        """The targets of predictions: the ratings themselves or, for the sigmoid, in quarters of the range."""
        if not self.is_squashed:
            return contiguous(values, dtype)
        if self.high == self.low:
            return np.full(len(values), STEEPEST / 2, dtype)
        return contiguous(STEEPEST * (values.astype(np.float64) - self.low) / (self.high - self.low), dtype)

    def ratings(self, scores: NDArray[Any]) -> FloatArray:
        """The rating of a score (with the offset)."""
        if not self.is_squashed:
            return contiguous(scores, np.float32)
        return contiguous(
            self.low + (self.high - self.low) * scipy.special.expit(scores.astype(np.float64)), np.float32
        )


# 1/2 (4 (y - sigmoid(s)))^2 bends by 16 p q^2 (3 p - 1) where y = 1, p = sigmoid(s) = 1 - q: at most 1.2320. For y = 0
# it is the same with p and q exchanged, and linear in y between.
MAX_CURVATURE = 1.2321
STEPS = 20  # each about halves the distance to the minimum


@dataclass(frozen=True, eq=False)
class FormPosterior(PointPosterior):
    """rating = g + user bias + item bias + user . item, or its sigmoid; g is `mean` and the form's.

    Without g (raw) zeros would predict zero: a user without ratings is then the average of the others, and so is an
    unknown item.
    """

    form: Form
    held_out_errors: DoubleArray = field(default_factory=lambda: np.zeros(0))  # after each epoch, if any

    @property
    def is_latent(self) -> bool:
        return self.form.is_squashed

    def item_points(self) -> ItemPoints:
        if self.form.is_squashed:
            raise InvalidParameterError(
                "start is a PMF of the form sigmoid, whose factors are not in units of ratings; expected the form "
                "centred or raw"
            )
        points = super().item_points()
        if not self.form.has_no_mean:
            return points
        # Around the mean: the ratings of the average user become biases, and factors are the differences between users.
        user = self.users.average
        usual = points.factors @ np.asarray(user.factors[0], np.float64) + points.bias
        return ItemPoints(points.factors, usual - usual.mean())

    def known(self, user_rows: IntArray) -> Factors:
        found = super().known(user_rows)
        return found.averaged(user_rows < 0, self.users) if self.form.has_no_mean else found

    def fold_in(self, history: CSR, threads: int) -> Factors:
        """The minimum of the loss of each user, given the items.

        For the sigmoid, by steps to the minimum of a parabola that lies above the loss and touches it at the start of
        the step, starting from zero: the loss never rises.
        """
        if not self.form.is_squashed:
            found = super().fold_in(history, threads)
            return found.averaged(history.counts == 0, self.users) if self.form.has_no_mean else found
        targets = self.form.targets(history.values, self.items.factors.dtype)
        side, prior = RatingBlock(history.offsets, history.columns, targets, offset=self.mean), self.user_prior(history)
        points = self.items.each(lambda part: np.zeros((len(history), *part.shape[1:]), part.dtype))
        for _ in range(STEPS):
            scores = row_scores(side, points, self.items, self.mean, threads)
            chance = scipy.special.expit(scores)
            slope = (targets - STEEPEST * chance) * STEEPEST * chance * (1 - chance)
            parabola = replace(side, targets=scores + slope / scores.dtype.type(MAX_CURVATURE))
            points = solve_rows(parabola, self.items, prior, name="user", alpha=MAX_CURVATURE, threads=threads).points
        return points

    def predict(self, points: Factors, rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        scores = score_pairs(points, rows, self.items, item_rows, self.mean, threads)
        if self.form.has_no_mean and (unknown := np.flatnonzero(item_rows < 0)).size:
            first = np.zeros(len(unknown), np.int32)
            scores[unknown] = score_pairs(points, rows[unknown], self.items.average, first, self.mean, threads)
        return self.form.ratings(scores)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        form = self.form
        return {
            **super().arrays(),
            "form": np.array([float(form.is_squashed), form.low, form.high, form.unit]),
            "held_out_errors": self.held_out_errors,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> FormPosterior:
        is_squashed, low, high, unit = (float(value) for value in arrays["form"])
        point = PointPosterior.from_arrays(arrays)
        form = Form(point.mean, low, high, bool(is_squashed), unit)
        return cls(**vars(point), form=form, held_out_errors=arrays["held_out_errors"])


class EitherFormPosterior(EitherPosterior):
    """The same as `EitherPosterior`, with points of several forms."""

    point = FormPosterior
