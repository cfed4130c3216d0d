"""Training and test parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.triples import triples

from tastespace.data.ratings import Ratings
from tastespace.data.splits import held_out_users, k_fold, last_per_user, leave_one_out, random_split, time_split
from tastespace.errors import DataError, InvalidParameterError


def ratings_of(n, seed=0):
    cells = np.random.default_rng(seed).choice(40 * 30, size=n, replace=False)
    return Ratings.from_arrays(cells // 30, cells % 30 + 1000, np.arange(n), range(n))


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


def assert_partition(ratings, split):
    parts = [split.train, split.test] + ([split.history] if split.history is not None else [])
    assert sorted(triple for part in parts for triple in triples(part)) == sorted(triples(ratings))


@given(st.integers(30, 300), st.integers(0, 2**30))
def test_every_split_is_a_partition_and_leaks_no_id(n, seed):
    ratings = ratings_of(n, seed)
    splits = [
        random_split(ratings, 0.3, seed=seed),
        *k_fold(ratings, 3, seed=seed),
        time_split(ratings, 0.25),
        held_out_users(ratings, 0.3, seed=seed),
    ]
    if (np.bincount(ratings.user_rows) > 1).any():
        splits += [leave_one_out(ratings, seed=seed), last_per_user(ratings, 2)]
    for split in splits:
        assert_partition(ratings, split)
        assert set(split.train.users.ids) == set(split.train.user_ids())
        assert set(split.train.items.ids) == set(split.train.item_ids())


def test_folds_cover_everything_once():
    ratings = ratings_of(101)
    folds = list(k_fold(ratings, 4, seed=1))
    assert sorted(len(fold.test) for fold in folds) == [25, 25, 25, 26]
    assert sorted(triple for fold in folds for triple in triples(fold.test)) == sorted(triples(ratings))


def test_last_per_user_takes_the_latest_and_leaves_one():
    ratings = Ratings.from_arrays(list("aaabbc"), list("xyzxyx"), [1, 2, 3, 4, 5, 6], [30, 10, 20, 5, 5, 9])
    split = last_per_user(ratings, 2)
    assert [triple[:2] for triple in triples(split.test)] == [("a", "x"), ("a", "z"), ("b", "y")]
    one = leave_one_out(ratings, seed=0)
    assert sorted(one.test.user_ids()) == ["a", "b"]


def test_time_split_never_tears_a_second_apart():
    ratings = Ratings.from_arrays(range(6), range(6), range(6), [1, 2, 3, 3, 3, 4])
    assert time_split(ratings, 0.34).test.times.astype(int).tolist() == [3, 3, 3, 4]
    assert time_split(ratings, at="1970-01-01T00:00:04").test.times.astype(int).tolist() == [4]
    for wrong in ({"share": 0.5, "at": "2000"}, {}, {"at": "soon"}, {"at": "2030-01-01"}, {"at": "1960-01-01"}):
        with pytest.raises(InvalidParameterError, match="expected"):
            time_split(ratings, **wrong)


def test_held_out_users_are_new_users_with_a_history():
    ratings = ratings_of(600)
    split = held_out_users(ratings, 0.25, given=0.6, seed=2)
    strangers = set(split.test.users.ids)
    assert strangers == set(split.history.users.ids)
    assert not strangers & set(split.train.users.ids)
    assert len(strangers) == int(0.25 * ratings.n_users)
    before = np.bincount(ratings.user_rows)
    for user in strangers:
        n = before[ratings.users.rows_of([user])[0]]
        assert (split.history.user_ids() == user).sum() == int(0.6 * n)


@pytest.mark.filterwarnings("ignore:1 of 2 ratings have no time")
def test_time_splits_refuse_unknown_times():
    for times in (None, [1, None]):
        ratings = Ratings.from_arrays([1, 1], [1, 2], [1, 2], times)
        for split in (lambda ratings: time_split(ratings, 0.5), last_per_user):
            with pytest.raises(DataError, match="time"):
                split(ratings)


def test_what_cannot_be_split():
    single = Ratings.from_arrays([1, 2], [1, 2], [1, 2], [1, 2])
    for split in (leave_one_out, last_per_user, lambda ratings: held_out_users(ratings, 0.5)):
        with pytest.raises(DataError, match="expected"):
            split(single)
    for wrong in (lambda: k_fold(single, 1), lambda: k_fold(single, 3), lambda: last_per_user(single, 0)):
        with pytest.raises(InvalidParameterError, match="k is"):
            wrong()
    with pytest.raises(InvalidParameterError, match="given is"):
        held_out_users(single, 0.5, given=1.0)


def test_shares_must_be_numbers():
    ratings = Ratings.from_arrays([1, 1, 2], [1, 2, 1], [1, 2, 3])
    for share in ("a", None, True):
        with pytest.raises(InvalidParameterError, match="share is"):
            random_split(ratings, share)


def test_held_out_users_may_have_a_number_of_ratings():
    split = held_out_users(ratings_of(400), 0.3, given=5, seed=1)
    assert set(split.history.by_user.counts) == {5}
    assert split.test.n_users == split.history.n_users
    with pytest.raises(InvalidParameterError, match="given is 0"):
        held_out_users(ratings_of(400), 0.3, given=0)
