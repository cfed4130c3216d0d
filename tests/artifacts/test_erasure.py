"""Users leave an artifact: nothing of them can be found in it, and all others are answered as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, artifact, load, save, storage
from tastespace.artifact.erasure import count_ratings, erase
from tastespace.data.ratings import Ratings
from tastespace.randomness import generator

HERE = Path(__file__).parent
FIXTURES = [path for path in sorted(HERE.glob("format-*/*")) if path.is_dir()]


def ids_of(path: Path) -> list:
    return pl.read_parquet(path / "users.parquet")["id"].to_list()


@pytest.mark.filterwarnings("ignore::tastespace.errors.DataWarning")  # of users without ratings
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_user_leaves_every_kind_of_artifact(fixture, tmp_path):
    path = Path(shutil.copytree(fixture, tmp_path / "model"))
    before, ids = load(path), ids_of(path)
    gone, other = ids[3], ids[1]
    had = count_ratings(path, str(gone))
    assert had == before.ratings_.by_user.counts[3]
    assert erase(path, [str(gone), "nobody"]) == 1
    assert count_ratings(path, str(gone)) is None
    after = load(path, verify=True)
    assert len(after.ratings_) == len(before.ratings_) - had
    if len(before.ratings_):
        assert artifact.verified(path)["data"]["n_ratings"] == len(after.ratings_)
    assert gone not in ids_of(path)
    assert [one for n, one in enumerate(ids_of(path)) if n != 3] == [one for one in ids if one != gone]
    assert after.predict([gone], [0]).cold.all()
    items = before.ratings_.items.ids.to_list()[:3]
    # Models that answer from the ratings of others do so without these.
    tolerance = {"atol": 2.0} if before.is_its_ratings or "blend" in fixture.name else {"rtol": 1e-5}
    assert_allclose(after.predict([other] * 3, items).mean, before.predict([other] * 3, items).mean, **tolerance)
    assert erase(path, [str(gone)]) == 0


@pytest.fixture
def named(tmp_path):
    rng = generator(2)
    users = [f"somebody-{n}@example.org" for n in rng.integers(0, 30, 300)]
    ratings = Ratings.from_arrays(
        users, rng.integers(0, 20, 300), rng.integers(1, 6, 300), rng.integers(10**9, 2 * 10**9, 300)
    )
    ratings = ratings.with_users(pl.DataFrame({"town": [f"town of {user}" for user in ratings.users.ids]}))
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(ratings), tmp_path / "model")
    return tmp_path / "model"


def texts_of(path: Path) -> str:
    return str(pl.read_parquet(path / "users.parquet").rows()) + (path / "manifest.json").read_text()


def test_nothing_of_them_is_left(named):
    gone = "somebody-7@example.org"
    assert texts_of(named).count(gone) == 2  # the id, and the attribute that tells who it is
    values = storage.read_arrays(named / "ratings.safetensors")
    row = ids_of(named).index(gone)
    times = np.array(values["times"][values["offsets"][row] : values["offsets"][row + 1]])
    assert erase(named, [gone]) == 1
    assert gone not in texts_of(named)
    after = storage.read_arrays(named / "ratings.safetensors")
    assert not np.isin(times, after["times"]).any()
    assert_array_equal(np.diff(after["offsets"]) == 0, np.arange(len(after["offsets"]) - 1) == row)
    factors = storage.read_arrays(named / "posterior.safetensors")["user_factors"]
    assert_allclose(factors[row], np.delete(factors, row, 0).mean(0), rtol=1e-5)


def test_the_same_erasure_makes_the_same_bytes_and_keeps_permissions(named, tmp_path):
    copies = [Path(shutil.copytree(named, tmp_path / name)) for name in ("one", "two")]
    for copy in copies:
        for file in copy.iterdir():
            file.chmod(0o444)
        copy.chmod(0o555)
        erase(copy, ["somebody-3@example.org", "somebody-9@example.org"])
        assert {file.stat().st_mode & 0o777 for file in copy.iterdir()} == {0o444}
        assert copy.stat().st_mode & 0o777 == 0o555
    one, two = ({file.name: file.read_bytes() for file in copy.iterdir()} for copy in copies)
    assert one == two
