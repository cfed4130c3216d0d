"""From a request to its answer: stored ratings of the user, the model's belief, and plain values as the result."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from tastespace.errors import InvalidParameterError
from tastespace.models.base.policies import policy_of
from tastespace.models.base.query import Query
from tastespace.models.base.results import Lists, rounded
from tastespace.models.base.rules import NotShown
from tastespace.models.base.similarity import SimilarKind
from tastespace.report.model_page import attributes_of, entries
from tastespace.report.taste_map import TasteMap, place_content, user_place
from tastespace.service.live_model import Known, Loaded
from tastespace.service.messages import (
    PredictionRequest,
    QuestionRequest,
    RecommendationRequest,
    ShownItem,
    UserMessage,
)
from tastespace.service.monitoring import Metrics
from tastespace.service.promises.monitor import Monitor
from tastespace.service.store import Store

NOBODY = "you"  # a user without an id, whose history was sent
MAX_QUESTIONS = 100  # Each takes as long as a list, and users do not answer more.
MAX_DIVERSE = 100  # Each item of a diverse list is compared with those before it.


@dataclass(frozen=True, eq=False)
class Answerer:
    """Answers with one version of the model."""

    loaded: Loaded
    store: Store
    metrics: Metrics
    max_items: int
    monitor: Monitor | None = None

    def recommendations(self, wanted: RecommendationRequest) -> str:
        """Recommendations as JSON; the answer to the same request about the same ratings is cached for a while."""
        self._limit("n", wanted.n)
        if wanted.diversity:
            self._limit("n of a diverse list", wanted.n, MAX_DIVERSE)
        known = self._known(wanted)
        # What was shown recently depends on the time.
        is_kept = (
            wanted.user is not None
            and wanted.user_features is None
            and wanted.shown is None
            and not _asks_for_shown(wanted)
        )
        question = wanted.model_dump_json() if is_kept else ""
        kept = known.answers.get(question)
        if kept is None:
            found = self._recommended(wanted, known.query)
            kept = as_json(found), tuple(entry["item"] for entry in found["items"])
            if is_kept:
                self.loaded.keep_answer(known, question, kept)
        answer, items = kept
        if wanted.user is not None and self.monitor is not None:
            self.monitor.show(wanted.user, items, self.loaded.version)
        return answer

    def _recommended(self, wanted: RecommendationRequest, query: Query) -> dict[str, Any]:
        model = self.loaded.recommender
        options = wanted.model_dump(exclude={"user", "history", "user_features", "explain", "exclude", "shown"})
        shown = None if wanted.shown is None else _shown_table(query, wanted.shown)
        if shown is None and wanted.user is not None and self.monitor is not None and _asks_for_shown(wanted):
            known = [ShownItem(item=item, at=at) for item, at in self.monitor.shown_to(wanted.user)]
            shown = _shown_table(query, known)
        ranking = model.recommend(query, exclude=self._excluded(wanted.exclude), shown=shown, **options)
        explanation = None
        if wanted.explain and (ranking.item_rows >= 0).any():
            explanation = model.explain(query, ranking.item_ids.drop_nulls())
        found, sure = entries(model.ratings_, ranking, explanation), query.belief.uncertainty
        liking = {"liked_from": [sure.liked_from[0]]} if sure is not None and not model.takes_choices else {}
        return {
            "user": wanted.user,
            "cold": bool(ranking.cold[0]),
            "policy": type(policy_of(wanted.policy)).__name__.lower(),
            "model": self.loaded.version,
            "found_by": ranking.found_by,
            **{name: rounded(values[0]) for name, values in (liking | ranking.liking()).items()},
            "remarks": ranking.remarks,
            "items": [
                {**entry, "ratings": int(self.loaded.popularity[row]) if len(model.ratings_) else None}
                for entry, row in zip(found, ranking.item_rows[0].tolist(), strict=False)
            ],
        }

    def predictions(self, wanted: PredictionRequest) -> dict[str, Any]:
        self._limit("the number of items", len(wanted.items))
        prediction = self.loaded.recommender.predict(self._known(wanted).query, wanted.items)
        rows = prediction.to_dict(wanted.coverage)["predictions"]
        for row in rows:
            del row["user"]
        return {
            "user": wanted.user,
            "model": self.loaded.version,
            "coverage": wanted.coverage,
            "remarks": prediction.remarks,
            "items": [{**row, "item": str(row["item"])} for row in rows],
        }

    def questions(self, wanted: QuestionRequest) -> dict[str, Any]:
        self._limit("n", wanted.n, MAX_QUESTIONS)
        options = wanted.model_dump(exclude={"user", "history", "user_features", "exclude"})
        query = self._known(wanted).query
        questions = self.loaded.recommender.ask(query, exclude=self._excluded(wanted.exclude), **options)
        answer = self._listed(questions) | {"user": wanted.user}
        trained, items = self.loaded.recommender.ratings_, answer["items"]
        about = attributes_of(trained, trained.items.rows_of([item["item"] for item in items]))
        items = [{**item, "attributes": attributes} for item, attributes in zip(items, about, strict=True)]
        return answer | {"items": items}

    def similar(self, item: str, n: int, where: str | None, kind: SimilarKind | None) -> dict[str, Any]:
        self._limit("n", n)
        answer = self._listed(
            self.loaded.recommender.similar_items(
                [item], n, exclude=list(self.loaded.removed) or None, where=where, kind=kind
            )
        )
        return answer | {"item": item}

    def _listed(self, lists: Lists) -> dict[str, Any]:
        """The first list of an answer, with its remarks."""
        (answer,) = lists.to_dicts()
        items = [{"rank": rank, **entry, "item": str(entry["item"])} for rank, entry in enumerate(answer["items"], 1)]
        return answer | {"items": items, "model": self.loaded.version, "remarks": lists.remarks}

    def place(self, about: UserMessage, shown: TasteMap) -> dict[str, Any]:
        query = self._known(about).query
        return {
            "user": about.user,
            "model": self.loaded.version,
            "method": shown.method,
            "remarks": query.remarks,
            "cold": bool(query.cold[0]),
            **place_content(user_place(shown, query)),
        }

    def _known(self, about: UserMessage) -> Known:
        """The belief about the user from their current ratings; for a new user, from the history that was sent."""
        if about.user is None:
            told = about.user_features
            return Known(0, self.loaded.about(NOBODY, about.history or {}, is_sent=True, user_features=told))
        if about.history is not None:
            raise InvalidParameterError("got a user and a history; expected one of them: ratings of users are stored")
        # The version is read first: a rating that arrives in between makes the belief newer than its version, which
        # costs one more fold-in but never gives an outdated answer.
        version = self.store.person(about.user).version
        if about.user_features is not None:  # Not stored, so that nothing is cached.
            history = self.store.history(about.user)
            return Known(version, self.loaded.about(about.user, history, user_features=about.user_features))
        known = self.loaded.known(about.user, version)
        self.metrics.believed(was_kept=known is not None)
        if known is None:
            known = Known(version, self.loaded.about(about.user, self.store.history(about.user)))
            self.loaded.keep(about.user, known)
        return known

    def _excluded(self, asked: list[str] | None) -> Any:
        """What must not be in a list: what was asked for, and what was removed from the catalogue."""
        return [*(asked or ()), *self.loaded.removed] or "seen"

    def _limit(self, name: str, n: int, largest: int = sys.maxsize) -> None:
        largest = min(largest, self.max_items)
        if n > largest:
            raise InvalidParameterError(f"{name} is {n}; expected at most {largest}")


def _asks_for_shown(wanted: RecommendationRequest) -> bool:
    return any(rule.partition(":")[0].strip() == NotShown.name for rule in wanted.rules)


def _shown_table(query: Query, shown: list[ShownItem]) -> pl.DataFrame:
    """The items shown to the user of a query; those without a time were shown now."""
    now = datetime.now(UTC)
    times = [(one.at or now).astimezone(UTC).replace(tzinfo=None) for one in shown]
    columns = {"user": [str(query.users[0])] * len(shown), "item": [one.item for one in shown], "time": times}
    return pl.DataFrame(columns, {"user": pl.String, "item": pl.String, "time": pl.Datetime})


def as_json(content: dict[str, Any]) -> str:
    """The content as JSON text. It consists of plain values, so it is not checked again."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False)
