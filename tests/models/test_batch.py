"""Lists for all users: the same as one by one, for any number of threads, and resumable."""

from __future__ import annotations

import errno
import json

import polars as pl
import pytest
from typer.testing import CliRunner

from tastespace import ALS, Ratings, save, storage
from tastespace.cli.main import app
from tastespace.errors import DataError, InvalidParameterError
from tastespace.models import BPMF, Joint
from tastespace.models.base import batch
from tastespace.models.factorization.gibbs import posterior
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(batch, "BATCH", 7)


@pytest.fixture(scope="module")
def ratings():
    return tastes(40, 30, rng=generator(1))[0]


@pytest.fixture(scope="module")
def als(ratings):
    return ALS(n_factors=3, seed=1).fit(ratings)


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_the_lists_are_those_of_recommend_for_any_number_of_threads(ratings, tmp_path):
    model = BPMF(n_factors=3, chains=1, warmup=5, draws=5, seed=1).fit(ratings)
    options = {"policy": "cautious", "diversity": 0.2, "exclude": [ratings.items.ids[0]]}
    singly = pl.concat([model.recommend([user], 4, **options).to_polars() for user in ratings.users.ids])
    one, more = (model.set_params(threads=count).recommend_all(4, **options) for count in (1, 3))
    assert one.equals(more)
    assert one.drop("score").select("user", "rank", "item").equals(singly.select("user", "rank", "item"))
    assert model.recommend_all(4, out=tmp_path / "lists.parquet", **options) is None
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(one)
    assert [file.name for file in tmp_path.iterdir()] == ["lists.parquet"]


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", [BPMF, Joint])
def test_users_are_looked_at_some_at_a_time(ratings, monkeypatch, kind):
    """As many as there is room for what is believed of them, which changes no list."""
    model = kind(n_factors=3, chains=1, warmup=5, draws=20, seed=1).fit(ratings)
    everybody = model.recommend(ratings.users.ids, 4)
    assert model.posterior_.people_at_once > 100
    whole = model.recommend_all(4)
    monkeypatch.setattr(posterior, "BLOCK_BYTES", 3 * 4 * 20 * 4 * 5)
    assert model.posterior_.people_at_once == 3
    assert model.recommend_all(4).equals(whole)
    for ranking in (everybody, model.recommend(ratings.users.ids, 4)):
        assert ranking.to_polars().equals(whole)


def interrupted(model, out, after=2, **options):
    """Stop a run when some batches are done, as Ctrl-C would."""

    def stop(progress):
        if progress.step >= 7 * after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(threads=1).recommend_all(3, out=out, observer=stop, **options)


def test_an_interrupted_run_continues_with_what_is_missing(als, tmp_path):
    out = tmp_path / "lists.parquet"
    interrupted(als, out)
    there = {file: file.stat().st_mtime_ns for file in (tmp_path / "lists.parquet.parts").glob("*.parquet")}
    assert 2 <= len(there) < 6
    assert not out.exists()
    steps = []
    als.recommend_all(3, out=out, observer=lambda progress: steps.append(progress.step))
    assert steps[0] == 7 * len(there)
    assert steps[-1] == als.ratings_.n_users
    assert pl.read_parquet(out).equals(als.recommend_all(3))


@pytest.mark.parametrize("is_resumed", [False, True])
def test_what_rules_did_to_all_lists_is_said_also_after_an_interruption(als, tmp_path, is_resumed):
    rules, out = ["min-ratings:n=2", f"pin:item={als.ratings_.items.ids[3]},place=2"], tmp_path / "lists.parquet"
    said = als.recommend(als.ratings_.users.ids, 3, rules=rules).remarks
    assert [remark.partition(":")[0] for remark in said] == ["min-ratings", "pin"]
    if is_resumed:
        interrupted(als, out, rules=rules)
    for where in (out, None):
        with pytest.warns() as warned:
            als.recommend_all(3, out=where, rules=rules)
        assert tuple(str(each.message) for each in warned) == said


def test_parts_of_another_model_or_of_other_settings_are_refused_and_kept(als, ratings, tmp_path):
    out = tmp_path / "lists.parquet"
    interrupted(als, out)
    before = sorted(out.with_name("lists.parquet.parts").iterdir())
    with pytest.raises(InvalidParameterError, match=r"another run \(model differ\)"):
        ALS(n_factors=3, seed=2).fit(ratings).recommend_all(3, out=out)
    with pytest.raises(InvalidParameterError, match=r"\(exclude, n differ\)"):
        als.recommend_all(4, out=out, exclude=[ratings.items.ids[1]])
    assert sorted(out.with_name("lists.parquet.parts").iterdir()) == before


def test_an_existing_file_is_refused(als, tmp_path):
    out = tmp_path / "lists.parquet"
    out.write_text("mine")
    with pytest.raises(InvalidParameterError, match="exists already"):
        als.recommend_all(3, out=out)
    assert out.read_text() == "mine"


def test_a_full_disk_is_said_and_what_is_finished_is_kept(als, tmp_path, monkeypatch):
    out, usual, n_written = tmp_path / "lists.parquet", storage.replace_file, []

    def full(path):
        n_written.append(path)
        if len(n_written) > 7:  # the settings, and two files of each of three parts
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(path)

    als.set_params(threads=1)
    monkeypatch.setattr(storage, "replace_file", full)
    with pytest.raises(DataError, match=r"No space left.*stay in .*run the same again"):
        als.recommend_all(3, out=out)
    monkeypatch.setattr(storage, "replace_file", usual)
    assert len(list(tmp_path.glob("lists.parquet.parts/*.parquet"))) == 3
    als.recommend_all(3, out=out)
    assert pl.read_parquet(out).equals(als.recommend_all(3))


@pytest.mark.parametrize(
    "table", [{"user": [1], "item": [1]}, {"user": [1, 1], "item": [1, 2]}, {"user": [1, 2], "item": [1, 1]}]
)
def test_one_user_or_one_item_with_equal_ratings(table, tmp_path):
    model = ALS(n_factors=1, seed=1).fit(
        Ratings.from_frame(pl.DataFrame(table | {"rating": [3.0] * len(table["user"])}))
    )
    model.recommend_all(2, out=tmp_path / "lists.parquet")
    assert not pl.read_parquet(tmp_path / "lists.parquet").height  # Everything was seen.
    assert model.recommend_all(2, include_seen=True).height == len(table["user"])


def test_the_command_line(als, tmp_path):
    save(als, tmp_path / "model")
    command = ["recommend", str(tmp_path / "model"), "--all-users", "-n", "3", "--json"]
    missing = CliRunner().invoke(app, command)
    assert missing.exit_code == 2
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "lists.parquet")])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    found = pl.read_parquet(content["out"])
    assert (content["n_users"], content["n_entries"]) == (als.ratings_.n_users, found.height)
    assert found.equals(als.recommend_all(3))
