"""Data sets by name; one file each, or one for several of the same layout, and the table of all, `SOURCES`.

Begin with `source.py`, what a data set is and how its archive is read, then `jester.py`. May import `data`,
`data/formats` and the foundation.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from tastespace.data.ratings import Ratings
from tastespace.data.sources.books import BOOK_CROSSING, GOODBOOKS
from tastespace.data.sources.jester import JESTER
from tastespace.data.sources.lastfm import LASTFM_360K
from tastespace.data.sources.movielens import MOVIELENS
from tastespace.data.sources.netflix_prize import NETFLIX
from tastespace.data.sources.source import Source
from tastespace.errors import InvalidParameterError
from tastespace.progress import Observer, silent

_ALL = (*MOVIELENS, JESTER, GOODBOOKS, BOOK_CROSSING, LASTFM_360K, NETFLIX)
SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


def suggestion(name: str) -> str:
    """A "did you mean" for a name that is close to a known data set; else nothing."""
    near = get_close_matches(name.lower(), SOURCES, n=1, cutoff=0.7)
    return f" (did you mean the data set {near[0]}?)" if near else ""


def source_of(name: str) -> Source:
    """The data set of this name."""
    if name not in SOURCES:
        known = ", ".join(SOURCES)
        raise InvalidParameterError(f"there is no data set {name!r}{suggestion(name)}; expected one of {known}")
    return SOURCES[name]


def dataset(name: str, *, cache: str | os.PathLike[str] | None = None, observer: Observer = silent) -> Ratings:
    """The ratings of a data set by its name, such as `ml-100k`; downloaded once, then taken from the cache.

    The cache is the folder given, or `$TASTESPACE_CACHE`, or the usual location of the platform.
    """
    return source_of(name).load(cache=None if cache is None else Path(cache), observer=observer)


def resolve(path_or_name: str | os.PathLike[str]) -> Source | None:
    """The data set with this name; None for a file or folder, or an unknown name."""
    name = os.fspath(path_or_name)
    return None if os.path.exists(name) else SOURCES.get(name)
