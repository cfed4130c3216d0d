"""Lists for all users: some users at a time on all cores, in bounded memory, and resumable where they go to a file.

Each batch of users becomes a file in a folder beside the output. A file in that folder says which model and settings
the lists are of, so that a later call continues with what is missing, and refuses the parts of another run. When all
are there they are joined, and the folder is removed.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tastespace import storage, threads
from tastespace.data.attributes import Attributes
from tastespace.data.ratings import Ratings
from tastespace.data.tables import is_pandas
from tastespace.errors import DataError, InvalidParameterError, TastespaceError
from tastespace.models.base.policies import policy_of
from tastespace.models.base.query import pairs_of
from tastespace.models.base.resuming import described
from tastespace.models.base.rules import Effects, Rules
from tastespace.progress import Observer, Progress
from tastespace.version import __version__

if TYPE_CHECKING:
    from tastespace.models.base.recommender import Recommender

BATCH = 256  # users at a time
RUN = "run.json"
PHASE = "lists"


def recommend_all(
    recommender: Recommender, out: Path | None, observer: Observer, options: Mapping[str, Any]
) -> tuple[pl.DataFrame | None, tuple[str, ...]]:
    """The lists of all training users, or None where they are in a file; and remarks about them."""
    asked, users = copy.copy(recommender), recommender.ratings_.users.ids
    remarks: dict[str, None] = {}
    if not len(recommender.ratings_):
        remarks = _without_ratings(recommender, options)
    asked.threads = 1
    asked.__dict__["_tell"] = lambda told: remarks.update(dict.fromkeys(told))  # once for all batches, at the end

    step = min(BATCH, recommender.posterior_.people_at_once or BATCH)
    asked.recommend(users[:1], **options)  # What is wrong with the options is said before anything is written.
    tables = {name: _of_batches(recommender.ratings_, options[name], name) for name in ("exclude", "only", "shown")}

    def lists(batch: int) -> tuple[pl.DataFrame, Effects]:
        some = users[batch * BATCH : (batch + 1) * BATCH]
        own = {**options, **{name: of_batch(batch) for name, of_batch in tables.items()}}
        parts = [asked.recommend(some[first : first + step], **own) for first in range(0, len(some), step)]
        effects = Effects()
        for part in parts:
            effects.update(part.effects or {})
        return pl.concat([part.to_polars() for part in parts]), effects

    def said(effects: Iterable[Effects]) -> tuple[str, ...]:
        """What to know about the lists, with what the rules did to all of them."""
        ratings, total = recommender.ratings_, Effects()
        for each in effects:
            total.update(each)
        rules = Rules.of(options["rules"], options["shown"], ratings, lambda: Attributes(ratings), options["n"])
        return (*remarks, *(() if rules is None else rules.remarks(total, len(users))))

    n_batches = -(-len(users) // BATCH)
    if out is None:
        made: dict[int, tuple[pl.DataFrame, Effects]] = {}
        _work(recommender, range(n_batches), len(users), observer, lambda batch: made.update({batch: lists(batch)}))
        return pl.concat([made[batch][0] for batch in range(n_batches)]), said(each for _, each in made.values())
    run = _run_of(recommender, options)
    with _written(out, run, n_batches) as files:
        missing = [batch for batch, file in enumerate(files) if not file.exists()]
        _work(recommender, missing, len(users), observer, lambda batch: _write(files[batch], *lists(batch)))
        with storage.replace_file(out) as stream:
            pl.scan_parquet(files).sink_parquet(Path(stream.name))
        found = said([_effects_of(file) for file in files])
    return None, found


@contextmanager
def _written(out: Path, run: dict[str, str], n_batches: int) -> Iterator[list[Path]]:
    """The files of the parts, in a folder that is held meanwhile and removed when all is done."""
    parts = out.with_name(f"{out.name}.parts")
    try:
        lock = _begin(out, parts, run)
        try:
            storage.remove_unfinished(parts)
            yield [parts / f"{batch:08d}.parquet" for batch in range(n_batches)]
        finally:
            lock.release()
        shutil.rmtree(parts)
    except (OSError, pl.exceptions.PolarsError) as error:
        if isinstance(error, TastespaceError):
            raise
        reason = getattr(error, "strerror", None) or error
        kept = f"; finished parts stay in {parts}: run the same again to continue" if parts.exists() else ""
        raise DataError(
            f"the lists cannot be written to {out} ({reason})",
            expected=f"a folder with enough room that can be written{kept}",
        ) from error


def _write(file: Path, frame: pl.DataFrame, effects: Effects) -> None:
    packed = io.BytesIO()
    frame.write_parquet(packed)
    with storage.replace_file(file.with_suffix(".json")) as stream:
        stream.write(json.dumps([[*key, n] for key, n in effects.items()]).encode())
    with storage.replace_file(file) as stream:  # The last: a part with this file is finished.
        stream.write(packed.getbuffer())


def _effects_of(file: Path) -> Effects:
    return Effects({(place, what): n for place, what, n in json.loads(file.with_suffix(".json").read_text())})


def _without_ratings(recommender: Recommender, options: Mapping[str, Any]) -> dict[str, None]:
    """What to know about lists of a model that does not know what its users have rated."""
    if not recommender.posterior_.keeps_users:
        raise InvalidParameterError(
            f"this {type(recommender).__name__} was saved without its ratings, by which alone it knows users; "
            "expected a model saved with its ratings"
        )
    if options["exclude"] is None or options["include_seen"]:
        return {}
    return {"the model was saved without its ratings: what users have rated is on their lists, too": None}


def _of_batches(ratings: Ratings, given: Any, name: str) -> Callable[[int], Any]:
    """What concerns each batch: of a table of users, their rows, so that none of them is looked at in every batch."""
    if isinstance(given, Ratings):
        given = given.to_polars().drop("rating")
    users = None if isinstance(given, str | None) else pairs_of(given, name)[0]
    if users is None:
        return lambda batch: given
    batches = ratings.users.rows_of(users) // BATCH  # -1 for a user who is not known
    table: Any = (
        given if is_pandas(given) else pl.DataFrame(given.collect() if isinstance(given, pl.LazyFrame) else given)
    )
    order = np.argsort(batches, kind="stable")
    bounds = np.searchsorted(batches[order], np.arange(-(-len(ratings.users.ids) // BATCH) + 1))

    def of_batch(batch: int) -> Any:
        rows = order[bounds[batch] : bounds[batch + 1]]
        return table.iloc[rows] if is_pandas(table) else table[rows]

    return of_batch


def _work(
    recommender: Recommender, batches: Any, n_users: int, observer: Observer, task: Callable[[int], None]
) -> None:
    """Do every batch, some at a time; progress is told in users."""
    done = n_users - sum(min(BATCH, n_users - batch * BATCH) for batch in batches)
    observer(Progress(PHASE, done, n_users))
    with threads.one_blas_thread(), ThreadPoolExecutor(threads.resolve(recommender.threads)) as pool:
        futures = {pool.submit(task, batch): batch for batch in batches}
        try:
            for future in as_completed(futures):
                future.result()
                done += min(BATCH, n_users - futures[future] * BATCH)
                observer(Progress(PHASE, done, n_users))
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(out: Path, parts: Path, run: dict[str, str]) -> storage.Lock:
    """Take hold of the folder of parts, new or of the same run."""
    if out.exists():
        raise InvalidParameterError(f"{out} exists already; expected a new file: remove it, or choose another name")
    parts.mkdir(exist_ok=True)
    try:
        lock = storage.Lock(parts / storage.LOCK)
    except BlockingIOError:
        raise InvalidParameterError(f"another process is writing {out}; expected one at a time") from None
    file = parts / RUN
    try:
        begun = json.loads(file.read_text()) if file.exists() else run if not list(parts.glob("*.parquet")) else {}
    except ValueError:
        begun = {}
    if begun != run:
        lock.release()
        keys = run.keys() | (begun.keys() if isinstance(begun, dict) else set())
        other = [key for key in sorted(keys) if not isinstance(begun, dict) or begun.get(key) != run.get(key)]
        raise InvalidParameterError(
            f"{parts} has unfinished lists of another run ({', '.join(other)} differ); expected the same model and "
            "settings: repeat those to continue, or remove the folder, or choose another name"
        )
    if not file.exists():
        with storage.replace_file(file) as stream:
            stream.write(json.dumps(run).encode())
    return lock


def _run_of(recommender: Recommender, options: Mapping[str, Any]) -> dict[str, str]:
    """What lists depend on, as text by name."""
    digest = hashlib.sha256(described(recommender.ratings_).encode())
    for name, array in sorted(recommender.posterior_.arrays().items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    stored, index = recommender.index_, options["index"]
    found = {name: repr(value) for name, value in options.items()}
    found["policy"] = repr(policy_of(options["policy"]))
    if index == "auto":
        found["index"] = "None" if stored is None else repr(stored.index.description)
    elif index is not None:
        found["index"] = repr(index.description)
    for name in ("exclude", "only", "shown"):
        table = options[name]
        if not isinstance(table, str | None):
            columns = [column for column in pairs_of(table, name) if column is not None]
            text = json.dumps([column.cast(pl.String).to_list() for column in columns])
            if isinstance(table, Ratings) and table.times is not None:
                text += hashlib.sha256(table.times.tobytes()).hexdigest()
            elif isinstance(table, pl.DataFrame):
                text += table.write_csv()
            found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        "tastespace": __version__,
        "instruction set": threads.instruction_set(),
        "model": f"{type(recommender).__name__} {recommender.seed_} {digest.hexdigest()[:16]}",
        "batch": str(BATCH),
        **found,
    }
