"""A fitted recommender on disk: a folder with a manifest, arrays and ids. No pickle, read through memory maps.

    manifest.json          what it is: format, model, parameters, data, sizes and checksums of the other files
    posterior.safetensors  what inference concluded; `posterior-NAME.safetensors` for each named part of it
    ratings.safetensors    the training ratings by user, with times (absent if saved without)
    users.parquet          the ids of the user rows, with attributes
    items.parquet          the ids of the item rows, with titles and attributes
    index.safetensors      an index over the items (absent if there is none)
    item-encoding.parquet  how features are encoded, and more files of features (see `features.py`)

A folder is written beside its final location and moved there when it is complete. Checksums and values are verified
once on each computer. A model is one of the table of models, or of the classes that the caller passes: nothing that an
artifact names is ever imported. Earlier formats stay loadable (tests/artifacts).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import storage
from tastespace.artifact.features import FILES, read_features, write_features
from tastespace.artifact.index import BAD_INDEX, check_fits, complaint, index_entry, restored_index
from tastespace.data.csr import CSR
from tastespace.data.formats.content import scan_parquet
from tastespace.data.kinds import Kind, check_kind
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import ArtifactError, InvalidParameterError, TastespaceWarning, warn
from tastespace.index.trials import StoredIndex
from tastespace.manifests import (
    BAD_CONTENT,
    INDEX,
    MANIFEST,
    MAX_MANIFEST,
    check_manifest,
    fault_of,
    file_faults,
    write_manifest,
    writing,
)
from tastespace.models import MODELS, Recommender
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.base.update import TrainingSummary
from tastespace.settings import translated
from tastespace.threads import instruction_set
from tastespace.version import __version__

FORMAT = "tastespace"
FORMAT_VERSION = 2
POSTERIOR, RATINGS = "posterior.safetensors", "ratings.safetensors"
USERS, ITEMS = "users.parquet", "items.parquet"
MAIN_PART = "posterior"  # the name of the unnamed part
# Not a property of the model but of the machine it was fitted on.
NOT_SAVED = ("threads",)
ATTRIBUTE = "attribute:"  # prefix of the columns that are attributes
_FILE = re.compile(
    r"posterior(-\w+)?\.safetensors|(ratings|index)\.safetensors|(users|items)\.parquet|" + FILES, re.ASCII
)

Arrays = Mapping[str, NDArray[Any]]
Models = Sequence[type[Recommender]]


def check_separable(recommender: Recommender) -> None:
    """Raise an error for a model that cannot be saved without its ratings, because it answers from them."""
    if recommender.is_its_ratings:
        raise InvalidParameterError(
            f"{type(recommender).__name__} answers from the training ratings and cannot be saved without them; "
            "use another model if ratings must stay private"
        )


def save(
    recommender: Recommender,
    path: str | Path,
    *,
    with_ratings: bool = True,
    measures: Mapping[str, Mapping[str, float]] | None = None,
    source: str | None = None,
) -> None:
    """Write a fitted recommender to a folder; an existing artifact is replaced.

    Without its ratings an artifact is smaller and reveals nothing about its users' histories, but can no longer leave
    out what they have seen. `measures` are kept in the manifest (such as ``{"holdout": {"rmse": 0.85}}``), and so is
    the `source`, the name of a public data set. An index that the recommender has (`index_`) is kept, too. A class
    outside the package can be saved, too; it must be passed to `load`.
    """
    recommender.require_fitted()
    if not with_ratings:
        check_separable(recommender)
    path = Path(path).resolve()
    check_writable(path)
    ratings = recommender.ratings_
    arrays = recommender.posterior_.arrays()
    n_bytes = sum(array.nbytes for array in arrays.values()) + 16 * len(ratings)
    with writing(path, n_bytes) as folder:
        parts = _write_posterior(folder, arrays)
        if with_ratings and len(ratings):
            _write_ratings(folder, ratings)
        storage.write_table(folder / USERS, _side_frame(ratings.users, None, ratings.user_attributes))
        storage.write_table(folder / ITEMS, _side_frame(ratings.items, ratings.item_titles, ratings.item_attributes))
        manifest = _manifest(recommender, parts, measures or {})
        if source is not None:
            manifest["data"]["source"] = source
        manifest |= write_features(folder, ratings)
        if recommender.index_ is not None:
            check_fits(recommender.index_, recommender)
            _write_index(folder, recommender.index_, recommender, manifest)
        write_manifest(folder, manifest, {})


def save_index(path: str | Path, tuned: StoredIndex, *, models: Models = ()) -> None:
    """Add an index to a saved recommender, with the reason for its choice; an existing one is replaced.

    One that cannot be read is replaced as well. The artifact is rebuilt beside its location, from the same files, and
    moved there when it is complete.
    """
    path = Path(path).resolve()
    manifest = read_manifest(path, models=models)
    check_writable(path)
    recommender = load(path, with_index=False, models=models)
    check_fits(tuned, recommender)
    with rewriting(path, manifest, [INDEX]) as folder:
        _write_index(folder, tuned, recommender, manifest)


@contextmanager
def rewriting(path: Path, manifest: dict[str, Any], changed: Collection[str]) -> Iterator[Path]:
    """A folder that replaces an artifact: it has the same files, but for those that change, which the caller writes."""
    stays = manifest["files"].keys() - set(changed)
    known = {name: digest for name, digest in manifest.get("sha256", {}).items() if name in stays}
    with writing(path, sum(size for name, size in manifest["files"].items() if name not in stays)) as folder:
        for name in stays:
            storage.link(path / name, folder / name)
        yield folder
        write_manifest(folder, manifest, known)


def load(path: str | Path, *, with_index: bool = True, verify: bool = False, models: Models = ()) -> Recommender:
    """The recommender that was saved in this folder, and its index if there is one; arrays are mapped, not read.

    Checksums and values are verified when this computer reads the files for the first time, and always with `verify`.
    `models` are classes outside the package that the artifact may hold. An index that is damaged, of another model, or
    that needs a missing library is left out with a warning: the recommender works without it. With `with_index=False`
    it is left out without a warning.
    """
    path = Path(path)
    manifest = read_manifest(path, models=models)
    faults = file_faults(path, manifest, verify=verify)
    _raise(path, {name: fault for name, fault in faults.items() if name != INDEX})
    instruction_set()  # Raises now if TASTESPACE_ISA is invalid: that is not a fault of the artifact.
    try:
        recommender = _restored(path, manifest, models)
    except ArtifactError:
        raise
    except BAD_CONTENT as error:
        raise ArtifactError(f"{path}: {fault_of(error, manifest)}") from error
    if with_index and "index" in manifest:
        recommender.index_ = _loaded_index(path, manifest, recommender, faults.get(INDEX))
    return recommender


def read_manifest(path: str | Path, *, models: Models = ()) -> dict[str, Any]:
    """The manifest of an artifact, checked to be one that this version can read."""
    path = Path(path)
    if not path.exists():
        with suppress(OSError):
            storage.recover(path)  # A writer may have been killed, or be at work.
    if not path.exists():
        raise ArtifactError(f"there is no artifact {path}; expected a folder that 'tastespace fit --out' has written")
    if not (path / MANIFEST).is_file():
        raise ArtifactError(f"{path} is not a tastespace artifact; expected a folder with a {MANIFEST}")
    try:
        with (path / MANIFEST).open("rb") as file:
            content = file.read(MAX_MANIFEST)
        manifest = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: the {MANIFEST} cannot be read ({error}); fit or copy it again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not a tastespace artifact; its {MANIFEST} is of another program")
    version = manifest.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: the artifact has format version {version}; this tastespace reads up to {FORMAT_VERSION}. "
            "Upgrade it: pip install -U tastespace"
        )
    _check_entries(path, manifest)
    check_manifest(path, manifest, content)
    if manifest["model"] not in MODELS and manifest["model"] not in _names_of(models):
        raise ArtifactError(
            f"{path}: the artifact holds a model {manifest['model']!r}; this version knows {', '.join(MODELS)}. A "
            "class of another package has to be passed: load(path, models=[ThatClass])"
        )
    return manifest


def _check_entries(path: Path, manifest: dict[str, Any]) -> None:
    """Raise an error for entries of other types and unknown files; older manifests do not name the parts."""
    kinds = {"model": str, "parameters": dict, "seed": int, "data": dict, "files": dict}
    if manifest["format_version"] > 1:
        kinds |= {"parts": dict, "sha256": dict}
    missing = kinds.keys() - manifest.keys()
    if missing:
        raise ArtifactError(f"{path}: the {MANIFEST} lacks {', '.join(sorted(missing))}; fit or copy it again")
    wrong = [name for name, kind in kinds.items() if not isinstance(manifest[name], kind)]
    if wrong:
        raise ArtifactError(f"{path}: the {MANIFEST} has an invalid {', '.join(wrong)}; fit or copy it again")
    manifest.setdefault("parts", {MAIN_PART: POSTERIOR})
    checksums = dict(manifest.get("sha256", {}))
    odd = [name for name, size in manifest["files"].items() if type(size) is not int]
    odd += [name for name, checksum in checksums.items() if not isinstance(checksum, str)]
    if odd:
        raise ArtifactError(f"{path}: the {MANIFEST} has an invalid size or checksum of {odd[0]}; fit or copy it again")
    checksums.pop(MANIFEST, None)
    for name in (*manifest["files"], *manifest["parts"].values(), *checksums):
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            raise ArtifactError(f"{path}: the manifest names a file {name!r}; the artifact is damaged")
    files = manifest["files"].keys()
    unnamed = {USERS, ITEMS, *manifest["parts"].values()} - files
    if manifest["format_version"] > 1:
        unnamed |= files ^ checksums.keys()
    if "index" in manifest:
        unnamed |= {INDEX} - files
    if unnamed:
        names = ", ".join(sorted(unnamed))
        raise ArtifactError(f"{path}: the {MANIFEST} lacks the size or the checksum of {names}; fit or copy it again")


def check_writable(path: str | Path) -> None:
    """Raise an error early, before hours of work, if an artifact cannot be written there."""
    path = Path(path).resolve()
    if path.exists() and not _is_replaceable(path):
        raise ArtifactError(f"{path} exists and is not a tastespace artifact; expected a new name, or one to replace")
    if not path.parent.is_dir():
        raise ArtifactError(f"there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise ArtifactError(f"the folder {path.parent} cannot be written to; choose another, or change its permissions")


def _is_replaceable(path: Path) -> bool:
    """Whether it is an empty folder, or one with only an artifact: other files are never deleted."""
    if not path.is_dir():
        return False
    there = {entry.name for entry in path.iterdir()}
    if MANIFEST not in there or not all(_FILE.fullmatch(name) for name in there - {MANIFEST}):
        return not there
    # A damaged artifact may be replaced as well; a manifest of another program does not mention tastespace.
    return FORMAT in (path / MANIFEST).read_text(errors="replace")


def _names_of(models: Models) -> dict[str, type[Recommender]]:
    """The classes that the caller passes, by their names in a manifest."""
    for model in models:
        if not (isinstance(model, type) and issubclass(model, Recommender)):
            raise InvalidParameterError(f"models has {model!r}; expected classes of recommenders")
    return {_name_of(model): model for model in models}


def _name_of(model: type[Recommender]) -> str:
    """The name in the table of models, or the module and class."""
    return MODELS.name_of(model) or f"{model.__module__}.{model.__name__}"


def verified(path: str | Path) -> dict[str, Any]:
    """The manifest of an artifact, after all of its files were read and found whole."""
    path = Path(path)
    manifest = read_manifest(path)
    _raise(path, file_faults(path, manifest, verify=True))
    return manifest


def copy(path: Path, place: Path, *, keep: bool = False) -> None:
    """Copy an artifact, all of which is read and must be whole; one that is there is replaced, unless it is to stay.

    The copy is read-only, and shares nothing with the original that a change of the original could change.
    """
    while True:
        manifest = read_manifest(path)
        content = (path / MANIFEST).read_bytes()
        try:
            _copy(path, place, manifest, content, keep=keep)
        except ArtifactError:
            # While it was read another one may have taken its place.
            if not (path / MANIFEST).is_file() or (path / MANIFEST).read_bytes() == content:
                raise
        else:
            return


def _copy(path: Path, place: Path, manifest: Mapping[str, Any], content: bytes, *, keep: bool) -> None:
    try:
        with storage.replace_folder(place, keep=keep) as new:
            copied = {new / name: storage.copy(path / name, new / name) for name in manifest["files"]}
            _raise(path, file_faults(new, manifest, verify=True, found=copied))
            (new / MANIFEST).write_bytes(content)
            for file in new.iterdir():
                file.chmod(0o444)
        place.chmod(0o555)
    except ArtifactError:
        raise
    except FileNotFoundError as error:
        raise ArtifactError(f"{path}: the file {Path(error.filename).name} is missing; fit or copy it again") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be copied to {place.parent}: {error.strerror or error}") from error


def _raise(path: Path, faults: Mapping[str, str]) -> None:
    for fault in faults.values():
        raise ArtifactError(f"{path}: {fault}; the artifact is damaged, fit or copy it again")


def _loaded_index(
    path: Path, manifest: Mapping[str, Any], recommender: Recommender, fault: str | None
) -> StoredIndex | None:
    """The index of an artifact; None with a warning if it cannot be used."""
    try:
        if fault is not None:
            raise ArtifactError(fault)
        return restored_index(manifest["index"], storage.read_arrays(path / INDEX), recommender)
    except BAD_INDEX as error:
        warn(complaint(path, error), TastespaceWarning)
        return None


def _restored(path: Path, manifest: Mapping[str, Any], models: Models) -> Recommender:
    """The recommender in the files, after a test query."""
    name, data = manifest["model"], manifest["data"]
    model = _names_of(models).get(name) or MODELS[name]
    known = {field.name for field in fields(model)}
    parameters = translated(model, manifest["parameters"], warns=False)
    given: dict[str, Any] = {
        name: inf if value == "inf" else value for name, value in parameters.items() if name in known
    }
    recommender = model(**given)
    arrays = {
        name if part == MAIN_PART else f"{part}/{name}": array
        for part, file in manifest["parts"].items()
        for name, array in storage.read_arrays(path / file).items()
    }
    posterior = model.posterior_class.from_arrays(arrays)
    # Older artifacts do not say what was seen: all ratings count as training ratings.
    learned = {f"learned_{side}": data[f"n_{side}"] for side in ("ratings", "users", "items")}
    seen = TrainingSummary.from_dict(manifest.get("seen") or learned)
    rating_range = (float(data["minimum"]), float(data["maximum"]))
    ratings = _read_ratings(path, data, manifest.get("features", {}), has_ratings=RATINGS in manifest["files"])
    recommender.restore(ratings, posterior, manifest["seed"], rating_range, seen)
    recommender.choice_ = manifest.get("choice")
    _try_out(recommender)
    return recommender


def _try_out(recommender: Recommender) -> None:
    """Query the last user and the last item, so that inconsistent parts raise an error now."""
    ratings = recommender.ratings_
    last_user, last_item = np.array([ratings.n_users - 1], np.int32), np.array([ratings.n_items - 1], np.int32)
    belief = recommender.posterior_.believe(People.known(last_user, ratings.by_user), 1)
    belief.mean(Pairs(np.zeros(1, np.int32), last_item))


def _write_posterior(folder: Path, arrays: Arrays) -> dict[str, str]:
    """Write the arrays of each part and return the file of each; `part/name` is an array of a named part."""
    parts: dict[str, dict[str, NDArray[Any]]] = {MAIN_PART: {}}
    for name, array in arrays.items():
        part, own = name.split("/", 1) if "/" in name else (MAIN_PART, name)
        parts.setdefault(part, {})[own] = array
    files = {part: POSTERIOR if part == MAIN_PART else f"posterior-{part}.safetensors" for part in parts}
    for part, file in files.items():
        if not _FILE.fullmatch(file):
            raise InvalidParameterError(f"a posterior has a part {part!r}; expected letters and digits")
        storage.write_arrays(folder / file, parts[part])
    return files


def _write_ratings(folder: Path, ratings: Ratings) -> None:
    by_user = ratings.by_user_with_times
    arrays: dict[str, NDArray[Any]] = {"offsets": by_user.offsets, "columns": by_user.columns, "values": by_user.values}
    if by_user.times is not None:
        arrays["times"] = by_user.times.astype("datetime64[s]").view(np.int64)
    storage.write_arrays(folder / RATINGS, arrays)


def _write_index(folder: Path, stored: StoredIndex, recommender: Recommender, manifest: dict[str, Any]) -> None:
    """Write the arrays to a file, everything else to the manifest."""
    storage.write_arrays(folder / INDEX, stored.index.arrays())
    manifest["index"] = index_entry(stored, recommender)


def _side_frame(side: Vocabulary, titles: pl.Series | None, attributes: pl.DataFrame | None) -> pl.DataFrame:
    """The ids of one side with their titles and attributes."""
    frame = pl.DataFrame({"id": side.ids})
    if titles is not None:
        frame = frame.with_columns(titles.alias("title"))
    if attributes is not None:
        frame = frame.hstack([column.alias(f"{ATTRIBUTE}{column.name}") for column in attributes])
    return frame


def _read_side(file: Path, side: str, n: Any) -> tuple[Vocabulary, pl.Series | None, pl.DataFrame | None]:
    """Ids, titles and attributes of n rows; size and types are checked before anything is read."""
    stored = scan_parquet(file)
    schema = stored.collect_schema()
    n_stored = stored.select(pl.len()).collect().item()
    if n_stored != n or schema.get("id") not in (pl.Int64, pl.String):
        raise ValueError(f"{file.name} has {n_stored} ids of type {schema.get('id')}, and there are {n} {side}s")
    frame = stored.collect()
    names = [name for name in frame.columns if name.startswith(ATTRIBUTE)]
    attributes = frame.select(pl.col(name).alias(name.removeprefix(ATTRIBUTE)) for name in names) if names else None
    return Vocabulary(frame["id"].alias(side)), frame["title"] if "title" in frame.columns else None, attributes


def _read_ratings(path: Path, data: Mapping[str, Any], features: Mapping[str, Any], *, has_ratings: bool) -> Ratings:
    users, _, user_attributes = _read_side(path / USERS, "user", data["n_users"])
    items, titles, item_attributes = _read_side(path / ITEMS, "item", data["n_items"])
    by_user = _read_by_user(path / RATINGS, len(users), len(items)) if has_ratings else CSR.empty(len(users))
    ratings = Ratings(
        users=users,
        items=items,
        user_rows=by_user.rows(),
        item_rows=by_user.columns,
        values=by_user.values,
        times=by_user.times,
        item_titles=titles,
        item_attributes=item_attributes,
        user_attributes=user_attributes,
        item_features=read_features(path, "item", features.get("item"), items),
        user_features=read_features(path, "user", features.get("user"), users),
        declared_kind=_kept_kind(data, has_ratings=has_ratings),
    )
    ratings.__dict__["by_user"] = by_user  # Already grouped: the memory map itself, not a copy.
    return ratings


def _read_by_user(file: Path, n_users: int, n_items: int) -> CSR:
    arrays = storage.read_arrays(file)
    times = arrays.pop("times", None)
    if any(array.ndim != 1 for array in arrays.values()):
        raise ValueError("the ratings have the wrong dimensions")
    if arrays.keys() != {"offsets", "columns", "values"}:
        raise ValueError(f"the ratings have the arrays {', '.join(sorted(arrays))}; expected offsets, columns, values")
    parts = arrays["offsets"], arrays["columns"], arrays["values"]
    by_user = CSR(*parts, None if times is None else times.view("datetime64[s]"))
    n = len(by_user.columns)
    types = [by_user.offsets.dtype, by_user.columns.dtype, by_user.values.dtype]
    times_fit = times is None or (times.dtype == np.int64 and len(times) == n)
    if types != [np.int64, np.int32, np.float32] or not times_fit:
        raise ValueError("the ratings have the wrong types, or their times do not fit")
    if len(by_user) != n_users or not int(by_user.offsets[-1]) == n == len(by_user.values):
        raise ValueError("the ratings do not fit the users")
    if by_user.offsets[0] != 0 or (np.diff(by_user.offsets) < 0).any():
        raise ValueError("the ratings are not in the order of the users")
    if n and not 0 <= by_user.columns.min() <= by_user.columns.max() < n_items:
        raise ValueError("the ratings do not fit the items")
    return by_user


def _kept_kind(data: Mapping[str, Any], *, has_ratings: bool) -> Kind | None:
    """The declared kind; without the ratings, a guessed one as well. Older artifacts have none."""
    kind = data.get("kind")
    if kind is None or (has_ratings and not data.get("kind_declared")):
        return None
    check_kind(kind)
    return kind  # type: ignore[no-any-return]


def _manifest(
    recommender: Recommender, parts: Mapping[str, str], measures: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    ratings = recommender.ratings_
    low, high = recommender.rating_range_
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tastespace": __version__,
        "model": _name_of(type(recommender)),
        "class": type(recommender).__name__,
        "parameters": {
            key: "inf" if isinstance(value, float) and value == inf else value  # JSON has no infinity.
            for key, value in recommender.get_params().items()
            if key not in NOT_SAVED
        },
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
        **({} if recommender.choice_ is None else {"choice": recommender.choice_}),
        "parts": parts,
    }
