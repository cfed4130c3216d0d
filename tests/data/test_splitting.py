"""Training and test parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import random_split
from tastespace.errors import InvalidParameterError


def ratings_of(n, seed=0):
    cells = np.random.default_rng(seed).choice(40 * 30, size=n, replace=False)
    return Ratings.from_arrays(cells // 30, cells % 30 + 1000, np.arange(n), range(n))


def triples(ratings):
    return list(zip(ratings.user_ids().to_list(), ratings.item_ids().to_list(), ratings.values.tolist(), strict=True))


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 2**40))
def test_parts_follow_the_documented_permutation(n, share, seed):
    ratings = ratings_of(n)
    n_test = int(share * n)
    if n_test == 0:
        with pytest.raises(InvalidParameterError, match="larger share"):
            random_split(ratings, share, seed=seed)
        return
    order = np.random.default_rng(seed).permutation(n)
    split = random_split(ratings, share, seed=seed)
    before = triples(ratings)
    assert triples(split.test) == [before[place] for place in sorted(order[:n_test])]
    assert triples(split.train) == [before[place] for place in sorted(order[n_test:])]
    np.testing.assert_array_equal(split.test.times, ratings.times[np.sort(order[:n_test])])


def test_no_test_id_leaks_into_the_training_vocabulary():
    split = random_split(ratings_of(120), 0.5, seed=3)
    train_users, train_items = split.train.user_ids().to_list(), split.train.item_ids().to_list()
    assert split.train.users.ids.to_list() == list(dict.fromkeys(train_users))
    assert split.train.items.ids.to_list() == list(dict.fromkeys(train_items))
    cold = set(split.test.user_ids()) - set(train_users)
    assert cold  # else the assertions above prove nothing
    assert (split.train.users.rows_of(sorted(cold)) == -1).all()
    assert cold <= set(split.test.users.ids)


def test_seeds_differ_and_repeat():
    ratings = ratings_of(200)
    first, again, other = (random_split(ratings, 0.3, seed=seed).test for seed in (1, 1, 2))
    assert triples(first) == triples(again)
    assert triples(first) != triples(other)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(InvalidParameterError, match="share is"):
        random_split(ratings_of(10), share)
