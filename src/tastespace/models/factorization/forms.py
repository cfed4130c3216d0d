"""What the scores of a factorization are compared with: three forms of PMF (Kim, Part III essay).

    centred   r - g            ~ u.v + c + d       g the mean of all ratings
    raw       r                ~ u.v + c + d
    sigmoid   (r - low) / (high - low) ~ sigmoid(g + u.v + c + d)      g the log odds of the mean

The last is fitted in quarters of the range: e = 4 (y - sigmoid(s)). Its slope is then 1 where it is steepest, as that
of the others is everywhere, and the same strengths and learning rates suit all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tastespace.arrays import AnyFloats, FloatArray, contiguous

FormName = Literal["centred", "raw", "sigmoid"]
FORMS = list(get_args(FormName))
STEEPEST = 4.0  # 1 over the slope of the sigmoid at 0
FURTHEST = 1e-3  # of the range: how near to its ends the mean may be taken to lie


@dataclass(frozen=True)
class Form:
    """From ratings to targets, from scores to ratings."""

    offset: float  # g
    low: float
    high: float
    is_squashed: bool
    unit: float  # of scores: by how much ratings differ

    @classmethod
    def of(cls, name: FormName, mean: float, standard_deviation: float, within: tuple[float, float]) -> Form:
        low, high = within
        if name == "sigmoid":
            share = (mean - low) / (high - low) if high > low else 0.5
            return cls(float(logit(np.clip(share, FURTHEST, 1 - FURTHEST))), low, high, True, 1.0)
        offset = mean if name == "centred" else 0.0
        # A score that is a mean and little else would make the factors too large for steps in units of the little.
        return cls(offset, low, high, False, max(standard_deviation, abs(mean - offset) / 4) or 1.0)

    @property
    def has_no_mean(self) -> bool:
        """Whether a score of zero is far from any rating: a row without ratings has to be something else than zero."""
        return not self.is_squashed and self.offset == 0

    def targets(self, values: FloatArray, dtype: Any) -> AnyFloats:
        """What predictions are subtracted from: the ratings themselves or, squashed, quarters of the range."""
        if not self.is_squashed:
            return contiguous(values, dtype)
        if self.high == self.low:
            return np.full(len(values), STEEPEST / 2, dtype)
        return contiguous(STEEPEST * (values.astype(np.float64) - self.low) / (self.high - self.low), dtype)

    def ratings(self, scores: NDArray[Any]) -> FloatArray:
        """The rating that a score (with the offset) stands for."""
        if not self.is_squashed:
            return contiguous(scores, np.float32)
        return contiguous(self.low + (self.high - self.low) * expit(scores.astype(np.float64)), np.float32)
