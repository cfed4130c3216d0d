"""The data sets of the cases: small, and drawn here so that neither edition has a hand in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import tastespace as ts


def stars_frame() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ratings and items, drawn here so that neither edition has a hand in them."""
    rng = np.random.default_rng(11)
    n_users, n_items, n_factors = 60, 50, 3
    users, items = rng.normal(0, 0.7, (n_users, n_factors)), rng.normal(0, 0.7, (n_items, n_factors))
    scores = 3.4 + rng.normal(0, 0.5, (n_users, 1)) + rng.normal(0, 0.6, n_items) + users @ items.T
    values = np.clip(np.round(scores + rng.normal(0, 0.6, scores.shape)), 1, 5)
    popularity = rng.uniform(0.08, 0.6, n_items)
    user_rows, item_rows = np.nonzero(rng.random(scores.shape) < popularity)
    order = rng.permutation(len(user_rows))
    user_rows, item_rows = user_rows[order], item_rows[order]
    frame = pl.DataFrame(
        {
            "user": [f"u{row}" for row in user_rows],
            "item": [f"i{row}" for row in item_rows],
            "rating": values[user_rows, item_rows],
            "time": 1_000_000_000 + rng.integers(0, 10**8, len(user_rows)),
        }
    )
    genres = ("Drama", "Comedy", "War")
    return frame, pl.DataFrame(
        {
            "item": [f"i{row}" for row in range(n_items)],
            "title": [f"Film {row} – é" for row in range(n_items)],
            "genre": [genres[row % 3] for row in range(n_items)],
            "year": [1970 + row for row in range(n_items)],
        }
    )


def with_items(ratings: Any, items: pl.DataFrame) -> Any:
    """Titles and attributes in the order of the item rows."""
    known = pl.DataFrame({"item": ratings.items.ids}).join(items, on="item", how="left", maintain_order="left")
    return ratings.with_items(known["title"], known.drop("item", "title"))


def stars() -> Any:
    frame, items = stars_frame()
    return with_items(ts.Ratings.from_frame(frame), items)


def of_values(change: Callable[[pl.DataFrame], pl.DataFrame], kind: str | None = None) -> Any:
    frame, items = stars_frame()
    return with_items(ts.Ratings.from_frame(change(frame), kind=kind), items)


def counts() -> Any:
    return of_values(
        lambda frame: frame.filter(pl.col("rating") > 2).with_columns((pl.col("rating") - 2) ** 2), kind="counts"
    )


def yes_no() -> Any:
    return of_values(lambda frame: frame.with_columns((pl.col("rating") >= 4).cast(pl.Float64).alias("rating")))


def one_class() -> Any:
    return of_values(lambda frame: frame.filter(pl.col("rating") >= 4).drop("rating"))


def demo() -> Any:
    """The most rated films of movielens-demo, and people who rated many of them."""
    whole = ts.dataset("movielens-demo")
    counted = np.bincount(whole.item_rows, minlength=whole.n_items)
    films = np.argsort(-counted, kind="stable")[:200]
    ours = np.isin(whole.item_rows, films)
    people = np.bincount(whole.user_rows[ours], minlength=whole.n_users)
    chosen = np.argsort(-people, kind="stable")[50:200]
    return whole.take(np.flatnonzero(ours & np.isin(whole.user_rows, chosen)))


def demo_counts() -> Any:
    """How often a film was liked, which is a power of two here."""
    cut = demo()
    liked = cut.take(np.flatnonzero(cut.values >= 3.5))
    frame = pl.DataFrame({"user": liked.user_ids(), "item": liked.item_ids(), "rating": 2 ** (liked.values * 2 - 7)})
    return ts.Ratings.from_frame(frame, kind="counts").with_items(liked.item_titles, liked.item_attributes)


DATA: dict[str, Callable[[], Any]] = {
    "stars": stars,
    "demo": demo,
    "counts": counts,
    "yes-no": yes_no,
    "one-class": one_class,
    "demo-counts": demo_counts,
}
_SPLITS: dict[str, Any] = {}


def split_of(name: str) -> Any:
    if name not in _SPLITS:
        _SPLITS[name] = ts.random_split(DATA[name](), 0.15, seed=3)
    return _SPLITS[name]


def new_ratings(ratings: Any) -> pl.DataFrame:
    """A known user rates more and one thing again, two new users come, and a new item."""
    users, items = ratings.users.ids.to_list(), ratings.items.ids.to_list()
    low, high = float(ratings.values.min()), float(ratings.values.max())
    rows = [
        (users[0], items[3], high),
        (users[0], items[8], low),
        (users[4], "new item", high),
        ("new user", items[0], high),
        ("new user", items[9], low),
        ("new user", "new item", high),
        ("another", items[2], low),
    ]
    return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


def table_of(ratings: Any) -> pl.DataFrame | None:
    return None if ratings is None else ratings.to_polars()
