"""A fit that is interrupted, and goes on: the model ends up with the same bytes."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tastespace import Checkpoints, save
from tastespace.data.ratings import Ratings
from tastespace.data.splits import random_split
from tastespace.errors import CheckpointError, ConvergenceWarning, InvalidParameterError
from tastespace.inference.diagnostics import Exactness
from tastespace.models import BPMF, MODELS, SphereBPMF
from tastespace.models.base.resuming import described
from tastespace.models.factorization.gibbs import bpmf
from tastespace.models.factorization.gibbs.item_draws import Keeper, Watch
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

SHORT = {"n_factors": 3, "warmup": 4, "draws": 10, "thin": 2, "seed": 1}
# Every kind of state that a sampler has.
SAMPLERS = {
    "gaussian": {},
    "half precision": {"storage": "float16"},
    "double precision": {"precision": "float64"},
    "without biases": {"biases": False, "inner_sweeps": 2},
    "random start": {"start": "random", "chains": 3},
    "as many draws as needed": {"draws": "auto", "n_factors": 1, "chains": 2},
    "fixed noise": {"likelihood": "gaussian:precision=4", "chains": 1, "draws": 20},
    "uneven noise": {"likelihood": "heteroscedastic"},
    "ordinal": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
    "geodesic": {"model": SphereBPMF},
    "slices, joint": {"model": SphereBPMF, "sampler": "slice", "biases": "on-sphere", "likelihood": "probit"},
}


class Killed(BaseException):
    """What ends a fit in these tests."""


@pytest.fixture(scope="module")
def split():
    return random_split(tastes(40, 30, rng=generator(4))[0], 0.1, seed=0)


def suited(ratings, parameters):
    """Levels for the ordinal likelihood, yes and no for those that want it."""
    likelihood = parameters.get("likelihood", "gaussian")
    if likelihood == "gaussian":
        return ratings
    levels = np.clip(np.round(ratings.values), 1, 5) if likelihood == "ordinal" else ratings.values > 3
    return replace(ratings, values=levels.astype(np.float32))


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    """Seven blocks are as good as many where draws are taken until they are enough."""
    monkeypatch.setattr(bpmf, "EXACT_ENOUGH", Exactness(error=0.15, block=5))


def fitted(split, parameters, checkpoints=None, *, kill_at=None, **options):
    def observer(event):
        if event.step == kill_at:
            raise Killed

    train, test = suited(split.train, parameters), suited(split.test, parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They are short.
        parameters = SHORT | parameters
        model = parameters.pop("model", BPMF)(**parameters, **options)
        return model.fit(train, held_out=test, observer=observer, checkpoints=checkpoints)


def saved(model, folder):
    save(model, folder)
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(split, tmp_path_factory):
    """What a fit that nothing happened to saves, by the name of the sampler; each is fitted once."""

    @functools.cache
    def of(name):
        return saved(fitted(split, SAMPLERS[name]), tmp_path_factory.mktemp("whole") / "model")

    return of


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_fit_killed_twice_has_the_same_bytes(split, whole, tmp_path, name, threads):
    parameters = SAMPLERS[name]
    settings = Checkpoints(tmp_path / "run", every=3)
    for kill_at in (12, 28):  # of 48 steps
        with pytest.raises(Killed):
            fitted(split, parameters, settings, kill_at=kill_at, threads=threads)
        settings = replace(settings, resume=True)
    resumed = fitted(split, parameters, settings, threads=3 - threads)
    assert saved(resumed, tmp_path / "model") == whole(name)
    settings.clear()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("twin", ["watch", "keeper"])
def test_the_comparison_notices_what_is_forgotten(split, whole, tmp_path, monkeypatch, twin):
    settings = Checkpoints(tmp_path / "run", every=3)
    with pytest.raises(Killed):
        fitted(split, {}, settings, kill_at=20, threads=1)
    if twin == "watch":
        restore = Watch.restore
        monkeypatch.setattr(Watch, "restore", lambda watch, past: restore(watch, {**past, "total": None, "n": 0}))
    else:
        restore = Keeper.restore
        monkeypatch.setattr(Keeper, "restore", lambda keeper, past: restore(keeper, [block + 1 for block in past]))
    resumed = saved(fitted(split, {}, replace(settings, resume=True)), tmp_path / "model")
    monkeypatch.undo()
    right = whole("gaussian")
    differing = [name for name in right if right[name] != resumed[name]]
    assert differing == ["manifest.json", "posterior.safetensors"]  # the manifest has checksums of the others


def test_a_fit_without_a_seed_goes_on_with_its_own(split, tmp_path):
    settings = Checkpoints(tmp_path / "run", every=3)
    with pytest.raises(Killed):
        fitted(split, {"seed": None}, settings, kill_at=20)
    resumed = fitted(split, {"seed": None}, replace(settings, resume=True))
    assert resumed.seed_ == settings.seed()
    assert resumed.posterior_.draws.items.tobytes() == (
        fitted(split, {"seed": resumed.seed_}).posterior_.draws.items.tobytes()
    )


def reordered(ratings):
    order = np.arange(len(ratings))[::-1]
    return replace(
        ratings,
        user_rows=ratings.user_rows[order],
        item_rows=ratings.item_rows[order],
        values=ratings.values[order],
    )


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"n_factors": 4}, None, "n_factors is 4, expected 3"),
        ({"seed": 2}, None, "seed is 2, expected 1"),
        ({"chains": 3}, None, "chains is 3, expected 2"),
        ({"draws": 11}, None, "draws is 11, expected 10"),
        ({"prior_scale": 0.25}, None, "prior_scale is 0.25, expected 0.5"),
        ({}, lambda split: replace(split, test=None), "held-out ratings is None, expected '"),
        ({}, lambda split: replace(split, train=split.test), "ratings is '"),
        ({}, lambda split: replace(split, train=reordered(split.train)), "ratings is '"),
    ],
)
def test_another_run_is_refused_with_what_differs(split, tmp_path, parameters, change, message):
    settings = Checkpoints(tmp_path / "run", every=3)
    with pytest.raises(Killed):
        fitted(split, {}, settings, kill_at=20)
    other = split if change is None else change(split)
    with pytest.raises(CheckpointError, match=f"belong to another run: .*{message}"):
        BPMF(**SHORT | parameters).fit(other.train, held_out=other.test, checkpoints=replace(settings, resume=True))


def test_every_rating_and_id_counts():
    def of(users, items, values):
        return described(Ratings.from_arrays(users, items, values))

    same = of(["a", "b"], [1, 2], [3.0, 4.0])
    assert same == of(["a", "b"], [1, 2], [3.0, 4.0])
    assert same.startswith("2 by 2 users of 2 items, ")
    others = [
        of(["a", "c"], [1, 2], [3.0, 4.0]),
        of(["a", "b"], [1, 3], [3.0, 4.0]),
        of(["a", "b"], ["1", "2"], [3.0, 4.0]),
        of(["a", "b"], [1, 2], [3.0, 4.5]),
        of(["b", "a"], [2, 1], [4.0, 3.0]),
        of(["ab", "c"], [1, 2], [3.0, 4.0]),
        of(["a", "bc"], [1, 2], [3.0, 4.0]),
    ]
    assert len({same, *others}) == 8


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if not issubclass(model, BPMF)])
def test_a_model_without_chains_refuses_checkpoints(split, tmp_path, name):
    with pytest.raises(InvalidParameterError, match="keeps no checkpoints: it draws no samples"):
        MODELS[name]().fit(split.train, checkpoints=Checkpoints(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_folder_alone_is_not_enough(split, tmp_path):
    with pytest.raises(InvalidParameterError, match="expected Checkpoints, such as tastespace.Checkpoints"):
        BPMF(**SHORT).fit(split.train, checkpoints=tmp_path)
