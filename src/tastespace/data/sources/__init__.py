"""Data sets by name; one file each."""

from __future__ import annotations

from collections.abc import Callable

from tastespace.data.ratings import Ratings
from tastespace.data.sources.movielens_demo import movielens_demo

SOURCES: dict[str, Callable[[], Ratings]] = {
    "movielens-demo": movielens_demo,
}
