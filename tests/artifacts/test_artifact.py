"""Artifacts: old formats load, damaged and foreign ones are refused with a reason, writing is all or nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from artifacts import make_fixture
from artifacts.editing import match_files, write_manifest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save_file

from tastespace import ALS, DampedBias, Ratings, artifact, load, save, storage
from tastespace.artifact import save_index
from tastespace.errors import ArtifactError, DataWarning, InvalidParameterError, NotFittedError
from tastespace.models.baselines.baselines import BiasPosterior
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

HERE = Path(__file__).parent
FORMATS = sorted(path for path in HERE.glob("format-*/*") if path.is_dir())
OLDEST = {HERE / "format-1" / name for name in ("als", "bias")}  # whose answers are fewer


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(tastes(20, 15, rng=generator(0))[0]), path)
    return path


def test_there_is_a_fixture_of_the_current_format():
    assert (HERE / f"format-{artifact.FORMAT_VERSION}").is_dir()


@pytest.mark.filterwarnings("ignore::tastespace.errors.DataWarning")  # of histories where there are no ratings
@pytest.mark.parametrize("path", sorted(set(FORMATS) - OLDEST), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_format_of_the_past_loads_and_answers_as_it_did(path):
    then = json.loads(path.with_suffix(".answers.json").read_text())
    model = load(path)
    now = make_fixture.answers(model)
    for name, answer in then.items():
        if answer is not None:  # what a model did not know it may have learned
            assert_same(answer, now[name], name)
    assert (model.index_ is not None) == path.name.endswith("-indexed")
    assert bool(len(model.ratings_)) != path.name.endswith("-without-ratings")
    assert (model.seen_.updates > 0) == path.name.endswith("-updated")
    assert model.ratings_.item_attributes["genres"].to_list()[0]


def assert_same(then, now, name):
    """Columns of tables; there may be more of them now, and instruction sets differ in the last digits."""
    assert now is not None, name
    assert now.keys() >= then.keys(), name
    for column, values in then.items():
        numbers = [isinstance(value, float) for value in values]
        if any(numbers):
            # A contribution is a difference of predictions, each of which ends a search of its own.
            atol = 1e-3 if column == "contribution" else 2e-5
            assert_allclose(*numeric(now[column], values), rtol=2e-4, atol=atol, err_msg=f"{name}: {column}")
        else:
            assert now[column] == values, f"{name}: {column}"


def numeric(*columns):
    return [np.array([np.nan if value is None else value for value in column], float) for column in columns]


def test_every_model_of_the_past_has_a_fixture():
    there = {json.loads((path / "manifest.json").read_text())["class"] for path in FORMATS}
    assert there == {kind for kind, _, _ in make_fixture.MODELS.values()} | {"ALS", "DampedBias"}
    first = {path.name for path in FORMATS if path.parent.name == "format-1"}
    assert first >= set(make_fixture.MODELS) - set(make_fixture.LATER)


@pytest.mark.parametrize("path", sorted(OLDEST), ids=lambda path: path.name)
def test_the_oldest_artifacts_load_and_answer_as_they_did(path):
    answers = json.loads(path.with_suffix(".answers.json").read_text())
    model = load(path)
    assert_allclose(model.predict(["user-0", "user-1", "nobody"], [0, 1, 2]).mean, answers["predictions"], rtol=1e-5)
    ranking = model.recommend(["user-3"], 3)
    assert ranking.item_ids.to_list() == answers["items"]
    assert ranking.titles.to_list() == answers["titles"]
    assert_allclose(ranking.scores[0], answers["scores"], rtol=1e-5)
    assert_allclose(model.recommend(history={0: 5.0, 3: 1.0}, n=3).scores[0], answers["folded"], rtol=1e-4)
    assert model.ratings_.item_attributes["genres"].to_list()[0]


def test_the_manifest_says_what_it_is(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format"] == "tastespace"
    assert (manifest["model"], manifest["class"]) == ("als", "ALS")
    assert manifest["parameters"]["n_factors"] == 2
    assert "threads" not in manifest["parameters"]
    assert manifest["data"]["fingerprint"] == load(saved).ratings_.fingerprint()
    assert manifest["files"].keys() == {entry.name for entry in saved.iterdir()} - {"manifest.json"}
    assert manifest["sha256"].keys() == {entry.name for entry in saved.iterdir()}


@pytest.mark.parametrize(
    "pick",
    [lambda model: model.posterior_.items.factors, lambda model: model.ratings_.by_user.columns],
    ids=["posterior", "ratings"],
)
def test_arrays_are_mapped_not_read(saved, pick):
    array = pick(load(saved))
    base = array
    while not isinstance(base, np.memmap):
        assert base.base is not None, "the array has memory of its own"
        base = base.base
    assert not array.flags.writeable


def test_ids_titles_and_attributes_survive(tmp_path):
    ratings = Ratings.from_arrays(["007", "ü", "7"], [2**40, -1, 3], [1.0, 2.0, 3.0])
    ratings = ratings.with_items(
        pl.Series(["A", None, "C"]), pl.DataFrame({"genres": [["x", "y"], [], None], "year": [1999, None, 2001]})
    )
    save(ALS(n_factors=1, regularization=0.1, seed=0).fit(ratings), tmp_path / "m")
    back = load(tmp_path / "m").ratings_
    assert back.users.ids.to_list() == ["007", "ü", "7"]
    assert back.items.ids.to_list() == [2**40, -1, 3]
    assert back.item_titles.to_list() == ["A", None, "C"]
    assert back.item_attributes.equals(ratings.item_attributes)
    assert back.fingerprint() == ratings.fingerprint()


def test_saving_over_an_artifact_replaces_it_and_leaves_no_litter(saved):
    model = ALS(n_factors=3, regularization=0.1, seed=1).fit(tastes(10, 9, rng=generator(1))[0])
    save(model, saved)
    assert load(saved).n_factors == 3
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(ALS(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def cut(path, name="posterior.safetensors"):
    (path / name).write_bytes((path / name).read_bytes()[:-40])


def garble(path, name):
    (path / name).write_bytes(b"\xff" * (path / name).stat().st_size)


def flip(path, name):
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)


def edit(path, **changes):
    manifest = json.loads((path / "manifest.json").read_text())
    edited = {key: value for key, value in (manifest | changes).items() if value is not None}
    write_manifest(path, edited)


def lie(path, **changes):
    """Another description of the first array of the posterior, of the same length as the one that is there."""
    file = path / "posterior.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[next(iter(header))] |= changes
    written = json.dumps(header).encode()
    file.write_bytes(len(written).to_bytes(8, "little") + written + content[8 + length :])
    match_files(path)


def exchange(path, name):
    """Put a file of a larger (then of a smaller) model in the place of this one's."""
    other = path.parent / "other"
    size = 40 if name.endswith("safetensors") and "ratings" in name else 6
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(tastes(size, size, rng=generator(5))[0]), other)
    shutil.copy(other / name, path / name)
    shutil.rmtree(other)
    match_files(path)


def shorten_ratings(path):
    """Columns and values one shorter, alike: only the offsets know."""
    arrays = storage.read_arrays(path / "ratings.safetensors")
    shorter = {name: np.array(array if name == "offsets" else array[:-1]) for name, array in arrays.items()}
    save_file(shorter, path / "ratings.safetensors")
    match_files(path)


DAMAGES = {
    "truncated": (cut, "has .* bytes; expected"),
    "truncated with a manifest to match": (lambda path: (cut(path), match_files(path)), "damaged"),
    "header gone": (lambda path: (garble(path, "posterior.safetensors"), match_files(path)), "damaged"),
    "a flipped bit": (lambda path: flip(path, "posterior.safetensors"), "another checksum.*damaged"),
    "a shape of petabytes": (lambda path: lie(path, shape=[1 << 50]), "damaged"),
    "a negative shape": (lambda path: lie(path, shape=[-1, -1]), "damaged"),
    "an unknown type": (lambda path: lie(path, dtype="Q99"), "damaged"),
    "a place before the file": (lambda path: lie(path, data_offsets=[-8, 0]), "damaged"),
    "a file elsewhere": (lambda path: edit(path, files={"../../passwords": 1}), "names a file '../../passwords'"),
    "a part elsewhere": (lambda path: edit(path, parts={"posterior": "/etc/passwd"}), "names a file '/etc/passwd'"),
    "missing file": (lambda path: (path / "users.parquet").unlink(), "users.parquet is missing"),
    "garbled parquet": (lambda path: (garble(path, "items.parquet"), match_files(path)), "damaged"),
    "wrong arrays": (
        lambda path: (shutil.copy(path / "ratings.safetensors", path / "posterior.safetensors"), match_files(path)),
        "damaged",
    ),
    "newer": (lambda path: edit(path, format_version=99), "format version 99.*pip install -U tastespace"),
    "unknown model": (lambda path: edit(path, model="oracle"), "'oracle'.*knows.*models="),
    "a model that is a place": (lambda path: edit(path, model="os:path"), "'os:path'.*knows"),
    "no checksums": (lambda path: edit(path, sha256=None), "lacks sha256"),
    "incomplete manifest": (lambda path: edit(path, data=None), "lacks data"),
    "foreign manifest": (lambda path: edit(path, format="left-pad"), "not a tastespace artifact"),
    "not json": (lambda path: (path / "manifest.json").write_text("{"), "cannot be read"),
    "not an object": (lambda path: (path / "manifest.json").write_text("[1]"), "not a tastespace artifact"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "not a tastespace artifact"),
    "gone": (shutil.rmtree, "no artifact"),
    "files a list": (lambda path: edit(path, files=[]), "invalid files"),
    "parameters a list": (lambda path: edit(path, parameters=[]), "invalid parameters"),
    "model a list": (lambda path: edit(path, model=[]), "invalid model"),
    "range of words": (lambda path: edit(path, data={"minimum": "a", "maximum": 5}), "damaged"),
    "users of another model": (lambda path: exchange(path, "users.parquet"), "damaged"),
    "items of another model": (lambda path: exchange(path, "items.parquet"), "damaged"),
    "posterior of another model": (lambda path: exchange(path, "posterior.safetensors"), "damaged"),
    "fewer ratings than their offsets say": (lambda path: shorten_ratings(path), "damaged"),
    "ratings of another model": (lambda path: exchange(path, "ratings.safetensors"), "damaged"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_cannot_be_loaded_says_why(saved, what):
    damage, message = DAMAGES[what]
    damage(saved)
    with pytest.raises(ArtifactError, match=message):
        load(saved)


def test_a_file_is_not_an_artifact(tmp_path):
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ArtifactError, match="not a tastespace artifact"):
        load(tmp_path / "file")


def test_what_is_not_an_artifact_is_never_overwritten(tmp_path, saved):
    model = load(saved)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("hello")
    (tmp_path / "webapp").mkdir()
    (tmp_path / "webapp" / "manifest.json").write_text('{"name": "my app"}')
    shutil.copytree(saved, tmp_path / "notes")
    (tmp_path / "notes" / "thoughts.txt").write_text("about this tastespace model")
    for name in ("papers", "file", "webapp", "notes"):
        with pytest.raises(ArtifactError, match="exists and is not"):
            save(model, tmp_path / name)
    assert (tmp_path / "papers" / "thesis.txt").read_text() == "years of work"
    with pytest.raises(ArtifactError, match="no folder"):
        save(model, tmp_path / "nowhere" / "model")


def test_a_failure_in_the_middle_leaves_the_old_artifact(saved, monkeypatch):
    before = {entry.name: entry.read_bytes() for entry in saved.iterdir()}
    model = load(saved)

    def no_space(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", no_space)
    with pytest.raises(ArtifactError, match="No space left on device"):
        save(model, saved)
    assert {entry.name: entry.read_bytes() for entry in saved.iterdir()} == before
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_a_link_is_followed(saved, tmp_path):
    (tmp_path / "link").symlink_to(saved)
    save(ALS(n_factors=3, regularization=0.1).fit(tastes(10, 9, rng=generator(1))[0]), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(saved).n_factors == 3


def test_killed_while_saving_nothing_is_half_written(saved):
    """SIGKILL in the middle of a save: the old artifact still loads."""
    program = textwrap.dedent(
        """
        import os, signal, sys
        import polars as pl
        from tastespace import load, save
        pl.DataFrame.write_parquet = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        model = load(sys.argv[1])
        save(model, sys.argv[1])
        """
    )
    result = subprocess.run([sys.executable, "-c", program, str(saved)], check=False, env=dict(os.environ))
    assert result.returncode == -signal.SIGKILL
    assert load(saved).n_factors == 2


def test_all_users_may_read_it_and_numpy_numbers_can_be_saved(tmp_path):
    model = ALS(n_factors=np.int64(2), regularization=np.float32(0.5), seed=np.int64(3))
    save(model.fit(tastes(10, 9, rng=generator(1))[0]), tmp_path / "m")
    assert load(tmp_path / "m").n_factors == 2
    assert {entry.stat().st_mode & 0o777 for entry in (tmp_path / "m").iterdir()} == {0o644}


# a class outside the package


class Mine(ALS):
    pass


def test_a_class_of_another_package_is_saved_and_loaded_if_it_is_passed(tmp_path):
    model = Mine(n_factors=2, regularization=0.1, seed=0).fit(tastes(10, 9, rng=generator(1))[0])
    save(model, tmp_path / "m")
    name = artifact.read_manifest(tmp_path / "m", models=[Mine])["model"]
    assert name == f"{Mine.__module__}.Mine"
    back = load(tmp_path / "m", models=[Mine])
    assert type(back) is Mine
    assert_allclose(back.predict([0, 1], [0, 1]).mean, model.predict([0, 1], [0, 1]).mean)
    with pytest.raises(ArtifactError, match=r"holds a model '.*Mine'; this version knows mean, .*models=\[ThatClass\]"):
        load(tmp_path / "m")
    with pytest.raises(InvalidParameterError, match="models has 'Mine'; expected classes of recommenders"):
        load(tmp_path / "m", models=["Mine"])


# what format 2 has


def with_all(n=40):
    rng = generator(3)
    users, items = rng.integers(0, 12, n), rng.integers(0, 9, n)
    ratings = Ratings.from_arrays(users, items, rng.integers(1, 6, n), rng.integers(10**9, 2 * 10**9, n))
    countries = [["at", "ch"], [], None] * ratings.n_users
    table = pl.DataFrame({"age": range(ratings.n_users), "countries": countries[: ratings.n_users]})
    return ratings.with_users(table)


def test_times_and_attributes_of_users_survive(tmp_path):
    ratings = with_all()
    save(ALS(n_factors=1, regularization=0.1, seed=0).fit(ratings), tmp_path / "m")
    back = load(tmp_path / "m").ratings_
    assert back.to_polars().sort("user", "item").equals(ratings.to_polars().sort("user", "item"))
    assert back.user_attributes.equals(ratings.user_attributes)
    assert_array_equal(back.by_user_with_times.times, ratings.by_user_with_times.times)
    save(ALS(n_factors=1, regularization=0.1, seed=0).fit(ratings), tmp_path / "m", with_ratings=False)
    assert load(tmp_path / "m").ratings_.times is None
    assert load(tmp_path / "m").ratings_.user_attributes.equals(ratings.user_attributes)


def test_times_that_are_unknown_stay_unknown(tmp_path):
    times = np.array(["2024-05-31", "NaT"], "datetime64[s]")
    with pytest.warns(DataWarning, match="no time"):
        ratings = Ratings.from_arrays(["a", "b"], [1, 2], [1.0, 2.0], times)
    save(DampedBias().fit(ratings), tmp_path / "m")
    assert_array_equal(load(tmp_path / "m").ratings_.times, times)


class Parted(BiasPosterior):
    """A posterior with parts that have names."""

    def arrays(self):
        return {name if name == "constants" else f"{name}/all": array for name, array in super().arrays().items()}

    @classmethod
    def from_arrays(cls, arrays):
        return super().from_arrays({name.partition("/")[0]: array for name, array in arrays.items()})


class InParts(DampedBias):
    posterior_class = Parted


def test_a_posterior_may_have_parts_with_names(tmp_path):
    model = InParts(seed=0).fit(with_all())
    whole = model.posterior_
    model.posterior_ = Parted(**{field.name: getattr(whole, field.name) for field in fields(whole)})
    save(model, tmp_path / "m")
    parts = artifact.read_manifest(tmp_path / "m", models=[InParts])["parts"]
    assert parts["posterior"] == "posterior.safetensors"
    assert parts["item_bias"] == "posterior-item_bias.safetensors"
    assert (tmp_path / "m" / "posterior-item_bias.safetensors").is_file()
    assert_allclose(
        load(tmp_path / "m", models=[InParts]).predict([1, 2], [1, 2]).mean, model.predict([1, 2], [1, 2]).mean
    )
    save(model, tmp_path / "m")  # an artifact with parts can be replaced


def test_checksums_are_compared_once_and_whenever_it_is_asked_for(saved, monkeypatch):
    compared, digest_of = [], storage.digest_of
    monkeypatch.setattr(storage, "digest_of", lambda file: compared.append(file.name) or digest_of(file))
    load(saved)
    assert sorted(compared) == sorted(artifact.read_manifest(saved)["files"])
    compared.clear()
    load(saved)
    assert not compared
    load(saved, verify=True)
    assert len(compared) == 4
    compared.clear()
    os.utime(saved / "users.parquet")
    load(saved)
    assert len(compared) == 4


def test_where_nothing_can_be_remembered_checksums_are_compared_every_time(saved, monkeypatch):
    compared, digest_of = [], storage.digest_of
    monkeypatch.setattr(storage, "digest_of", lambda file: compared.append(file.name) or digest_of(file))
    monkeypatch.setenv("TASTESPACE_CACHE", str(saved / "manifest.json"))
    load(saved)
    load(saved)
    assert len(compared) == 8


def test_what_is_remembered_does_not_grow_for_ever(saved, monkeypatch, tmp_path):
    monkeypatch.setenv("TASTESPACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(storage, "_MAX_MARKS", 3)
    for moment in range(6):
        os.utime(saved / "users.parquet", ns=(moment, moment))
        load(saved)
        assert len(list((tmp_path / "cache" / "verified").iterdir())) == min(moment + 1, 3)


def test_an_index_can_be_added_to_an_artifact_of_the_first_format(tmp_path):
    shutil.copytree(HERE / "format-1" / "als-found-strength", tmp_path / "m")
    save_index(tmp_path / "m", make_fixture._indexed(load(tmp_path / "m")))
    assert load(tmp_path / "m", verify=True).index_ is not None
    assert artifact.read_manifest(tmp_path / "m")["format_version"] == 1
