"""Requests and responses of the service.

Requests are strict: unknown fields and wrong types are refused. Responses are written as plain values; their classes
here describe them in the OpenAPI document.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tastespace.service.door.middleware import SLASH

MAX_ID_LENGTH = 200
MAX_FILTER_ITEMS = 10_000
# Letters and marks that are drawn as nothing: the grapheme joiner, fillers of Hangul, variation selectors.
INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def _text(value: Any) -> Any:
    """Ids are text; a whole number is accepted as it is written."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def printable(text: str) -> str:
    """The id in its normal form (NFC); what nobody could tell from another id is refused."""
    if text.isascii():
        if not text.isprintable():
            raise ValueError("has control characters")
    else:
        if SLASH in text or any(unicodedata.category(letter) in ("Cc", "Cs", "Cn") for letter in text):
            raise ValueError("has control characters")
        if INVISIBLE.search(text) or any(unicodedata.category(letter) in ("Cf", "Zl", "Zp") for letter in text):
            raise ValueError("has invisible characters, with which it could be taken for another id; leave them out")
        text = unicodedata.normalize("NFC", text)
    if not text.strip():
        raise ValueError("is blank")
    if text != text.strip():
        raise ValueError("begins or ends with white space; leave it out")
    return text


Id = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=MAX_ID_LENGTH), AfterValidator(printable)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Method = Literal["pca", "tsne"]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class Message(BaseModel):
    """A request: nothing is converted, and unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


Fact = str | bool | int | Finite | list[str] | list[Finite] | None


class UserMessage(Message):
    """A request about a user whose ratings are stored, or about a new user with this history."""

    user: Id | None = None
    history: dict[Id, Finite] | None = Field(default=None, examples=[{"318": 5, "527": 4.5}])
    user_features: dict[Annotated[str, Field(min_length=1, max_length=200)], Fact] | None = Field(
        default=None, max_length=200, description="What is known of the user, for models with features of users."
    )

    @property
    def is_slow(self) -> bool:
        """Whether it takes far longer than a plain list."""
        return self.history is not None and len(self.history) > 500


class Filters(Message):
    """Which items may be shown."""

    exclude: list[Id] | None = Field(default=None, max_length=MAX_FILTER_ITEMS, description="Never these items.")
    only: list[Id] | None = Field(default=None, max_length=MAX_FILTER_ITEMS, description="Only these items.")
    where: str | None = Field(
        default=None, max_length=1000, description="A condition on items.", examples=["genre = Comedy and year >= 1990"]
    )


class ShownItem(Message):
    """An item that the user was shown."""

    item: Id
    at: Annotated[datetime, Field(strict=False)] | None = Field(default=None, description="Time; recently by default.")


class RecommendationRequest(UserMessage, Filters):
    """A list of recommendations."""

    n: int = Field(default=10, ge=1)
    policy: str = Field(default="best", max_length=100, examples=["cautious:c=2"])
    include_seen: bool = False
    diversity: float = Field(default=0.0, ge=0, le=1)
    popularity_damping: float = Field(default=0.0, ge=0, le=1000)
    rules: list[Annotated[str, Field(max_length=1000)]] = Field(
        default_factory=list, max_length=50, description="Business rules.", examples=[["at-most:k=2,of=genre"]]
    )
    shown: list[ShownItem] | None = Field(
        default=None, max_length=MAX_FILTER_ITEMS, description="What the user was shown, for the rule not-shown."
    )
    explain: bool = Field(default=False, description="Name the ratings of the user that speak for each item.")
    uncertainty: bool = Field(default=True, description="Add the uncertainty of each entry.")
    top_n: bool = Field(default=False, description="Add the probability of being one of the user's true best n.")

    @property
    def is_slow(self) -> bool:
        """Whether it takes far longer than a plain list."""
        has_extras = self.diversity > 0 or self.explain or self.top_n or self.policy != "best" or bool(self.rules)
        return super().is_slow or self.n > 50 or has_extras


class PredictionRequest(UserMessage):
    """Predictions of these items."""

    items: list[Id] = Field(min_length=1, examples=[["318", "527"]])
    coverage: float = Field(default=0.9, gt=0, lt=1)

    @property
    def is_slow(self) -> bool:
        """Whether it takes far longer than a plain list."""
        return super().is_slow or len(self.items) > 200


class QuestionRequest(UserMessage, Filters):
    """What to ask a user next."""

    n: int = Field(default=5, ge=1)
    goal: Literal["ratings", "list"] = "ratings"


class PlaceRequest(UserMessage):
    """Where a user is on the map."""

    method: Method = "pca"


class NewRating(Message):
    """A user's rating of an item."""

    rating: Finite = Field(examples=[4.5])


class BatchRating(NewRating):
    """One rating of a batch."""

    user: Id = Field(examples=["7"])
    item: Id = Field(examples=["318"])
    at: Annotated[datetime, Field(strict=False)] | None = Field(default=None, description="Time; now by default.")


class RatingBatch(Message):
    """Many ratings, stored all or none."""

    ratings: list[BatchRating] = Field(min_length=1)


class ItemName(BaseModel):
    """An item and its title."""

    item: str
    title: str | None = None


class Item(ItemName):
    """An item with its attributes."""

    attributes: dict[str, Any] = Field(default_factory=dict)


class CatalogueItem(Item):
    """An item of the model."""

    ratings: int = Field(description="Number of ratings in training.")


class ItemChange(Message):
    """What is to be said of an item from now on; null removes a value, what is left out stays."""

    title: Annotated[str, Field(max_length=1000)] | None = None
    attributes: dict[Annotated[str, Field(min_length=1, max_length=200)], Fact] = Field(
        default_factory=dict, max_length=200, examples=[{"genres": ["Comedy"], "year": 2016}]
    )


class NewItem(ItemChange):
    """An item that nobody has rated yet, in the terms of the attributes and features that the model was fitted with."""

    item: Id = Field(examples=["new-1"])


class NewItems(Message):
    """New items, all or none of which are stored."""

    items: list[NewItem] = Field(min_length=1, max_length=10_000)


class StoredItems(BaseModel):
    """New items that were stored."""

    stored: int
    recommendable: bool = Field(description="Whether they can be recommended from the next request on.")
    remarks: list[str]


class RemovedItem(BaseModel):
    """An item that is never shown again."""

    item: str
    removed: bool


class Items(BaseModel):
    """Items found by a search."""

    total: int
    items: list[CatalogueItem]


class Reason(ItemName):
    """A rating of the user, and how much it changed the score of the item."""

    rating: float
    contribution: float


class Uncertainty(BaseModel):
    """Uncertainty of a score or prediction; null where the model provides none."""

    belief_sd: float | None = Field(default=None, description="Standard deviation of the mean (epistemic).")
    rating_sd: float | None = Field(default=None, description="Standard deviation of a rating (predictive).")
    interval: tuple[float, float] | None = Field(
        default=None, description="Holds a rating with this coverage, or 90 %."
    )
    levels: dict[str, float] | None = None


class RecommendedItem(Item, Uncertainty):
    """One item of a list."""

    rank: int
    ratings: int | None = Field(description="Number of ratings in training; null if the model was saved without.")
    score: float = Field(description="What the list is ordered by.")
    expected_rating: float | None = Field(default=None, description="Where the score is not a rating.")
    chosen_probability: float | None = Field(default=None, description="That it is among the user's next choices.")
    liked_probability: float | None = Field(default=None, description="That its rating is at least liked_from.")
    top_n_probability: float | None = Field(default=None, description="That the item is one of the user's true best n.")
    because: list[Reason] | None = Field(
        default=None, description="The ratings that speak most for the item, then the one that speaks most against it."
    )


class Answer(BaseModel):
    """The version of the model that answered, and its remarks."""

    model: str
    remarks: list[str]


class UserAnswer(Answer):
    """An answer about one user; null for a new user."""

    user: str | None


class Recommendations(UserAnswer):
    """A list of recommendations."""

    cold: bool = Field(description="Nothing is known about the user: this is the default list.")
    policy: str
    found_by: str
    liked_from: float | None = Field(default=None, description="What the user has to rate something to have liked it.")
    base_rate: float | None = Field(default=None, description="The average chosen_probability of all items.")
    items: list[RecommendedItem]


class PredictedItem(ItemName, Uncertainty):
    """One prediction."""

    mean: float
    cold: bool


class Predictions(UserAnswer):
    """Predictions for one user."""

    coverage: float
    items: list[PredictedItem]


class Question(Item):
    """An item to ask about."""

    rank: int
    reduction: float = Field(description="Share of the initial variance that the answer removes.")
    sd: float = Field(description="Uncertainty that remains after the answers up to this one.")


class Questions(UserAnswer):
    """What to ask a user."""

    cold: bool
    sd: float
    items: list[Question]


class SimilarItem(ItemName):
    """An item that is similar to another."""

    rank: int
    similarity: float


class SimilarItems(ItemName, Answer):
    """The items most similar to one."""

    cold: bool
    items: list[SimilarItem]


class StoredRating(ItemName):
    """A rating as it is stored."""

    rating: float
    at: datetime | None = None


class User(BaseModel):
    """A user of the database."""

    user: str
    ratings: int
    version: int = Field(description="Goes up with every change.")
    in_training: bool = Field(description="Whether the model has learned from this user, and may still use it.")


class Users(BaseModel):
    """Users found by the beginning of their ids."""

    users: list[str]


class UserHistory(BaseModel):
    """The ratings of a user, newest first."""

    user: str
    total: int
    ratings: list[StoredRating]


class UserExport(BaseModel):
    """Everything that is stored about a user."""

    user: str
    database: dict[str, list[dict[str, Any]]] = Field(description="The rows of each table.")
    versions: dict[str, int] = Field(description="Kept versions of the model that know the user, with their ratings.")


class StoredCount(BaseModel):
    """How many ratings were stored."""

    stored: int


class DeletedUser(BaseModel):
    """How many ratings of a user were deleted."""

    user: str
    forgotten: int


class Health(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    """The version that answers here, and the one that is active in the database."""

    status: Literal["ready", "diverged"]
    model: str
    active: str | None
    problem: str | None = Field(description="Why another version than the active one answers.")


class Pending(BaseModel):
    """Not ready yet: ask again."""

    status: Literal["being made"]


class VersionInfo(BaseModel):
    """A version of the model that was activated."""

    activation: int
    version: str
    reason: str
    at: datetime


class KeptVersion(VersionInfo):
    """The same with its accuracy, as far as it is kept here and was measured."""

    measures: dict[str, float | None] = Field(description="RMSE, and coverage of 90 % intervals, on held-out ratings.")


class Swap(VersionInfo):
    """What a reload or a rollback did."""

    before: str | None = Field(description="The version that was active.")
    changed: bool = Field(description="False if the artifact is the version that answers already.")


class ModelInfo(BaseModel):
    """The model that answers, and the database."""

    version: str
    activation: int
    model: str
    parameters: dict[str, Any]
    data: dict[str, Any]
    seen: dict[str, Any] | None
    measures: dict[str, Any]
    choice: dict[str, Any] | None  # why this model was chosen; null where it was named
    index: dict[str, Any] | None
    attributes: list[str]
    ratings_stored: int
    people: int
    versions: list[KeptVersion]


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


class Challenge(Message):
    """A trial of another version."""

    share: float = Field(default=0.5, gt=0, lt=1, description="Share of the users that it answers.", examples=[0.1])


class TrialInfo(BaseModel):
    """A version that answers a share of the users."""

    version: str
    share: float
    started: datetime


class TrialEnd(BaseModel):
    status: Literal["dropped"]


class Measure(BaseModel):
    """A measure of the latest ratings, with its 95 % interval over users."""

    value: float
    n: int = Field(description="Ratings that it is of.")
    low: float | None = None
    high: float | None = None


class Drift(BaseModel):
    """A test of whether the ratings still are what the version expects."""

    flagged: bool
    since: datetime | None
    after: int | None = Field(description="Tested outcomes until then.")
    because: str | None
    tested: int
    evidence: float = Field(description="Against no change; flagged from the threshold on.")
    threshold: float
    false_alarm_rate: float = Field(description="Probability that a version is ever flagged if nothing changes.")


class VersionHealth(BaseModel):
    """How well a version keeps what it promises."""

    version: str
    shown: int = Field(description="Items on record as shown by this version.")
    ratings: int = Field(description="Latest ratings that the measures are of.")
    users: int
    measures: dict[str, Measure]
    drift: Drift


class ModelHealth(BaseModel):
    """How well the current version and a challenger keep what they promise."""

    version: str
    days: float
    challenger: TrialInfo | None
    versions: list[VersionHealth]


class Map(BaseModel):
    """The items in two dimensions; one list per property, with one entry per item."""

    model: str
    method: Method
    total: int = Field(description="Items of the model; the most rated are shown.")
    min_ratings: int = Field(description="Items with fewer ratings are not shown: their places are mostly noise.")
    explained: float | None = Field(description="Share of the variance that the two dimensions explain.")
    items: list[str]
    titles: list[str | None] | None
    x: list[float]
    y: list[float]
    ratings: list[int] = Field(description="Number of ratings of each item in training.")
    attributes: dict[str, dict[str, Any]] = Field(description="Attributes that items can be coloured by.")


class Place(UserAnswer):
    """Where a user is on the map, with its uncertainty."""

    method: Method
    cold: bool = Field(description="Nothing is known about the user: this is the place of a new user.")
    middle: Pair
    draws: list[Pair] | None = Field(description="One place per posterior draw.")


class ModelOutline(BaseModel):
    """What a client needs to know about the model before it asks."""

    model_config = ConfigDict(populate_by_name=True)

    version: str
    items_are: str | None = Field(description="The word for items, in the plural, if it is known.")
    images: str | None = Field(description="The attribute with addresses of images, if they may be loaded.")
    trained_at: datetime | None = Field(description="When the artifact was written.")
    n_ratings: int
    n_users: int
    n_items: int
    has_ratings: bool = Field(description="Whether the model was saved with its ratings.")
    has_times: bool = Field(description="Whether the ratings of the training data have times.")
    kind: str = Field(alias="class")
    range: Pair = Field(description="The lowest and the highest rating.")
    levels: list[float] | None = Field(description="The values that ratings can have, if they are few.")
    takes_choices: bool = Field(description="Whether the model learns from implicit feedback.")
    scores_are_ratings: bool = Field(description="False where scores are something else, such as counts of raters.")
    can: dict[str, bool]
    attributes: dict[str, dict[str, Any]]


class ModelStory(ModelOutline):
    """How the model was fitted, how accurate it is, and what it learned."""

    model: str
    parameters: dict[str, Any]
    data: dict[str, Any]
    seen: str
    measures: dict[str, Any]
    choice: dict[str, Any] | None
    chains: dict[str, Any] | None
    course: dict[str, Any] | None
    noise: dict[str, Any] | None
    index: dict[str, Any] | None
