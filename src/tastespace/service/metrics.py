"""What is counted, in Prometheus' form; of all workers together where there are several."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The counters of one worker."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "tastespace_request_seconds",
            "Time to answer, by method, route and status.",
            ["method", "route", "status"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._ratings = Counter(
            "tastespace_ratings_stored", "Ratings stored, replaced ones included.", registry=self._registry
        )
        self._beliefs = Counter(
            "tastespace_beliefs", "Users asked about, by whether they were known.", ["found"], registry=self._registry
        )
        self._activation = Gauge(
            "tastespace_model_activation",
            "Which activation of a model answers; the least of all workers.",
            registry=self._registry,
            multiprocess_mode="livemin",
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(method, route, str(status)).observe(seconds)

    def stored(self, n: int) -> None:
        self._ratings.inc(n)

    def believed(self, *, was_kept: bool) -> None:
        self._beliefs.labels("kept" if was_kept else "concluded").inc()

    def text(self, activation: int) -> bytes:
        self._activation.set(activation)
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        everywhere = CollectorRegistry()
        multiprocess.MultiProcessCollector(everywhere)  # type: ignore[no-untyped-call]
        return generate_latest(everywhere)
