"""Lists for all users: the same as one by one, for any number of threads, and resumable."""

from __future__ import annotations

import errno
import json
import warnings

import polars as pl
import pytest
from typer.testing import CliRunner

from tastespace import ALS, Ratings, load, save, storage
from tastespace.cli.main import app
from tastespace.errors import DataError, InvalidParameterError, TastespaceError, TastespaceWarning
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


def test_mistakes_are_said_before_anything_is_written(als, tmp_path):
    for wrong in ({"rules": ["at-most:k=1,of=colour"]}, {"only": ["nothing"]}, {"policy": "cautious"}):
        with pytest.raises(TastespaceError):
            als.recommend_all(3, out=tmp_path / "lists.parquet", **wrong)
        assert not list(tmp_path.iterdir())  # Parts of that run would be in the way of the next.


@pytest.mark.parametrize("form", [lambda table: table, pl.DataFrame.lazy, pl.DataFrame.to_pandas, Ratings.from_frame])
@pytest.mark.parametrize("name", ["exclude", "only", "shown"])
def test_of_tables_of_users_each_batch_gets_its_own_rows(als, monkeypatch, name, form):
    users, items = als.ratings_.users.ids, als.ratings_.items.ids
    rng = generator(3)
    pairs = {"user": users.gather(rng.integers(0, 40, 300)), "item": items.gather(rng.integers(0, 30, 300))}
    table = pl.DataFrame(pairs).unique(maintain_order=True)
    unknown = pl.DataFrame({"user": [10**6], "item": items[:1]}, schema=table.schema)
    given = form(pl.concat([table, unknown]).with_columns(rating=pl.lit(1.0)))
    options = {name: given, "include_seen": False} | ({"rules": ["not-shown"]} if name == "shown" else {})
    singly = als.recommend(users, 4, **options).to_polars()
    plain, sizes = ALS.recommend, []

    def recommend(self, user_ids, *args, **options):
        sizes.append((len(user_ids), len(options[name])))
        return plain(self, user_ids, *args, **options)

    if form is not pl.DataFrame.lazy:
        monkeypatch.setattr(ALS, "recommend", recommend)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = als.recommend_all(4, **options)
    assert found.select("user", "item").equals(singly.select("user", "item"))
    assert sum(rows for _, rows in sizes[1:]) in (0, len(table))  # The first is of one user, to find mistakes.
    if name == "shown":
        assert "of its table, 1 of 41 users are unknown to the model" in str(told[0].message)


def test_an_existing_file_is_refused(als, tmp_path):
    out = tmp_path / "lists.parquet"
    out.write_text("mine")
    with pytest.raises(InvalidParameterError, match="exists already"):
        als.recommend_all(3, out=out)
    assert out.read_text() == "mine"


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_without_ratings_users_are_known_by_their_factors_or_not_at_all(als, ratings, tmp_path):
    save(als, tmp_path / "als", with_ratings=False)
    with pytest.warns(TastespaceWarning, match="what users have rated is on their lists, too"):
        lists = load(tmp_path / "als").recommend_all(3)
    assert lists["item"].to_list() == als.recommend_all(3, include_seen=True)["item"].to_list()
    save(BPMF(n_factors=1, chains=1, warmup=5, draws=5, seed=1).fit(ratings), tmp_path / "bpmf", with_ratings=False)
    with pytest.raises(InvalidParameterError, match="BPMF was saved without its ratings.*expected a model saved with"):
        load(tmp_path / "bpmf").recommend_all(3, out=tmp_path / "lists.parquet")
    assert not list(tmp_path.glob("*.parts"))


def test_a_folder_that_is_not_there_is_said(als, tmp_path):
    with pytest.raises(DataError, match=r"No such file.*expected a folder") as told:
        als.recommend_all(3, out=tmp_path / "nowhere" / "lists.parquet")
    assert "finished parts" not in str(told.value)


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
