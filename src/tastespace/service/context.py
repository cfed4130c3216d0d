"""What all routes share: one of each, in every worker."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyio import CapacityLimiter
from fastapi import Request

from tastespace.service.answering import Answerer
from tastespace.service.guarding import Rates
from tastespace.service.keys import Keys
from tastespace.service.live_model import LiveModel
from tastespace.service.maps import Maps
from tastespace.service.metrics import Metrics
from tastespace.service.settings import Settings
from tastespace.service.store import Store


@dataclass(frozen=True, eq=False)
class Context:
    """The parts of a running service."""

    settings: Settings
    keys: Keys
    store: Store
    live: LiveModel
    metrics: Metrics
    rates: Rates
    maps: Maps
    # Threads for lists: one asks the model, and another reads the database or writes its answer meanwhile. More would
    # wait for the interpreter: a tenth fewer answers, and the slowest took twice as long.
    listing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))

    @property
    def answerer(self) -> Answerer:
        """Answers with the version of now, whatever is activated meanwhile."""
        return Answerer(self.live.current, self.store, self.metrics, self.settings.most_items)


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context
