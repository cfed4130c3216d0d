"""What settings are judged by, and whether more of it is better."""

from __future__ import annotations

from dataclasses import dataclass

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.order import NDCG as NDCG_RATED
from tastespace.evaluation.order import OF_ORDER
from tastespace.evaluation.yes_no import BY_USER
from tastespace.models import Recommender
from tastespace.models.choices import OneClass

SMALLER_IS_BETTER = ("rmse", "mae", "crps", "log_loss", "ece")
LARGER_IS_BETTER = ("log_score", *OF_ORDER, "yes_no_auc", BY_USER)
OF_LISTS = ("ndcg", "ndcg_binary", "recall", "precision", "hit_rate", "mrr", "map", "auc")  # larger is better
WITH_LENGTH = (NDCG_RATED, *(name for name in OF_LISTS if name != "auc"))
OF_UNCERTAIN = ("crps", "log_score")
DEFAULT_K = 10


@dataclass(frozen=True)
class Goal:
    """A measure of held-out ratings, as a report has it."""

    measure: str
    k: int = DEFAULT_K

    @property
    def name(self) -> str:
        """The measure without the length of lists."""
        return self.measure.partition("@")[0]

    @property
    def is_smaller_better(self) -> bool:
        return self.name in SMALLER_IS_BETTER

    def better(self, value: float, other: float) -> bool:
        return value < other if self.is_smaller_better else value > other

    def value(self, recommender: Recommender, split: Split) -> float:
        """The measure of a fitted model on the held-out part."""
        report = evaluate(
            recommender,
            split,
            k=self.k,
            ranking=self.name in OF_LISTS,
            groups=False,
            calibration=self.name in OF_UNCERTAIN,
            bootstrap=0,
        )
        if self.measure not in report.measures:
            raise InvalidParameterError(
                f"{self.measure} is not measured of {type(recommender).__name__} on {report.kind} ratings; expected "
                f"one of {', '.join(name for name in report.measures if name.partition('@')[0] in _known())}"
            )
        return report[self.measure]


def goal_of(measure: str | None, recommender: Recommender, ratings: Ratings) -> Goal:
    """The measure asked for, or what decides by the kind of the ratings, as in a contest."""
    if measure is None:
        if ratings.kind in CHOICES or _is_of_choices(recommender):
            return Goal(f"ndcg@{DEFAULT_K}")
        return Goal("log_loss" if ratings.kind == "yes-no" else "rmse")
    name, at, length = str(measure).partition("@")
    has_length = name in WITH_LENGTH
    if name not in _known() or has_length != bool(at) or (at and not (length.isdecimal() and int(length) >= 1)):
        shown = (f"{known}@{DEFAULT_K}" if known in WITH_LENGTH else known for known in _known())
        raise InvalidParameterError(f"the measure is {measure!r}; expected one of {', '.join(shown)}")
    return Goal(measure, int(length) if at else DEFAULT_K)


def _is_of_choices(recommender: Recommender) -> bool:
    """Whether predictions will be no ratings, of a model that is not fitted yet."""
    return isinstance(recommender, OneClass) or recommender.get_params().get("negatives") is not None


def _known() -> tuple[str, ...]:
    return (*SMALLER_IS_BETTER, *LARGER_IS_BETTER, *OF_LISTS)
