"""Ratings in parts: what nodes compute together has the same bytes as on one machine.

Nodes are threads here, so that no Ray is needed: `test_ray.py` has the real ones.
"""

from __future__ import annotations

from threading import Barrier, Lock, Thread

import numpy as np
import pytest

from tastespace import ALS, BPMF, Ratings
from tastespace.cluster.fitting import check_supported, infer_part
from tastespace.cluster.parts import Facts, shares_of
from tastespace.data import csr
from tastespace.errors import InvalidParameterError
from tastespace.progress import silent
from tastespace.randomness import generator

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")  # chains are short


class Table:
    """A meeting of threads."""

    def __init__(self, n_nodes):
        self.n_nodes, self.lock, self.open = n_nodes, Lock(), {}

    def exchange(self, key, node, own):
        with self.lock:
            left, barrier = self.open.setdefault(key, ({}, Barrier(self.n_nodes, timeout=20)))
            left[node] = own
        barrier.wait()
        return [left[place] for place in range(self.n_nodes)]


class Seat:
    def __init__(self, table, node):
        self.table, self.node = table, node

    def exchange(self, key, own):
        return self.table.exchange(key, self.node, own)


def in_parts(model, ratings, n_nodes, seed=7):
    """The posteriors of all nodes."""
    sides = [shares_of(side, n_nodes) for side in (ratings.by_user, ratings.by_item)]
    table, facts, found, failed = Table(n_nodes), Facts.of(ratings), {}, []

    def run(node):
        try:
            shares = (sides[0][node], sides[1][node])
            found[node] = infer_part(model, seed, shares, facts, Seat(table, node), silent)
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=run, args=(node,)) for node in range(n_nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[node] for node in range(n_nodes)]


@pytest.fixture
def ratings(monkeypatch):
    """Ratings of many blocks of rows: they are small here."""
    monkeypatch.setattr(csr, "BLOCK_ROWS", 16)
    rng = generator(5)
    users, items = rng.integers(0, 90, 1500), rng.integers(0, 70, 1500)
    values = np.clip(np.round(2 * rng.normal(3.4, 1.1, 1500)) / 2, 0.5, 5)
    return Ratings.from_arrays(users, items, values, duplicates="last")


SHORT = {"n_factors": 4, "chains": 2, "warmup": 3, "draws": 4, "seed": 7, "threads": 2}
MODELS = {
    "als": ALS(n_factors=4, regularization=0.05, seed=7, sweeps=4),
    "als without biases": ALS(n_factors=4, regularization=0.05, seed=7, sweeps=4, biases=False, precision="float64"),
    "gaussian": BPMF(**SHORT),
    "gaussian, in double": BPMF(**SHORT, precision="float64", inner_sweeps=2),
    "from random rows": BPMF(**SHORT, start="random"),
    "heteroscedastic": BPMF(**SHORT, likelihood="heteroscedastic"),
    "ordinal": BPMF(**SHORT, likelihood="ordinal"),
}


@pytest.mark.parametrize("n_nodes", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_nodes_compute_the_bytes_of_one_machine(ratings, name, n_nodes):
    model = MODELS[name]
    whole = model.fit(ratings).posterior_.arrays()
    for posterior, _ in in_parts(model, ratings, n_nodes):
        for part, array in posterior.arrays().items():
            np.testing.assert_array_equal(array, whole[part], err_msg=part)


@pytest.mark.parametrize("likelihood", ["probit", "logistic"])
def test_yes_and_no_in_parts(ratings, likelihood):
    liked = ratings.at_least(3.5)
    model = BPMF(**SHORT, likelihood=likelihood)
    whole = model.fit(liked).posterior_.arrays()
    for posterior, _ in in_parts(model, liked, 2):
        for part, array in posterior.arrays().items():
            np.testing.assert_array_equal(array, whole[part], err_msg=part)


def test_what_is_exchanged_is_what_is_computed(ratings):
    """Each half-sweep moves the rows of the side: factors, biases and two figures of each row."""
    model = ALS(n_factors=4, regularization=0.05, seed=7, sweeps=4, tolerance=0)
    summaries = [summary for _, summary in in_parts(model, ratings, 2)]
    rows = ratings.n_users + ratings.n_items
    sweep = rows * (4 * 4 + 4 + 8)  # single precision, and the minimum of each row in double
    moved = sum(summary.sent for summary in summaries)
    assert moved == 4 * sweep
    assert sum(summary.received for summary in summaries) == moved


def test_sums_do_not_depend_on_the_order_of_the_file(ratings):
    rng = generator(1)
    values = rng.normal(size=len(ratings)).astype(np.float32)
    order = rng.permutation(len(ratings))
    ids = ratings.user_ids(), ratings.item_ids()
    one = Ratings.from_arrays(*ids, values)
    other = Ratings.from_arrays(*(series.gather(order) for series in ids), values[order])
    # The rows have other numbers, and so other blocks; the sums agree but for rounding.
    assert one.mean == pytest.approx(other.mean, rel=1e-12)
    assert one.standard_deviation == pytest.approx(other.standard_deviation, rel=1e-12)


def test_shares_are_whole_blocks_of_about_the_same_cost(ratings):
    for n_nodes in (1, 2, 3):
        shares = shares_of(ratings.by_user, n_nodes)
        assert [share.first % 16 for share in shares] == [0] * n_nodes
        assert sum(len(share.columns) for share in shares) == len(ratings)
        sizes = [len(share.columns) for share in shares]
        assert max(sizes) < 1.6 * len(ratings) / n_nodes
    with pytest.raises(InvalidParameterError, match="6 blocks, for 7 nodes"):
        shares_of(ratings.by_user, 7)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ALS(), "a search of the regularization"),
        (ALS(regularization=0.05, n_factors="auto"), "n_factors='auto'"),
        (BPMF(n_factors="auto"), "n_factors='auto'"),
        (BPMF(prior="ard"), "priors that shrink columns"),
        (BPMF(likelihood="logistic:negatives=uniform"), "sampled negatives"),
    ],
)
def test_what_is_not_supported_is_refused_in_words(ratings, model, words):
    with pytest.raises(InvalidParameterError, match=words):
        check_supported(model, ratings)
