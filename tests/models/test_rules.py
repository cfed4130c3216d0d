"""Business rules: each does what it says, alone and with others, and refuses what makes no sense."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import tastespace as ts
from tastespace import Joint, artifact
from tastespace.cli.verbs.recommend import recommend as recommend_verb
from tastespace.errors import InvalidParameterError, UnknownIdError
from tastespace.models.base.rules import AtMost, Boost, Bury, MinRatings, NotShown, Pin, Rules, rules_of
from tastespace.models.baselines.baselines import Popular
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

N_ITEMS = 20


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """Item i has 25 - i ratings: first ten dramas, then five comedies, then five of war."""
    folder = tmp_path_factory.mktemp("rules")
    lines = [f"u{user},i{item},{1 + (user + item) % 5}" for item in range(N_ITEMS) for user in range(25 - item)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]))
    genres = ["Drama"] * 10 + ["Comedy"] * 5 + ["War"] * 5
    lines = [f"i{item},Title {item},{genre},{1990 + item}" for item, genre in enumerate(genres)]
    (folder / "items.csv").write_text("\n".join(["item,title,genre,year", *lines]))
    return ts.read(folder / "ratings.csv", items=folder / "items.csv")


@pytest.fixture(scope="module")
def model(ratings):
    return Popular().fit(ratings)


def listed(ranking, position=0):
    return [int(item[1:]) for item in ranking.of(position)["item"]]


def test_no_rules_change_nothing(model):
    plain, ruled = (model.recommend(["new", "u20"], 5, **some) for some in ({}, {"rules": []}))
    assert plain.to_polars().equals(ruled.to_polars())
    assert listed(plain) == [0, 1, 2, 3, 4]
    assert ruled.remarks == ()


def test_at_most(model):
    ranking = model.recommend(["new"], 6, rules=[AtMost(2, of="genre")])
    assert listed(ranking) == [0, 1, 10, 11, 15, 16]
    assert ranking.remarks == ("at-most:k=2,of=genre: left 11 items out of 1 of 1 list",)


def test_at_most_says_when_lists_are_short(model):
    ranking = model.recommend(["new"], 8, rules=["at-most:k=2,of=genre"])
    assert listed(ranking) == [0, 1, 10, 11, 15, 16]
    assert ranking.remarks[0].endswith("; 1 could not be filled")


def test_lists_that_cannot_be_filled_do_not_look_at_the_whole_catalogue(monkeypatch):
    """Nor if pins are more than a limit allows; items without a value are no reason to look further, either."""
    items, looked_at, choose = np.arange(2000), [], Rules.choose
    ratings = ts.Ratings.from_arrays(np.repeat(0, 2000), items, 1 + items % 5)
    genres = np.array(["a", "b", "c"])[ratings.items.ids.to_numpy() % 3]
    monkeypatch.setattr(
        Rules, "choose", lambda self, found, *rest: looked_at.append(found.shape[1]) or choose(self, found, *rest)
    )

    def lists(genres, rules, **options):
        looked_at.clear()
        model = Popular().fit(ratings.with_items(None, pl.DataFrame({"genre": genres})))
        return model.recommend(["new"], 10, rules=["at-most:k=1,of=genre", *rules], **options)

    ranking = lists(genres, [])
    assert sorted(genres[ranking.item_rows[0][:3]]) == ["a", "b", "c"]
    assert ranking.item_rows[0][3:].tolist() == [-1] * 7
    assert ranking.remarks[0].endswith("; 1 could not be filled")
    assert looked_at == [20, 80]
    first = ranking.item_rows[0][0]
    pins = [int(row) for row in np.flatnonzero(genres == genres[first])[[3, 4]]]
    pinned = lists(genres, [Pin(pins[0], 1), Pin(pins[1], 2)])
    assert pinned.item_rows[0].tolist() == [*pins, *ranking.item_rows[0][1:3], *[-1] * 6]
    assert looked_at == [20, 80]
    only = lists(genres, [], where="genre in (a, b)")
    assert np.count_nonzero(only.item_rows >= 0) == 2
    assert looked_at == [20, 80]
    some = lists([*genres[:-9], *[None] * 9], [])
    assert set(some.item_rows[0][-7:]) <= set(range(1991, 2000))
    assert looked_at[-1] == 2000


def test_at_most_of_numbers_and_of_each_of_several_values(ratings):
    genres = pl.Series("genres", [["A", "B"], ["b"], ["A"], ["C"], []] + [["D"]] * 15)
    table = ratings.item_attributes.with_columns(genres)
    model = Popular().fit(replace(ratings, item_attributes=table))
    assert listed(model.recommend(["new"], 4, rules=[AtMost(1, of="genre s")])) == [0, 3, 4, 5]
    assert listed(model.recommend(["new"], 4, rules=[AtMost(1, of="year")])) == [0, 1, 2, 3]


@pytest.mark.parametrize("strength", [0.3, 1, 2.5])
@pytest.mark.parametrize("kind", [Boost, Bury])
def test_boosts_move_by_the_spread_of_the_scores(model, strength, kind):
    scores = next(iter(model.scores(["new"])))[1][0]
    sign = 1 if kind is Boost else -1
    matching = np.arange(N_ITEMS) >= 10 if kind is Boost else np.arange(N_ITEMS) < 3
    where = "genre != Drama" if kind is Boost else "year < 1993"
    moved = scores + sign * strength * scores.std() * matching
    expected = np.lexsort((np.arange(N_ITEMS), -moved))[:5].tolist()
    ranking = model.recommend(["new"], 5, rules=[kind(where, strength)])
    assert listed(ranking) == expected
    assert ranking.scores[0].tolist() == scores[expected].tolist()  # those of the model
    n_moved = len(set(expected) - set(range(5)))
    assert ranking.remarks[0].startswith(f"{kind(where, strength)}: {'brought' if sign > 0 else 'took'} {n_moved} item")


def test_boosts_of_a_latent_model_and_with_policies_and_damping(ratings):
    model = ts.Joint(seed=1, n_factors=2, weight=1.0, regularization=10.0)
    model.warns = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so short a chain
        model.fit(ratings)
    every = model.recommend(["u20"], N_ITEMS, uncertainty=False, include_seen=True, index=None)
    order, scores = listed(every), every.scores[0].astype(np.float64)
    moved = scores + scores.std() * (np.array(order) >= 15)
    expected = [order[place] for place in np.lexsort((order, -moved))][:6]
    ranking = model.recommend(["u20"], 6, include_seen=True, rules=["boost:where=genre = War"])
    assert listed(ranking) == expected
    for options in ({"policy": "cautious"}, {"policy": "likely"}, {"popularity_damping": 1}, {"diversity": 0.5}):
        ranking = model.recommend(
            ["u20"], 4, include_seen=True, rules=["boost:where=genre=War,strength=900"], **options
        )
        assert min(listed(ranking)) >= 15, options


def test_not_shown(model):
    now = datetime.now(UTC).replace(tzinfo=None)
    ago = [timedelta(days=days) for days in (1, 9, 9, 1, 2, 3)]
    shown = pl.DataFrame(
        {
            "user": ["new", "new", "new", "new", "nobody", "u1"],
            "item": ["i0", "i0", "i1", "i2", "i3", "strange"],
            "time": [now - since for since in ago],
        }
    )  # i0 was shown last a day ago, although that is not the last line
    ranking = model.recommend(["new"], 3, rules=[NotShown()], shown=shown)
    assert listed(ranking) == [1, 3, 4]
    assert ranking.remarks == (
        "not-shown: left out 2 items for 1 of 1 user; of its table, 2 of 3 users and 1 of 5 items are unknown to the "
        "model",
    )
    assert listed(model.recommend(["new"], 3, rules=["not-shown:days=30"], shown=shown)) == [3, 4, 5]
    assert listed(model.recommend(["new"], 3, rules=[NotShown()], shown=shown.drop("time"))) == [3, 4, 5]
    assert listed(model.recommend(["new"], 3, rules=[NotShown()], shown=shown.clear())) == [0, 1, 2]
    assert listed(model.recommend(["new"], 3, rules=[NotShown()], shown=shown.to_pandas())) == [1, 3, 4]


def test_pins(model):
    ranking = model.recommend(["new", "u24"], 4, rules=[Pin("i7", 2), "pin:item=i0,place=4"])
    assert listed(ranking) == [1, 7, 2, 0]
    assert listed(ranking, 1) == [1, 7, 2, 3]  # has rated i0
    assert ranking.remarks == ("pin:item=i7,place=2: is in 2 of 2 lists", "pin:item=i0,place=4: is in 1 of 2 lists")
    plain = model.recommend(["new"], 20)
    assert ranking.scores[0][1] == plain.scores[0][7]


def test_minimum_support_is_a_filter(model):
    ranking = model.recommend(["u18"], 10, rules=[MinRatings(15)])
    same = model.recommend(["u18"], 10, where="ratings >= 15")
    assert listed(ranking) == listed(same) == [7, 8, 9, 10]
    assert ranking.remarks == ("min-ratings:n=15: left out 9 of 20 items",)


def test_rules_together(model):
    rules = [Pin("i12", 1), AtMost(1, of="genre"), Bury("item = i0", 5), MinRatings(11), NotShown()]
    shown = pl.DataFrame({"user": ["new"], "item": ["i1"]})
    ranking = model.recommend(["new"], 3, rules=rules, shown=shown, where="year < 2010")
    assert listed(ranking) == [12, 2]  # 12 is the one comedy, and those of war have too few ratings
    assert len(ranking.remarks) == len(rules)


@pytest.mark.parametrize(
    "rule",
    [
        AtMost(2, of="genre"),
        Boost('genre in ("Film, Noir", War) and year = 1990', 2),
        Bury("genre = Drama"),
        NotShown(),
        Pin("a, b"),
        Pin('the "best"', 3),
        MinRatings(20),
    ],
)
def test_rules_are_what_their_text_says(rule):
    assert rules_of(str(rule)) == (rule,)


def test_conditions_need_no_quotes():
    assert rules_of(["boost:where=genre in (War, Drama) and year >= 1990,strength=2"]) == (
        Boost("genre in (War, Drama) and year >= 1990", 2.0),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rules": ["at-most:k=2,of=colour"]},
            "'colour', which is not an attribute of the items; expected one of .*genre",
        ),
        ({"rules": ["at-most:k=0,of=genre"]}, "k is 0; expected a whole number of at least 1"),
        ({"rules": ["at-most:k=2"]}, "at-most lacks of"),
        ({"rules": ["at-most:k=2,for=genre"]}, "expected key=value, with a key among k, of"),
        ({"rules": ["at-least:k=2"]}, "rule is 'at-least:k=2'; expected one of 'at-most'"),
        ({"rules": 3}, "rules is of type int"),
        ({"rules": ["boost:where=colour = red"]}, "'colour', which is not an attribute"),
        ({"rules": ["boost:where=genre ="]}, "expected a value"),
        ({"rules": ["bury:where=genre = War,strength=-1"]}, "strength is -1.0"),
        ({"rules": ["not-shown"]}, "needs a table"),
        ({"rules": ["not-shown"], "shown": ["i1"]}, "shown is of type list"),
        ({"shown": pl.DataFrame({"user": ["u1"], "item": ["i1"]})}, "no rule uses the table"),
        ({"rules": ["pin:item=i1,place=9"]}, "place 9; expected one in lists of 5"),
        ({"rules": ["pin:item=i1", "pin:item=i2"]}, "another rule also pins"),
        ({"rules": ["pin:item=i1"], "exclude": ["i1"]}, "'i1' is pinned, but left out by exclude"),
        ({"rules": ["pin:item=i1"], "where": "genre = War"}, "'i1' is pinned, but left out"),
    ],
)
def test_what_makes_no_sense_is_refused(model, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        model.recommend(["new"], 5, **options)


def test_unknown_pins_and_models_without_attributes_are_refused(model):
    with pytest.raises(UnknownIdError, match="no item 'i99'"):
        model.recommend(["new"], rules=[Pin("i99")])
    bare = Popular().fit(ts.Ratings.from_arrays(["a", "b"], [1, 2], [3, 4]))
    with pytest.raises(InvalidParameterError, match="the model has no attributes of items"):
        bare.recommend(["a"], rules=["at-most:k=1,of=genre"])


def test_rules_on_the_command_line(model, tmp_path, capsys):
    artifact.save(model, tmp_path / "model")
    (tmp_path / "shown.csv").write_text(f"user,item,time\nu24,i1,{int(datetime.now(UTC).timestamp()) - 100}\n")
    rules = ["at-most:k=2,of=genre", "not-shown:days=2", "pin:item=i12,place=1"]
    options = {"model": tmp_path / "model", "user": ["u24"], "n": 4, "rule": rules, "shown": tmp_path / "shown.csv"}
    recommend_verb(**options, json=True)
    answer = json.loads(capsys.readouterr().out)
    assert [entry["item"] for entry in answer["users"][0]["items"]] == ["i12", "i2", "i3", "i10"]
    assert len(answer["remarks"]) == 3
    recommend_verb(**options)
    assert "pin:item=i12: is in 1 of 1 list" in capsys.readouterr().out


@pytest.mark.parametrize("damping", [0.0, 1.0])
@pytest.mark.parametrize("policy", ["best", "rating", "cautious", "curious", "likely", "thompson"])
def test_rules_without_effect_change_no_list(policy, damping):
    """However lists are found: by bounds, among candidates, or by looking at every item."""
    ratings = tastes(40, 400, density=0.1, rng=generator(2))[0]
    genres = pl.DataFrame({"genre": ["a" if item % 2 else "b" for item in ratings.items.ids]})
    ratings = ratings.with_items(None, genres)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Joint(n_factors=3, warmup=5, draws=10, chains=1, thin=1, weight=1.0, seed=0).fit(ratings)
        asked = {"policy": policy, "popularity_damping": damping}
        plain = model.recommend(ratings.users.ids, **asked)
        for rule in ("at-most:k=10,of=genre", *(("boost:where=genre = z",) if policy != "likely" else ())):
            ruled = model.recommend(ratings.users.ids, rules=[rule], **asked)
            assert_array_equal(ruled.item_rows, plain.item_rows)
