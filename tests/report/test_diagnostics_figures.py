"""Figures of chains: drawn, said in words, the same every time."""

from __future__ import annotations

from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from tastespace import DampedBias, save
from tastespace.errors import DataError, MissingExtraError
from tastespace.inference.diagnostics import diagnose
from tastespace.inference.transition import HELD_OUT, NOISE, Trace
from tastespace.randomness import generator
from tastespace.report import plotting
from tastespace.report.diagnostics_figures import pictures, write_diagnostics
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")


def made_up(*, chains=2, warmup=20, draws=30, thin=2, pairs=10, held_out=True):
    rng = generator(11)
    sweeps = warmup + draws * thin
    start = 50 * np.exp(-np.arange(sweeps) / 3)  # far away at first
    quantities = {
        NOISE: 1 + start + 0.01 * rng.standard_normal((chains, sweeps)),
        "log joint": -1e4 - 1e4 * start + 50 * rng.standard_normal((chains, sweeps)),
        "taste sd": 0.5 + 0.01 * rng.standard_normal((chains, sweeps)),
    }
    if held_out:
        quantities[HELD_OUT] = 0.9 + 0.1 / np.sqrt(np.arange(1, sweeps + 1)) + np.zeros((chains, 1))
    predictions = 3 + rng.standard_normal((chains, sweeps, pairs))
    return Trace(warmup, thin, quantities, predictions.astype(np.float32))


def made(trace):
    return {picture.name: picture for picture in pictures(trace, diagnose(trace))}


def test_files(tmp_path):
    paths = write_diagnostics(made_up(), tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["trace.svg", "autocorrelation.svg", "running.svg"]
    for path in paths:
        assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")
    again = write_diagnostics(made_up(), tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


@pytest.mark.parametrize("chains", [1, 2, 7])
def test_the_trace_has_every_chain_and_shades_warm_up(chains, figures):
    trace = made_up(chains=chains)
    made(trace)
    panels = [axes for axes in figures[0].axes if axes.axison]
    assert [axes.get_title("left") for axes in panels] == [NOISE, "log joint", "taste sd", "worst prediction"]
    for axes in panels:
        assert len(axes.lines) == chains
        assert all(len(line.get_xdata()) == trace.sweeps for line in axes.lines)
        (shade,) = axes.patches
        assert (shade.get_x(), shade.get_width()) == (0.5, trace.warmup)


def test_a_bad_start_does_not_press_the_draws_into_a_line(figures):
    trace = made_up()
    made(trace)
    low, high = figures[0].axes[0].get_ylim()
    counted = trace.quantities[NOISE][:, trace.warmup :]
    assert low < counted.min() < counted.max() < high
    assert np.ptp(counted) > 0.3 * (high - low)


def test_autocorrelation_is_of_what_was_drawn(figures):
    trace = made_up()
    rng = generator(12)
    slow = np.cumsum(rng.standard_normal((2, trace.sweeps)), axis=1)
    trace = Trace(trace.warmup, trace.thin, {**trace.quantities, "log joint": slow}, trace.predictions)
    alt = made(trace)["autocorrelation"].alt
    panels = figures[1].axes
    assert [axes.get_title("left") for axes in panels] == [NOISE, "log joint", "worst prediction"]
    heights = [[segment[1, 1] for segment in axes.collections[0].get_segments()] for axes in panels]
    assert all(column[0] == pytest.approx(1) for column in heights)
    assert heights[1][1] > 0.8
    assert max(map(abs, heights[0][1:5])) < 0.5
    assert f"log joint {heights[1][1]:.2f} at lag 1" in alt
    assert len({axes.get_ylim() for axes in panels}) == 1


def test_the_running_rmse(figures):
    picture = made(made_up())["running"]
    assert picture.title.startswith("Held-out RMSE")
    assert "at the end 0.9112, 0.9112" in picture.alt
    (axes,) = figures[2].axes
    assert len(axes.lines) == 2


def test_running_means_where_nothing_was_held_out(figures):
    trace = made_up(held_out=False)
    picture = made(trace)["running"]
    assert picture.title == "Running means of two predictions"
    worst = diagnose(trace).pairs.worst
    axes = figures[2].axes[0]
    together = axes.lines[-1].get_ydata()
    kept = trace.predictions[:, trace.warmup + 1 :: 2, worst]
    assert len(together) == 30
    assert together[-1] == pytest.approx(kept.mean(), rel=1e-5)
    assert together[0] == pytest.approx(kept[:, 0].mean(), rel=1e-5)
    assert f"{kept.mean():.2f} ± " in picture.alt
    # The band ends two Monte Carlo errors to either side of the mean.
    edge = axes.collections[0].get_paths()[0].vertices
    last = edge[edge[:, 0] == 30][:, 1]
    assert np.ptp(last) == pytest.approx(4 * kept.std(ddof=1) / np.sqrt(60), rel=0.5)


def test_constants_have_no_autocorrelation():
    trace = made_up(pairs=0, held_out=False)
    fixed = {name: np.ones((2, trace.sweeps)) for name in trace.quantities}
    assert list(made(Trace(trace.warmup, trace.thin, fixed, trace.predictions))) == ["trace"]


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_few_draws_can_be_drawn(draws):
    assert {"trace", "running"} <= made(made_up(draws=draws, thin=1, warmup=0, held_out=False)).keys()
    assert {"trace", "running"} <= made(made_up(draws=draws, thin=1, warmup=0, chains=1)).keys()


@pytest.mark.usefixtures("_unrendered")
def test_words_say_what_is_to_be_seen():
    trace = made_up()
    alt = made(trace)["trace"].alt
    assert "noise sd, log joint, taste sd, worst prediction" in alt
    assert "2 chains: 20 sweeps of warm-up, then 30 kept draws each, one every 2 sweeps" in alt
    for row in diagnose(trace):
        assert f"{row.quantity} {row.verdict}" in alt


def test_the_folder_of_a_model_is_left_alone(tmp_path):
    save(DampedBias().fit(tastes(20, 10, rng=generator(6))[0]), tmp_path / "model")
    with pytest.raises(DataError, match="holds a model"):
        write_diagnostics(made_up(), tmp_path / "model")


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "trace.svg").mkdir()
    with pytest.raises(DataError, match=r"trace\.svg: cannot write"):
        write_diagnostics(made_up(), tmp_path)


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tastespace\[plot\]'"):
        write_diagnostics(made_up(), tmp_path / "figures")
    assert not (tmp_path / "figures").exists()
