"""What is sent and answered: strict, so that what was not meant is refused, and with an example each."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tastespace.service.middleware import STAND_IN

LONGEST_ID = 200
MOST_NAMED = 10_000  # items in a filter


def _text(value: Any) -> Any:
    """Ids are text; a whole number is taken as it is written."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def printable(text: str) -> str:
    """Refuse what nobody can see or type."""
    if STAND_IN in text or any(unicodedata.category(letter) in ("Cc", "Cs", "Cn") for letter in text):
        raise ValueError("has control characters")
    if not text.strip():
        raise ValueError("is blank")
    return text


Id = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=LONGEST_ID), AfterValidator(printable)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Message(BaseModel):
    """Nothing is converted, and nothing unknown accepted."""

    model_config = ConfigDict(strict=True, extra="forbid")


class About(Message):
    """Who is meant: a user whose ratings are stored, or somebody with this history and no name."""

    user: Id | None = None
    history: dict[Id, Finite] | None = Field(default=None, examples=[{"318": 5, "527": 4.5}])


class Filters(Message):
    """What may be shown."""

    exclude: list[Id] | None = Field(default=None, max_length=MOST_NAMED, description="Never these items.")
    only: list[Id] | None = Field(default=None, max_length=MOST_NAMED, description="None but these items.")
    where: str | None = Field(
        default=None,
        max_length=1000,
        description="A condition on items.",
        examples=["genre = Comedy and year >= 1990"],
    )


class Wanted(About, Filters):
    """A list of recommendations."""

    n: int = Field(default=10, ge=1)
    policy: str = Field(default="mean", max_length=100, examples=["cautious:c=2"])
    include_seen: bool = False
    diversity: float = Field(default=0.0, ge=0, le=1)
    popularity_damping: float = Field(default=0.0, ge=0, le=1000)
    explain: bool = Field(default=False, description="Say which ratings of the user speak for each item.")
    uncertainty: bool = Field(default=True, description="Say how sure each entry is.")


class Guess(About):
    """Predictions of these items."""

    items: list[Id] = Field(min_length=1, examples=[["318", "527"]])
    coverage: float = Field(default=0.9, gt=0, lt=1)


class Curious(About, Filters):
    """What to ask next."""

    n: int = Field(default=5, ge=1)
    goal: Literal["ratings", "list"] = "ratings"


class NewRating(Message):
    """What a user thinks of an item."""

    rating: Finite = Field(examples=[4.5])


class OneOfMany(Message):
    """A rating of a bulk."""

    user: Id = Field(examples=["7"])
    item: Id = Field(examples=["318"])
    rating: Finite = Field(examples=[4.5])
    at: Annotated[datetime, Field(strict=False)] | None = Field(default=None, description="When; now, if not said.")


class Bulk(Message):
    """Many ratings, stored all or none."""

    ratings: list[OneOfMany] = Field(min_length=1)


class Reason(BaseModel):
    """A rating of the user, and what it did for the item."""

    item: str
    title: str | None = None
    rating: float
    contribution: float


class Entry(BaseModel):
    """One item of a list."""

    rank: int
    item: str
    title: str | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    score: float
    belief_sd: float | None = None
    rating_sd: float | None = None
    interval: tuple[float, float] | None = Field(default=None, description="Holds a rating with a probability of 90 %.")
    top_n_probability: float | None = Field(default=None, description="That the item is one of the user's true best n.")
    levels: dict[str, float] | None = None
    because: list[Reason] | None = Field(
        default=None, description="The ratings that speak most for the item, then the one that speaks most against it."
    )


class Recommendations(BaseModel):
    """A list."""

    user: str | None
    cold: bool = Field(description="Nothing was known of the user: this is the list for anybody.")
    policy: str
    model: str
    found_by: str
    remarks: list[str]
    items: list[Entry]


class Predicted(BaseModel):
    """One prediction."""

    item: str
    title: str | None = None
    mean: float
    cold: bool
    belief_sd: float | None = None
    rating_sd: float | None = None
    interval: tuple[float, float] | None = None
    levels: dict[str, float] | None = None


class Predictions(BaseModel):
    """Predictions of one user."""

    user: str | None
    model: str
    coverage: float
    remarks: list[str]
    items: list[Predicted]


class Question(BaseModel):
    """An item to ask about."""

    rank: int
    item: str
    title: str | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    reduction: float = Field(description="What the answer takes away, as a share of the variance before the first.")
    sd: float = Field(description="What remains after the answers up to this one.")


class QuestionList(BaseModel):
    """What to ask a user."""

    user: str | None
    cold: bool
    sd: float
    model: str
    remarks: list[str]
    items: list[Question]


class Item(BaseModel):
    """What is known of an item."""

    item: str
    title: str | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    ratings: int = Field(description="In training.")


class Items(BaseModel):
    """Some items."""

    total: int
    items: list[Item]


class Likeness(BaseModel):
    """An item that is like another."""

    rank: int
    item: str
    title: str | None = None
    similarity: float


class SimilarItems(BaseModel):
    """The items most like one."""

    item: str
    title: str | None = None
    cold: bool
    model: str
    remarks: list[str]
    items: list[Likeness]


class StoredRating(BaseModel):
    """A rating as it is stored."""

    item: str
    title: str | None = None
    rating: float
    at: datetime | None = None


class User(BaseModel):
    """What is known of a user."""

    user: str
    ratings: int
    version: int = Field(description="Goes up with every change.")
    in_training: bool = Field(description="Whether the model has learned from this user, and may still use it.")


class Users(BaseModel):
    """Some users, by the beginning of their ids."""

    users: list[str]


class HistoryOfUser(BaseModel):
    """What a user rated, the newest first."""

    user: str
    total: int
    ratings: list[StoredRating]


class Stored(BaseModel):
    """What was stored."""

    stored: int


class Forgotten(BaseModel):
    """What was forgotten."""

    user: str
    forgotten: int


class Health(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    status: Literal["ready"]
    model: str


class VersionInfo(BaseModel):
    """A version that answered."""

    activation: int
    version: str
    reason: str
    at: datetime


class ModelInfo(BaseModel):
    """What answers."""

    version: str
    activation: int
    model: str
    parameters: dict[str, Any]
    data: dict[str, Any]
    seen: dict[str, Any] | None
    measures: dict[str, Any]
    index: dict[str, Any] | None
    attributes: list[str]
    ratings_stored: int
    people: int
    versions: list[VersionInfo]


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


Method = Literal["pca", "tsne"]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class Sought(About):
    """Whose place is asked for."""

    method: Method = "pca"


class Coming(BaseModel):
    """Not there yet: ask again."""

    status: Literal["being made"]


class Map(BaseModel):
    """The items in two dimensions; one list a property, an entry an item."""

    model: str
    method: Method
    total: int = Field(description="Items of the model; the most rated are shown.")
    explained: float | None = Field(description="Share of the variance that the two dimensions have.")
    items: list[str]
    titles: list[str | None] | None
    x: list[float]
    y: list[float]
    ratings: list[int] = Field(description="How often each item was rated in training.")
    attributes: dict[str, dict[str, Any]] = Field(description="What items can be coloured by.")


class Place(BaseModel):
    """Where a user is on the map, and how sure that is."""

    user: str | None
    model: str
    method: Method
    remarks: list[str]
    cold: bool = Field(description="Nothing is known of the user: this is where anybody is.")
    middle: Pair
    draws: list[Pair] | None = Field(description="One for each draw of what is believed of the user.")


class Outline(BaseModel):
    """What has to be known of the model before it is asked anything."""

    model_config = ConfigDict(populate_by_name=True)

    version: str
    kind: str = Field(alias="class")
    range: Pair = Field(description="The lowest and the highest rating.")
    levels: list[float] | None = Field(description="What ratings can be, where they are few.")
    takes_choices: bool
    scores_are_ratings: bool = Field(description="Else scores of lists are of another kind, such as counts of raters.")
    can: dict[str, bool]
    attributes: dict[str, dict[str, Any]]


class Story(Outline):
    """What a model says of itself."""

    model: str
    parameters: dict[str, Any]
    data: dict[str, Any]
    seen: str
    measures: dict[str, Any]
    chains: dict[str, Any] | None
    course: dict[str, Any] | None
    noise: dict[str, Any] | None
    index: dict[str, Any] | None
