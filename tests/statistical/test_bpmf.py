"""BPMF end to end: it finds what ratings were drawn from, and its intervals hold; on real data as well."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tastespace import ALS, BPMF, DampedBias, Ratings, evaluate, random_split, read
from tastespace.randomness import generator
from tastespace.testing.toys import gaussian

pytestmark = pytest.mark.statistical


@pytest.fixture(scope="module")
def drawn():
    """Ratings drawn from the model, a part of them kept aside, and the truth."""
    ratings, truth = gaussian(400, 150, n_factors=3, density=0.2, rng=generator(8))
    return random_split(ratings, 0.2, seed=0), truth


@pytest.fixture(scope="module")
def fitted(drawn):
    return BPMF(n_factors=5, seed=1).fit(drawn[0].train)


def test_it_finds_what_the_ratings_were_drawn_from(drawn, fitted):
    split, truth = drawn
    test = split.test
    prediction = fitted.predict(test.user_ids(), test.item_ids())
    expected = truth.expected(test.user_ids().to_numpy(), test.item_ids().to_numpy())
    error = float(np.sqrt(np.mean((prediction.mean - expected) ** 2)))
    others = [
        float(np.sqrt(np.mean((model.predict(test.user_ids(), test.item_ids()).mean - expected) ** 2)))
        for model in (DampedBias().fit(split.train), ALS(n_factors=5, seed=1).fit(split.train))
    ]
    assert error < 0.35 < min(others[0], 0.6)
    assert error < others[1]
    # It knows how wrong it is: errors are as large as the belief says, and so is the noise.
    assert float(np.sqrt(np.mean(prediction.belief_sd**2))) == pytest.approx(error, rel=0.1)
    noise = fitted.posterior_.trace.quantities["noise sd"][:, 50:].mean()
    assert noise == pytest.approx(truth.noise, rel=0.05)


def test_intervals_hold_as_often_as_they_say(drawn, fitted):
    """Of 2 400 test ratings, which share parameters: 90 % intervals must hold 87 to 93 %, which independent ones leave
    in one of 10^5 cases. An interval a third too narrow or too wide holds 78 or 97 %."""
    test = drawn[0].test
    prediction = fitted.predict(test.user_ids(), test.item_ids())

    def held(narrowed: float = 1.0) -> float:
        centre, sd = prediction.rating.mixture.mean(), narrowed * prediction.rating_sd
        return float(np.mean(np.abs(test.values - centre) <= 1.6449 * sd))

    low, high = prediction.interval(0.9).T
    assert 0.87 <= np.mean((low <= test.values) & (test.values <= high)) <= 0.93
    assert 0.87 <= held() <= 0.93
    assert not 0.87 <= held(2 / 3) <= 0.93
    assert not 0.87 <= held(4 / 3) <= 0.93


def test_new_users_are_folded_in_as_if_they_had_been_there(drawn, fitted):
    """A user left out of training and folded in is predicted nearly as one who was in it."""
    split, _ = drawn
    without = split.train.take(np.flatnonzero(split.train.user_ids().to_numpy() >= 40))
    news = split.train.take(np.flatnonzero(split.train.user_ids().to_numpy() < 40))
    test = split.test.take(np.flatnonzero(split.test.user_ids().to_numpy() < 40))
    stranger = BPMF(n_factors=5, seed=1).fit(without)
    folded = stranger.predict(test.user_ids(), test.item_ids(), history=news)
    known = fitted.predict(test.user_ids(), test.item_ids())
    errors = [float(np.sqrt(np.mean((part.mean - test.values) ** 2))) for part in (folded, known)]
    assert errors[0] == pytest.approx(errors[1], rel=0.03)
    assert np.corrcoef(folded.belief_sd, known.belief_sd)[0, 1] > 0.8


def rmse(model: BPMF, test: Ratings) -> float:
    return float(np.sqrt(np.mean((model.predict(test.user_ids(), test.item_ids()).mean - test.values) ** 2)))


@pytest.mark.slow
def test_quality_on_movielens_100k(datasets):
    split = random_split(read(datasets / "ml-100k" / "u.data"), 0.1, seed=0)
    assert rmse(BPMF(seed=0).fit(split.train), split.test) <= 0.880
    train, test = (read(datasets / "ml-100k" / f"u1.{part}") for part in ("base", "test"))
    assert rmse(BPMF(seed=0).fit(train), test) <= 0.906


@pytest.mark.slow
def test_quality_and_calibration_on_movielens_1m(datasets):
    frame = pl.read_parquet(datasets / "ml-1m" / "ratings.parquet", columns=["user", "item", "rating"])
    split = random_split(Ratings.from_frame(frame), 0.1, seed=0)
    report = evaluate(BPMF(seed=0).fit(split.train), split.test, ranking=False, bootstrap=0)
    point = evaluate(ALS(seed=0).fit(split.train), split.test, ranking=False, bootstrap=0)
    assert report["rmse"] <= 0.835
    assert 0.87 <= report.calibration["coverage_90"] <= 0.93
    for sure, unsure in zip(report.groups["users"], point.groups["users"], strict=True):
        if sure.n:
            assert sure.measures["rmse"] < unsure.measures["rmse"], sure.label
    for group in report.calibration.groups["users"]:
        if group.n >= 500:
            assert 0.87 <= group.measures["coverage_90"] <= 0.93, group.label
