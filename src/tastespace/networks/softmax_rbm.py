"""Boltzmann machines of ratings: softmax visible units over levels, of the items that a user has rated.

    E(v, h | R) = - sum_{i in R} [ (v_i - m_i)' W_i (h - 1/2) + c_i' v_i + D_i' h ] - b' h

v_i is 1 at the level that item i got, R are the items that are rated: the machine of a user has units for these alone,
and is conditional on which they are through D (Salakhutdinov, Mnih and Hinton 2007). Both sides are centered: m_i are
the shares of the levels of item i in training, and hidden units go from -1/2 to 1/2. So

    p(h = 1 | v) = sigma(b + sum_{i in R} [(v_i - m_i)' W_i + D_i])
    p(v_i | h)   = softmax(c_i + W_i (h - 1/2))

The gradient is E_data - E_model of (v_i - m_i)(h - 1/2)', v_i, h for every rated item, and h; the second term by Gibbs
chains that start at the data ("cd") or go on from epoch to epoch, one for every user ("pcd").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from scipy.special import expit, logsumexp

from tastespace.arrays import DoubleArray, FloatMatrix, IntArray, row_blocks
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.networks.inputs import minibatches
from tastespace.progress import Observer, Progress, silent
from tastespace.threads import one_blas_thread

CENTER = np.float32(0.5)
MOST_UNITS = 22  # hidden units whose states are enumerated
BLOCK = 1 << 24  # users x items x levels at once
SMOOTHING = 1.0  # ratings of an average item added to each


@dataclass(frozen=True, eq=False)
class SoftmaxRBM:
    """A machine over items with L levels; ratings are rows of a CSR whose values are positions of levels."""

    weights: FloatMatrix  # (items * levels) x hidden
    visible_bias: FloatMatrix  # items x levels
    hidden_bias: FloatMatrix  # hidden
    rated: FloatMatrix  # items x hidden: D
    shares: FloatMatrix  # items x levels: m

    @property
    def n_items(self) -> int:
        return len(self.shares)

    @property
    def n_levels(self) -> int:
        return int(self.shares.shape[1])

    def centered(self) -> FloatMatrix:
        """What a rated item adds to the hidden units whatever its level: D_i - m_i' W_i."""
        each = self.weights.reshape(self.n_items, self.n_levels, -1)
        return np.asarray(self.rated - np.einsum("il,ilh->ih", self.shares, each), np.float32)

    def hidden_means(self, ratings: CSR, centered: FloatMatrix | None = None) -> FloatMatrix:
        """The probability of each hidden unit, given the ratings of each user."""
        known, levels = self._matrices(ratings)
        pushed = levels @ self.weights + known @ (self.centered() if centered is None else centered)
        return np.asarray(expit(pushed + self.hidden_bias), np.float32)

    def probabilities(self, hidden: FloatMatrix, items: IntArray | None = None) -> FloatMatrix:
        """The probability of each level of all items, or of one item for each row, given hidden units."""
        if items is None:
            activity = (hidden - CENTER) @ self.weights.T
            logits = activity.reshape(len(hidden), self.n_items, self.n_levels) + self.visible_bias
        else:
            each = self.weights.reshape(self.n_items, self.n_levels, -1)[items]
            logits = np.einsum("nh,nlh->nl", hidden - CENTER, each) + self.visible_bias[items]
        logits -= logits.max(axis=-1, keepdims=True)
        np.exp(logits, out=logits)
        return np.asarray(logits / logits.sum(axis=-1, keepdims=True), np.float32)

    def drawn(self, ratings: CSR, hidden: FloatMatrix, rng: Generator) -> CSR:
        """Levels of the rated items, drawn given hidden units of each user."""
        chances = self.probabilities(hidden)[ratings.rows(), ratings.columns]
        reached = np.cumsum(chances, axis=1) < rng.random((len(chances), 1), np.float32)
        levels = np.minimum(reached.sum(axis=1), self.n_levels - 1)
        return CSR(ratings.offsets, ratings.columns, levels.astype(np.float32))

    def log_likelihood(self, ratings: CSR) -> DoubleArray:
        """The log-probability of the levels of each user, given which items they rated, by enumerating hidden units."""
        n = len(self.hidden_bias)
        if n > MOST_UNITS:
            raise InvalidParameterError(
                f"the Boltzmann machine has {n} hidden units; expected at most {MOST_UNITS} to enumerate"
            )
        states = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(np.float64)
        each = self.weights.astype(np.float64).reshape(self.n_items, self.n_levels, n)
        # Of each state, item and level, and summed over levels.
        pairs = np.einsum("sh,ilh->sil", states - 0.5, each) + self.visible_bias
        common = np.einsum("sh,ih->si", states - 0.5, np.einsum("il,ilh->ih", self.shares.astype(np.float64), each))
        pushed, summed = states @ self.rated.T - common, logsumexp(pairs, axis=2)
        found: DoubleArray = np.empty(len(ratings))
        for user in range(len(ratings)):
            own = ratings.take(np.array([user]))
            items, levels = own.columns, own.values.astype(np.int64)
            free = states @ self.hidden_bias + pushed[:, items].sum(axis=1)
            data = logsumexp(free + pairs[:, items, levels].sum(axis=1))
            found[user] = data - logsumexp(free + summed[:, items].sum(axis=1))
        return found

    def _matrices(self, ratings: CSR) -> tuple[Any, Any]:
        """Which items are rated (users x items), and their levels (users x (items * levels))."""
        ones = np.ones(len(ratings.columns), np.float32)
        places = ratings.columns.astype(np.int64) * self.n_levels + ratings.values.astype(np.int64)
        known = sp.csr_array((ones, ratings.columns, ratings.offsets), (len(ratings), self.n_items))
        return known, sp.csr_array((ones, places, ratings.offsets), (len(ratings), self.n_items * self.n_levels))


def start_machine(ratings: CSR, n_items: int, n_levels: int, n_hidden: int, rng: Generator) -> SoftmaxRBM:
    """Small random weights, and levels as frequent as in the data, those of rare items shrunk to those of all."""
    places = ratings.columns.astype(np.int64) * n_levels + ratings.values.astype(np.int64)
    counts = np.bincount(places, minlength=n_items * n_levels).reshape(n_items, n_levels)
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + n_levels)
    shares = (counts + SMOOTHING * n_levels * overall) / (counts.sum(axis=1, keepdims=True) + SMOOTHING * n_levels)
    nothing = np.zeros((n_items, n_hidden), np.float32)
    weights = rng.normal(0, 0.01, (n_items * n_levels, n_hidden)).astype(np.float32)
    bias, single = np.zeros(n_hidden, np.float32), shares.astype(np.float32)
    return SoftmaxRBM(weights, np.log(single), bias, nothing, single)


Gradient = tuple[FloatMatrix, FloatMatrix, FloatMatrix, FloatMatrix]  # as the first four fields


def statistics(machine: SoftmaxRBM, ratings: CSR, hidden: FloatMatrix) -> Gradient:
    """The sums over users of the derivatives of -E by weights, visible bias, hidden bias and D."""
    known, levels = machine._matrices(ratings)
    of_levels, of_known = levels.T @ (hidden - CENTER), known.T @ (hidden - CENTER)
    weights = of_levels - (machine.shares[:, :, None] * of_known[:, None]).reshape(of_levels.shape)
    visible = np.bincount(levels.indices, minlength=levels.shape[1]).reshape(machine.shares.shape)
    return weights, visible.astype(np.float32), hidden.sum(axis=0), of_known + CENTER * known.sum(axis=0)[:, None]


def train_softmax_rbm(
    ratings: CSR,
    n_items: int,
    n_levels: int,
    n_hidden: int,
    *,
    rng: Generator,
    chains: Literal["cd", "pcd"] = "cd",
    steps: int = 1,
    epochs: int = 50,
    batch_size: int = 100,
    learning_rate: float = 0.003,
    momentum: float = 0.8,
    weight_decay: float = 0.001,
    watch: Callable[[SoftmaxRBM], float] | None = None,
    patience: int = 5,
    phase: str = "Boltzmann machine",
    observer: Observer = silent,
) -> tuple[SoftmaxRBM, int]:
    """Train a machine on the ratings of users (values are positions of levels); also the number of epochs it took.

    Steps of an item are `learning_rate` times its gradient, over the square root of the number of its ratings in the
    batch: rare items would hardly move otherwise. The rate falls evenly to zero over the epochs. `watch` tells an error
    after each of them: training stops when it has not fallen for `patience` epochs, and the best machine is returned.
    """
    with one_blas_thread():
        machine = start_machine(ratings, n_items, n_levels, n_hidden, rng)
        speed: list[Any] = [0.0] * 4
        kept = ratings  # the levels of persistent chains
        best, best_error, best_epoch = machine, np.inf, 0
        everyone = np.arange(len(ratings), dtype=np.int32)
        for epoch in range(1, epochs + 1):
            rate = np.float32(learning_rate * (1 - (epoch - 1) / epochs))
            for batch in minibatches(everyone, batch_size, rng):
                data = ratings.take(batch)
                gradient, after = estimate(machine, data, kept.take(batch) if chains == "pcd" else data, steps, rng)
                if chains == "pcd":
                    kept = _replaced(kept, batch, after)
                counts = np.sqrt(np.maximum(np.bincount(data.columns, minlength=n_items), 1))[:, None]
                scales = np.repeat(counts, n_levels, axis=0), counts, np.sqrt(len(batch)), counts
                parts = machine.weights, machine.visible_bias, machine.hidden_bias, machine.rated
                decays = (weight_decay, 0.0, 0.0, weight_decay)
                moved = []
                for at, (part, scale, decay) in enumerate(zip(parts, scales, decays, strict=True)):
                    step = gradient[at] / scale.astype(np.float32) - np.float32(decay) * part
                    speed[at] = np.float32(momentum) * speed[at] + rate * step
                    moved.append(part + speed[at])
                machine = SoftmaxRBM(moved[0], moved[1], moved[2], moved[3], machine.shares)
            if not np.isfinite(machine.weights).all():
                raise NonFiniteStateError(
                    f"the weights of the Boltzmann machine are not finite after epoch {epoch}; expected finite ones: "
                    f"use a lower learning_rate than {learning_rate:g}"
                )
            stats = {} if watch is None else {"held-out RMSE": watch(machine)}
            observer(Progress(phase, epoch, epochs, stats))
            if watch is None or stats["held-out RMSE"] < best_error:
                best, best_error, best_epoch = machine, stats.get("held-out RMSE", np.inf), epoch
            elif epoch - best_epoch >= patience:
                break
        return best, best_epoch


def estimate(machine: SoftmaxRBM, data: CSR, start: CSR, steps: int, rng: Generator) -> tuple[Gradient, CSR]:
    """The gradient of the log-likelihood of some users, estimated by chains from a start, and where these end."""
    centered, chain = machine.centered(), start
    for _ in range(steps):
        means = machine.hidden_means(chain, centered)
        on = (rng.random(means.shape, np.float32) < means).astype(np.float32)
        chain = machine.drawn(chain, on, rng)
    of_data = statistics(machine, data, machine.hidden_means(data, centered))
    of_model = statistics(machine, chain, machine.hidden_means(chain, centered))
    one, two, three, four = (a - b for a, b in zip(of_data, of_model, strict=True))
    return (one, two, three, four), chain


def _replaced(kept: CSR, batch: IntArray, after: CSR) -> CSR:
    """The chains of all users, with those of a batch where they are now."""
    values = kept.values.copy()
    starts = kept.offsets[batch]
    counts = kept.offsets[batch + 1] - starts
    values[np.repeat(starts - after.offsets[:-1], counts) + np.arange(len(after.values))] = after.values
    return replace(kept, values=values)


def expected_levels(
    machine: SoftmaxRBM, levels: DoubleArray, hidden: FloatMatrix, rows: IntArray, items: IntArray
) -> DoubleArray:
    """The expected rating of pairs of users, given by their hidden units, and items."""
    found: DoubleArray = np.empty(len(rows))
    width = machine.n_levels * hidden.shape[1]
    for part in row_blocks(len(rows), width, BLOCK):
        found[part] = machine.probabilities(hidden[rows[part]], items[part]) @ levels
    return found


def expected_of_all(
    machine: SoftmaxRBM, levels: DoubleArray, hidden: FloatMatrix
) -> Iterator[tuple[IntArray, FloatMatrix]]:
    """The expected rating of every item, some users at a time."""
    for part in row_blocks(len(hidden), machine.n_items * machine.n_levels, BLOCK):
        yield part, np.asarray(machine.probabilities(hidden[part]) @ levels, np.float32)
