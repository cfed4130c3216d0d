"""Saves that survive: a verb that is killed at any step, or loses power, leaves the old artifact or the new one."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from faults.laboratory import Laboratory

from tastespace import ALS, load, save
from tastespace.errors import ArtifactError
from tastespace.randomness import generator
from tastespace.service.store import RatingRow, Store
from tastespace.testing.toys import tastes

KILLS = int(os.environ.get("TASTESPACE_KILLS", "3"))  # of each verb and way; `make faults` sets 25
VERBS = {
    "fit": ["fit", "{data}/ratings.csv", "--out", "{root}/model", "--model", "als", "--set", "n_factors=3"],
    "update": ["update", "{root}/model", "{data}/new.csv", "--out", "{root}/model"],
    "index": ["index", "{root}/model", "--accuracy", "0.5", "--structures", "inverted-file", "--seconds", "0.1"],
    "retrain": ["retrain", "{root}/model", "--db", "sqlite:///{data}/ratings.db", "--out", "{root}/model", "--force"],
}
WAYS = {"exchange": {}, "renames": {"POWER_NO_EXCHANGE": "1"}}

pytestmark = pytest.mark.skipif(
    os.uname().sysname != "Linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A model, ratings to fit one on, and new ratings in a file and a database."""
    folder = tmp_path_factory.mktemp("data")
    ratings = tastes(20, 15, rng=generator(0))[0]
    frame = ratings.to_polars().select("user", "item", "rating")
    frame.write_csv(folder / "ratings.csv")
    frame.head(5).with_columns(pl.lit(3.0).alias("rating")).write_csv(folder / "new.csv")
    (folder / "old").mkdir()
    save(
        ALS(n_factors=2, regularisation=0.1, seed=0, threads=1).fit(tastes(20, 15, rng=generator(0))[0]),
        folder / "old/model",
    )
    with closing(Store(f"sqlite:///{folder / 'ratings.db'}")) as store:
        store.migrate()
        store.rate(
            [RatingRow(str(row["user"]), str(row["item"]), row["rating"]) for row in frame.iter_rows(named=True)]
        )
    return folder


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    opened = Laboratory(tmp_path_factory.mktemp("laboratory"))
    yield opened
    opened.close()


@pytest.fixture
def verb(request, data, laboratory):
    return [part.format(data=data, root=laboratory.root) for part in VERBS[request.param]]


def state_of(model: Path, old: bytes) -> str:
    """Old or new; anything else is an error."""
    load(model, verify=True)
    return "old" if (model / "manifest.json").read_bytes() == old else "new"


def twice(verb: str, way: str) -> object:
    """All of them, most in `make test-all` and `make faults` only."""
    is_quick = (verb, way) in (("fit", "exchange"), ("index", "exchange"), ("update", "renames"))
    return pytest.param(verb, way, marks=[] if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("verb", "way"), [twice(verb, way) for verb in VERBS for way in WAYS], indirect=["verb"])
def test_killed_at_any_step_the_artifact_is_old_or_new(laboratory, data, verb, way):
    old = (data / "old/model/manifest.json").read_bytes()
    laboratory.begin(data / "old")
    whole = laboratory.run(verb, **WAYS[way])
    assert whole["ended"] == 0, whole["said"]
    assert state_of(laboratory.root / "model", old) == "new"
    states = []
    for at in steps_to_try(whole["steps"]):
        laboratory.begin(data / "old")
        assert laboratory.run(verb, at, **WAYS[way])["ended"] == -9
        for names_are_kept in (True, False):
            lost = laboratory.lose_power(laboratory.root.with_name("lost"), names_are_kept=names_are_kept)
            state_of(lost / "model", old)
        states.append(state_of(laboratory.root / "model", old))
    sys.stdout.write(f"\n{verb[0]}, {way}: {len(states)} kills in {whole['steps']} steps, {states.count('old')} old\n")
    assert states == sorted(states, reverse=True)  # once it is new it stays so
    assert laboratory.run(verb, **WAYS[way])["ended"] == 0
    assert [entry.name for entry in laboratory.root.iterdir()] == ["model"]  # What was left over is gone.


def steps_to_try(last: int) -> list[int]:
    """The last ones, in which folders are exchanged, and some of the others."""
    rng = generator(7)
    some = rng.permutation(last)[:KILLS] + 1
    return sorted({*some.tolist(), *range(max(1, last - KILLS), last + 1)})


def test_without_syncing_a_power_failure_would_leave_none(laboratory, data):
    """The broken twin: the disk forgets what it was not asked to keep."""
    laboratory.begin(data / "old")
    verb = [part.format(data=data, root=laboratory.root) for part in VERBS["fit"]]
    assert laboratory.run(verb, POWER_NO_SYNC="1")["ended"] == 0
    lost = laboratory.lose_power(laboratory.root.with_name("lost"), names_are_kept=True)
    with pytest.raises(ArtifactError):
        load(lost / "model")


@pytest.mark.parametrize("verb", ["fit", "update", "retrain"], indirect=True)
@pytest.mark.parametrize("space", ["0", "3000"])
def test_on_a_full_disk_the_old_stays_and_the_new_is_saved_elsewhere(laboratory, data, verb, space, tmp_path):
    laboratory.begin(data / "old")
    found = laboratory.run(verb, POWER_SPACE=space, TASTESPACE_CACHE=str(tmp_path))
    assert found["ended"] == 1
    assert "Traceback" not in found["said"]
    said = (
        f"cannot write the artifact {laboratory.root}/model: No space left on device; the folder {laboratory.root} has"
    )
    assert said in found["said"]
    assert f"the fitted model is in {tmp_path}/rescued/model now" in found["said"]
    old = (data / "old/model/manifest.json").read_bytes()
    assert state_of(laboratory.root / "model", old) == "old"
    assert state_of(tmp_path / "rescued/model", old) == "new"
    assert [entry.name for entry in laboratory.root.iterdir()] == ["model"]


def test_an_index_that_finds_no_space_leaves_the_artifact(laboratory, data):
    laboratory.begin(data / "old")
    verb = [part.format(data=data, root=laboratory.root) for part in VERBS["index"]]
    found = laboratory.run(verb, POWER_SPACE="100")
    assert (found["ended"], "No space left on device" in found["said"]) == (1, True)
    assert state_of(laboratory.root / "model", (data / "old/model/manifest.json").read_bytes()) == "old"
