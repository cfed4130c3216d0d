"""What is sent and answered to be drawn: the taste map, a user's place on it, and what a model says of itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tastespace.service.messages import About

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
