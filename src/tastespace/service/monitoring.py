"""Log lines as JSON, with the id of the request and never a header or a body; and metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import os
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

FIELDS = ("request_id", "client", "milliseconds", "left_out")
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)  # the id of the current request


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := REQUEST.get()) is not None:
            entry["request_id"] = request  # also for code that does not know of requests
        entry |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class Bounded(logging.Filter):
    """Lets only some lines of a kind through in a while, so that no client can fill the disk; the next tells how many.

    Lines of one kind have the same text before values are filled in, and, where they are of requests, the same status.
    Answered requests are all logged: how many they are is limited by the work.
    """

    def __init__(self, n: int = 50, seconds: float = 10.0) -> None:
        super().__init__()
        self._n, self._seconds = n, seconds
        self._lock = threading.Lock()
        self._counts: dict[Any, tuple[float, int]] = {}  # by kind: the beginning of its while, and lines in it

    def filter(self, record: logging.LogRecord) -> bool:
        status = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        is_request = record.name.endswith(".access")
        if is_request and isinstance(status, int) and status < 400:
            return True
        kind = (record.name, str(record.msg)[:200], status if is_request else None)
        with self._lock:
            if len(self._counts) > 1000:
                self._counts.clear()
            since, count = self._counts.get(kind, (record.created, 0))
            if record.created - since >= self._seconds:
                if count > self._n:
                    record.left_out = count - self._n
                since, count = record.created, 0
            self._counts[kind] = (since, count + 1)
            return count < self._n


def log_config(level: str = "INFO") -> dict[str, Any]:
    """A configuration for `logging.config.dictConfig`: JSON lines on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.JsonLines"}},
        "filters": {"bounded": {"()": f"{__name__}.Bounded"}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "filters": ["bounded"],
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {
            "tastespace": {"level": level},
            "uvicorn": {"handlers": ["lines"], "level": level, "propagate": False},
        },
    }


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """Counters and timings of one worker."""

    def __init__(self) -> None:
        self._counted = CollectorRegistry()
        here: Any = {"registry": self._counted}
        about = ("tastespace_request_seconds", "Response time, by method, route and status.")
        self._seconds = Histogram(*about, ["method", "route", "status"], buckets=BUCKETS, **here)
        self._ratings = Counter("tastespace_ratings_stored", "Ratings stored, replaced ones included.", **here)
        self._beliefs = Counter(
            "tastespace_beliefs", "Requests about users, by whether their belief was cached.", ["found"], **here
        )
        self._closed = Counter(
            "tastespace_connections_closed", "Connections that were closed or refused, by reason.", ["reason"], **here
        )
        self._unwatched = Counter("tastespace_unwatched", "Lists and ratings that were not watched.", ["what"], **here)
        latest: Any = {**here, "multiprocess_mode": "mostrecent"}
        about_promises = "Measures of the latest ratings, held against what the model believed just before them."
        self._promises = Gauge("tastespace_promise", about_promises, ["measure", "version"], **latest)
        self._drift = Gauge("tastespace_drift", "1 if ratings are no longer what is expected.", ["version"], **latest)
        self._activation = Gauge(
            "tastespace_model_activation",
            "Activation of the model that answers; the minimum over workers.",
            **here,
            multiprocess_mode="livemin",
        )

    def unwatched(self, what: str, n: int) -> None:
        """Count lists and ratings that came too fast to be watched."""
        self._unwatched.labels(what).inc(n)

    def kept(self, version: str, health: dict[str, Any]) -> None:
        """Record how well a version keeps its promises."""
        for name, measure in health["measures"].items():
            self._promises.labels(name, version).set(measure["value"])
        self._drift.labels(version).set(float(health["drift"]["flagged"]))

    def closed(self, reason: str) -> None:
        """Count a connection that the service closed, or did not accept."""
        self._closed.labels(reason).inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(method, route, str(status)).observe(seconds)

    def stored(self, n: int) -> None:
        self._ratings.inc(n)

    def believed(self, *, was_kept: bool) -> None:
        self._beliefs.labels("kept" if was_kept else "concluded").inc()

    def answers(self, activation: int) -> None:
        """Record the activation that answers in this worker from now on."""
        self._activation.set(activation)

    def text(self) -> bytes:
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._counted)
        _mark_dead_workers(Path(os.environ[FOLDER_VARIABLE]))
        everywhere = CollectorRegistry()
        multiprocess.MultiProcessCollector(everywhere)  # type: ignore[no-untyped-call]
        return generate_latest(everywhere)


def _mark_dead_workers(folder: Path) -> None:
    """Drop the gauges of killed workers; their counters still count."""
    for process in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*.db")}:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]
