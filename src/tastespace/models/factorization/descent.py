"""Gradient descent on a factorization: one epoch is a step of this transition.

    E = 1/2 sum_O e^2
        + 1/2 [lu sum w_i |u_i|^2 + lv sum w_j |v_j|^2 + lcu sum w_i c_i^2 + lcv sum w_j d_j^2]

with e = r - s for scores s = g + c_i + d_j + u_i.v_j (or as another form has it) and w a row's weight (see Weighting).
The penalty of a row is shared out among its n ratings. So a visit of one rating steps against the gradient of

    1/2 e^2 + 1/2 [lu (w_i / n_i) |u_i|^2 + ...]        u_i += rate (e v_j - lu (w_i / n_i) u_i)

whose sum over all ratings is E: with weighted-lambda (w = n) the penalty is subtracted in full at every visit, with
plain regularisation (w = 1) the n-th part of it.

A batch sums these gradients up. A row moves by its sum over the number of its ratings that a batch is expected to have
(or by the sum, where that is less than one): steps are means, and the same rate suits all sizes of data and batches.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, IntArray
from tastespace.inference.transition import Stats
from tastespace.models.factorization.adaptive import WAIT, AdaptivePrior
from tastespace.models.factorization.best_epoch import TAKEN_BACK
from tastespace.models.factorization.forms import Form
from tastespace.models.factorization.penalty import Penalty, Strengths
from tastespace.models.factorization.rating_blocks import N_PARTS, RatingBlocks, Supply
from tastespace.models.factorization.rows import Points
from tastespace.models.starting import Start

Method = Literal["stochastic", "mini-batch", "full-batch"]
METHODS = list(get_args(Method))
ScheduleName = Literal["inverse", "constant", "bold-driver"]
SCHEDULES = list(get_args(ScheduleName))
# Small where an epoch has many visits of a row: what is learned first then decides, and early stopping holds back the
# rest. Where it has few, a small start would take more epochs to leave than anybody waits.
LEAST_START_SD, MOST_START_SD, VISITS = 0.01, 0.1, 2.0
# Ratings of a visit below which one thread is faster: threads are started for every stage, and wait at its end.
WORTH_THREADS = 1 << 17
FASTER, SLOWER = 1.05, 0.5  # what a bold driver does with his rate after a better and a worse epoch


@dataclass(frozen=True)
class Rate:
    """How long steps are: the first, and what becomes of it."""

    first: float
    schedule: ScheduleName
    decay: float  # inverse: first / (1 + decay t) after t hundred visits of an average row

    def at(self, visits: float, boldness: float) -> float:
        """After so many visits that rows have had on average: what was learned depends on them, not on epochs."""
        if self.schedule == "inverse":
            return self.first / (1 + self.decay * visits / 100)
        return self.first * boldness


@dataclass(frozen=True, eq=False)
class DescentState:
    """Where both sides are, and how they got there."""

    users: Points
    items: Points
    strengths: Strengths
    epoch: int = 0
    velocities: tuple[Points, Points] | None = None  # where there is momentum
    boldness: float = 1.0
    loss: float = np.inf  # as it was met on the way here
    before: DescentState | None = None  # where the last step came from, for a bold driver of full batches


@dataclass(frozen=True, eq=False)
class Steps:
    """How the gradients of ratings become steps."""

    method: Method
    rate: Rate
    momentum: float
    batch_size: int

    def n_batches(self, n_ratings: int) -> int:
        if self.method == "full-batch":
            return 1
        return max(1, round(n_ratings / self.batch_size))


@dataclass(frozen=True, eq=False)
class Descent:
    """An epoch: every rating once."""

    supply: Supply
    n_ratings: int
    user_counts: NDArray[Any]
    item_counts: NDArray[Any]
    n_factors: int
    penalty: Penalty
    form: Form
    steps: Steps
    has_biases: bool
    dtype: Any
    threads: int
    adaptive: AdaptivePrior | None = None
    given: Start | None = None  # the items of another model, to begin from

    def init(self, rng: Generator) -> DescentState:
        """Small random factors (zero would be a fixed point), no biases; or given items, and such users."""
        users = self._start(len(self.user_counts), rng)
        return DescentState(users, self._first_items(rng), self.penalty.strengths)

    def _first_items(self, rng: Generator) -> Points:
        if self.given is None:
            return self._start(len(self.item_counts), rng)
        factors: AnyFloats = self.given.factors(self.n_factors, self._start_sd, rng).astype(self.dtype)
        return Points(factors, self.given.points.bias.astype(self.dtype) if self.has_biases else None)

    @property
    def _visits(self) -> float:
        """Of an average row in an epoch."""
        return 2 * self.n_ratings / (len(self.user_counts) + len(self.item_counts))

    @property
    def _start_sd(self) -> float:
        """Factors have the unit of the square root of a score."""
        return float(np.clip(VISITS / max(self._visits, 1), LEAST_START_SD, MOST_START_SD) * self.form.unit**0.5)

    def _start(self, n: int, rng: Generator) -> Points:
        sd = np.float32(self._start_sd)
        factors = (rng.standard_normal((n, self.n_factors), np.float32) * sd).astype(self.dtype)
        return Points(factors, np.zeros(n, self.dtype) if self.has_biases else None)

    def step(self, state: DescentState, rng: Generator) -> tuple[DescentState, Stats]:
        rate = self.steps.rate.at(state.epoch * self._visits, state.boldness)
        moved = replace(state, users=_copied(state.users), items=_copied(state.items), epoch=state.epoch + 1)
        squares = 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # What diverges is seen by its loss.
            for blocks in self.supply.epoch(rng):
                stages = rng.permutation(N_PARTS).astype(np.int32)
                if self.steps.method == "stochastic":
                    squares += self._visit(blocks, stages, moved, rate)
                else:
                    moved, more = self._batches(blocks, stages, moved, rate)
                    squares += more
            return self._concluded(state, moved, squares, rate)

    def _concluded(
        self, before: DescentState, moved: DescentState, squares: float, rate: float
    ) -> tuple[DescentState, Stats]:
        """The loss as it was met on the way, and what follows from it for strengths and rate."""
        # The errors of a full batch are those of where the epoch began.
        user_squares, item_squares = self.weighted_squares(before if self._sees_late else moved)
        strengths = moved.strengths
        loss = 0.5 * (squares + strengths.users * user_squares[0] + strengths.items * item_squares[0])
        loss += 0.5 * (strengths.user_bias * user_squares[1] + strengths.item_bias * item_squares[1])
        stats = {"loss": loss, "rate": rate}
        if self.adaptive is not None and np.isfinite(loss) and moved.epoch > WAIT:
            strengths = self.adaptive.strengths(strengths, squares, user_squares, item_squares)
            stats |= {"strength of users": strengths.users, "strength of items": strengths.items}
        moved = replace(moved, strengths=strengths, loss=loss)
        if self.steps.rate.schedule != "bold-driver":
            return moved, stats
        driven = self._driven(before, moved)
        return driven, stats | {TAKEN_BACK: float(driven.boldness < before.boldness)}

    @property
    def _sees_late(self) -> bool:
        """Whether an epoch finds out how good its start is, and not its end."""
        return self.steps.method == "full-batch"

    def _driven(self, before: DescentState, moved: DescentState) -> DescentState:
        """What a bold driver does: on, and faster; or, after a loss that rose or is no number, back, and slower."""
        back = before.before if self._sees_late else before
        if moved.loss <= before.loss or back is None:
            came_from = replace(before, before=None) if self._sees_late else None
            return replace(moved, boldness=FASTER * before.boldness, before=came_from)
        return replace(back, epoch=moved.epoch, boldness=SLOWER * before.boldness, velocities=None, before=None)

    def weighted_squares(self, state: DescentState) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of users and of items: sum of w |x|^2, sum of w c^2, in double."""
        weighting = self.penalty.weighting
        return (
            _weighted_squares(state.users, weighting.of(self.user_counts)),
            _weighted_squares(state.items, weighting.of(self.item_counts)),
        )

    def gradient(
        self, blocks: RatingBlocks, state: DescentState, stages: IntArray, batch: int = 0, n_batches: int = 1
    ) -> tuple[Points, Points, float]:
        """The gradient of the batch's share of E by users and items, and its sum of squared errors."""
        slopes = [
            Points(np.empty_like(side.factors), None if side.bias is None else np.empty_like(side.bias))
            for side in (state.users, state.items)
        ]
        squares = self._visit(blocks, stages, state, 0.0, batch, n_batches, slopes)
        return slopes[0], slopes[1], squares

    def _batches(
        self, blocks: RatingBlocks, stages: IntArray, state: DescentState, rate: float
    ) -> tuple[DescentState, float]:
        """A step with momentum after each batch."""
        squares, n_batches = 0.0, self.steps.n_batches(len(blocks))
        share = len(blocks) / n_batches / max(self.n_ratings, 1)
        for batch in range(n_batches):
            user_slopes, item_slopes, more = self.gradient(blocks, state, stages, batch, n_batches)
            squares += more
            before = state.velocities or (None, None)
            users, user_velocity = self._moved(state.users, user_slopes, before[0], self.user_counts * share, rate)
            items, item_velocity = self._moved(state.items, item_slopes, before[1], self.item_counts * share, rate)
            state = replace(state, users=users, items=items, velocities=(user_velocity, item_velocity))
        return state, squares

    def _moved(
        self, points: Points, slopes: Points, velocity: Points | None, expected: NDArray[Any], rate: float
    ) -> tuple[Points, Points]:
        """A side after a step, and its velocity."""
        means = 1 / np.maximum(expected, 1)
        factor_steps = ((-rate / self.form.unit) * means).astype(self.dtype)[:, None] * slopes.factors
        if velocity is not None:
            factor_steps += self.dtype(self.steps.momentum) * velocity.factors
        if points.bias is None or slopes.bias is None:
            return Points(points.factors + factor_steps), Points(factor_steps)
        bias_steps = (-rate * means).astype(self.dtype) * slopes.bias
        if velocity is not None and velocity.bias is not None:
            bias_steps += self.dtype(self.steps.momentum) * velocity.bias
        return Points(points.factors + factor_steps, points.bias + bias_steps), Points(factor_steps, bias_steps)

    def _visit(
        self,
        blocks: RatingBlocks,
        stages: IntArray,
        state: DescentState,
        rate: float,
        batch: int = 0,
        n_batches: int = 1,
        slopes: list[Points] | None = None,
    ) -> float:
        """The kernel: steps in place or, where there are slopes, sums of gradients."""
        weighting = self.penalty.weighting
        pulls = [
            (weighting.of(counts) / np.maximum(counts, 1)).astype(self.dtype)
            for counts in (self.user_counts, self.item_counts)
        ]
        optional: dict[str, Any] = {"user_bias": state.users.bias, "item_bias": state.items.bias}
        if slopes is not None:
            optional |= {"user_slopes": slopes[0].factors, "user_bias_slopes": slopes[0].bias}
            optional |= {"item_slopes": slopes[1].factors, "item_bias_slopes": slopes[1].bias}
        return _native.descend_ratings(
            blocks.offsets,
            blocks.user_rows,
            blocks.item_rows,
            blocks.targets,
            stages,
            state.users.factors,
            state.items.factors,
            user_pulls=pulls[0],
            item_pulls=pulls[1],
            strengths=np.array(astuple(state.strengths), self.dtype),
            offset=self.form.offset,
            # Rates of factors have the unit of one over a score; those of biases have none.
            rate=float(rate / self.form.unit),
            bias_rate=float(rate),
            is_squashed=self.form.is_squashed,
            batch=batch,
            n_batches=n_batches,
            threads=self.threads if len(blocks) >= WORTH_THREADS * n_batches else 1,
            **{name: array for name, array in optional.items() if array is not None},
        )


def _copied(points: Points) -> Points:
    return Points(points.factors.copy(), None if points.bias is None else points.bias.copy())


def _weighted_squares(points: Points, weights: NDArray[Any]) -> tuple[float, float]:
    rows = np.einsum("nd,nd->n", points.factors, points.factors, dtype=np.float64)
    bias = 0.0 if points.bias is None else float(weights @ points.bias.astype(np.float64) ** 2)
    return float(weights @ rows), bias
