"""What a data set is: what it holds, whose it is, where its files come from, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tastespace.data.ratings import Ratings
from tastespace.data.sources.obtaining import Archive, obtain
from tastespace.progress import Observer, silent


@dataclass(frozen=True)
class Source:
    """A data set that is known by name."""

    name: str
    description: str  # one line
    n_ratings: int  # sizes as published; items may include a few that nobody rated
    n_users: int
    n_items: int
    home: str  # the page that tells more
    terms: str  # what may be done with it, in a sentence
    read: Callable[[Path], Ratings]  # from the folder with its files
    archive: Archive | None = None  # none where a package carries the data

    def load(self, *, cache: Path | None = None, observer: Observer = silent) -> Ratings:
        """The ratings; the files are downloaded unless they are in the cache."""
        if self.archive is None:
            return self.read(Path())
        return self.read(obtain(self.name, self.archive, cache=cache, observer=observer))

    def __call__(self) -> Ratings:
        return self.load()
