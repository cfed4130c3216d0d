"""Log lines for machines: one JSON object each, with the id of the request. Never a header or a body."""

from __future__ import annotations

import json
import logging
import os
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

FIELDS = ("request_id", "client", "milliseconds")
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)  # the id of the one that is being answered


class JsonLines(logging.Formatter):
    """What happened, when, and to which request."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := REQUEST.get()) is not None:
            entry["request_id"] = request  # also where whoever logs does not know that there is a request
        entry |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_config(level: str = "INFO") -> dict[str, Any]:
    """For `logging.config.dictConfig`: everything as JSON lines on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.JsonLines"}},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {
            "tastespace": {"level": level},
            "uvicorn": {"handlers": ["lines"], "level": level, "propagate": False},
        },
    }


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The counters of one worker."""

    def __init__(self) -> None:
        self._counted = CollectorRegistry()
        here: Any = {"registry": self._counted}
        self._seconds = Histogram(
            "tastespace_request_seconds",
            "Time to answer, by method, route and status.",
            ["method", "route", "status"],
            buckets=BUCKETS,
            **here,
        )
        self._ratings = Counter("tastespace_ratings_stored", "Ratings stored, replaced ones included.", **here)
        self._beliefs = Counter(
            "tastespace_beliefs", "Users asked about, by whether they were known.", ["found"], **here
        )
        self._activation = Gauge(
            "tastespace_model_activation",
            "Which activation of a model answers; the least of all workers.",
            **here,
            multiprocess_mode="livemin",
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(method, route, str(status)).observe(seconds)

    def stored(self, n: int) -> None:
        self._ratings.inc(n)

    def believed(self, *, was_kept: bool) -> None:
        self._beliefs.labels("kept" if was_kept else "concluded").inc()

    def answers(self, activation: int) -> None:
        """Which activation answers here, from now on."""
        self._activation.set(activation)

    def text(self) -> bytes:
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._counted)
        _leave_out_the_dead(Path(os.environ[FOLDER_VARIABLE]))
        everywhere = CollectorRegistry()
        multiprocess.MultiProcessCollector(everywhere)  # type: ignore[no-untyped-call]
        return generate_latest(everywhere)


def _leave_out_the_dead(folder: Path) -> None:
    """A worker that was killed answers with nothing any more; what it had counted still counts."""
    for process in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*.db")}:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]
