"""Measures of lists equal hand-computed examples, and other libraries where definitions agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tastespace.evaluation.metrics.order import (
    auc,
    average_precision,
    hit_rate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from tastespace.randomness import generator

# Three users, lists of four. The first finds two of their three relevant items, at the places 2 and 4; the second
# finds their only one, at the first place; the third finds none of five.
HITS = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
N_RELEVANT = np.array([3, 1, 5])


def test_precision_by_hand():
    assert precision(HITS).tolist() == [2 / 4, 1 / 4, 0]
    assert precision(HITS[:, :3]).tolist() == [1 / 3, 1 / 3, 0]


def test_recall_by_hand():
    assert recall(HITS, N_RELEVANT).tolist() == [2 / 3, 1, 0]
    assert recall(HITS[:, :1], N_RELEVANT).tolist() == [0, 1, 0]


def test_hit_rate_by_hand():
    assert hit_rate(HITS).tolist() == [1, 1, 0]
    assert hit_rate(HITS[:, :1]).tolist() == [0, 1, 0]


def test_reciprocal_rank_by_hand():
    assert reciprocal_rank(HITS).tolist() == [1 / 2, 1, 0]


def test_average_precision_by_hand():
    """First user: precision 1/2 down to the place 2, 2/4 down to the place 4, over min(4, 3) = 3."""
    assert average_precision(HITS, N_RELEVANT) == pytest.approx([(1 / 2 + 2 / 4) / 3, 1, 0])
    # At k = 2 they could have found two.
    assert average_precision(HITS[:, :2], N_RELEVANT)[0] == pytest.approx((1 / 2) / 2)


def test_graded_ndcg_by_hand():
    """Places 1 to 3 have gains 0, 4, 1; the best list would have 4, 2, 1."""
    gains, ideal = np.array([[0.0, 4, 1]]), np.array([[4.0, 2, 1]])
    found, best = 4 / np.log2(3) + 1 / np.log2(4), 4 / np.log2(2) + 2 / np.log2(3) + 1 / np.log2(4)
    assert ndcg(gains, ideal) == pytest.approx([found / best])


def test_binary_ndcg_by_hand():
    """Hits at the places 2 and 4, three relevant items: the best list has hits at 1, 2, 3."""
    ideal = np.array([[1.0, 1, 1, 0]])
    found, best = 1 / np.log2(3) + 1 / np.log2(5), 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg(HITS[:1].astype(float), ideal) == pytest.approx([found / best])


def test_auc_by_hand():
    """Five candidates and one item that is none; relevant are the items 1 and 4.

    Item 1 (0.8) is above the others 0 (0.1), 2 (0.3), and below 3 (0.9): 2 of 3. Item 4 (0.3) is above item 0,
    ties with item 2, is below item 3: 1.5 of 3.
    """
    scores = np.array([[0.1, 0.8, 0.3, 0.9, 0.3, -np.inf]], np.float32)
    rows, columns = np.array([0, 0]), np.array([1, 4])
    assert auc(scores, rows, columns, np.array([2])) == pytest.approx([(2 + 1.5) / 6])
    # A third relevant item that the model does not know loses three times.
    assert auc(scores, rows, columns, np.array([3])) == pytest.approx([(2 + 1.5) / 9])


def test_auc_of_several_users_keeps_them_apart():
    scores = np.array([[3, 2, 1], [1, 2, 3], [1, 1, 1], [1, 2, 3]], np.float32)
    rows, columns = np.array([1, 0, 2]), np.array([0, 0, 1])
    found = auc(scores, rows, columns, np.array([1, 1, 1, 0]))
    assert found[:3].tolist() == [1, 0, 0.5]
    assert np.isnan(found[3])  # no relevant item


def test_nothing_to_divide_by_is_nan_and_not_a_number():
    assert np.isnan(recall(HITS[:1], np.array([0]))[0])
    assert np.isnan(average_precision(HITS[:1], np.array([0]))[0])
    assert np.isnan(ndcg(np.zeros((1, 3)), np.zeros((1, 3)))[0])
    # Everything is relevant: there is nothing that it could be above.
    assert np.isnan(auc(np.ones((1, 2), np.float32), np.array([0, 0]), np.array([0, 1]), np.array([2]))[0])


# Properties


@st.composite
def judged_lists(draw):
    """Hits, and numbers of relevant items that allow them."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 12)))
    hits = draw(arrays(bool, shape))
    more = draw(arrays(np.int64, shape[0], elements=st.integers(0, 5)))
    return hits, np.maximum(hits.sum(axis=1) + more, 1)


@given(judged_lists())
def test_all_are_between_0_and_1(judged):
    hits, n_relevant = judged
    for values in (
        precision(hits),
        recall(hits, n_relevant),
        hit_rate(hits),
        reciprocal_rank(hits),
        average_precision(hits, n_relevant),
        ndcg(hits.astype(float), (np.arange(hits.shape[1]) < n_relevant[:, None]).astype(float)),
    ):
        assert values.shape == (len(hits),)
        assert (values >= 0).all()
        assert (values <= 1 + 1e-12).all()


@given(judged_lists())
def test_recall_and_hit_rate_grow_with_k(judged):
    hits, n_relevant = judged
    for k in range(1, hits.shape[1]):
        assert (recall(hits[:, :k], n_relevant) <= recall(hits[:, : k + 1], n_relevant)).all()
        assert (hit_rate(hits[:, :k]) <= hit_rate(hits[:, : k + 1])).all()
        assert (reciprocal_rank(hits[:, :k]) <= reciprocal_rank(hits[:, : k + 1])).all()


@given(judged_lists())
def test_the_best_list_has_1(judged):
    hits, n_relevant = judged
    k = hits.shape[1]
    best = np.arange(k) < n_relevant[:, None]
    assert ndcg(best.astype(float), best.astype(float)) == pytest.approx(np.ones(len(hits)))
    assert average_precision(best, n_relevant) == pytest.approx(np.ones(len(hits)))
    assert (reciprocal_rank(best) == 1).all()
    assert recall(best, n_relevant) == pytest.approx(np.minimum(k, n_relevant) / n_relevant)


@given(judged_lists(), st.randoms())
def test_users_do_not_touch_one_another(judged, random):
    hits, n_relevant = judged
    order = list(range(len(hits)))
    random.shuffle(order)
    for metric in (recall, average_precision):
        assert np.array_equal(metric(hits, n_relevant)[order], metric(hits[order], n_relevant[order]))


@given(judged_lists())
def test_a_hit_moved_up_never_harms(judged):
    hits, n_relevant = judged
    ideal = (np.arange(hits.shape[1]) < n_relevant[:, None]).astype(float)
    better = -np.sort(-hits.astype(int), axis=1) > 0  # all hits first
    assert (average_precision(better, n_relevant) >= average_precision(hits, n_relevant) - 1e-12).all()
    assert (ndcg(better.astype(float), ideal) >= ndcg(hits.astype(float), ideal) - 1e-12).all()


# Other libraries


def random_rankings(n_users=40, n_items=30, density=0.2):
    """Scores of all items, and graded judgments of some: 0 not relevant, 1 to 4."""
    rng = generator(7)
    scores = rng.standard_normal((n_users, n_items)).astype(np.float32)
    grades = rng.integers(1, 5, (n_users, n_items)) * (rng.random((n_users, n_items)) < density)
    grades[:, 0] = 3  # everybody has something relevant
    return scores, grades


def lists_of(scores, grades, k):
    order = np.argsort(-scores, axis=1)[:, :k]
    gains = np.take_along_axis(grades, order, axis=1)
    ideal = -np.sort(-grades, axis=1)[:, :k]
    return gains, ideal


RANX = """
import json, sys
from ranx import Qrels, Run, evaluate

asked = json.load(sys.stdin)
found = evaluate(Qrels(asked["qrels"]), Run(asked["run"]), asked["names"], return_mean=False)
print(json.dumps({name: values.tolist() for name, values in found.items()}))
"""


@pytest.fixture(scope="module")
def ranx():
    """Its measures, one value a user. In a process of its own: what it compiles at first use takes a minute."""
    if find_spec("ranx") is None:
        pytest.skip("compares with ranx: pip install --group test")
    scores, grades = random_rankings()
    asked = {
        "qrels": {f"u{u:02}": {f"i{i}": int(g) for i, g in enumerate(row) if g} for u, row in enumerate(grades)},
        "run": {f"u{u:02}": {f"i{i}": float(s) for i, s in enumerate(row)} for u, row in enumerate(scores)},
        "names": [
            f"{name}@{k}" for name in ("precision", "recall", "hit_rate", "mrr", "map", "ndcg") for k in (1, 5, 30)
        ],
    }
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps(asked),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("k", [1, 5, 30])
def test_as_ranx_has_it(k, ranx):
    scores, grades = random_rankings()
    gains, ideal = lists_of(scores, grades, k)
    hits, n_relevant = gains > 0, (grades > 0).sum(axis=1)
    ours = {
        "precision": precision(hits),
        "recall": recall(hits, n_relevant),
        "hit_rate": hit_rate(hits),
        "mrr": reciprocal_rank(hits),
        # Theirs is divided by all relevant items, of which a short list cannot hold all.
        "map": average_precision(hits, n_relevant) * np.minimum(k, n_relevant) / n_relevant,
        "ndcg": ndcg(gains, ideal),
    }
    for name, values in ours.items():
        assert values == pytest.approx(ranx[f"{name}@{k}"], abs=1e-9), name


@pytest.mark.parametrize("k", [1, 5, 30])
def test_ndcg_as_scikit_learn_has_it(k):
    from sklearn.metrics import ndcg_score

    scores, grades = random_rankings()
    theirs = [ndcg_score([true], [score], k=k) for true, score in zip(grades, scores, strict=True)]
    assert ndcg(*lists_of(scores, grades, k)) == pytest.approx(theirs, abs=1e-9)


def test_auc_as_scikit_learn_has_it():
    from sklearn.metrics import roc_auc_score

    scores, grades = random_rankings()
    scores = np.round(scores * 2) / 2  # many ties
    is_candidate = generator(8).random(scores.shape) < 0.8
    is_candidate[:, 0] = True
    masked = np.where(is_candidate, scores, -np.inf).astype(np.float32)
    rows, columns = np.nonzero((grades > 0) & is_candidate)
    theirs = [
        roc_auc_score(true[here] > 0, score[here])
        for true, score, here in zip(grades, scores, is_candidate, strict=True)
    ]
    assert auc(masked, rows, columns, np.bincount(rows)) == pytest.approx(theirs, abs=1e-9)
