"""Deep belief networks: Boltzmann machines on top of one another, trained layer by layer and then as one.

    p(x, h_1 ... h_L) = p(x | h_1) p(h_1 | h_2) ... p(h_(L-1), h_L)

the last factor being a Boltzmann machine, the others sigmoid layers that go down (Somani and Gupta 2017, section
5.1.3). Greedy training fits each machine to the hidden means of the one below, whose weights stay fixed. Fine-tuning is
the up-down algorithm (Hinton, Osindero and Teh 2006): weights that go up and down are no longer the same. Going up,
states are drawn by the recognition weights, and the generative ones learn to give the layer below back; the top machine
takes steps of contrastive divergence from there; going down, states are drawn by the generative weights, and the
recognition ones learn to find them. The features of a row are the means of the top layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix, IntArray, row_blocks
from tastespace.errors import NonFiniteStateError
from tastespace.networks.inputs import Inputs, Rows, check_share, held_out_rows, minibatches, rows_of
from tastespace.networks.rbm import BLOCK, RBM, Visible, gradient_of, mean_product, train_rbm
from tastespace.parameters import check_int, check_number
from tastespace.progress import Observer, Progress, silent
from tastespace.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class DBN:
    """A deep belief network. Each pair of machines has the weights that go up and those that go down."""

    up: tuple[RBM, ...]  # below the top: used for hidden units given visible ones
    down: tuple[RBM, ...]  # used the other way
    top: RBM

    @property
    def n_features(self) -> int:
        return self.top.n_features

    def encode(self, inputs: Inputs) -> FloatMatrix:
        """The means of the top layer, given rows: their features."""
        rows = rows_of(inputs)
        out = np.empty((rows.shape[0], self.n_features), np.float32)
        for block in row_blocks(rows.shape[0], rows.shape[1], BLOCK):
            units = self._first.standardized(rows.take(block))
            for machine in (*self.up, self.top):
                units = machine.hidden_means(units)
            out[block] = units
        return out

    def decode(self, features: FloatMatrix) -> FloatMatrix:
        """The expected visible units, given means of the top layer."""
        units = features
        for machine in (self.top, *reversed(self.down)):
            units = machine.decode(units)
        return units

    @property
    def _first(self) -> RBM:
        return (*self.up, self.top)[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        parts = {"top": self.top} | {f"up_{at}": machine for at, machine in enumerate(self.up)}
        parts |= {f"down_{at}": machine for at, machine in enumerate(self.down)}
        return {f"{part}_{name}": array for part, machine in parts.items() for name, array in machine.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> DBN:
        """The same network from its `arrays`."""

        def read(part: str) -> RBM:
            start = f"{part}_"
            return RBM.from_arrays(
                {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            )

        n_below = sum(name.startswith("up_") and name.endswith("_hidden_bias") for name in arrays)
        up, down = (tuple(read(f"{way}_{at}") for at in range(n_below)) for way in ("up", "down"))
        return cls(up, down, read("top"))


@dataclass(frozen=True, eq=False)
class _Encoded:
    """The hidden means of a machine as `Rows`: what the machine above is trained on."""

    rows: Rows
    machine: RBM

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.machine.n_features

    def take(self, rows: IntArray) -> FloatMatrix:
        return self.machine.hidden_means(self.machine.standardized(self.rows.take(rows)))


def train_dbn(
    inputs: Inputs,
    sizes: Sequence[int],
    *,
    rng: Generator,
    visible: Visible = "bernoulli",
    epochs: int = 30,
    tuning_epochs: int = 20,
    batch_size: int = 100,
    learning_rate: float | None = None,
    tuning_rate: float = 0.001,
    steps: int = 1,
    held_out_share: float = 0.1,
    patience: int = 10,
    observer: Observer = silent,
) -> DBN:
    """Train a deep belief network with hidden layers of these sizes, the last being the features.

    Every machine is trained for at most `epochs`, and the whole for at most `tuning_epochs` of up-down fine-tuning (0:
    none) with `tuning_rate`. Held-out rows stop both, as in `train_rbm`; fine-tuning that does not give them back
    better is undone. `steps` are those of contrastive divergence. The same generator gives the same bytes, whatever
    the number of threads.
    """
    check_int("the number of sizes", len(sizes), least=1)
    check_int("tuning_epochs", tuning_epochs, least=0)
    check_number("tuning_rate", tuning_rate, above=0)
    check_share("held_out_share", held_out_share)
    rows = rows_of(inputs)
    machines: list[RBM] = []
    given: Rows = rows
    for size in sizes:
        kind: Visible = "bernoulli" if machines else visible
        # A rate that suits real units is for the lowest machine, the only one that has them.
        rate = learning_rate if visible == "bernoulli" or not machines else None
        ways: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": rate}
        ways |= {"steps": steps, "held_out_share": held_out_share, "patience": patience, "observer": observer}
        machines.append(train_rbm(given, size, rng=rng, visible=kind, **ways))
        given = _Encoded(given, machines[-1])
    network = DBN(tuple(machines[:-1]), tuple(machines[:-1]), machines[-1])
    if not tuning_epochs or len(sizes) == 1:
        return network
    with one_blas_thread():
        train, watched = held_out_rows(rows.shape[0], held_out_share, rng)
        chosen = watched if len(watched) else train[:BLOCK]
        best, best_error, since = network, _error(network, rows, chosen), 0
        for epoch in range(1, tuning_epochs + 1):
            for batch in minibatches(train, batch_size, rng):
                network = up_down(network, rows.take(batch), rng, rate=tuning_rate, steps=steps)
            error = _error(network, rows, chosen)
            if not np.isfinite(error):
                raise NonFiniteStateError(
                    f"the error of the belief network is {error} after epoch {epoch} of fine-tuning; expected a finite "
                    f"one: use a lower tuning_rate than {tuning_rate:g}"
                )
            observer(Progress("up-down", epoch, tuning_epochs, {"error": error}))
            since = 0 if error < best_error else since + 1
            if not since:
                best, best_error = network, error
            elif since >= patience:
                break
    return best


def up_down(network: DBN, inputs: FloatMatrix, rng: Generator, *, rate: float, steps: int) -> DBN:
    """One step of the up-down algorithm on some rows."""
    # Up: draw states by the recognition weights; the generative ones learn to give the layer below back.
    states, down = [network._first.standardized(inputs)], []
    for up, machine in zip(network.up, network.down, strict=True):
        states.append(up.drawn_hidden(states[-1], rng))
        missed = states[-2] - machine.visible_means(states[-1])
        weights = machine.weights + np.float32(rate) * mean_product(missed, states[-1])
        bias = machine.visible_bias + np.float32(rate) * missed.mean(axis=0)
        down.append(replace(machine, weights=weights, visible_bias=bias))
    # The top machine: contrastive divergence from there.
    top, units = network.top, states[-1]
    for _ in range(steps):
        units = top.drawn_visible(top.drawn_hidden(units, rng), rng)
    found = gradient_of((states[-1], top.hidden_means(states[-1])), (units, top.hidden_means(units)))
    parts = top.weights, top.visible_bias, top.hidden_bias
    moved = [part + np.float32(rate) * gradient for part, gradient in zip(parts, found, strict=True)]
    # Down: draw states by the generative weights; the recognition ones learn to find them.
    up_again: list[RBM] = []
    for up, machine in zip(reversed(network.up), reversed(network.down), strict=True):
        below = machine.drawn_visible(units, rng)
        missed = units - up.hidden_means(below)
        weights = up.weights + np.float32(rate) * mean_product(below, missed)
        up_again.insert(0, replace(up, weights=weights, hidden_bias=up.hidden_bias + np.float32(rate) * missed.mean(0)))
        units = below
    new_top = replace(top, weights=moved[0], visible_bias=moved[1], hidden_bias=moved[2])
    return DBN(tuple(up_again), tuple(down), new_top)


def _error(network: DBN, rows: Rows, chosen: IntArray) -> float:
    """The mean squared error of giving rows back, in standardized units."""
    total, first = 0.0, network._first
    for block in row_blocks(len(chosen), rows.shape[1], BLOCK):
        given = rows.take(chosen[block])
        again = first.standardized(network.decode(network.encode(given)))
        total += float(((again - first.standardized(given)) ** 2).sum(dtype=np.float64))
    return total / (len(chosen) * rows.shape[1])
