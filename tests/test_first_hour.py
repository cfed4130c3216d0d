"""The first hour of somebody new: files as they are, every verb once, and no step that needs a file to be edited.

Four layouts that people really have; the Python forms are in `test_interface.py`. It fails at a dead end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import generate
import httpx2 as httpx
import numpy as np
import polars as pl
import pytest
from cli.program import COMMAND, tastespace

import tastespace as ts

pytestmark = [
    pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::tastespace.errors.DataWarning"),
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("matplotlib", "fastapi", "optuna", "sklearn")), reason="needs `all`"
    ),
]
ANIME = Path(os.environ.get("TASTESPACE_DATA", "nowhere")) / "anime"
SHARDS = ["Action", "Comedy", "Drama", "Space"]
# Verbs that need a network, the whole embedded data set, or an assistant; they have tests of their own.
ELSEWHERE = {"demo", "data get", "mcp"}


def story(n_users=80, n_items=40, seed=0):
    """Who rated what, with two groups of people who like two halves of the items."""
    rng = np.random.default_rng(seed)
    rated = rng.random((n_users, n_items)) < 0.35 * rng.uniform(0.4, 1.6, n_items)
    users, items = np.nonzero(rated)
    liked = np.where((users % 2) == (items % 2), 7.5, 4.5) + rng.normal(0, 1.0, len(users))
    return users + 1, items + 1, np.clip(np.round(liked), 1, 10).astype(int)


def say(*arguments, code=0, **options):
    """Run the program; an error is a dead end."""
    ended = tastespace(*arguments, **options)
    assert ended.returncode == code, f"{' '.join(map(str, arguments))}\n{ended.stdout}\n{ended.stderr}"
    SAID.add(" ".join(map(str, arguments[:2])) if arguments[0] in generate.GROUPS else str(arguments[0]))
    return ended.stdout


SAID: set[str] = set()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Files as the four people have them."""
    folder = tmp_path_factory.mktemp("hour")
    users, items, stars = story()
    rows = list(zip(users.tolist(), items.tolist(), stars.tolist(), strict=True))
    about = [
        f"{n}\tShow {n}: Part 2\t{SHARDS[n % 2]}, {SHARDS[2 + n % 2]}\tTV\t{n}\t7.{n}\t{n * 100}\n"
        for n in range(1, 51)
    ]
    (folder / "anime_info.dat").write_text("anime_ids\tname\tgenre\ttype\tepisodes\trating\tmembers\n" + "".join(about))
    (folder / "anime_ratings.dat").write_text(
        "User_ID\tAnime_ID\tFeedback\n" + "".join(f"{user}\t{item}\t{star}\n" for user, item, star in rows)
    )
    (folder / "plays.txt").write_text(
        "User ID\tGame_ID\tHours\n" + "".join(f"{u}\t{i}\t{s * 3.5}\t\n" for u, i, s in rows)
    )
    (folder / "games.txt").write_text(
        "Game_ID\ttitle of game\tgame genre\n" + "".join(f"{n}\tGame {n}\t{SHARDS[n % 4]}\t\n" for n in range(1, 46))
    )
    (folder / "visits.csv").write_text(
        "user_id,article,accessed\n"
        + "".join(f"{user},a{item},2024-0{1 + star % 9}-1{item % 10}T10:00:00\n" for user, item, star in rows)
    )
    (folder / "more.csv").write_text("User_ID,Anime_ID,Feedback\n900,1,9\n900,3,8\n901,2,3\n")
    (folder / "mine.csv").write_text("item,rating\n1,9\n3,8\n4,2\n")
    return folder


def from_files_to_lists():
    """From anime as published to lists, a filter, a new user, a report and every other verb."""
    files = ["--items", "anime_info.dat"]
    described = say("data", "describe", "anime_ratings.dat", *files)
    assert "Anime_ID" in described
    assert "stars" in described
    say("data", "list")
    say("doctor")
    say("data", "split", "anime_ratings.dat", "--train", "train.csv", "--test", "test.csv", "--share", 0.2)
    how = ["--n-factors", 2, "--seed", 0]
    assert "saved to model" in say("fit", "train.csv", *files, "--out", "model", "--model", "joint", *how)
    evaluated = say("evaluate", "model", "test.csv", "--bootstrap", 50)
    for line in ("Predictions: RMSE", "For whom not: ", "Intervals: ", "Lists: NDCG", "Next: "):
        assert f"{line}" in evaluated[:900]
    listed = say("recommend", "model", "--user", 1, "--where", "genre = Action", "-n", 3, "--show", "genre")
    assert "Action, Drama" in listed or "Comedy, Space" in listed
    assert "Part 2" in listed
    assert "new user" in say("recommend", "model", "--user", "stranger")
    assert "Show" in say("recommend", "model", "--history", "mine.csv", "-n", 3)
    assert "Show" in say("ask", "model", "-n", 2)
    assert "Show" in say("similar", "model", "--item", "show 5: part 2")
    assert "similarity" in say("similar", "model", "--user", 2)
    assert "Show" in say("explain", "model", "--user", 1, "--item", "Show 4: Part 2")
    pl.DataFrame({"user": [1, 2], "item": [4, 5]}).write_csv("pairs.csv")
    assert "Show 4" in say("predict", "model", "pairs.csv")
    diagnosed = say("diagnose", "model")
    assert "What predictions need" in diagnosed
    assert "What hyper-parameters do" in diagnosed
    say("report", "model", "--out", "report.html", "--test", "test.csv")
    assert Path("report.html").stat().st_size > 10_000
    assert "Fingerprint" in Path(say("card", "model", "--test", "test.csv").split()[2]).read_text()
    say("update", "model", "more.csv", "--out", "newer")
    compared = say(
        "compare", "anime_ratings.dat", "--models", "als,joint", "--n-factors", 2, "--bootstrap", 20, "--by", "random"
    )
    assert "best for ratings:" in compared
    assert "best for lists:" in compared
    say("tune", "train.csv", "--model", "als", "--trials", 2, "--rungs", 1, "--set", "n_factors=2")
    say("select-rank", "train.csv", "--methods", "grid", "--ranks", "1,2")
    say("fit", "train.csv", "--out", "noisy", "--model", "bpmf", "--set", "likelihood=heteroscedastic", *how)
    say("noise", "noisy")
    say("index", "noisy", "--seconds", 0.3, "--structures", "inverted-file")
    say("fit", "train.csv", "--out", "curved", "--model", "monotone", *how)
    say("curves", "curved")
    say("fit", "train.csv", *files, "--item-features", "genres", "--out", "known", "--model", "bpmf", *how)
    say("features", "show", "known")
    say("features", "fit", "train.csv", "--out", "learned.parquet", "--n-features", 2, "--epochs", 2)
    say("content", "fit", "anime_info.dat", "--out", "texts", "--text-column", "genre", "--id-column", "anime_ids")
    say("content", "search", "texts", "comedy")
    say("content", "features", "texts", "--out", "features.parquet")


def a_service_and_what_follows(here):
    """The same model is served, rated with, fitted again, and forgets."""
    command = [*COMMAND, "serve", "model", "--port", "0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = re.findall(r"http://\S+/v1", process.stdout.readline())[0]
            for _ in range(600):
                try:
                    if httpx.get(f"{url}/ready", timeout=10).status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.1)
            assert httpx.put(f"{url}/users/77777/ratings/3", json={"rating": 9}, timeout=30).status_code < 300
            answer = httpx.get(f"{url}/users/77777/recommendations", params={"n": 3}, timeout=30).json()
            assert answer["items"][0]["title"].startswith("Show")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    SAID.add("serve")
    database = f"sqlite:///{here / 'model-state' / 'ratings.db'}"
    assert json.loads(say("export", "model", "77777"))
    again = say("retrain", "model", "--db", database, "--out", "model")
    assert "too few to compare" in again
    say("challenger", "model", "--share", 0.5)
    say("challenger", "model", "--drop")
    assert "77777" not in say("forget", "model", "77777")


def test_every_verb_once(here, monkeypatch):
    """With titles, tabs and lists as they come; a new verb has to be added to the hour."""
    monkeypatch.chdir(here)
    from_files_to_lists()
    a_service_and_what_follows(here)
    assert set(generate.commands()) - SAID <= ELSEWHERE


@pytest.mark.parametrize("layout", ["games", "visits", "frame"])
def test_other_layouts_from_a_file_to_a_list(here, layout, monkeypatch):
    monkeypatch.chdir(here)
    if layout == "games":
        say("fit", "plays.txt", "--items", "games.txt", "--kind", "counts", "--out", "games", "--model", "implicit-als")
        assert "Game" in say("recommend", "games", "--user", 1, "--where", '"game genre" = Comedy')
    elif layout == "visits":
        assert "one-class" in say("data", "describe", "visits.csv")
        say("fit", "visits.csv", "--out", "visits", "--model", "ease", "--holdout", 0.1)
        assert "a1" in say("recommend", "visits", "--user", 1)
    else:
        users, items, stars = story()
        rated = pl.DataFrame({"user": users, "item": items, "rating": stars})
        shelf = pl.DataFrame({"movie_ids": range(1, 51), "name": [f"Film {n}" for n in range(1, 51)]})
        model = ts.ALS(n_factors=2, regularization=0.1, seed=0).fit(ts.read(rated, items=shelf))
        assert model.ratings_.n_items == 50
        assert model.recommend(1, n=5)[1]["title"][0].startswith("Film")


@pytest.mark.slow
@pytest.mark.skipif(not ANIME.is_dir(), reason="needs TASTESPACE_DATA")
def test_anime_as_it_was_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say(
        "fit",
        ANIME / "anime_ratings.dat",
        "--items",
        ANIME / "anime_info.dat",
        "--out",
        "anime",
        "--holdout",
        0.1,
        "--model",
        "als",
        "--n-factors",
        8,
    )
    assert "Fullmetal" in say("similar", "anime", "--item", "Fullmetal Alchemist: Brotherhood", "-n", 10)
    assert "genre" not in say(
        "recommend", "anime", "--user", 1, "--where", "genre = Comedy and members >= 100000", "-n", 5
    )
