"""Scores of ratings, their spread over a grid, and the laws of latent responses, written from the formulas."""

from __future__ import annotations

import numpy as np
from scipy import stats


def scores(offsets, columns, rows, other, *, row_bias=None, other_bias=None, offset=0.0):
    """offset + b_i + d_j + u_i . v_j for every rating."""
    at = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows, other = rows.astype(np.float64), other.astype(np.float64)
    total = offset + np.einsum("kd,kd->k", rows[at], other[columns])
    return total + (0 if row_bias is None else row_bias[at]) + (0 if other_bias is None else other_bias[columns])


def ends(values, edges, cuts):
    """The interval of each rating's latent response."""
    levels = (np.asarray(values)[:, None] > np.asarray(edges)[None, :]).sum(axis=1)
    bounds = np.concatenate([[-np.inf], cuts, [np.inf]])
    return bounds[levels], bounds[levels + 1]


def truncated_uniform(draws, scores, low, high):
    """The distribution function of a truncated normal at its draws: uniform if they are right."""
    return stats.truncnorm.cdf(draws, low - scores, high - scores, loc=scores)


def polya_gamma_mean(c):
    return np.where(c == 0, 0.25, np.tanh(c / 2) / (2 * np.where(c == 0, 1, c)))


def polya_gamma_laplace(c, t):
    """E exp(-t w) of w ~ PG(1, c)."""
    return np.cosh(c / 2) / np.cosh(np.sqrt((c**2 / 2 + t) / 2))


def polya_gamma_density(w, terms=40):
    """The density of PG(1, 0) at w, by the one of its two alternating series that converges at once there."""
    x, n = 4 * w, np.arange(terms)
    right = np.exp(-((n + 0.5) ** 2) * np.pi**2 * x / 2)
    left = (2 / (np.pi * x)) ** 1.5 * np.exp(-2 * (n + 0.5) ** 2 / x)
    return 4 * np.sum((-1.0) ** n * np.pi * (n + 0.5) * (right if x > 0.64 else left))


def polya_gamma_sum(c, size, rng, terms=300):
    """Draws of PG(1, c) as the sum of gammas that defines it; what the terms left out have is added as its mean."""
    k = np.arange(1, terms + 1) - 0.5
    weights = 1 / (2 * np.pi**2 * (k**2 + (c / (2 * np.pi)) ** 2))
    drawn = sum(weight * rng.standard_exponential(size) for weight in weights)
    return drawn + polya_gamma_mean(np.float64(c)) - weights.sum()


def bins(scores, values, edges, first, step, n_nodes):
    """Cubic Lagrange weights of the four nodes around every score, added up by level."""
    out = np.zeros((len(edges) + 1, n_nodes))
    for score, value in zip(np.float64(scores), values, strict=True):
        place = (score - first) / step
        start = int(np.clip(np.floor(place), 1, n_nodes - 3)) - 1
        for node in range(start, start + 4):
            others = [m for m in range(start, start + 4) if m != node]
            weight = np.prod([(place - m) / (node - m) for m in others])
            out[(value > np.asarray(edges)).sum(), node] += weight
    return out


def kolmogorov(uniforms):
    """The chance of a larger distance from uniform."""
    return stats.kstest(uniforms, "uniform").pvalue
