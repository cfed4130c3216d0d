"""A content model: items with their features and an index over them; searched by words, by an image, or by an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.content.reductions import index_of, unit
from tastespace.data.vocabulary import Ids, Vocabulary
from tastespace.errors import InvalidParameterError, NotFittedError, UnknownIdError, named
from tastespace.index.index import Index
from tastespace.index.search import Excluded
from tastespace.parameters import check_int
from tastespace.progress import Observer, silent
from tastespace.tables import Tabular

EXCERPT = 300  # characters of a text that are kept to be shown
DIGITS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Matches(Tabular):
    """The items that fit one query best, best first; similarities are cosines."""

    query: str
    rows: IntArray
    items: pl.Series
    titles: pl.Series
    excerpts: pl.Series
    similarities: FloatMatrix
    remarks: tuple[str, ...] = ()

    def to_polars(self, *args: Any, **options: Any) -> pl.DataFrame:
        """One row per item."""
        own = {"item": self.items, "title": self.titles, "similarity": self.similarities, "excerpt": self.excerpts}
        return pl.DataFrame({"rank": np.arange(1, len(self) + 1, dtype=np.int64), **own})

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        entries = [
            {**row, "item": str(row["item"]), "similarity": round(row["similarity"], DIGITS)}
            for row in self.to_polars().to_dicts()
        ]
        return {"query": self.query, "items": entries, "remarks": list(self.remarks)}

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=10, tbl_hide_dataframe_shape=True, fmt_str_lengths=60):
            return f"Best matches of {self.query!r}\n{self.to_polars()}"


class ContentModel:
    """Items, the features of their texts or images, and an index that finds those most similar to a query.

    `features` is a `DocumentFeatures` or `ImageFeatures` that is not fitted yet. Items have the ids of what is read,
    best those of the ratings.
    """

    vectors_: FloatMatrix
    items_: Vocabulary
    taste_: dict[str, Any] | None = None  # the weights of words and taste, if they were learned

    def __init__(self, features: Any) -> None:
        self.features = features

    def fit(self, content: Any, *, observer: Observer = silent) -> Self:
        """Learn features from documents or images, and build the index."""
        given = getattr(content, "kind", None)
        if given != self.features.kind:
            raise InvalidParameterError(
                f"features of {self.features.kind} got {type(content).__name__}; expected what "
                f"{'read_documents' if self.features.kind == 'text' else 'read_images'} returns"
            )
        vectors = self.features.fit_transform(content.material, observer=observer)
        if not isinstance(vectors, np.ndarray):
            raise InvalidParameterError(
                f"vectors='words' gives {vectors.shape[1]:,} sparse columns, which no index takes; expected "
                "vectors='lsa' or 'word2vec', or a network"
            )
        return self.restore(
            Vocabulary(content.ids), content.titles, content.excerpts(EXCERPT), content.pictures(), vectors
        )

    def restore(
        self, items: Vocabulary, titles: pl.Series, excerpts: pl.Series, pictures: pl.Series, vectors: FloatMatrix
    ) -> Self:
        """Take items and their vectors; the index is built again, which takes less time than reading it would."""
        self.items_, self.titles_, self.excerpts_, self.pictures_ = items, titles, excerpts, pictures
        self.vectors_ = np.asarray(vectors, np.float32)
        self.index_: Index = index_of(self.vectors_)
        self.is_known_: BoolArray = np.any(self.vectors_, axis=1)
        return self

    def require_fitted(self) -> None:
        """Raise an error unless there is something to search."""
        if not hasattr(self, "vectors_"):
            raise NotFittedError("this content model was not fitted; call fit first, or load one")

    # Asking

    def search(self, query: Any, n: int = 10, *, exclude: Ids = (), name: str | None = None) -> Matches:
        """The items that fit a text or an image best."""
        self.require_fitted()
        vector = self.features.transform([query])[0]
        shown = name or (query if isinstance(query, str) else "an image")
        if not vector.any():
            remark = "no word of the query is in the texts that were learned from: nothing fits better than anything"
            return self._matches(shown, np.zeros(0, np.int32), np.zeros(0, np.float32), (remark,))
        return self.nearest(vector, n, shown, exclude=self.items_.rows_of(list(exclude)) if len(exclude) else None)

    def similar(self, item: Any, n: int = 10) -> Matches:
        """The items whose content is most similar to that of an item."""
        row = self.row_of(item)
        if not self.is_known_[row]:
            remark = "nothing is known of its content: its text has no word that counts"
            return self._matches(str(item), np.zeros(0, np.int32), np.zeros(0, np.float32), (remark,))
        return self.nearest(self.vectors_[row], n, str(item), exclude=np.array([row], np.int32))

    def nearest(self, vector: FloatMatrix, n: int, query: str, *, exclude: IntArray | None = None) -> Matches:
        """The items nearest to a vector."""
        check_int("n", n, least=1)
        excluded = None
        if exclude is not None:
            known = np.sort(exclude[exclude >= 0]).astype(np.int32)
            excluded = Excluded(np.array([0, len(known)], np.int64), known)
        allowed = None if self.is_known_.all() else self.is_known_
        found = self.index_.search(vector[None], min(n, len(self.items_)), excluded=excluded, allowed=allowed)
        is_there = found.items[0] >= 0
        return self._matches(query, found.items[0][is_there], found.scores[0][is_there])

    def row_of(self, item: Any) -> int:
        """The row of an item; an error for one that is not there."""
        self.require_fitted()
        row = int(self.items_.rows_of([item])[0])
        if row < 0:
            raise UnknownIdError(f"the content model knows no item {item!r}; it has {named(self.items_.ids)}")
        return row

    def similarities(self, query: Any) -> FloatMatrix:
        """The similarity of every item to a text or an image; 0 where nothing is known."""
        self.require_fitted()
        return np.asarray(self.vectors_ @ self.features.transform([query])[0], np.float32)

    def _matches(self, query: str, rows: IntArray, scores: FloatMatrix, remarks: tuple[str, ...] = ()) -> Matches:
        places = pl.Series(rows, dtype=pl.Int64)
        texts = self.titles_.gather(places), self.excerpts_.gather(places)
        return Matches(query, rows, self.items_.at(rows), *texts, np.minimum(scores, np.float32(1)), remarks)

    # Features of items, for `with_item_features` and `fit --item-features`

    def feature_frame(self, content: Any = None, *, observer: Observer = silent) -> pl.DataFrame:
        """A table with the id of each item and its vector; of other documents or images, if there are any.

        Vectors are those of the learned items, or of others through the same pipeline. Items of which nothing is known
        have no vector.
        """
        self.require_fitted()
        ids, vectors = self.items_.ids, self.vectors_
        if content is not None:
            ids, vectors = content.ids, self.features.transform(content.material, observer=observer)
        width = vectors.shape[1]
        column = pl.Series("content", unit(vectors), dtype=pl.Array(pl.Float32, width)).arr.to_list()
        empty = pl.Series(~np.any(vectors, axis=1))
        frame = pl.DataFrame({"item": ids, "content": column})
        return frame.with_columns(pl.when(empty).then(None).otherwise(pl.col("content")).alias("content"))
