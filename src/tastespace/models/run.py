"""What makes a run the one that it is: parameters, seed and ratings, by name. Another one has other checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tastespace.data.ratings import Ratings
from tastespace.instructions import instruction_set
from tastespace.version import __version__

NOT_PART_OF_IT = ("seed", "threads")  # the number of threads changes nothing; the seed is told as it was resolved


def run_of(
    name: str, parameters: Mapping[str, Any], seed: int, observed: Ratings, held_out: Ratings | None
) -> dict[str, Any]:
    """As JSON has it. Held-out ratings are part of it: what is watched of them ends up in the model's trace."""
    return {
        "tastespace": __version__,
        "instruction set": instruction_set(),  # Others round differently: the bytes would not be the same.
        "model": name,
        **{key: _plain(value) for key, value in parameters.items() if key not in NOT_PART_OF_IT},
        "seed": seed,
        "ratings": described(observed),
        "held-out ratings": None if held_out is None else described(held_out),
    }


def described(ratings: Ratings) -> str:
    """Their number, and a digest of who rated what and how, in this order: rows are numbered by it.

    (The fingerprint of ratings is the same for any order, and is of no use here.)
    """
    digest = hashlib.sha256()
    for vocabulary in (ratings.users, ratings.items):
        ids = vocabulary.ids
        digest.update(f"{ids.dtype} {len(ids)}\n".encode())
        texts = ids.cast(pl.String)
        lengths = texts.str.len_bytes().to_numpy()  # They keep ids apart whatever these contain.
        digest.update(np.ascontiguousarray(lengths, np.int64).tobytes())
        digest.update(texts.str.join("").item().encode())
    for array in (ratings.user_rows, ratings.item_rows, ratings.values):
        digest.update(np.ascontiguousarray(array).data)
    sizes = f"{len(ratings):,} by {ratings.n_users:,} users of {ratings.n_items:,} items"
    return f"{sizes}, {digest.hexdigest()[:16]}"


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers of numpy are the same run as Python's, and a tuple as a list."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
