"""The current model: loading it, replacing it without downtime, and cached beliefs about recent users."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import artifact
from tastespace.data.attributes import Attributes
from tastespace.data.ratings import Ratings
from tastespace.data.sources import SOURCES
from tastespace.errors import ArtifactError, InvalidParameterError, TastespaceError
from tastespace.manifests import MANIFEST
from tastespace.models import Recommender
from tastespace.models.base.query import Query
from tastespace.report.model_story import model_outline, model_story
from tastespace.service.catalogue import Catalogue, stocked
from tastespace.service.settings import Settings
from tastespace.service.store import Activation, DatabaseError, Store, Trial
from tastespace.storage import checksum_of, remove_abandoned, remove_folder


@dataclass(frozen=True)
class Versions:
    """Copies of artifacts, in read-only folders that are named by their content."""

    folder: Path

    def path(self, version: str) -> Path:
        return self.folder / version

    def has(self, version: str) -> bool:
        return self.path(version).is_dir()

    def take(self, model: Path, *, again: bool = False) -> str:
        """Keep a copy of the artifact as it is now, after all of it was read and found whole.

        A copy that is kept already is only replaced if it is to be made `again`.
        """
        version = self.name_of(model)
        if self.has(version) and not again:
            artifact.verified(model)
            return version
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArtifactError(f"{model} cannot be kept in {self.folder}: {error.strerror or error}") from error
        artifact.copy(model, self.path(version), keep=not again)
        return version

    def name_of(self, model: Path) -> str:
        """The version name of the artifact as it is now, the same on every machine.

        It follows from the manifest, which has the checksums of the files; from those of the files where it has none.
        """
        manifest = artifact.read_manifest(model)
        try:
            known_by = (model / MANIFEST).read_bytes()
            if "sha256" not in manifest:
                known_by += "".join(checksum_of(model / name) for name in sorted(manifest["files"])).encode()
        except OSError as error:
            raise ArtifactError(f"{model}: the artifact cannot be read ({error.strerror})") from error
        return f"{manifest['model']}-{hashlib.sha256(known_by).hexdigest()[:12]}"

    def measures(self, version: str) -> dict[str, float | None]:
        """The accuracy of a version on held-out ratings, as far as it is kept and was measured."""
        if not self.has(version):
            return {}
        held = (artifact.read_manifest(self.path(version)).get("measures") or {}).get("holdout") or {}
        calibration = (held.get("calibration") or {}).get("measures") or {}
        found = {"rmse": held.get("rmse"), **{name: calibration.get(name) for name in ("coverage_90", "expected_90")}}
        return {name: value for name, value in found.items() if value is not None}

    def kept(self) -> list[str]:
        """The versions that are kept here."""
        if not self.folder.is_dir():
            return []
        return sorted(entry.name for entry in self.folder.iterdir() if (entry / MANIFEST).is_file())

    def drop(self, version: str) -> None:
        remove_folder(self.path(version))

    def drop_others(self, kept: set[str]) -> None:
        """Remove the folders of versions that a rollback can no longer reach, and what killed workers left."""
        if not self.folder.is_dir():
            return
        remove_abandoned(self.folder)
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name not in kept and not entry.name.startswith("."):
                remove_folder(entry)


log = logging.getLogger("tastespace.service")
DAYS_OF_YEAR = 365.25
LOOK_SECONDS = 5.0  # between looks for cached users who were deleted
FORGET = "forget"  # the reason of an activation of a version from which users were erased
MAX_ANSWERS, MAX_ANSWER_LENGTH = 8, 1 << 16  # cached answers per user; maximum length of one, with its request


Kept = tuple[str, tuple[str, ...]]  # a cached answer, and the items in it


@dataclass(eq=False)
class Known:
    """The belief about a user from one version of their ratings, and cached answers based on it."""

    version: int
    query: Query
    answers: OrderedDict[str, Kept] = field(default_factory=OrderedDict)


@dataclass(eq=False)
class Loaded:
    """One version in memory, with the users of recent requests. Any number of requests may use it at a time.

    The lock is held only briefly, to look up or store something, never while an answer is computed.
    """

    version: str
    recommender: Recommender
    manifest: dict[str, Any]
    max_users: int
    trained_at: datetime | None = None  # when the artifact was written
    activation: int = 0  # of the activation in use
    removed: tuple[str, ...] = ()  # items that must not be shown
    waiting: tuple[str, ...] = ()  # items that the model can only learn by another fit
    _stock: tuple[int, Loaded] | None = None  # the same version with the items of the database, as of a change
    _stocking: threading.Lock = field(default_factory=threading.Lock)
    _users: OrderedDict[str, Known] = field(default_factory=OrderedDict)
    _keeping: threading.Lock = field(default_factory=threading.Lock)

    def stocked(self, catalogue: Catalogue) -> Loaded:
        """The same version with the items of the database as they are now; in a thread, as it may take a moment."""
        try:
            revision = catalogue.revision()
        except DatabaseError:
            return self if self._stock is None else self._stock[1]  # Who needs the database finds out.
        if not revision:
            return self
        kept = self._stock
        if kept is not None and kept[0] == revision:
            return kept[1]
        with self._stocking:
            if self._stock is None or self._stock[0] < revision:
                made = stocked(self.recommender, catalogue.all())
                made.recommender.warns = False
                loaded = Loaded(
                    self.version, made.recommender, self.manifest, self.max_users, self.trained_at, self.activation
                )
                loaded.removed, loaded.waiting = made.removed, made.waiting
                self._stock = (revision, loaded)
            return self._stock[1]

    def known(self, user: str, version: int) -> Known | None:
        """The cached belief about a user, if it is based on this version of their ratings."""
        with self._keeping:
            entry = self._users.get(user)
            if entry is None or entry.version != version:
                return None
            self._users.move_to_end(user)  # Most recently used.
            return entry

    def keep(self, user: str, known: Known) -> None:
        """Cache a belief, unless a newer one is cached."""
        with self._keeping:
            before = self._users.get(user)
            if before is not None and before.version > known.version:
                return
            self._users[user] = known
            self._users.move_to_end(user)
            while len(self._users) > self.max_users:
                self._users.popitem(last=False)

    def users(self) -> dict[str, int]:
        """The cached users, and the version of their ratings."""
        with self._keeping:
            return {user: known.version for user, known in self._users.items()}

    def let_go(self, users: Iterable[str]) -> None:
        """Drop what is cached about users."""
        with self._keeping:
            for user in users:
                self._users.pop(user, None)

    def keep_answer(self, known: Known, question: str, answer: Kept) -> None:
        """Cache an answer unless it is very long, and only a few per user."""
        if len(question) + len(answer[0]) > MAX_ANSWER_LENGTH:
            return
        with self._keeping:
            known.answers[question] = answer
            while len(known.answers) > MAX_ANSWERS:
                known.answers.popitem(last=False)

    def about(
        self,
        user: str,
        history: dict[str, float],
        *,
        is_sent: bool = False,
        user_features: dict[str, Any] | None = None,
    ) -> Query:
        """A query about a user with exactly these ratings; ratings of unknown items are ignored.

        Stored ratings were checked when they were stored; those that are sent must be valid for the model.
        """
        given = None
        if history:
            given = Ratings.from_arrays([user] * len(history), list(history), list(history.values()))
        if given is not None and is_sent:
            self.recommender.check_ratings(given)
        return self.recommender.about([user], history=given, instead=True, user_features=user_features)

    @cached_property
    def titles(self) -> pl.Series | None:
        """Titles in lower case, for searching."""
        titles = self.recommender.ratings_.item_titles
        return None if titles is None else titles.fill_null("").str.to_lowercase()

    @cached_property
    def outline(self) -> dict[str, Any]:
        """The description of the model that the page needs first."""
        return model_outline(self.recommender)

    @cached_property
    def story(self) -> dict[str, Any]:
        """How the model was fitted and what it learned."""
        return model_story(self.recommender, self.manifest)

    @property
    def item_word(self) -> str | None:
        """What items are, in the plural, if the model was fitted on a public data set."""
        source = SOURCES.get(self.manifest["data"].get("source"))
        return None if source is None else source.description.partition(",")[0]

    @cached_property
    def attributes(self) -> Attributes:
        """What conditions on items are about."""
        return Attributes(self.recommender.ratings_)

    @cached_property
    def popularity(self) -> NDArray[Any]:
        """The number of ratings of each item."""
        return self.attributes.rating_counts

    @cached_property
    def recent_popularity(self) -> NDArray[Any]:
        """The same, where a rating counts half as much for every year before the latest; all alike without times."""
        ratings = self.recommender.ratings_
        times = ratings.times
        if times is None or np.isnat(times).all():
            return self.popularity.astype(float)
        known = np.flatnonzero(~np.isnat(times))
        days = times[known].astype("datetime64[D]").astype(float)
        weights = 0.5 ** ((days.max() - days) / DAYS_OF_YEAR)
        return np.bincount(ratings.item_rows[known], weights, ratings.n_items)


@dataclass(frozen=True)
class Swap:
    """What a reload or a rollback did."""

    activation: Activation
    before: str | None  # the version that was active

    @property
    def has_changed(self) -> bool:
        return self.before != self.activation.version


@dataclass(eq=False)
class LiveModel:
    """The current version, the same in every worker."""

    settings: Settings
    store: Store
    versions: Versions
    changed: Callable[[int], None]  # called with the number of each new activation
    _swapping: threading.Lock = field(default_factory=threading.Lock)
    _current: Loaded | None = None
    _refused: Any = None  # what could not be loaded here, and what there was to load it from
    _challenge: tuple[Trial, Loaded] | None = None  # the version that answers some users, where there is one
    problem: str | None = None  # why this worker does not answer with the version that is active in the database
    _refused_trial: int | None = None
    _next_look: float = 0.0
    _stopped: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def _folder(self) -> Path:
        """The folder of the artifact, which may be replaced at any time."""
        return Path(self.settings.model).resolve()

    @property
    def current(self) -> Loaded:
        if self._current is None:
            raise ArtifactError("no model is loaded yet; wait until /v1/ready says so")
        return self._current

    def of_user(self, user: str | None) -> Loaded:
        """The version that answers a user: the current one, or the challenger."""
        challenge = self._challenge
        if challenge is not None and user is not None and challenge[0].has(user):
            return challenge[1]
        return self.current

    @property
    def trial(self) -> Trial | None:
        """The trial that this worker takes part in."""
        return None if self._challenge is None else self._challenge[0]

    def challenge(self, share: float) -> Trial:
        """Let the artifact as it is now answer a share of the users, beside the current version."""
        with self._swapping, self._taken() as version:
            active = self.store.activation()
            if active is not None and version == active.version:
                raise InvalidParameterError(
                    f"the artifact is the version {version}, which answers already; expected another one in "
                    f"{self._folder}"
                )
            loaded = self._load(version)
            trial = self.store.start_trial(version, share)
            self._challenge = (trial, loaded)
            log.info("the version %s answers %.0f %% of the users now, for a trial", version, 100 * share)
            return trial

    def end_trial(self, outcome: Literal["promoted", "dropped"]) -> Swap | None:
        """End the trial: the challenger answers everyone from now on, or nobody."""
        with self._swapping:
            trial = self.store.trial()
            if trial is None:
                raise InvalidParameterError("there is no challenger; POST /v1/model/challenger starts a trial of one")
            done = self._activate(trial.version, "promote") if outcome == "promoted" else None
            self.store.end_trial(trial.id, outcome)
            self._challenge = None
            return done

    def _follow_trial(self) -> None:
        """Take part in the trial of the database."""
        trial = self.store.trial()
        if trial == self.trial:
            return
        if trial is None:
            self._challenge = None
        elif trial.id != self._refused_trial:
            with self._swapping:
                try:
                    self._challenge = (trial, self._obtained(trial.version))
                except TastespaceError as error:
                    self._challenge, self._refused_trial = None, trial.id
                    log.error("cannot load the challenger %s: %s", trial.version, error)

    def start(self) -> None:
        """Load the last active version, and the challenger, if there is one."""
        self._start()
        self._follow_trial()

    def _start(self) -> None:
        """Load the last active version; the artifact becomes the first version of a new database.

        A machine that does not have the active version, and cannot take it from the artifact, answers with the
        artifact: it says that it does, and does not activate it for the others.
        """
        activation = self.store.activation()
        if activation is None:
            version = self.versions.take(self._folder)
            loaded = self._load(version)  # Tested before it is activated.
            self._answer_with(loaded, self.store.activate(version, "start").id)
            return
        try:
            loaded = self._obtained(activation.version)
        except ArtifactError as error:
            loaded = self._load(self.versions.take(self._folder))
            self._note(activation, error)
            self._answer_with(loaded, 0)
            return
        self._answer_with(loaded, activation.id)
        self._warn_if_another_waits()

    def reload(self) -> Swap:
        """Activate the artifact as it is now in every worker; an invalid one, or the same again, changes nothing."""
        with self._swapping, self._taken() as version:
            before = self.store.activation()
            if before is not None and before.version == version == self.current.version:
                log.info("the artifact has not changed: the version %s still answers", version)
                return Swap(before, before.version)
            return self._activate(version, "reload")

    @contextmanager
    def _taken(self) -> Iterator[str]:
        """The artifact as it is now, kept as a version; one that is refused meanwhile leaves nothing behind."""
        is_new = not self.versions.has(self.versions.name_of(self._folder))
        version = self.versions.take(self._folder)
        try:
            yield version
        except Exception:
            if is_new:
                self.versions.drop(version)
            raise

    def roll_back(self) -> Swap:
        """Return to the previous version."""
        with self._swapping:
            before = self._before()
            if before is None:
                raise InvalidParameterError("there is no version before this one to go back to")
            return self._activate(before, "rollback")

    def refresh(self) -> None:
        """Follow the database: another worker, or another machine, may have activated another version."""
        activation = self.store.activation()
        if activation is None or activation.id == self.current.activation:
            return
        with self._swapping:
            source = (activation.id, self.versions.has(activation.version), self._stamp())
            if activation.id == self.current.activation or source == self._refused:
                return
            try:
                # After users were erased the version is the same, without them.
                loaded = self._obtained(activation.version, again=activation.reason == FORGET)
                if activation.reason == FORGET and self._challenge is not None:
                    trial = self._challenge[0]
                    self._challenge = (trial, self._obtained(trial.version, again=True))
                self._answer_with(loaded, activation.id)
                log.info("the version %s answers now", activation.version)
            except TastespaceError as error:
                self._refused = source
                self._note(activation, error)

    def follow(self, seconds: float) -> None:
        """Check for another version periodically, until stopped."""
        while not self._stopped.wait(seconds):
            try:
                self.refresh()
                self._follow_trial()
                self._let_go_of_deleted()
            except TastespaceError as error:
                log.warning("cannot look for another model: %s", error)
            except Exception:
                # A worker that stopped checking would keep the old version forever.
                log.exception("cannot look for another model")

    def _let_go_of_deleted(self) -> None:
        """Drop what is cached about users who were deleted, by whatever worker: asked for every few seconds."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        for loaded in [self.current, *([] if self._challenge is None else [self._challenge[1]])]:
            loaded.let_go(self.store.deleted_among(loaded.users()))

    def stop(self) -> None:
        self._stopped.set()

    def _stack(self) -> list[str]:
        """The versions that were active, without those that a rollback has left; the last is the active one."""
        stack: list[str] = []
        for activation in reversed(self.store.activations(1000)):
            if activation.reason == "rollback" and len(stack) > 1:
                stack.pop()
            elif not stack or stack[-1] != activation.version:
                stack.append(activation.version)
        return stack

    def _before(self) -> str | None:
        """The version active before the current one that is kept here, not counting rollbacks."""
        return next((version for version in reversed(self._stack()[:-1]) if self.versions.has(version)), None)

    def _activate(self, version: str, reason: str) -> Swap:
        before = self.store.activation()
        loaded = self._load(version, verify=reason == "rollback")
        activation = self.store.activate(version, reason)
        self._answer_with(loaded, activation.id)
        reachable = list(dict.fromkeys(reversed(self._stack())))[: self.settings.kept_versions + 1]
        trial = self.store.trial()
        self.versions.drop_others({*reachable, version, *([] if trial is None else [trial.version])})
        log.info("the version %s answers now (%s)", version, reason)
        return Swap(activation, None if before is None else before.version)

    def _obtained(self, version: str, *, again: bool = False) -> Loaded:
        """A version, loaded; one that is not kept here, or damaged, is taken from the artifact if that is the same."""
        problem = ArtifactError(f"the version {version} is not kept in {self.versions.folder}")
        if self.versions.has(version):
            try:
                return self._load(version, again=again)
            except ArtifactError as error:
                problem = error
        try:
            if self.versions.name_of(self._folder) == version:
                return self._load(self.versions.take(self._folder, again=True))
        except ArtifactError:
            pass  # The first problem says more.
        raise ArtifactError(f"{problem}; {self._folder} does not have it either: copy it there from another machine")

    def _stamp(self) -> tuple[int, ...] | None:
        """What tells one artifact in the folder from another without reading it."""
        try:
            found = (self._folder / MANIFEST).stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns, found.st_ino

    def _written(self, version: str) -> datetime | None:
        """When the artifact of a version was written; its copy is no older than that."""
        places = [self.versions.path(version) / MANIFEST]
        with suppress(TastespaceError):
            places += [self._folder / MANIFEST] if self.versions.name_of(self._folder) == version else []
        with suppress(OSError):
            return datetime.fromtimestamp(min(place.stat().st_mtime for place in places), UTC)
        return None

    def _note(self, activation: Activation, error: TastespaceError) -> None:
        self.problem = str(error)
        log.error("cannot load the version %s: %s", activation.version, error)

    def _answer_with(self, loaded: Loaded, activation: int) -> None:
        loaded.activation = activation
        self._current = loaded
        if activation:
            self.problem = None
        self.changed(activation)

    def _warn_if_another_waits(self) -> None:
        """Warn that the last active version stays active, in case a newly fitted model was expected."""
        try:
            is_another = self.versions.name_of(self._folder) != self.current.version
        except ArtifactError:
            return  # The artifact is not needed: its version is.
        if is_another:
            text = "%s is not the version %s, which was active last and still is; POST /v1/model/reload activates it"
            log.warning(text, self._folder, self.current.version)

    def _load(self, version: str, *, verify: bool = False, again: bool = False) -> Loaded:
        """Load a version and compute a first answer, which reveals errors and fills caches."""
        if not again and self._current is not None and self._current.version == version:
            return self._current
        if not again and self._challenge is not None and self._challenge[1].version == version:
            return self._challenge[1]
        path = self.versions.path(version)
        recommender = artifact.load(path, verify=verify).set_params(threads=1)
        recommender.warns = False  # Remarks are part of the answers.
        manifest, written = artifact.read_manifest(path), self._written(version)
        loaded = Loaded(version, recommender, manifest, self.settings.cached_users, written)
        if not recommender.ratings_.n_items:
            raise ArtifactError(f"the version {version} knows no items; expected a model fitted on ratings")
        ranking = recommender.recommend(loaded.about("", {}), 1)
        if not np.isfinite(ranking.scores[ranking.item_rows >= 0]).all():
            raise ArtifactError(f"the version {version} gives scores that are not numbers; fit it again")
        return loaded
