"""The index of an artifact: its entry in the manifest, restoring it, and the warning if that fails.

An index only makes a model faster. So one that cannot be used does not invalidate the model: it is left out with a
warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix
from tastespace.errors import ArtifactError, InvalidParameterError, MissingExtraError
from tastespace.index import described, restored
from tastespace.index.trials import StoredIndex, Target, Trial
from tastespace.models import Recommender

SAMPLE = 1000  # number of item vectors in the fingerprint of a model
# Errors caused by an index with other content than was saved, of a newer version, or that needs a missing library.
BAD_INDEX = (ArithmeticError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def index_entry(stored: StoredIndex, recommender: Recommender) -> dict[str, Any]:
    """The entry in the manifest: everything but the arrays."""
    return {
        "description": described(stored.index),
        "vectors": _fingerprint(_item_vectors(recommender)),
        "chosen": stored.chosen.to_dict(),
        "target": stored.target.to_dict(),
        "curve": [trial.to_dict() for trial in stored.curve],
    }


def restored_index(
    entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], recommender: Recommender
) -> StoredIndex:
    """The saved index, after a test search; a mismatch raises one of BAD_INDEX."""
    vectors = _item_vectors(recommender)
    # Some structures keep no vectors, and would search those of any model. Older entries have no fingerprint.
    if "vectors" in entry and entry["vectors"] != _fingerprint(vectors):
        raise ValueError("the index is of other item vectors than the model's")
    stored = StoredIndex(
        index=restored(entry["description"], arrays, vectors),
        chosen=Trial.from_dict(entry["chosen"]),
        curve=tuple(Trial.from_dict(trial) for trial in entry["curve"]),
        target=Target.from_dict(entry["target"]),
    )
    _try_out(stored, vectors)
    return stored


def check_fits(stored: StoredIndex, recommender: Recommender) -> None:
    """Raise an error for an index that does not belong to the model."""
    try:
        _try_out(stored, _item_vectors(recommender))
    except ValueError as error:
        raise InvalidParameterError(f"the index does not fit the model: {error}; expected one tuned for it") from error


def complaint(path: object, error: BaseException) -> str:
    """The warning that a model is used without its index, with the reason and what to do."""
    again = f"run 'tastespace index {path}' again"
    if isinstance(error, MissingExtraError):
        what = str(error)
        reason = f"{what[:1].lower()}{what[1:]}, or {again} for one that needs none"
    elif isinstance(error, OSError) and not isinstance(error, ArtifactError) and error.errno is not None:
        reason = f"its file cannot be read ({error.strerror}); check the disk and who may read the folder, or {again}"
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        reason = f"this tastespace lacks {error.obj.__name__}.{error.name}; install it again, or {again}"
    else:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        reason = f"it is damaged, of another model or of a newer version ({what}); {again}"
    return f"{path} is used without its index, so that lists may take longer: {reason}"


def _fingerprint(vectors: FloatMatrix) -> dict[str, Any]:
    """The shape, and a digest of some rows: all of them may be gigabytes."""
    n_rows = min(SAMPLE, len(vectors))
    rows = np.arange(n_rows) * len(vectors) // max(n_rows, 1)
    some = np.ascontiguousarray(vectors[rows], "<f4")
    return {"shape": list(vectors.shape), "digest": blake2b(some.tobytes(), digest_size=16).hexdigest()}


def _try_out(stored: StoredIndex, vectors: FloatMatrix) -> None:
    """Search with the last item, so that a damaged index or one of other vectors raises an error now."""
    index = stored.index
    if (index.n_items_, index.n_dimensions_) != vectors.shape:
        raise ValueError(
            f"the index is of {index.n_items_} items in {index.n_dimensions_} dimensions, the model has "
            f"{vectors.shape[0]} in {vectors.shape[1]}"
        )
    query = vectors[-1:]
    found = index.search(query, 3)
    items = found.items[found.items >= 0]
    size = float(np.linalg.norm(query)) * float(np.abs(vectors[items]).max(initial=0.0))
    if not np.allclose(vectors[items] @ query[0], found.scores[found.items >= 0], rtol=1e-3, atol=1e-3 * size):
        raise ValueError("the index is of other item vectors than the model's")


def _item_vectors(recommender: Recommender) -> FloatMatrix:
    vectors = recommender.posterior_.item_vectors
    if vectors is None:
        raise ValueError(f"there is an index, and {type(recommender).__name__} has no item vectors")
    return vectors
