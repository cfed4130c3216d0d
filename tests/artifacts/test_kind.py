"""An artifact keeps what ratings were declared to be; one that does not say is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from artifacts.editing import write_manifest

from tastespace import EASE, DampedBias, Ratings, load, save
from tastespace.errors import ArtifactError
from tastespace.randomness import generator

OLD = Path(__file__).parent / "format-1" / "bias"


@pytest.fixture
def stars():
    rng = generator(0)
    return Ratings.from_arrays(rng.integers(0, 9, 60), rng.integers(0, 9, 60), rng.integers(1, 6, 60))


def test_what_was_declared(stars, tmp_path):
    save(DampedBias().fit(stars.with_kind("counts")), tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.ratings_.kind, again.ratings_.declared_kind) == ("counts", "counts")
    save(again, tmp_path / "n")
    assert load(tmp_path / "n").ratings_.kind == "counts"
    assert load(tmp_path / "n").update(Ratings.from_arrays([0], [1], [2])).ratings_.kind == "counts"


def test_a_guess_is_made_again(stars, tmp_path):
    """So that a few first ratings do not decide for ever."""
    few = stars.take(np.flatnonzero(stars.values == 5))
    save(DampedBias().fit(few), tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["data"]["kind"] == "one-class"
    assert load(tmp_path / "m").ratings_.declared_kind is None
    assert load(tmp_path / "m").ratings_.kind == "one-class"


def test_without_the_ratings_a_guess_cannot_be_made_again(tmp_path):
    counts = Ratings.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 1], [1, 1, 2, 50, 1])
    save(EASE().fit(counts), tmp_path / "m", with_ratings=False)
    assert load(tmp_path / "m").ratings_.kind == "counts"


def test_old_artifacts_do_not_say():
    assert "kind" not in json.loads((OLD / "manifest.json").read_text())["data"]
    assert load(OLD).ratings_.declared_kind is None
    assert load(OLD).ratings_.kind == "stars"


@pytest.mark.parametrize("kind", ["of tomorrow", 3, ["counts"]], ids=str)
def test_a_kind_that_is_none_is_damage(kind, stars, tmp_path):
    save(DampedBias().fit(stars.with_kind("counts")), tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    manifest["data"]["kind"] = kind
    write_manifest(tmp_path / "m", manifest)
    with pytest.raises(ArtifactError, match="the artifact is damaged"):
        load(tmp_path / "m")
