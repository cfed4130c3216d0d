"""Nodes as Ray actors: the same bytes as on one machine, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess

import numpy as np
import pytest

from tastespace import ALS, BPMF, Ratings, cluster
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")]

SHORT = {"n_factors": 8, "chains": 2, "warmup": 2, "draws": 3, "seed": 7, "threads": 2}


@pytest.fixture(scope="module")
def ratings():
    """Ratings of users and items in several blocks."""
    rng = generator(5)
    n = 60_000
    users, items = rng.integers(0, 12_000, n), rng.integers(0, 9_000, n)
    values = np.clip(np.round(2 * rng.normal(3.4, 1.1, n)) / 2, 0.5, 5)
    return Ratings.from_arrays(users, items, values, duplicates="last")


def assert_same(one, other):
    one, other = one.posterior_.arrays(), other.posterior_.arrays()
    assert one.keys() == other.keys()
    for part, array in one.items():
        np.testing.assert_array_equal(array, other[part], err_msg=part)


MODELS = {
    "als": lambda: ALS(n_factors=8, regularization=0.05, seed=7, sweeps=4),
    "gaussian": lambda: BPMF(**SHORT),
    "heteroscedastic": lambda: BPMF(**SHORT, likelihood="heteroscedastic"),
    "ordinal": lambda: BPMF(**SHORT, likelihood="ordinal"),
}


@pytest.mark.parametrize("name", MODELS)
def test_two_nodes_give_the_bytes_of_one_machine(ratings, name, tmp_path):
    news = []
    model, summary = cluster.fit(MODELS[name](), ratings, cluster="local:2", observer=news.append)
    assert_same(model, MODELS[name]().fit(ratings))
    assert news
    assert summary.begun == 1
    assert len(summary.nodes) == 2
    assert 0 < summary.idle_share < 1
    users = list(ratings.users.ids[:3])
    assert model.recommend(users, 5).to_dict() == MODELS[name]().fit(ratings).recommend(users, 5).to_dict()


def actors():
    """The processes of the nodes that this test started."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::Node" in line]


def test_a_killed_node_costs_time_and_nothing_else(ratings):
    """Whenever it is killed, the run begins again, and ends with the same bytes."""
    model, news, killed = BPMF(**{**SHORT, "draws": 30}), [], []

    def kill_once(progress):
        news.append(progress)
        if not killed and progress.step >= 6:
            killed.append(actors()[-1])
            os.kill(killed[0], signal.SIGKILL)

    fitted, summary = cluster.fit(model, ratings, cluster="local:2", observer=kill_once)
    assert killed
    assert summary.begun == 2
    assert any("beginning again" in progress.phase for progress in news)
    assert_same(fitted, BPMF(**{**SHORT, "draws": 30}).fit(ratings))


def test_an_error_in_a_node_is_the_error_of_the_fit(ratings):
    values = generator(2).normal(size=len(ratings))
    continuous = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), values)
    with pytest.raises(InvalidParameterError, match="more than 101 different values"):
        cluster.fit(BPMF(**SHORT, likelihood="ordinal"), continuous, cluster="local:2")


@pytest.mark.parametrize("address", ["local:0", "local:two", "spark://here", "ray://127.0.0.1:9"])
def test_addresses_that_are_none_are_refused_in_words(ratings, address):
    with pytest.raises(InvalidParameterError, match="expected"):
        cluster.fit(MODELS["als"](), ratings, cluster=address)
