"""Gradient descent on a factorization: one epoch is a step of this transition.

    E = 1/2 sum_O e^2
        + 1/2 [lu sum w_i |u_i|^2 + lv sum w_j |v_j|^2 + lcu sum w_i c_i^2 + lcv sum w_j d_j^2]

with e = r - s for scores s = g + c_i + d_j + u_i.v_j (or those of another form) and w a row's weight (see Weighting).
The penalty of a row is divided among its n ratings. So a visit of one rating steps against the gradient of

    1/2 e^2 + 1/2 [lu (w_i / n_i) |u_i|^2 + ...]        u_i += rate (e v_j - lu (w_i / n_i) u_i)

whose sum over all ratings is E: with weighted-lambda (w = n) the penalty is subtracted in full at every visit, with
plain regularization (w = 1) the n-th part of it.

A batch sums these gradients. A row moves by its sum divided by its expected number of ratings in a batch (or by the
sum, if that is less than one): steps are means, and the same rate suits all sizes of data and batches.

The start is a saddle: nothing improves until the factors have grown. How long that takes depends on how far steps could
have moved (see `Descent.travel`), not on epochs: an epoch of a small file has few steps. So patience is measured by
this distance, and steps are longer if there are few.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import ceil
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, IntArray
from tastespace.inference.transition import Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import Penalty, Strengths
from tastespace.models.factorization.rows import Factors
from tastespace.models.factorization.sgd.blocks import N_PARTS, Epoch, RatingBlocks, Source
from tastespace.models.factorization.sgd.forms import Form

Method = Literal["stochastic", "mini-batch", "full-batch"]
ScheduleName = Literal["inverse", "constant", "bold-driver"]
SCHEDULES = list(get_args(ScheduleName))
# Small if an epoch has many visits of a row: early stopping then regularizes. If it has few, leaving a small start
# would take too many epochs.
MIN_START_SD, MAX_START_SD, VISITS = 0.01, 0.1, 2.0
# Ratings of a visit below which one thread is faster: threads are started for every stage, and wait at its end.
WORTH_THREADS = 1 << 17
IN_ORDER = np.arange(N_PARTS, dtype=np.int32)  # of the stages, if the order does not matter
FASTER, SLOWER = 1.05, 0.5  # factors of the rate of a bold driver after a better and a worse epoch
TAKEN_BACK = "taken back"  # the figure of an epoch that is 1 if it has been undone
WAIT = 10  # epochs before adaptive strengths are learned
PATIENT_TRAVEL = 30.0
MIN_PATIENCE, MIN_STEPS = 10, 50  # epochs; and steps with momentum, which oscillates at first
MIN_EPOCHS, MAX_EPOCHS, PATIENCES = 200, 1000, 5
SLOW, OF_FEW_VISITS, MANY_VISITS = 0.02, 0.06, 100  # one rating at a time
OF_ONE_BATCH = 0.2  # whose gradient has no noise


@dataclass(frozen=True)
class AdaptivePrior:
    """Adaptive strengths: those with the highest joint density (Kim, Part III essay).

    With the noise precision alpha, the precision of a row's factors is alpha l w: l the strength, w the row's weight.
    Besides factors and biases, l and alpha are set to maximize the joint density, one after the other, once per epoch:

        log p = n/2 log(alpha l) - alpha l S / 2 + ...       S = sum over rows of w |x|^2, n numbers

    That density alone has no maximum: as x goes to 0 and l to infinity it grows without bound, and the alternation goes
    there (a strong penalty makes the factors small, small factors lead to a stronger one, until they vanish). So l has
    a Gamma prior, with its mean at the initial strength, and the same weight as the rows:

        l = 2 n / (alpha S + n / l0)

    which is at most 2 l0. The start has small factors, which say nothing about the strength: the first `WAIT` epochs do
    not change it.
    """

    start: Strengths  # l0
    n_ratings: int
    sizes: Strengths  # the number of values of each block

    @classmethod
    def of(cls, start: Strengths, source: Source, n_factors: int, has_biases: bool) -> AdaptivePrior:
        users, items = len(source.user_counts), len(source.item_counts)
        sizes = Strengths(users * n_factors, items * n_factors, users * has_biases, items * has_biases)
        return cls(start, source.n_ratings, sizes)

    def strengths(self, now: Strengths, squared_errors: float, squares: Strengths) -> Strengths:
        """alpha given the strengths, then the strengths given alpha; squares are S, block by block."""
        alpha = self.noise_precision(now, squared_errors, squares)
        blocks = zip(astuple(self.sizes), astuple(squares), astuple(self.start), strict=True)
        # The strength of an empty block stays.
        return Strengths(*(2 * n / (alpha * square + n / start) if n else start for n, square, start in blocks))

    def noise_precision(self, now: Strengths, squared_errors: float, squares: Strengths) -> float:
        """The alpha of the highest density: numbers over squares, of errors and of rows."""
        sizes = self.sizes
        n = self.n_ratings + sizes.users + sizes.items + sizes.user_bias + sizes.item_bias
        return n / max(2 * _total(squared_errors, now, squares), 1e-12 * n)


@dataclass(frozen=True, eq=False)
class DescentState:
    """The state of descent: both sides, velocities, strengths and the loss."""

    users: Factors
    items: Factors
    strengths: Strengths
    epoch: int = 0
    velocities: tuple[Factors, Factors] | None = None  # if there is momentum
    boldness: float = 1.0
    loss: float = np.inf  # exact for the start and for a bold driver; else accumulated during the epoch


@dataclass(frozen=True, eq=False)
class Steps:
    """How gradients of ratings become steps."""

    method: Method
    first_rate: float
    schedule: ScheduleName
    decay: float  # inverse: first_rate / (1 + decay t) after t hundred visits of an average row
    momentum: float
    batch_size: int

    def rate(self, visits: float, boldness: float) -> float:
        """The rate after this mean number of visits of a row, which measure progress better than epochs."""
        if self.schedule == "inverse":
            return self.first_rate / (1 + self.decay * visits / 100)
        return self.first_rate * boldness

    def n_batches(self, n_ratings: int) -> int:
        if self.method == "full-batch":
            return 1
        return max(1, round(n_ratings / self.batch_size))

    def usual_rate(self, source: Source) -> float:
        """The rate of the first steps: the more steps there are, the shorter, which averages out their noise."""
        if self.method == "full-batch":
            return OF_ONE_BATCH
        if self.method == "mini-batch":
            return float(np.clip(OF_ONE_BATCH / np.sqrt(self.n_batches(source.n_ratings)), SLOW, OF_ONE_BATCH))
        return float(np.clip(SLOW * np.sqrt(MANY_VISITS / max(source.visits, 1e-9)), SLOW, OF_FEW_VISITS))


@dataclass(frozen=True, eq=False)
class Descent:
    """The transition: an epoch visits every rating once."""

    source: Source
    epochs: Epoch  # the ratings of each epoch
    n_factors: int
    penalty: Penalty
    form: Form
    steps: Steps
    has_biases: bool
    dtype: Any
    threads: int
    adaptive: AdaptivePrior | None = None
    given: Start | None = None  # the items of another model, to start from

    def init(self, rng: Generator) -> DescentState:
        """Small random factors (zero would be a fixed point), no biases; or given items, and small random users."""
        users = self._start(len(self.source.user_counts), rng)
        start = DescentState(users, self._first_items(rng), self.penalty.strengths)
        return replace(start, loss=self.loss(start, rng.spawn(1)[0]))

    def _first_items(self, rng: Generator) -> Factors:
        if self.given is None:
            return self._start(len(self.source.item_counts), rng)
        factors: AnyFloats = self.given.factors(self.n_factors, self._start_sd, rng).astype(self.dtype)
        return Factors(factors, self.given.points.bias.astype(self.dtype) if self.has_biases else None)

    @property
    def travel(self) -> float:
        """How far the steps of an epoch would move an average row with a constant gradient of 1."""
        n_steps = self.source.visits
        if self.steps.method == "mini-batch":
            n_steps = min(self.source.visits, self.steps.n_batches(self.source.n_ratings))
        elif self.steps.method == "full-batch":
            n_steps = 1
        persistence = 1.0 if self.steps.method == "stochastic" else 1 / (1 - self.steps.momentum)
        return self.steps.first_rate * n_steps * persistence

    @property
    def usual_patience(self) -> int:
        """The number of epochs without improvement after which none is expected."""
        least = MIN_PATIENCE
        if self.steps.method != "stochastic":
            least = max(least, ceil(MIN_STEPS / self.steps.n_batches(self.source.n_ratings)))
        return max(least, ceil(min(PATIENT_TRAVEL / self.travel, MAX_EPOCHS)))

    @property
    def usual_epochs(self) -> int:
        """The maximum number of epochs."""
        return int(np.clip(PATIENCES * ceil(min(PATIENT_TRAVEL / self.travel, MAX_EPOCHS)), MIN_EPOCHS, MAX_EPOCHS))

    @property
    def _start_sd(self) -> float:
        """Factors have the unit of the square root of a score."""
        return float(np.clip(VISITS / max(self.source.visits, 1), MIN_START_SD, MAX_START_SD) * self.form.unit**0.5)

    def _start(self, n: int, rng: Generator) -> Factors:
        sd = np.float32(self._start_sd)
        factors = (rng.standard_normal((n, self.n_factors), np.float32) * sd).astype(self.dtype)
        return Factors(factors, np.zeros(n, self.dtype) if self.has_biases else None)

    def step(self, state: DescentState, rng: Generator) -> tuple[DescentState, Stats]:
        rate = self.steps.rate(state.epoch * self.source.visits, state.boldness)
        moved = replace(_copied(state), epoch=state.epoch + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # Divergence shows in the loss.
            if self.steps.method == "full-batch":
                moved, squares = self._full_batch(moved, rate, rng)
            else:
                moved, squares = self._epoch(moved, rate, rng)
            return self._concluded(state, moved, squares, rate, rng)

    def loss(self, state: DescentState, rng: Generator) -> float:
        """The loss E; the generator only affects the order in which pieces of a stream are read."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _total(self._squares(state, rng), state.strengths, self.weighted_squares(state))

    def is_sound(self, state: DescentState, first_loss: float) -> bool:
        """Whether the state is finite, and its penalty alone does not exceed the loss of the start."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _total(0.0, state.strengths, self.weighted_squares(state)) <= first_loss

    def _squares(self, state: DescentState, rng: Generator) -> float:
        """The sum of squared errors: an epoch of steps of length 0."""
        still = _copied(state)
        return sum(self._visit(blocks, IN_ORDER, still, 0.0) for blocks in self.epochs(rng))

    def _concluded(
        self, before: DescentState, moved: DescentState, squares: float, rate: float, rng: Generator
    ) -> tuple[DescentState, Stats]:
        """The state after an epoch, with the loss and the strengths and rate that follow from it.

        The loss is accumulated during the epoch, at no cost: with a full batch, it is that of the start of the epoch. A
        bold driver needs the loss at the end, and computes it.
        """
        is_driven = self.steps.schedule == "bold-driver"
        if is_driven:
            squares = self._squares(moved, rng)
        is_late = self.steps.method == "full-batch" and not is_driven
        sizes = self.weighted_squares(before if is_late else moved)
        strengths, loss = moved.strengths, _total(squares, moved.strengths, sizes)
        stats = {"loss": loss, "rate": rate}
        if self.adaptive is not None and np.isfinite(loss) and moved.epoch > WAIT:
            strengths = self.adaptive.strengths(strengths, squares, sizes)
            stats |= {"strength of users": strengths.users, "strength of items": strengths.items}
        moved = replace(moved, strengths=strengths, loss=_total(squares, strengths, sizes))
        if not is_driven:
            return moved, stats
        # Continue, and faster; or, after a loss that rose or is NaN, undo, and slower.
        if loss <= before.loss:
            return replace(moved, boldness=FASTER * before.boldness), stats | {TAKEN_BACK: 0.0}
        back = replace(before, epoch=moved.epoch, boldness=SLOWER * before.boldness, velocities=None)
        return back, stats | {TAKEN_BACK: 1.0}

    def weighted_squares(self, state: DescentState) -> Strengths:
        """The factor of each strength in the loss: sums of w |x|^2 and of w c^2, in double."""
        weighting = self.penalty.weighting
        users, user_bias = _weighted_squares(state.users, weighting.of(self.source.user_counts))
        items, item_bias = _weighted_squares(state.items, weighting.of(self.source.item_counts))
        return Strengths(users, items, user_bias, item_bias)

    def gradient(
        self, blocks: RatingBlocks, state: DescentState, stages: IntArray, batch: int = 0, n_batches: int = 1
    ) -> tuple[Factors, Factors, float]:
        """The gradient of the batch's share of E in users and items, and its sum of squared errors."""
        slopes = state.users.each(np.empty_like), state.items.each(np.empty_like)
        return *slopes, self._visit(blocks, stages, state, 0.0, (batch, n_batches), slopes)

    def _epoch(self, state: DescentState, rate: float, rng: Generator) -> tuple[DescentState, float]:
        """Steps after each rating, or after each batch; and the accumulated squared errors."""
        squares = 0.0
        for blocks in self.epochs(rng):
            stages = rng.permutation(N_PARTS).astype(np.int32)
            if self.steps.method == "stochastic":
                squares += self._visit(blocks, stages, state, rate)
                continue
            n_batches = self.steps.n_batches(len(blocks))
            share = len(blocks) / n_batches / max(self.source.n_ratings, 1)
            for batch in range(n_batches):
                user_slopes, item_slopes, more = self.gradient(blocks, state, stages, batch, n_batches)
                state = self._stepped(state, user_slopes, item_slopes, share, rate)
                squares += more
        return state, squares

    def _full_batch(self, state: DescentState, rate: float, rng: Generator) -> tuple[DescentState, float]:
        """One step after all ratings, in any number of pieces."""
        slopes: list[Factors] = []
        squares = 0.0
        for blocks in self.epochs(rng):
            *more_slopes, more = self.gradient(blocks, state, rng.permutation(N_PARTS).astype(np.int32))
            squares += more
            pairs = zip(slopes, more_slopes, strict=True)
            slopes = [one.each(np.add, other) for one, other in pairs] if slopes else more_slopes
        return self._stepped(state, slopes[0], slopes[1], 1.0, rate), squares

    def _stepped(
        self, state: DescentState, user_slopes: Factors, item_slopes: Factors, share: float, rate: float
    ) -> DescentState:
        """The state after a step with momentum against the gradient of about this share of the ratings."""
        before = state.velocities or (None, None)
        users, user_velocity = self._moved(state.users, user_slopes, before[0], self.source.user_counts * share, rate)
        items, item_velocity = self._moved(state.items, item_slopes, before[1], self.source.item_counts * share, rate)
        return replace(state, users=users, items=items, velocities=(user_velocity, item_velocity))

    def _moved(
        self, points: Factors, slopes: Factors, velocity: Factors | None, expected: NDArray[Any], rate: float
    ) -> tuple[Factors, Factors]:
        """A side after a step, and its velocity."""
        means, momentum = 1 / np.maximum(expected, 1), self.dtype(self.steps.momentum)
        bias = None if slopes.bias is None else (-rate * means).astype(self.dtype) * slopes.bias
        steps = Factors(((-rate / self.form.unit) * means).astype(self.dtype)[:, None] * slopes.factors, bias)
        if velocity is not None:
            steps = steps.each(lambda step, before: step + momentum * before, velocity)
        return points.each(np.add, steps), steps

    def _visit(
        self,
        blocks: RatingBlocks,
        stages: IntArray,
        state: DescentState,
        rate: float,
        batch: tuple[int, int] = (0, 1),
        slopes: tuple[Factors, Factors] | None = None,
    ) -> float:
        """Run the kernel for a batch: steps in place or, with `slopes`, sums of gradients."""
        weighting, sides = self.penalty.weighting, {"user": self.source.user_counts, "item": self.source.item_counts}
        optional: dict[str, Any] = {
            f"{side}_pulls": (weighting.of(counts) / np.maximum(counts, 1)).astype(self.dtype)
            for side, counts in sides.items()
        }
        if slopes is not None:
            for side, points in zip(sides, slopes, strict=True):
                optional |= {f"{side}_slopes": points.factors, f"{side}_bias_slopes": points.bias}
        return _native.descend_ratings(
            blocks.offsets,
            blocks.user_rows,
            blocks.item_rows,
            blocks.targets,
            stages,
            state.users.factors,
            state.items.factors,
            user_bias=state.users.bias,
            item_bias=state.items.bias,
            strengths=np.array(astuple(state.strengths), self.dtype),
            offset=self.form.offset,
            # Rates of factors have the unit of one over a score; those of biases have none.
            rate=float(rate / self.form.unit),
            bias_rate=float(rate),
            is_squashed=self.form.is_squashed,
            batch=batch[0],
            n_batches=batch[1],
            threads=self.threads if len(blocks) >= WORTH_THREADS * batch[1] else 1,
            **optional,
        )


def _total(squares: float, strengths: Strengths, sizes: Strengths) -> float:
    """E, given sums of squares."""
    loss = 0.5 * (squares + strengths.users * sizes.users + strengths.items * sizes.items)
    return loss + 0.5 * (strengths.user_bias * sizes.user_bias + strengths.item_bias * sizes.item_bias)


def _copied(state: DescentState) -> DescentState:
    return replace(state, users=state.users.each(np.copy), items=state.items.each(np.copy))


def _weighted_squares(points: Factors, weights: NDArray[Any]) -> tuple[float, float]:
    rows = np.einsum("nd,nd->n", points.factors, points.factors, dtype=np.float64)
    bias = 0.0 if points.bias is None else float(weights @ points.bias.astype(np.float64) ** 2)
    return float(weights @ rows), bias
