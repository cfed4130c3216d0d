"""recommend, similar, explain and ask: filters from options and files, and what they print."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from cli.program import tastespace
from typer.testing import CliRunner

from tastespace import ALS, Joint, Popular, load, read, save
from tastespace.cli.main import app
from tastespace.errors import ConvergenceWarning
from tastespace.models import BPMF
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def as_json(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Fitted models whose items have titles, genres, years and prices: of points, of draws, and of counts."""
    folder = tmp_path_factory.mktemp("recommend")
    ratings = tastes(50, 40, density=0.2, rng=generator(4))[0]
    ratings.to_polars().write_csv(folder / "ratings.csv")
    rows = [f"{k},Film {k},{'Comedy|War' if k % 3 == 0 else 'Drama'},{1970 + k},{k / 4}" for k in range(40)]
    (folder / "items.csv").write_text("\n".join(["id,title,genres,year,price", *rows]) + "\n")
    described = read(folder / "ratings.csv", items=folder / "items.csv")
    save(ALS(n_factors=3, regularization=0.05, seed=0).fit(described), folder / "model")
    save(Popular(seed=0).fit(described), folder / "popular")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        save(BPMF(n_factors=3, warmup=5, draws=5, thin=1, seed=0).fit(described), folder / "bpmf")
        save(Joint(n_factors=3, warmup=5, draws=5, thin=1, seed=0).fit(described), folder / "joint")
    return folder


def listed(said, position=0):
    return [entry["item"] for entry in said["users"][position]["items"]]


def test_where(folder):
    said = as_json("recommend", folder / "model", "-u", 1, "-n", 40, "--where", "genre = comedy and price <= 5")
    everything = listed(as_json("recommend", folder / "model", "-u", 1, "-n", 40))
    assert listed(said) == [item for item in everything if item % 3 == 0 and item <= 20]


def test_a_condition_that_is_wrong_is_shown_with_a_mark(folder):
    result = run("recommend", folder / "model", "-u", 1, "--where", "genre = Comedy and yeer > 3")
    assert result.exit_code == 1
    first, text, mark = result.stderr.splitlines()
    assert first.startswith("error: the condition asks for 'yeer'")
    assert "did you mean year?" in first
    assert text == "  genre = Comedy and yeer > 3"
    assert mark == " " * 21 + "^"
    said = json.loads(run("recommend", folder / "model", "-u", 1, "--where", "yeer > 3", "--json").stdout)
    assert said["error"]["type"] == "InvalidParameterError"


def test_an_unknown_genre_is_a_warning(folder):
    """In the whole program, where warnings become lines."""
    result = tastespace("recommend", folder / "model", "-u", 1, "--where", "genre = Comdy")
    assert result.returncode == 0
    assert result.stderr == "warning: no item has the genres 'Comdy'; did you mean 'Comedy'?\n"
    assert "nothing left to recommend" in result.stdout


def test_lists_from_files(folder, tmp_path):
    best = listed(as_json("recommend", folder / "model", "-u", 1, "-n", 40))
    (tmp_path / "never.txt").write_text(f"{best[0]}\n{best[2]}\n")
    said = as_json("recommend", folder / "model", "-u", 1, "-n", 2, "--exclude-file", tmp_path / "never.txt")
    assert listed(said) == [best[1], best[3]]
    both = ("--exclude-file", tmp_path / "never.txt", "--exclude", best[1])
    assert listed(as_json("recommend", folder / "model", "-u", 1, "-n", 2, *both)) == best[3:5]
    (tmp_path / "tonight.csv").write_text(f"item,place\n{best[4]},x\n{best[1]},y\n")
    said = as_json("recommend", folder / "model", "-u", 1, "--only-file", tmp_path / "tonight.csv")
    assert listed(said) == [best[1], best[4]]


def test_seen_items_with_some_never_to_show(folder, tmp_path):
    asked = ("recommend", folder / "model", "-u", 1, "-n", 40, "--include-seen")
    everything = listed(as_json(*asked))
    assert sorted(everything) == list(range(40))
    assert listed(as_json(*asked, "--exclude", 3)) == [item for item in everything if item != 3]
    (tmp_path / "never.csv").write_text("user,item\n1,5\n2,6\n")
    said = as_json(*asked, "--exclude", 3, "--exclude-file", tmp_path / "never.csv")
    assert listed(said) == [item for item in everything if item not in (3, 5)]


def test_lists_for_each_user_from_files(folder, tmp_path):
    users = ("-u", 1, "-u", 2)
    plain = as_json("recommend", folder / "model", *users, "-n", 40)
    one, two = listed(plain, 0), listed(plain, 1)
    (tmp_path / "pairs.csv").write_text(f"user,item\n1,{one[0]}\n2,{two[1]}\n9,{one[1]}\n")
    said = as_json("recommend", folder / "model", *users, "-n", 40, "--exclude-file", tmp_path / "pairs.csv")
    assert listed(said, 0) == one[1:]
    assert listed(said, 1) == [two[0], *two[2:]]
    more = ("--exclude", one[3])
    said = as_json("recommend", folder / "model", *users, "-n", 40, "--exclude-file", tmp_path / "pairs.csv", *more)
    assert listed(said, 0) == [item for item in one if item not in (one[0], one[3])]
    assert listed(said, 1) == [item for item in two if item not in (two[1], one[3])]
    own = as_json("recommend", folder / "model", *users, "-u", 3, "--only-file", tmp_path / "pairs.csv")
    assert [listed(own, position) for position in range(3)] == [[one[0]], [two[1]], []]
    (tmp_path / "mine.csv").write_text("user,item,rating\nnew,1,5\n")
    (tmp_path / "new.csv").write_text("user,item\nnew,2\n")
    asked = ("--history", tmp_path / "mine.csv", "--exclude-file", tmp_path / "new.csv", "--exclude", 3, "-n", 40)
    assert set(listed(as_json("recommend", folder / "model", *asked))) == set(range(40)) - {1, 2, 3}


def test_diversity_and_damping(folder):
    model = load(folder / "model")
    plain = as_json("recommend", folder / "model", "-u", 1)
    diverse = as_json("recommend", folder / "model", "-u", 1, "--diversity", 0.8)
    assert listed(diverse) == model.recommend([1], diversity=0.8).of(0)["item"].to_list() != listed(plain)
    damped = as_json("recommend", folder / "model", "-u", 1, "--popularity-damping", 2)
    assert listed(damped) == model.recommend([1], popularity_damping=2).of(0)["item"].to_list() != listed(plain)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--only", 1, "--only-file", "x"], 2, "--only or --only-file"),
        (["--only-file", "nowhere.csv"], 1, "nowhere.csv: there is no such file"),
        (["--diversity", 2], 1, "diversity is 2.0; expected a number from 0 to 1"),
        (["--popularity-damping", -1], 1, "popularity_damping is -1.0"),
        (["--popularity-damping", 1e45], 1, "popularity_damping is 1e+45; expected a number from 0 to 1000"),
    ],
)
def test_options_that_make_no_sense(folder, options, code, message):
    result = run("recommend", folder / "model", "-u", 1, *options)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


# similar


def test_similar_items(folder):
    said = as_json("similar", folder / "model", "--item", 7, "-i", 8, "-n", 3, "--where", "year > 1980")
    expected = load(folder / "model").similar_items([7, 8], 3, where="year > 1980")
    assert [entry["item"] for entry in said["items"]] == [7, 8]
    assert (said["items"][0]["title"], said["items"][0]["cold"]) == ("Film 7", False)
    for position in range(2):
        similar = said["items"][position]["similar"]
        assert [entry["item"] for entry in similar] == expected.of(position)["item"].to_list()
        assert similar[0].keys() == {"item", "title", "similarity"}
        np.testing.assert_allclose(
            [entry["similarity"] for entry in similar], expected.similarities[position], atol=1e-5
        )
    shown = run("similar", folder / "model", "--item", 7, "-n", 3).stdout
    assert shown.startswith("Similar to item 7, Film 7\n")
    assert len(shown.splitlines()) == 5


def test_similar_users(folder, tmp_path):
    said = as_json("similar", folder / "model", "--user", 3, "--user", "nobody", "-n", 4)
    known, unknown = said["users"]
    assert (known["user"], known["cold"], len(known["similar"])) == (3, False, 4)
    assert known.keys() == {"user", "cold", "similar"}
    assert known["similar"][0].keys() == {"user", "similarity"}
    assert (unknown["cold"], unknown["similar"]) == (True, [])
    shown = run("similar", folder / "model", "--user", "nobody").stdout
    assert "Similar to user nobody (nothing to compare by)" in shown
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n2,1\n")
    assert as_json("similar", folder / "model", "--history", tmp_path / "mine.csv")["users"][0]["user"] == "you"


@pytest.mark.parametrize(
    ("model", "options", "code", "message"),
    [
        ("model", [], 2, "expected --item ID"),
        ("model", ["--item", 1, "--user", 1], 2, "expected --item ID"),
        ("model", ["--user", 1, "--where", "year > 3"], 2, "--where is about items"),
        ("model", ["--item", "nowhere"], 1, "knows no item 'nowhere'"),
        ("popular", ["--item", 1], 1, "how similar items are"),
        ("popular", ["--user", 1], 1, "how similar users are"),
    ],
)
def test_questions_about_similarity_that_make_no_sense(folder, model, options, code, message):
    result = run("similar", folder / model, *options)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())


# explain


def test_explain(folder):
    said = as_json("explain", folder / "model", "--user", 1, "--item", 7, "-i", 8, "-n", 2)
    expected = load(folder / "model").explain(1, [7, 8], n=2)
    assert (said["user"], said["cold"]) == (1, False)
    for position, entry in enumerate(said["items"]):
        assert entry.keys() == {"item", "title", "score", "base", "because", "others", "remainder"}
        assert [reason["item"] for reason in entry["because"]] == expected.of(position)["item"].to_list()
        assert entry["because"][0].keys() == {"item", "title", "rating", "contribution"}
        parts = sum(reason["contribution"] for reason in entry["because"]) + entry["others"] + entry["remainder"]
        assert abs(entry["base"] + parts - entry["score"]) < 1e-3
    shown = run("explain", folder / "model", "--user", 1, "--item", 7, "-n", 2).stdout
    assert shown.startswith("For user 1\nFilm 7 [7]: ")
    assert "other rating" in shown


def test_explain_to_a_new_user(folder, tmp_path):
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n2,1\n")
    said = as_json("explain", folder / "model", "--history", tmp_path / "mine.csv", "--item", 7)
    assert said["user"] == "you"
    assert sorted(reason["item"] for reason in said["items"][0]["because"]) == [1, 2]
    cold = as_json("explain", folder / "model", "--user", "nobody", "--item", 7)
    assert cold["cold"]
    assert (cold["items"][0]["because"], cold["items"][0]["score"]) == ([], cold["items"][0]["base"])
    assert "there are no ratings to explain by" in run("explain", folder / "model", "-u", "nobody", "-i", 7).stdout


def test_explanations_that_cannot_be_given(folder, tmp_path):
    assert run("explain", folder / "model", "--item", 7).exit_code == 2
    result = run("explain", folder / "model", "--user", 1, "--item", "nowhere")
    assert result.exit_code == 1
    assert "knows no item 'nowhere'" in result.stderr
    (tmp_path / "two.csv").write_text("user,item,rating\na,1,5\nb,2,1\n")
    result = run("explain", folder / "model", "--history", tmp_path / "two.csv", "--item", 7)
    assert result.exit_code == 1
    assert "a history of 2 users" in result.stderr


# ask


def test_a_new_user(folder):
    said = as_json("ask", folder / "bpmf")["users"]
    assert [entry["user"] for entry in said] == ["you"]
    assert said[0]["cold"] is True
    assert len(said[0]["items"]) == 5
    assert set(said[0]["items"][0]) == {"item", "title", "reduction", "sd"}
    assert said[0]["items"][0]["title"] == f"Film {said[0]['items'][0]['item']}"
    assert said[0]["sd"] > said[0]["items"][0]["sd"] > said[0]["items"][4]["sd"]


def test_what_a_person_sees(folder):
    said = as_json("ask", folder / "bpmf", "--n", 2)["users"][0]
    lines = run("ask", folder / "bpmf", "-n", 2).stdout.splitlines()
    assert lines[0] == "Ask user you (a new user, without ratings: these are the default questions)"
    assert lines[1].split() == ["title", "item", "reduction", "sd"]
    first = said["items"][0]
    assert lines[2].split() == ["1", *first["title"].split(), str(first["item"])] + [
        f"{first['reduction']:.1%}",
        f"{first['sd']:.3f}",
    ]
    last = said["items"][1]["sd"]
    assert lines[4] == f"the answers lower the uncertainty about the user from {said['sd']:.3f} to {last:.3f}"
    assert len(lines) == 5


def test_users_old_and_with_a_history(folder, tmp_path):
    said = as_json("ask", folder / "bpmf", "-u", 1, "-u", "nobody", "-n", 40)["users"]
    assert [entry["user"] for entry in said] == [1, "nobody"]
    assert [entry["cold"] for entry in said] == [False, True]
    assert len(said[0]["items"]) < 40
    first = said[1]["items"][0]["item"]
    (tmp_path / "history.csv").write_text(f"item,rating\n{first},4\n")
    then = as_json("ask", folder / "bpmf", "--history", tmp_path / "history.csv", "-n", 40)
    assert then["users"][0]["cold"] is False
    assert sorted([*listed(then), first]) == list(range(40))


def test_what_may_be_asked(folder):
    best = listed(as_json("ask", folder / "bpmf", "-n", 40))
    assert listed(as_json("ask", folder / "bpmf", "--only", best[8], "--only", best[9])) in (best[8:10], best[9:7:-1])
    assert best[0] not in listed(as_json("ask", folder / "bpmf", "--exclude", best[0], "-n", 40))
    comedies = listed(as_json("ask", folder / "bpmf", "--where", "genre = comedy", "-n", 40))
    assert sorted(comedies) == list(range(0, 40, 3))
    assert len(listed(as_json("ask", folder / "bpmf", "--among", 3, "-n", 40))) == 3
    assert listed(as_json("ask", folder / "bpmf", "--among", 0, "-n", 40)) == best
    everything = [option for item in range(40) for option in ("--exclude", item)]
    assert "nothing left to ask" in run("ask", folder / "bpmf", *everything).stdout


def test_the_goal(folder):
    ratings, best = as_json("ask", folder / "bpmf"), as_json("ask", folder / "bpmf", "--goal", "list")
    assert ratings["users"][0]["sd"] != best["users"][0]["sd"]
    assert run("ask", folder / "bpmf", "--goal", "money").exit_code == 2


def test_bad_input(folder):
    result = run("ask", folder / "model")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ALS provides no uncertainty")
    assert json.loads(run("ask", folder / "model", "--json").stdout)["error"]["type"] == "InvalidParameterError"
    assert "knows no item" in run("ask", folder / "bpmf", "--only", "nowhere").stderr
    assert run("ask", folder / "bpmf", "-n", 0).exit_code == 1


def test_what_counts_as_liked_is_said_for_each_user(folder):
    """Every user has a mean of their own, and a new one that of all ratings."""
    by_user = {entry["user"]: entry for entry in as_json("recommend", folder / "joint", "-u", 1, "-u", 2)["users"]}
    each = ", ".join(f"{by_user[user]['liked_from']:.2f} for {user}" for user in (1, 2))
    assert f"a rating of at least the user's own mean: {each}." in run_text(folder, 1, 2)
    assert f"at least {by_user[2]['liked_from']:.2f}, the user's own mean." in run_text(folder, 2)
    mean = load(folder / "joint").ratings_.mean
    assert f"at least {mean:.2f}, the mean of all ratings." in run_text(folder, 999)


def run_text(folder, *users):
    result = run("recommend", folder / "joint", *(part for user in users for part in ("-u", user)))
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_what_is_known_of_items_is_shown_beside_them(tmp_path):
    (tmp_path / "ratings.csv").write_text(
        "user,item,rating\n" + "".join(f"{u},{i},{1 + u % 4}\n" for u in range(6) for i in range(u, 8))
    )
    (tmp_path / "items.csv").write_text(
        "id,title,genre,rating\n" + "".join(f"{i},Film {i},A|B,{i}.5\n" for i in range(8))
    )
    fitted = tastespace(
        "fit", tmp_path / "ratings.csv", "--items", tmp_path / "items.csv", "--model", "bias", "--out", tmp_path / "m"
    )
    assert fitted.returncode == 0, fitted.stderr
    asked = ("recommend", tmp_path / "m", "--user", 5, "-n", 2, "--show", "genre", "--show", "rating")
    shown = tastespace(*asked)
    assert shown.stdout.splitlines()[1].split() == ["title", "item", "genres", "item", "rating", "score"]
    assert "A, B" in shown.stdout
    entry = json.loads(tastespace(*asked, "--json").stdout)["users"][0]["items"][0]
    assert entry["genres"] == ["A", "B"]
    assert entry["item rating"] == entry["item"] + 0.5
    wrong = tastespace("recommend", tmp_path / "m", "--user", 5, "--show", "gender")
    assert wrong.returncode == 1
    assert "--show got 'gender', which is not known of the items; expected genres" in wrong.stderr
