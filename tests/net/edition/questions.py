"""Everything that is asked of a fitted model."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from record import Record

import tastespace as ts

POLICIES = ("mean", "cautious:c=2", "curious", "likely", "thompson", "thompson:request=3")
FITTED = ("n_factors_", "regularisation_", "strength_", "rank_")
STRUCTURES: dict[str, dict[str, Any]] = {"inverted-file": {"n_cells": 5, "probes": 2}, "kmeans-tree": {}}


@dataclass(frozen=True)
class About:
    """Who and what the questions are about: users known and not, items, and what some have rated since."""

    users: list[Any]
    items: list[Any]
    low: float
    high: float
    threshold: float  # that a rating may reach; of choices a probability
    where: str

    @classmethod
    def of(cls, train: Any) -> About:
        low, high = float(train.values.min()), float(train.values.max())
        return cls(
            users=train.users.ids.to_list(),
            items=train.items.ids.to_list(),
            low=low,
            high=high,
            threshold=0.5 if train.kind in ("counts", "one-class") else high,
            where="genre = Drama and year >= 1980" if "genre" in train.item_attributes.columns else "genres = Drama",
        )

    @property
    def nobody(self) -> Any:
        return "nobody" if isinstance(self.users[0], str) else -7

    @property
    def some(self) -> list[Any]:
        return [self.users[0], self.users[7], self.users[3], self.nobody]

    @property
    def new(self) -> dict[Any, float]:
        """The history of somebody new."""
        chosen = {0: self.high, 3: self.low, 5: self.high, 11: self.high}
        return {self.items[place]: value for place, value in chosen.items()}

    @property
    def news(self) -> pl.DataFrame:
        """Ratings since of users known and not."""
        users, items, (low, high) = self.users, self.items, (self.low, self.high)
        rows = [
            (users[0], items[1], high),
            (users[0], items[2], low),
            (self.nobody, items[4], high),
            (self.nobody, items[6], high),
            (users[7], items[9], low),
        ]
        return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


def ask_everything(record: Record, model: Any, split: Any, *, evaluate: bool = True, index: bool = True) -> None:
    """Every kind of answer that a model gives."""
    about = About.of(split.train)
    ask_itself(record, model, about)
    ask_predictions(record, model, about)
    ask_lists(record, model, about)
    ask_why(record, model, about)
    if index:
        ask_by_index(record, model, about)
    if evaluate:
        record.answer("evaluate", lambda: ts.evaluate(model, split, bootstrap=40, seed=1).to_dict())
        record.answer("evaluate/groups", lambda: ts.evaluate(model, split, bootstrap=0, k=3).groups_to_polars())


def ask_itself(record: Record, model: Any, about: About) -> None:
    """What was learned beside the factors."""
    record.put("fitted/seed", model.seed_)
    for name in FITTED:
        if hasattr(type(model), name):
            record.answer(f"fitted/{name}", lambda name=name: getattr(model, name))
    for name in ("erratic_users", "divisive_items", "curves"):
        if hasattr(model, name):
            record.answer(f"fitted/{name}", lambda name=name: getattr(model, name)())
    if hasattr(model, "curves"):
        record.answer("fitted/curves of users", lambda: model.curves(about.some))


def ask_predictions(record: Record, model: Any, about: About) -> None:
    reached = (about.low + about.high) / 2
    nothing = "nothing" if isinstance(about.items[0], str) else -9
    pairs = [user for user in about.some for _ in range(6)], [*about.items[:5], nothing] * 4
    for name, asked, history in (
        ("pairs", pairs, None),
        ("history", pairs, about.news),
        ("new user", ([about.nobody] * 6, about.items[6:12]), about.news),
    ):
        given = record.answer(
            f"predict/{name}", lambda asked=asked, history=history: model.predict(*asked, history=history)
        )
        if given is not None and given.is_uncertain:
            record.answer(f"predict/{name}/quantiles", lambda given=given: given.quantiles(0.1, 0.5, 0.9))
            record.answer(f"predict/{name}/at least", lambda given=given: given.probability_at_least(reached))
            record.answer(f"predict/{name}/levels", given.level_probabilities)


def ask_lists(record: Record, model: Any, about: About) -> None:
    """Lists under every policy and filter, of known users and new ones."""

    def recommend(name: str, who: Any = about.some, n: int = 6, **options: Any) -> None:
        def asked() -> Any:
            given = model.recommend(who, n, **options)
            return given.to_polars(levels=True) if options.get("uncertainty", True) else given

        record.answer(f"recommend/{name}", asked)

    users, items = about.users, about.items
    for policy in (*POLICIES, f"likely:at_least={about.threshold}"):
        recommend(policy, policy=policy)
    recommend("many", users[:20], 12, uncertainty=False)
    recommend("where", where=about.where)
    recommend("only", only=items[5:25])
    recommend("only of each", [users[0], users[7]], only=about.news.select("user", "item"), include_seen=True)
    recommend("exclude", exclude=items[:20])
    recommend("exclude pairs", exclude=about.news.select("user", "item"))
    recommend("exclude none", exclude=None)
    recommend("include seen", include_seen=True)
    recommend("include seen, curious", include_seen=True, policy="curious")
    recommend("diversity", diversity=0.6)
    recommend("damping", popularity_damping=40)
    recommend("all at once", diversity=0.3, popularity_damping=20, where=about.where)
    recommend("all at once, cautious", diversity=0.3, popularity_damping=20, where=about.where, policy="cautious")
    recommend("new user", None, history=about.new)
    recommend("new user, cautious", None, history=about.new, policy="cautious")
    recommend("history of known users", [users[0], users[7], about.nobody], history=about.news)
    recommend("about", model.about([users[0], about.nobody], history=about.news, instead=True))
    record.answer(
        "scores", lambda: np.concatenate([block for _, block in model.scores(about.some, history=about.news)])
    )


def ask_why(record: Record, model: Any, about: About) -> None:
    """What is similar, what speaks for an item, what to ask next."""
    users, items, some, new, news, where = about.users, about.items, about.some, about.new, about.news, about.where
    record.answer("similar/items", lambda: model.similar_items(items[:4], 6))
    record.answer("similar/items where", lambda: model.similar_items(items[:2], 6, where=where, exclude=items[:20]))
    record.answer("similar/users", lambda: model.similar_users(some[:3], 6))
    record.answer("similar/users by history", lambda: model.similar_users(None, 6, history=new))
    record.answer("explain/known", lambda: model.explain(users[0], items[:4], n=1000))
    record.answer("explain/others", lambda: model.explain(users[7], items[:3], n=2).others)
    record.answer("explain/new", lambda: model.explain(None, items[12:15], history=new, n=1000))
    record.answer("explain/known with history", lambda: model.explain(users[0], items[:2], history=news, n=3))
    record.answer("ask/anybody", lambda: model.ask(n=4))
    record.answer("ask/some", lambda: model.ask(some, 4))
    record.answer("ask/history", lambda: model.ask(history=new, n=3, where=where))
    record.answer("ask/list", lambda: model.ask(some[:2], 3, goal="list", among=None))
    record.answer("ask/only", lambda: model.ask(some[:2], 3, only=items[5:25]))


def ask_by_index(record: Record, model: Any, about: About) -> None:
    """Lists found by structures that are built here over the items of the model."""
    vectors = getattr(model.posterior_, "item_vectors", None)
    vectors = vectors() if callable(vectors) else getattr(vectors, "vectors", vectors)
    if vectors is None:
        return
    for kind, settings in STRUCTURES.items():
        index = structure_of(kind)(**settings, seed=1, threads=1).build(vectors)
        for policy in ("mean", "cautious", "likely", "thompson"):
            record.answer(
                f"index/{kind}/{policy}",
                lambda index=index, policy=policy: model.recommend(about.some, 5, index=index, policy=policy),
            )
        record.answer(
            f"index/{kind}/history", lambda index=index: model.recommend(None, 5, history=about.new, index=index)
        )
        record.answer(
            f"index/{kind}/where", lambda index=index: model.recommend(about.some, 5, where=about.where, index=index)
        )


def structure_of(name: str) -> Any:
    """A class of the table of indexes, which may hold the class or where it is."""
    found = importlib.import_module("tastespace.index").INDEXES[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    return found
