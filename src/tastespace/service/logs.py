"""Log lines for machines: one JSON object each, with the id of the request. Never a header or a body."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

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
