"""Figures of chains: their traces, autocorrelations, and running means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.inference.diagnosis import CONSTANT, Diagnosis
from tastespace.inference.diagnostics import correlations, diagnose, kept, names_of
from tastespace.inference.transition import HELD_OUT, LOG_JOINT, NOISE, Trace
from tastespace.report import plotting as plot
from tastespace.report.plotting import ACCENT, GRID, INK, LOOKS, PALE, Picture

MAX_LAG = 50
BAND = 2.0  # Monte Carlo errors to either side


def write_diagnostics(trace: Trace, folder: str | Path, *, diagnosis: Diagnosis | None = None) -> list[Path]:
    """Write trace.svg, autocorrelation.svg and running.svg to a folder; returns their paths. Needs the extra `plot`."""
    folder = plot.prepare_folder(folder)
    return plot.write_pictures(folder, pictures(trace, diagnose(trace) if diagnosis is None else diagnosis))


def pictures(trace: Trace, diagnosis: Diagnosis) -> list[Picture]:
    """All figures for which there are values: a constant has no autocorrelation, and without draws there is no mean."""
    made = (draw(trace, diagnosis) for draw in (trace_picture, autocorrelation_picture, running_picture))
    return [picture for picture in made if picture is not None]


def trace_picture(trace: Trace, diagnosis: Diagnosis) -> Picture:
    """Every quantity and the worst prediction, sweep by sweep, all chains, warm-up shaded."""
    series = _series(trace, diagnosis, names_of(trace))
    figure, panels = plot.panel_grid(len(series))
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        _draw_chains(axes, values, trace.warmup)
        plot.set_title(axes, name, 10, x="sweep")
    _legend(figure, trace.chains, {"warm-up": GRID} if trace.warmup else None)
    title = "Traces of the chains"
    cut = "Warm-up is shaded; its values far from the rest are cut off."
    verdicts = ", ".join(f"{row.quantity} {row.verdict}" for row in diagnosis)
    words = f": {', '.join(series)}, sweep by sweep, {diagnosis.schedule()}. {cut} Verdicts: {verdicts}."
    return Picture.of(figure, "trace", title, words)


def autocorrelation_picture(trace: Trace, diagnosis: Diagnosis) -> Picture | None:
    """Autocorrelation of noise, log joint and worst prediction, in sweeps after warm-up."""
    n = trace.sweeps - trace.warmup
    constant = {row.quantity for row in diagnosis if row.verdict == CONSTANT}
    found = {
        name: values[:, trace.warmup :].astype(np.float64)
        for name, values in _series(trace, diagnosis, [NOISE, LOG_JOINT]).items()
        if n >= 3 and np.isfinite(values).all() and name not in constant and np.ptp(values[:, trace.warmup :]) > 0
    }
    if not found:
        return None
    lags = min(MAX_LAG, n // 2)
    figure, panels = plot.panel_grid(len(found), columns=len(found), width=3.6)
    words, lowest = [], -0.25
    for axes, (name, values) in zip(panels, found.items(), strict=True):
        correlation = correlations(values, lags)
        lowest = min(lowest, 1.1 * float(correlation.min()))
        chance = 2 / np.sqrt(values.size)
        axes.axhspan(-chance, chance, color=GRID, zorder=0)
        axes.vlines(np.arange(lags + 1), 0, correlation, color=ACCENT, linewidth=2)
        axes.axhline(0, color=INK, linewidth=0.8)
        plot.set_title(axes, name, 10, x="lag in sweeps (grey: chance)")
        words.append(f"{name} {correlation[1]:.2f} at lag 1 and {correlation[lags]:.2f} at lag {lags}")
    for axes in panels:
        axes.set_ylim(lowest, 1.05)  # the same for all, for comparison
    title = "Autocorrelation of the chains"
    return Picture.of(figure, "autocorrelation", title, f": correlations, {'; '.join(words)}.")


def running_picture(trace: Trace, diagnosis: Diagnosis) -> Picture | None:
    """Whether averages have converged: the held-out RMSE if it was watched, or else two predictions."""
    if HELD_OUT in trace.quantities:
        return _running_rmse(trace)
    if diagnosis.pairs is None or not diagnosis.draws:
        return None
    return _running_means(trace, diagnosis.pairs.worst)


def _running_rmse(trace: Trace) -> Picture:
    values = trace.quantities[HELD_OUT]
    figure, (axes,) = plot.panel_grid(1, columns=1, width=8.0, height=3.4)
    _draw_chains(axes, values, trace.warmup)
    axes.set(xlabel="sweep; shaded: warm-up (single states, not averages)", ylabel="held-out RMSE")
    _legend(figure, trace.chains)
    title = "Held-out RMSE of the averaged predictions of each chain"
    ends = ", ".join(f"{value:.4f}" for value in values[:, -1])
    return Picture.of(figure, "running", title, f"; at the end {ends}.")


def _running_means(trace: Trace, worst: int) -> Picture:
    """The mean over all chains, with the band in which it should stay, and that of each chain."""
    drawn = kept(trace, trace.predictions)
    middle = int(np.argsort(drawn.std(axis=(0, 1)))[drawn.shape[2] // 2])
    shown = {"the pair with the fewest effective draws": worst, "a pair of median uncertainty": middle}
    figure, panels = plot.panel_grid(2)
    counts = np.arange(1, drawn.shape[1] + 1)
    words = []
    for axes, (name, pair) in zip(panels, shown.items(), strict=True):
        means = np.cumsum(drawn[:, :, pair], axis=1) / counts
        together, (error, says_error) = means.mean(axis=0), _error_of(drawn[:, :, pair])
        # With fewer draws the error is larger by the square root of the ratio.
        band = BAND * error * np.sqrt(counts[-1] / counts)
        axes.fill_between(counts, together[-1] - band, together[-1] + band, color=GRID, zorder=0)
        for place, mean in enumerate(means):
            axes.plot(counts, mean, color=plot.colour_of(place), linewidth=0.9, alpha=0.7)
        axes.plot(counts, together, color=INK, linewidth=1.8)
        plot.set_title(axes, name, 10, x="kept draws per chain")
        words.append(f"{name}: {together[-1]:.2f}{says_error}")
    panels[0].set_ylabel("predicted rating")
    _legend(figure, trace.chains, {"all chains": INK, f"within {BAND:g} Monte Carlo errors": GRID})
    title = "Running means of two predictions"
    return Picture.of(figure, "running", title, f". {'; '.join(words)}.")


def _error_of(drawn: DoubleArray) -> tuple[float, str]:
    """The Monte Carlo error of one prediction, and its text; 0 where there are too few draws."""
    alone = Trace(0, 1, {"pair": drawn}, np.zeros((*drawn.shape, 0), np.float32))
    error = diagnose(alone)["pair"].mcse
    return (0.0, "") if error is None else (error, f" ± {error:.2f}")


def _series(trace: Trace, diagnosis: Diagnosis, names: Sequence[str]) -> dict[str, Any]:
    """Quantities by name, if they were watched, and the worst prediction."""
    series: dict[str, Any] = {name: trace.quantities[name] for name in names if name in trace.quantities}
    if diagnosis.pairs is not None:
        series["worst prediction"] = trace.predictions[:, :, diagnosis.pairs.worst]
    return series


def _draw_chains(axes: plot.Axes, values: Any, warmup: int) -> None:
    """One line per chain, over all sweeps, warm-up shaded.

    The draws get at least a third of the height: the path from a bad start would compress them into a line.
    """
    sweeps = np.arange(1, values.shape[1] + 1)
    for place, chain in enumerate(values):
        axes.plot(sweeps, chain, color=plot.colour_of(place), linewidth=0.9, alpha=0.85)
    axes.set_xlim(0.5, values.shape[1] + 0.5)
    if warmup:
        axes.axvspan(0.5, warmup + 0.5, color=PALE, alpha=0.2, linewidth=0, zorder=0)
    counted, everything = (part[np.isfinite(part)] for part in (values[:, warmup:], values))
    if not counted.size or np.ptp(counted) == 0:
        return
    reach = float(np.ptp(counted))
    low = max(float(everything.min()), float(counted.min()) - reach)
    high = min(float(everything.max()), float(counted.max()) + reach)
    axes.set_ylim(low - 0.05 * reach, high + 0.05 * reach)


def _legend(figure: plot.Figure, chains: int, more: dict[str, str] | None = None) -> None:
    """A legend of the chains, above the panels, where it covers nothing."""
    from matplotlib.lines import Line2D

    colours = {f"chain {place + 1}": plot.colour_of(place) for place in range(min(chains, len(LOOKS)))}
    entries = (colours if chains > 1 else {}) | (more or {})
    lines = {
        name: Line2D([], [], color=colour, linewidth=5 if colour == GRID else 2) for name, colour in entries.items()
    }
    if lines:
        plot.legend_above(figure, lines, len(lines))
