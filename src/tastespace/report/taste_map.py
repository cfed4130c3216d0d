"""Two-dimensional maps of items, by principal components or t-SNE, and the position of a user on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.models import Recommender
from tastespace.models.base.posterior import Belief, Pairs, People
from tastespace.models.base.query import Query
from tastespace.randomness import generator
from tastespace.report.model_story import common_values, plain
from tastespace.threads import one_thread

Method = Literal["pca", "tsne"]
METHODS: tuple[str, ...] = get_args(Method)
MAX_ITEMS = 10_000  # more cannot be distinguished on a screen
COORDINATES = 50  # number of principal components used by t-SNE
PERPLEXITY = 30.0
STEPS = 500  # of t-SNE
WELL_RATED = 20  # ratings without which the place of an item is mostly noise
ENOUGH = 200  # items; a small catalogue shows as many even if they have fewer ratings
MIN_ITEMS = 3  # two dimensions need a third point
DRAWS, BEST = 40, 20  # draws per user, and the number of items whose middle is their place
NEW_USERS = 200  # number of simulated new users that make the usual scores


@dataclass(frozen=True, eq=False)
class TasteMap:
    """A place for each item that is shown: the most rated ones, if there are many."""

    method: str
    item_rows: IntArray
    places: FloatMatrix  # one row per item shown, two columns; the farthest is at a distance of 1 from the middle
    usual: FloatArray  # scores of each item for an average user
    min_ratings: int  # items with fewer ratings are not shown
    explained: float | None = None  # share of the total variance that these two dimensions have


@dataclass(frozen=True, eq=False)
class UserPlace:
    """The place of a user on a map, with its uncertainty: the middle of what they like more than an average user."""

    middle: DoubleArray  # x and y
    draws: FloatMatrix | None  # the same for each posterior draw of the user; None for a model without uncertainty


def taste_map(recommender: Recommender, method: str = "pca", *, max_items: int = MAX_ITEMS) -> TasteMap:
    """The items of a model in two dimensions.

    "pca" keeps the two directions in which items differ most, so that distances mean something; "tsne" keeps neighbours
    together, so that groups show (van der Maaten and Hinton 2008), which takes a minute for 10,000 items. Both use
    the direction of an item's vector, not its quality. A model without a taste space raises an error.
    """
    if method not in METHODS:
        raise InvalidParameterError(f"the method is {method!r}; expected one of {', '.join(METHODS)}")
    recommender.require_fitted()
    posterior, ratings = recommender.posterior_, recommender.ratings_
    embeddings = posterior.embeddings
    if embeddings is None:
        raise InvalidParameterError(
            f"{type(recommender).__name__} has no taste space to draw a map of; expected a model with factors, such as "
            "BPMF"
        )
    counts = np.bincount(ratings.item_rows, minlength=ratings.n_items)
    min_ratings = min(WELL_RATED, int(np.sort(counts)[-min(ENOUGH, len(counts))])) if len(counts) else 0
    order = np.argsort(-counts, kind="stable")[:max_items]
    rows = np.sort(order[counts[order] >= min_ratings]).astype(np.int32)  # the most rated
    if len(rows) < MIN_ITEMS:
        raise InvalidParameterError(f"there are {len(rows)} items; expected at least {MIN_ITEMS} for a map")
    with one_thread():  # The same numbers on every machine, and leaves cores to a service.
        coordinates, explained = _principal(embeddings[rows])
        places = coordinates[:, :2] if method == "pca" else _neighbours_together(coordinates)
    usual = _scores(posterior.believe(People.without_ratings(), 1), rows, NEW_USERS, generator(0))
    return TasteMap(
        method, rows, _scaled(places), usual.mean(axis=0), min_ratings, explained if method == "pca" else None
    )


def user_place(shown: TasteMap, query: Query) -> UserPlace:
    """The place of the user of a query on a map.

    In each posterior draw, items are ordered by the score for the user less that for an average user;
    the place is the middle of the best. Items that they have rated count as well.
    """
    own = _scores(query.belief, shown.item_rows, DRAWS, query.rng_of("place")(0)) - shown.usual
    n = min(BEST, own.shape[1])
    best = np.argpartition(-own, n - 1, axis=1)[:, :n]
    middles = contiguous(shown.places[best].mean(axis=1), np.float32)
    return UserPlace(middles.mean(axis=0, dtype=np.float64), middles if len(middles) > 1 else None)


def _scores(belief: Belief, rows: IntArray, n: int, rng: np.random.Generator) -> FloatMatrix:
    """The scores of the items for the user of a belief, in each draw; one row for a model without uncertainty."""
    if belief.uncertainty is not None:
        return belief.uncertainty.draw_scores(0, n, rng, rows)
    return belief.mean(Pairs.of_one(0, rows))[np.newaxis]


def _principal(places: FloatMatrix) -> tuple[DoubleArray, float | None]:
    """The first principal components, and the share of variance of the first two; signs are always the same."""
    centred = places.astype(np.float64) - places.mean(axis=0, dtype=np.float64)
    if centred.shape[1] < 2:
        centred = np.hstack([centred, np.zeros((len(centred), 1))])
    variances, directions = np.linalg.eigh(centred.T @ centred)
    variances, directions = variances[::-1], directions[:, ::-1][:, :COORDINATES]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    total = float(variances.sum())
    return centred @ directions, float(variances[:2].sum()) / total if total > 0 else None


def _neighbours_together(coordinates: DoubleArray) -> DoubleArray:
    """t-SNE of the directions: items are similar where these are."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise MissingExtraError("a map by t-SNE", "plot") from error
    lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
    directions = coordinates / np.maximum(lengths, 1e-9 * max(float(lengths.max()), 1e-300))
    start = coordinates[:, :2] / max(float(coordinates[:, 0].std()), 1e-300) * 1e-4
    # Items without information are all at one point; a little noise keeps them apart.
    start = start + 1e-6 * generator(0).standard_normal(start.shape)
    near, start = min(PERPLEXITY, (len(coordinates) - 1) / 3), start.astype(np.float32)
    embedding = TSNE(2, perplexity=near, init=start, max_iter=STEPS, random_state=0, n_jobs=1)
    return np.asarray(embedding.fit_transform(contiguous(directions, np.float32)), np.float64)


def _scaled(places: DoubleArray) -> FloatMatrix:
    centred = places - places.mean(axis=0)
    farthest = float(np.linalg.norm(centred, axis=1).max())
    return contiguous(centred / farthest if farthest > 0 else centred, np.float32)


MAX_COLOURS = 60  # values of an attribute that can be selected


def map_content(recommender: Recommender, shown: TasteMap) -> dict[str, Any]:
    """One list per property, each with an entry for every item shown."""
    ratings, rows = recommender.ratings_, shown.item_rows
    counts = np.bincount(ratings.item_rows, minlength=ratings.n_items)
    return {
        "method": shown.method,
        "total": ratings.n_items,
        "min_ratings": shown.min_ratings,
        "explained": plain(shown.explained),
        "items": ratings.items.at(rows).cast(pl.String).to_list(),
        "titles": None if ratings.item_titles is None else ratings.title_of(rows).to_list(),
        "x": [round(float(x), 4) for x in shown.places[:, 0]],
        "y": [round(float(y), 4) for y in shown.places[:, 1]],
        "ratings": counts[rows].tolist(),
        "attributes": _attributes(ratings.item_attributes, rows),
    }


def place_content(place: UserPlace) -> dict[str, Any]:
    """The place of a user: the middle, and the places of the draws, if there are any."""
    draws = None if place.draws is None else [[round(float(x), 4), round(float(y), 4)] for x, y in place.draws]
    return {"middle": [round(float(place.middle[0]), 4), round(float(place.middle[1]), 4)], "draws": draws}


def _attributes(about: pl.DataFrame | None, rows: IntArray) -> dict[str, dict[str, Any]]:
    """Numbers as they are; texts as positions in a list of the most common ones, several where they are lists."""
    found: dict[str, dict[str, Any]] = {}
    for column in about if about is not None else ():
        own = column.gather(rows)
        if own.dtype.is_numeric():
            found[column.name] = {"numbers": plain(own)}
            continue
        is_list = isinstance(own.dtype, pl.List)
        texts = own.cast(pl.List(pl.String) if is_list else pl.String)
        values = common_values(texts, MAX_COLOURS)
        place = {value: position for position, value in enumerate(values)}
        lists = texts.to_list() if is_list else [[value] for value in texts.to_list()]
        found[column.name] = {
            "values": values,
            "of": [[place[value] for value in entry or () if value in place] for entry in lists],
        }
    return found
