"""The partition function of a Boltzmann machine: by enumeration for small ones, by annealed importance sampling.

Sampling goes from a machine without weights, whose partition function is known, to the one asked about, through
machines with hidden parameters beta b and beta W, beta from 0 to 1 (Salakhutdinov and Murray 2008). The mean of the
importance weights is unbiased for Z, so that log Z comes out too low rather than too high, and log-likelihoods too
high; the standard error says how far the weights agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.networks.rbm import RBM
from tastespace.parameters import check_int
from tastespace.threads import one_blas_thread

MOST_UNITS = 22  # whose states are enumerated
AT_ONCE = 1 << 14


class Partition(NamedTuple):
    """An estimate of log Z."""

    log: float
    standard_error: float  # of log Z; 0 for an exact one


def exact_partition(machine: RBM) -> Partition:
    """log Z by enumerating the states of one side: the hidden one, or the smaller one of two binary sides."""
    if machine.visible == "bernoulli" and len(machine.visible_bias) < len(machine.hidden_bias):
        names = machine.hidden_bias, machine.visible_bias
        machine = replace(machine, weights=machine.weights.T, visible_bias=names[0], hidden_bias=names[1])
    n = len(machine.hidden_bias)
    if n > MOST_UNITS:
        raise InvalidParameterError(
            f"the smaller side of the Boltzmann machine has {n} units; expected at most {MOST_UNITS} to enumerate: use "
            "sampled_partition"
        )
    logs = []
    for start in range(0, 1 << n, AT_ONCE):
        numbers = np.arange(start, min(start + AT_ONCE, 1 << n))
        hidden = (numbers[:, None] >> np.arange(n) & 1).astype(np.float64)
        pushed = hidden @ machine.weights.T.astype(np.float64)
        logs.append(logsumexp(hidden @ machine.hidden_bias + _visible_part(machine, pushed)))
    return Partition(float(logsumexp(logs)), 0.0)


def _visible_part(machine: RBM, pushed: DoubleArray) -> DoubleArray:
    """log of the sum (Gaussian: integral) over visible units, given what hidden ones add to their biases."""
    bias = machine.visible_bias.astype(np.float64)
    if machine.visible == "bernoulli":
        return np.asarray(np.logaddexp(0, pushed + bias).sum(axis=1))
    return np.asarray((pushed * bias + pushed**2 / 2).sum(axis=1) + len(bias) / 2 * np.log(2 * np.pi))


def sampled_partition(machine: RBM, rng: Generator, *, n_chains: int = 100, n_steps: int = 1000) -> Partition:
    """log Z by annealed importance sampling, with chains that pass through `n_steps` machines in between."""
    check_int("n_chains", n_chains, least=2)
    check_int("n_steps", n_steps, least=1)
    flat = replace(machine, weights=machine.weights * 0, hidden_bias=machine.hidden_bias * 0)
    nothing = np.zeros((n_chains, len(machine.hidden_bias)), np.float32)
    log_z = _visible_part(machine, np.zeros((1, len(machine.visible_bias))))[0] + nothing.shape[1] * np.log(2)
    weights: DoubleArray = np.zeros(n_chains)
    with one_blas_thread():
        units = flat.drawn_visible(nothing, rng)
        betas = np.linspace(0, 1, n_steps + 1)
        for low, high in zip(betas, betas[1:], strict=False):
            inputs = (units @ machine.weights + machine.hidden_bias).astype(np.float64)
            weights += (np.logaddexp(0, high * inputs) - np.logaddexp(0, low * inputs)).sum(axis=1)
            here = replace(
                machine,
                weights=machine.weights * np.float32(high),
                hidden_bias=machine.hidden_bias * np.float32(high),
            )
            units = here.drawn_visible(here.drawn_hidden(units, rng), rng)
    share = np.exp(weights - weights.max())
    error = float(share.std(ddof=1) / (np.sqrt(n_chains) * share.mean()))
    return Partition(float(log_z + logsumexp(weights) - np.log(n_chains)), error)


def log_likelihood(machine: RBM, inputs: FloatMatrix, partition: Partition) -> float:
    """The mean log-likelihood of rows (Gaussian: of the standardized rows)."""
    return float(np.mean(-machine.free_energy(inputs)) - partition.log)
