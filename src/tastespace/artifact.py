"""A fitted recommender on disk: a folder with a manifest, arrays and ids. No pickle, read through memory maps.

    manifest.json          what it is: format, class, parameters, data, sizes of the other files
    posterior.safetensors  what inference concluded
    ratings.safetensors    the training ratings by user (absent if saved without)
    users.parquet          the ids of the user rows
    items.parquet          the ids of the item rows, with titles and attributes
    index.safetensors      an index over the items (absent if there is none)

A folder is written beside its final place and moved there when it is whole, so that a crash leaves the old
artifact or none, never half of one. Formats of the past stay loadable (tests/artifacts).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tastespace import storage
from tastespace.data.csr import CSR
from tastespace.data.kinds import Kind, check_kind
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import ArtifactError, InvalidParameterError, TastespaceWarning, warn
from tastespace.index.trials import StoredIndex
from tastespace.models import MODELS, EmpiricalBayes, Recommender
from tastespace.models.base.update import TrainingSummary
from tastespace.stored_index import BAD_INDEX, check_fits, complaint, index_entry, restored_index
from tastespace.threads import instruction_set
from tastespace.version import __version__

FORMAT = "tastespace"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
INDEX = "index.safetensors"
FILES = ("posterior.safetensors", "ratings.safetensors", "users.parquet", "items.parquet", INDEX)
# How the safetensors format calls the types that we write.
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8}
# Not a property of the model but of the machine it was fitted on.
NOT_SAVED = ("threads",)
# How the binding of the kernels (nanobind) complains of arguments.
_KERNEL_REFUSES = "incompatible function arguments"
# What comes of files with other content than was saved; what else can be wrong then, `_fault` tells.
_BAD_CONTENT = (
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    OSError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)


def check_separable(recommender: Recommender) -> None:
    """Refuse to leave the ratings out of a model that answers from them: they would be in the folder all the same."""
    if recommender.is_its_ratings:
        raise InvalidParameterError(
            f"{type(recommender).__name__} answers from the training ratings and cannot be saved without them; "
            "expected another model where nobody may learn who rated what"
        )


def save(
    recommender: Recommender,
    path: str | Path,
    *,
    with_ratings: bool = True,
    measures: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Write a fitted recommender to a folder; one that is there already is replaced if it is an artifact.

    Without its ratings an artifact is smaller and tells nothing about its users' pasts, but can no longer leave
    out what they have seen. `measures` are kept in the manifest (such as ``{"holdout": {"rmse": 0.85}}``). An index
    that the recommender has (`index_`) is kept, too.
    """
    recommender.require_fitted()
    if MODELS.name_of(type(recommender)) is None:
        raise InvalidParameterError(
            f"{type(recommender).__name__} is not in the table of models; expected one of {', '.join(MODELS)}"
        )
    if not with_ratings:
        check_separable(recommender)
    path = Path(path).resolve()
    check_writable(path)
    ratings = recommender.ratings_
    with _writing(path) as folder:
        _write_arrays(folder / "posterior.safetensors", recommender.posterior_.arrays())
        if with_ratings and len(ratings):
            by_user = ratings.by_user
            _write_arrays(
                folder / "ratings.safetensors",
                {"offsets": by_user.offsets, "columns": by_user.columns, "values": by_user.values},
            )
        pl.DataFrame({"id": ratings.users.ids}).write_parquet(folder / "users.parquet")
        _items_frame(ratings).write_parquet(folder / "items.parquet")
        manifest = _manifest(recommender, measures or {})
        if recommender.index_ is not None:
            check_fits(recommender.index_, recommender)
            _write_index(folder, recommender.index_, recommender, manifest)
        _write_manifest(folder, manifest)


def save_index(path: str | Path, tuned: StoredIndex) -> None:
    """Keep an index beside a saved recommender, with why it was chosen; one that is there already is replaced.

    One that cannot be read is replaced as well. The artifact is put together anew beside its place, from the same
    files, and moved there when it is whole.
    """
    path = Path(path).resolve()
    manifest = read_manifest(path)
    check_writable(path)
    recommender = load(path, with_index=False)
    check_fits(tuned, recommender)
    with _writing(path) as folder:
        for name in manifest["files"]:
            if name != INDEX:
                storage.link(path / name, folder / name)
        _write_index(folder, tuned, recommender, manifest)
        _write_manifest(folder, manifest)


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    try:
        with storage.replace_folder(path) as folder:
            yield folder
    except OSError as error:
        raise ArtifactError(f"cannot write the artifact {path}: {error.strerror or error}") from error


def load(path: str | Path, *, with_index: bool = True) -> Recommender:
    """The recommender that was saved in this folder, and its index if there is one; arrays are mapped, not read.

    An index that is damaged, of another model, or that needs what is not installed is left out with a warning: without
    it the recommender answers, too. So is any `with_index=False`, without one.
    """
    path = Path(path)
    manifest = read_manifest(path)
    for name in manifest["files"]:
        fault = None if name == INDEX else _file_fault(path, name, manifest)
        if fault is not None:
            raise ArtifactError(f"{path}: {fault}; the artifact is damaged, fit or copy it again")
    if manifest["model"] not in MODELS:
        raise ArtifactError(
            f"{path}: the artifact holds a model {manifest['model']!r}; this version knows {', '.join(MODELS)}"
        )
    instruction_set()  # Says now if TASTESPACE_ISA asks for the impossible: that is no fault of the artifact.
    try:
        recommender = _restored(path, manifest)
    except ArtifactError:
        raise
    except _BAD_CONTENT as error:
        raise ArtifactError(f"{path}: {_fault(error, manifest)}") from error
    if with_index and "index" in manifest:
        recommender.index_ = _loaded_index(path, manifest, recommender)
    return recommender


def _file_fault(path: Path, name: str, manifest: Mapping[str, Any]) -> str | None:
    """Whether a file is not there as it was written."""
    expected = manifest["files"][name]
    if not (path / name).is_file():
        return f"the file {name} is missing"
    size = (path / name).stat().st_size
    return None if size == expected else f"{name} has {size} bytes; expected {expected}"


def _loaded_index(path: Path, manifest: Mapping[str, Any], recommender: Recommender) -> StoredIndex | None:
    """None where it is of no use, with a warning."""
    try:
        fault = _file_fault(path, INDEX, manifest)
        if fault is not None:
            raise ArtifactError(fault)
        return restored_index(manifest["index"], read_arrays(path / INDEX), recommender)
    except BAD_INDEX as error:
        warn(complaint(path, error), TastespaceWarning)
        return None


def _fault(error: BaseException, manifest: Mapping[str, Any]) -> str:
    """What is wrong and what to do: files that cannot be read, and kernels that are missing, are no damage."""
    builds = f"saved by tastespace {manifest.get('tastespace')}, this is {__version__}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"the artifact cannot be read ({error.strerror}); check the disk, and who may read the folder"
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return (
            f"this tastespace lacks {error.obj.__name__}.{error.name}, which the artifact needs ({builds}); it was not "
            "built or installed as a whole: install it again"
        )
    if isinstance(error, TypeError) and _KERNEL_REFUSES in str(error):
        kernel = str(error).partition("(")[0]
        return (
            f"the kernel {kernel} refuses what it is given ({builds}); kernels of another version are installed, or "
            "the artifact is damaged: install tastespace again, or fit or copy the artifact again"
        )
    return f"the artifact is damaged ({error}); fit or copy it again"


def _restored(path: Path, manifest: Mapping[str, Any]) -> Recommender:
    """What the files say, tried out."""
    model, data, seen = MODELS[manifest["model"]], manifest["data"], manifest.get("seen")
    known = {field.name for field in fields(model)}
    recommender = model(**{name: value for name, value in manifest["parameters"].items() if name in known})
    posterior = model.posterior_class.from_arrays(read_arrays(path / "posterior.safetensors"))
    # Older artifacts do not say: all was learned from what there is.
    seen = (
        TrainingSummary(data["n_ratings"], data["n_users"], data["n_items"])
        if seen is None
        else TrainingSummary.from_dict(seen)
    )
    rating_range = (float(data["minimum"]), float(data["maximum"]))
    recommender.restore(_read_ratings(path, data), posterior, manifest["seed"], rating_range, seen)
    _try_out(recommender)
    return recommender


def _try_out(recommender: Recommender) -> None:
    """Ask about the last user and the last item, and about all ratings of one: parts that do not fit say so now."""
    ratings = recommender.ratings_
    last_user, last_item = np.array([ratings.n_users - 1], np.int32), np.array([ratings.n_items - 1], np.int32)
    posterior = recommender.posterior_
    posterior.predict(posterior.known(last_user), np.zeros(1, np.int32), last_item, 1)
    by_user = ratings.by_user
    if len(by_user) != ratings.n_users or not int(by_user.offsets[-1]) == len(by_user.columns) == len(by_user.values):
        raise ValueError("the ratings do not fit the users")
    if len(by_user.columns) and not 0 <= by_user.columns.min() <= by_user.columns.max() < ratings.n_items:
        raise ValueError("the ratings do not fit the items")


def read_manifest(path: str | Path) -> dict[str, Any]:
    """What an artifact says about itself, checked to be one that this version can read."""
    path = Path(path)
    if not path.exists():
        raise ArtifactError(f"there is no artifact {path}; expected a folder that 'tastespace fit --out' has written")
    if not (path / MANIFEST).is_file():
        raise ArtifactError(f"{path} is not a tastespace artifact; expected a folder with a {MANIFEST}")
    try:
        manifest = json.loads((path / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: the {MANIFEST} cannot be read ({error}); fit or copy it again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not a tastespace artifact; its {MANIFEST} is of another program")
    version = manifest.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: the artifact has format version {version}; this tastespace reads up to {FORMAT_VERSION}. "
            "Upgrade it: pip install -U tastespace"
        )
    missing = {"model", "parameters", "seed", "data", "files"} - manifest.keys()
    if missing:
        raise ArtifactError(f"{path}: the {MANIFEST} lacks {', '.join(sorted(missing))}; fit or copy it again")
    kinds = {"model": str, "parameters": dict, "seed": int, "data": dict, "files": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(manifest[name], kind)]
    if wrong:
        raise ArtifactError(f"{path}: the {MANIFEST} has a strange {', '.join(wrong)}; fit or copy it again")
    return manifest


def check_writable(path: str | Path) -> None:
    """Refuse early, before hours of work, a place where an artifact cannot be put."""
    path = Path(path).resolve()
    if path.exists() and not _is_replaceable(path):
        raise ArtifactError(f"{path} exists and is not a tastespace artifact; expected a new name, or one to replace")
    if not path.parent.is_dir():
        raise ArtifactError(f"there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise ArtifactError(f"the folder {path.parent} cannot be written to; choose another, or change its permissions")


def _is_replaceable(path: Path) -> bool:
    """An empty folder, or one with an artifact and nothing else: what is there besides may be dear to somebody."""
    if not path.is_dir():
        return False
    there = {entry.name for entry in path.iterdir()}
    if not there:
        return True
    # A damaged artifact may be replaced as well; a manifest of another program does not speak of us.
    return MANIFEST in there and there <= {MANIFEST, *FILES} and FORMAT in (path / MANIFEST).read_text(errors="replace")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped and read-only."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ArtifactError(f"{path} is damaged; fit or copy the artifact again")
        header = json.loads(file.read(length))
    if size == 8 + length:
        data: NDArray[Any] = np.zeros(0, np.uint8)
    else:
        data = np.memmap(path, np.uint8, "r", offset=8 + length)
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, stop = entry["data_offsets"]
        if stop > len(data):
            raise ArtifactError(f"{path} is damaged; fit or copy the artifact again")
        arrays[name] = np.asarray(data[start:stop]).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    # The writer scrambles anything that is not C-ordered, without a word.
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    path.chmod(0o644)  # It also lets nobody else read the file, unlike those beside it.


def _write_index(folder: Path, stored: StoredIndex, recommender: Recommender, manifest: dict[str, Any]) -> None:
    """The arrays to a file, all else to the manifest."""
    _write_arrays(folder / INDEX, stored.index.arrays())
    manifest["index"] = index_entry(stored, recommender)


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """The last file, which has the sizes of the others; they come at its end."""
    files = {entry.name: entry.stat().st_size for entry in sorted(folder.iterdir())}
    content = {name: value for name, value in manifest.items() if name != "files"} | {"files": files}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2, default=_plain) + "\n")


def _items_frame(ratings: Ratings) -> pl.DataFrame:
    frame = pl.DataFrame({"id": ratings.items.ids})
    if ratings.item_titles is not None:
        frame = frame.with_columns(ratings.item_titles.alias("title"))
    if ratings.item_attributes is not None:
        frame = frame.hstack([column.alias(f"attribute:{column.name}") for column in ratings.item_attributes])
    return frame


def _read_ratings(path: Path, data: Mapping[str, Any]) -> Ratings:
    users = Vocabulary(pl.read_parquet(path / "users.parquet")["id"].alias("user"))
    items = pl.read_parquet(path / "items.parquet")
    attributes = [name for name in items.columns if name.startswith("attribute:")]
    by_user = CSR(np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    if (path / "ratings.safetensors").exists():
        by_user = CSR(**read_arrays(path / "ratings.safetensors"))
    ratings = Ratings(
        users=users,
        items=Vocabulary(items["id"].alias("item")),
        user_rows=by_user.rows(),
        item_rows=by_user.columns,
        values=by_user.values,
        item_titles=items["title"] if "title" in items.columns else None,
        item_attributes=items.select(pl.col(name).alias(name.removeprefix("attribute:")) for name in attributes)
        if attributes
        else None,
        declared_kind=_kept_kind(data, has_ratings=(path / "ratings.safetensors").exists()),
    )
    ratings.__dict__["by_user"] = by_user  # Already grouped: the map itself, not a copy of it.
    return ratings


def _kept_kind(data: Mapping[str, Any], *, has_ratings: bool) -> Kind | None:
    """What was declared; without the ratings, what was guessed as well. Older artifacts do not say."""
    kind = data.get("kind")
    if kind is None or (has_ratings and not data.get("kind_declared")):
        return None
    check_kind(kind)
    return kind  # type: ignore[no-any-return]


def _manifest(recommender: Recommender, measures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    ratings = recommender.ratings_
    low, high = recommender.rating_range_
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tastespace": __version__,
        "model": MODELS.name_of(type(recommender)),
        "class": type(recommender).__name__,
        "parameters": {key: value for key, value in recommender.get_params().items() if key not in NOT_SAVED},
        "seed": recommender.seed_,
        "data": {
            "fingerprint": ratings.fingerprint(),
            "n_ratings": len(ratings),
            "n_users": ratings.n_users,
            "n_items": ratings.n_items,
            "minimum": low,
            "maximum": high,
            "kind": ratings.kind,
            "kind_declared": ratings.declared_kind is not None,
        },
        "seen": recommender.seen_.to_dict(),
        "measures": measures,
    }


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers of numpy as Python's, settings as the text that says the same."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, EmpiricalBayes):
        return str(value)
    raise InvalidParameterError(f"a parameter is {value!r}; expected numbers, texts or None, which can be saved")
