"""Watch what the service promises, in a thread of its own: nothing of it is done while a request waits."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from tastespace.data.kinds import CHOICES
from tastespace.errors import TastespaceError
from tastespace.randomness import generator
from tastespace.service.live_model import Loaded
from tastespace.service.monitoring import Metrics
from tastespace.service.promises.drift import DriftTest
from tastespace.service.promises.measures import COVERAGE, WINDOW, measures_of, outcomes_of
from tastespace.service.promises.records import JudgedRow, Records, ShownRow

log = logging.getLogger("tastespace.service")
SECONDS = 1.0  # between two rounds
HEALTH_SECONDS, CLEAN_SECONDS = 10.0, 600.0
MAX_LISTS, MAX_RATINGS = 10_000, 20_000  # that wait; more are left out, and counted
AGAIN_SECONDS = 60.0  # the same list, shown to the same user again so soon, is not stored again


@dataclass(frozen=True)
class Rated:
    """Ratings that a user stored at once, and those that they had just before."""

    user: str
    before: Mapping[str, float]
    new: Mapping[str, float]
    loaded: Loaded  # the version that answered
    at: datetime


class Monitor:
    """What was shown and rated, as it comes, and what follows from it."""

    def __init__(self, records: Records, metrics: Metrics, days: float, current: Callable[[], str]) -> None:
        self._records, self._metrics, self._days, self._current = records, metrics, days, current
        self._shown: deque[tuple[str, tuple[str, ...], str, datetime]] = deque()
        self._rated: deque[Rated] = deque()
        self._last: OrderedDict[str, tuple[tuple[str, ...], float]] = OrderedDict()  # the last list of recent users
        self._watches: dict[str, Watch] = {}
        self._rng = generator(0)
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._round = threading.Lock()

    @property
    def is_on(self) -> bool:
        return self._days > 0

    # what requests call

    def show(self, user: str, items: tuple[str, ...], version: str) -> None:
        """Note a list; it is stored soon."""
        now = time.monotonic()
        with self._lock:
            items_before, then = self._last.get(user, ((), 0.0))
            if items_before == items and now - then < AGAIN_SECONDS:
                return
            self._last[user] = (items, now)
            self._last.move_to_end(user)
            if len(self._last) > MAX_LISTS:
                self._last.popitem(last=False)
            if len(self._shown) >= MAX_LISTS:
                self._metrics.unwatched("lists", 1)
                return
            self._shown.append((user, items, version, datetime.now(UTC)))

    def rate(self, rated: Rated) -> None:
        """Note ratings that were stored; what the model believed before them is worked out soon."""
        with self._lock:
            if sum(len(one.new) for one in self._rated) + len(rated.new) > MAX_RATINGS:
                self._metrics.unwatched("ratings", len(rated.new))
                return
            self._rated.append(rated)

    def shown_to(self, user: str) -> list[tuple[str, datetime]]:
        """Items that a user was shown, and when, up to now."""
        with self._lock:
            waiting = [(item, at) for one, items, _, at in self._shown if one == user for item in items]
        return [(row.item_id, row.shown_at) for row in self._records.shown_to(user)] + waiting

    def forget(self, user: str) -> None:
        """Forget what waits about a user."""
        with self._lock:
            self._shown = deque(one for one in self._shown if one[0] != user)
            self._rated = deque(one for one in self._rated if one.user != user)
            self._last.pop(user, None)

    def health(self, versions: list[str]) -> list[dict[str, Any]]:
        """Measures and drift of these versions, up to now."""
        self.work()
        shown = self._records.shown_by_version()
        return [{"version": name, "shown": shown.get(name, 0), **self._watch(name).to_dict()} for name in versions]

    # what the thread does

    def run(self) -> None:
        """Work every second, until stopped."""
        looked = cleaned = time.monotonic()
        while not self._stopped.wait(SECONDS):
            try:
                self.work()
                now = time.monotonic()
                if now - looked > HEALTH_SECONDS:
                    looked = now
                    version = self._current()
                    self._metrics.kept(version, self._watch(version).to_dict())
                if now - cleaned > CLEAN_SECONDS:
                    cleaned = now
                    self._records.drop_older(datetime.now(UTC), self._days)
            except TastespaceError as error:
                log.warning("cannot watch what was promised: %s", error)
            except Exception:
                log.exception("cannot watch what was promised")

    def stop(self) -> None:
        self._stopped.set()

    def work(self) -> None:
        """Store what was shown, then judge what was rated."""
        with self._round:
            with self._lock:
                lists, self._shown = self._shown, deque()
                rated, self._rated = self._rated, deque()
            rows = [
                ShownRow(user, item, place, version, at)
                for user, items, version, at in lists
                for place, item in enumerate(items, 1)
            ]
            self._records.add_shown(rows)
            judged: list[JudgedRow] = []
            for one in rated:
                try:
                    judged.extend(judge(one, self._records.shown_to(one.user), self._rng))
                except TastespaceError as error:  # such as an item that only a later version knows
                    log.warning("a rating cannot be judged: %s", error)
            self._records.add_judged(judged)

    def _watch(self, version: str) -> Watch:
        """The measures and the test of a version, with the ratings of all workers up to now."""
        watch = self._watches.setdefault(version, Watch(version))
        watch.add(self._records.judged_since(watch.last, version))
        return watch


class Watch:
    """The latest ratings of a version, and the test of whether they changed."""

    def __init__(self, version: str) -> None:
        self.version, self.last, self.test = version, 0, DriftTest()
        self._rows: pl.DataFrame | None = None
        self._lock = threading.Lock()

    def add(self, rows: pl.DataFrame) -> None:
        with self._lock:
            rows = rows.filter(pl.col("id") > self.last)
            if rows.height:
                self.last = int(rows["id"][-1])
                self.test.add(outcomes_of(rows))
                self._rows = (rows if self._rows is None else pl.concat([self._rows, rows])).tail(WINDOW)

    def to_dict(self) -> dict[str, Any]:
        with self._lock:
            rows = self._rows
            if rows is None:
                return {"ratings": 0, "users": 0, "measures": {}, "drift": self.test.to_dict()}
            n_users = rows["user_id"].n_unique()
            return {
                "ratings": rows.height,
                "users": n_users,
                "measures": measures_of(rows),
                "drift": self.test.to_dict(),
            }


def health_of(records: Records, version: str) -> dict[str, Any]:
    """Measures and drift of a version, from the database alone."""
    watch = Watch(version)
    watch.add(records.judged_since(0, version))
    return watch.to_dict()


def judge(rated: Rated, shown: list[ShownRow], rng: np.random.Generator) -> list[JudgedRow]:
    """Hold ratings against what the model believed just before, from the other ratings of the user.

    A rating in place of an older one is judged as if there had been none.
    """
    loaded = rated.loaded
    before = {item: value for item, value in rated.before.items() if item not in rated.new}
    items = list(rated.new)
    true = np.array([rated.new[item] for item in items], np.float32)
    positions = {row.item_id: row.position for row in shown if row.shown_at <= rated.at}
    facts: list[dict[str, Any]] = [
        {"value": float(value), "position": positions.get(item)} for item, value in zip(items, true, strict=True)
    ]
    if loaded.recommender.ratings_.kind not in CHOICES:
        query = loaded.about(rated.user, before)
        prediction = loaded.recommender.predict(query, items)
        for fact, mean in zip(facts, prediction.mean, strict=True):
            fact["expected"] = float(mean)
        rating = prediction.rating
        if rating is not None:
            low, high = rating.cdf_steps(true)
            ends = prediction.interval(COVERAGE)
            columns: dict[str, Any] = {
                "sd": rating.sd(),
                "low": ends[:, 0],
                "high": ends[:, 1],
                "is_covered": rating.contains(true, [COVERAGE])[:, 0],
                "crps": rating.crps(true),
                "pit": low + rng.random(len(true)) * (high - low),
            }
            uncertainty = query.belief.uncertainty
            if uncertainty is not None:
                liked_from = float(uncertainty.liked_from[0])
                columns |= {"liked_probability": rating.at_least(liked_from), "is_liked": true >= liked_from}
            for name, values in columns.items():
                for fact, value in zip(facts, values.tolist(), strict=True):
                    fact[name] = value
    return [
        JudgedRow(rated.user, item, loaded.version, rated.at, **fact) for item, fact in zip(items, facts, strict=True)
    ]
