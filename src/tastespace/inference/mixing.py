"""Whether series of draws agree with one another and with their own past: R-hat, and correlations by lag.

Every chain is cut into halves, so that one chain that still travels disagrees with itself just as two chains do that
ended up in different places. With W the mean variance within the halves of n draws each, and V that of their means,

    R-hat = sqrt((n - 1)/n + V/W)

of normal scores of the ranks; the larger of that of the draws and that of their distances from the median (Vehtari et
al. 2021). A half with k effective draws has a mean with variance W/k, so that R-hat is about sqrt(1 + 1/k).
"""

from __future__ import annotations

import numpy as np

from tastespace.arrays import DoubleArray


def halves(series: DoubleArray) -> DoubleArray:
    """Both halves of every chain, as chains; of an odd number of draws the middle one is left out."""
    half = series.shape[-1] // 2
    return np.concatenate([series[..., :half], series[..., -half:]], axis=-2)


def rhat(series: DoubleArray) -> DoubleArray:
    """Of series x chains x draws; one chain is enough, because it has two halves."""
    cut = halves(series)
    folded = np.abs(cut - np.median(cut, axis=(1, 2), keepdims=True))
    # Folded draws may be all the same (two values only), which says nothing: fmax takes the other.
    return np.fmax(_disagreement(_normal_scores(cut)), _disagreement(_normal_scores(folded)))


def correlations(values: DoubleArray, lags: int) -> DoubleArray:
    """Of a series (chains x sweeps) with itself, at lags 0, 1 ... `lags`.

    Against the mean and variance of all chains together, as in the ESS: a chain that stays in a place of its own is
    correlated with itself at every lag.
    """
    centred = values - values.mean()
    variance = np.mean(centred**2)
    n = values.shape[1]
    return np.array([np.mean(centred[:, : n - lag] * centred[:, lag:]) / variance for lag in range(lags + 1)])


def _normal_scores(series: DoubleArray) -> DoubleArray:
    """The ranks among all draws of a series, as quantiles of the normal (Blom 1958)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(series.reshape(len(series), -1), axis=1).reshape(series.shape)
    return np.asarray(ndtri((ranks - 3 / 8) / (series[0].size + 1 / 4)))


def _disagreement(chains: DoubleArray) -> DoubleArray:
    """R-hat as the formula above has it."""
    n = chains.shape[-1]
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    between = chains.mean(axis=-1).var(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # Chains that stand still, each in its place: infinite.
        return np.asarray(np.sqrt((n - 1) / n + between / within))
