"""`draws="auto"`: as many draws as predictions need, told in the trace, and otherwise the same model."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace import load, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError
from tastespace.inference.diagnostics import Exactness, diagnose
from tastespace.models import BPMF
from tastespace.models.factorization.gibbs import bpmf
from tastespace.models.factorization.gibbs.item_draws import Watch
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

SMALL = {"n_factors": 2, "warmup": 30, "seed": 1}


@pytest.fixture(scope="module")
def ratings():
    return tastes(60, 40, rng=generator(4))[0]


@pytest.fixture(scope="module")
def fitted(ratings):
    return BPMF(**SMALL, draws="auto").fit(ratings)


def test_it_stops_where_it_is_exact_enough_and_says_so(fitted, tmp_path):
    diagnosis = diagnose(fitted.posterior_.trace)
    n = diagnosis.draws
    assert n % 20 == 0
    assert 20 <= n < 400
    assert diagnosis.pairs.error_of_most <= 0.075
    assert diagnosis.trouble is None
    assert fitted.posterior_.draws.items.shape[1] == 2 * n
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.draws == "auto"
    told = str(diagnose(again.posterior_.trace))
    assert f"then {n} kept draws each" in told
    assert "Draws were taken until nine of ten had an error of at most 0.075 times the noise sd: it is 0.0" in told


def test_a_block_less_would_not_have_been_enough(ratings, fitted):
    n = diagnose(fitted.posterior_.trace).draws
    assert n > 20
    fewer = BPMF(**SMALL, draws=n - 20).fit(ratings)
    assert diagnose(fewer.posterior_.trace).pairs.error_of_most > 0.075


def test_it_is_the_model_of_that_many_draws(ratings, fitted):
    n = diagnose(fitted.posterior_.trace).draws
    given = BPMF(**SMALL, draws=n, threads=1).fit(ratings).posterior_.arrays()
    found = BPMF(**SMALL, draws="auto", threads=2).fit(ratings).posterior_.arrays()
    assert found.keys() - given.keys() == {"trace:wanted error"}
    for name, array in given.items():
        assert_array_equal(found[name], array, err_msg=name)


def test_the_most_draws_without_being_exact_enough_bring_a_warning(ratings, monkeypatch):
    monkeypatch.setattr(bpmf, "EXACT_ENOUGH", Exactness(error=0.01, block=20))
    monkeypatch.setattr(bpmf, "MOST_DRAWS", 50)
    with pytest.warns(
        ConvergenceWarning, match=r"the maximum number of draws was taken, .*at most 0\.01 expected.*\(now 50\)"
    ):
        model = BPMF(**SMALL, draws="auto").fit(ratings)
    assert model.posterior_.draws.items.shape[1] == 100


@pytest.mark.parametrize("wrong", ["automatic", "", 0, 2.5, None])
def test_other_words_are_refused(ratings, wrong):
    with pytest.raises(InvalidParameterError, match="draws is"):
        BPMF(draws=wrong).fit(ratings)


def test_chains_held_apart_are_reported_by_the_fit(ratings, monkeypatch):
    places, call = {}, Watch.__call__

    def apart(watch, state, step):
        figures = call(watch, state, step)
        watch.predictions[-1] = watch.predictions[-1] + np.float32(places.setdefault(id(watch), 4.0 * len(places)))
        return figures

    monkeypatch.setattr(Watch, "__call__", apart)
    with pytest.warns(
        ConvergenceWarning,
        match=r"predictions have not converged: the 2 chains disagree, each of them stable in a different region: 100% "
        r"of the watched pairs have R-hat above 1.2 \(at most 25% expected\); double the warm-up: set warmup=200",
    ):
        BPMF(n_factors=2, warmup=100, draws=50, seed=1, threads=1).fit(ratings)


HELD_APART = """
import numpy as np
from tastespace.cli.main import run
from tastespace.models.factorization.gibbs.item_draws import Watch
places, call = {}, Watch.__call__
def apart(watch, state, step):
    figures = call(watch, state, step)
    watch.predictions[-1] = watch.predictions[-1] + np.float32(places.setdefault(id(watch), 4.0 * len(places)))
    return figures
Watch.__call__ = apart
run()
"""


def test_the_command_line_prints_it(ratings, tmp_path):
    ratings.write(tmp_path / "ratings.csv")
    told = subprocess.run(
        [sys.executable, "-c", HELD_APART, "fit", tmp_path / "ratings.csv", "--out", tmp_path / "model"]
        + ["--n-factors", "2", "--set", "warmup=30", "--set", "draws=20", "--threads", "1"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert told.returncode == 0, told.stderr
    assert told.stderr.startswith("warning: predictions have not converged: the 2 chains disagree, each of them stable")
    assert told.stderr.count("\n") == 1
