"""Business rules: requirements on lists, whatever the model predicts.

at-most      at most k items of a list have the same value of an attribute; each of several values counts
boost, bury  items that fulfil a condition move up or down by strength * spread_i: the standard deviation over all items
             of the values by which the list of user i is ordered
not-shown    no item that the user was shown within the last days, according to a table of users, items and times
pin          an item has this place in every list, unless the user has seen it, was shown it lately, or may not see it
min-ratings  no item with fewer training ratings

`min-ratings` and `not-shown` are filters. Boosts change the order; then `at-most` takes the best that it allows, from
as many as needed to fill the list; pins come last. They count for `at-most`, which does not remove them.

The effect of a rule is counted in `Effects`, which add up over blocks of users, and reported in the remarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.attributes import Attributes, Column
from tastespace.data.filters import Condition
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, named
from tastespace.index.search import Neighbours
from tastespace.models.base.posterior import Belief, Pairs
from tastespace.models.base.query import Filters, known_items
from tastespace.parameters import check_int, check_number
from tastespace.settings import Settings, settings_of

MOST_STRENGTH = 1000  # the condition alone decides at much lower values
Effects = Counter[tuple[int, str]]  # by the position of a rule, and the counted effect
Values = Mapping[int, set[int]]  # by the position of a rule that limits them


@dataclass(frozen=True)
class AtMost(Settings):
    """At most k items of a list have the same value of an attribute."""

    name: ClassVar[str] = "at-most"
    k: int
    of: str

    def check(self) -> None:
        check_int("k", self.k, least=1)


@dataclass(frozen=True)
class Boost(Settings):
    """Items that fulfil a condition move up."""

    name: ClassVar[str] = "boost"
    where: str
    strength: float = 1.0
    sign: ClassVar = 1

    def check(self) -> None:
        check_number("strength", self.strength, above=0, below=MOST_STRENGTH)
        Condition(self.where)


@dataclass(frozen=True)
class Bury(Boost):
    """Items that fulfil a condition move down."""

    name: ClassVar[str] = "bury"
    sign: ClassVar = -1


@dataclass(frozen=True)
class NotShown(Settings):
    """No item that the user was shown within the last days; an item without a time counts as shown lately."""

    name: ClassVar[str] = "not-shown"
    days: float = 7.0

    def check(self) -> None:
        check_number("days", self.days, above=0, below=1e6)


@dataclass(frozen=True)
class Pin(Settings):
    """An item has this place in every list; the first is 1."""

    name: ClassVar[str] = "pin"
    item: Any
    place: int = 1

    def check(self) -> None:
        check_int("place", self.place, least=1)


@dataclass(frozen=True)
class MinRatings(Settings):
    """No item with fewer training ratings."""

    name: ClassVar[str] = "min-ratings"
    n: int

    def check(self) -> None:
        check_int("n", self.n, least=1)


Rule = AtMost | Boost | Bury | NotShown | Pin | MinRatings
RULES: dict[str, type[Rule]] = {kind.name: kind for kind in (AtMost, Boost, Bury, NotShown, Pin, MinRatings)}


def rules_of(given: Sequence[Rule | str] | Rule | str) -> tuple[Rule, ...]:
    """The rules: objects, or texts such as ``at-most:k=2,of=genre``."""
    if isinstance(given, str | Settings):
        given = [given]
    if not isinstance(given, Sequence):
        raise InvalidParameterError(
            f"rules is of type {type(given).__name__}; expected a list of rules, such as ['at-most:k=2,of=genre']"
        )
    return tuple(settings_of(rule, RULES, "rule", Rule) for rule in given)


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules prepared for the items of a model: the same for every user, and for every block of users."""

    rules: tuple[Rule, ...]
    items: Ratings
    attributes: Attributes
    shown: Ratings | None  # users, items and perhaps times
    doubts: list[str] = field(default_factory=list)  # about conditions
    matches: dict[int, BoolArray] = field(default_factory=dict)  # of boosts: the items that fulfil each condition
    limits: dict[int, Column] = field(default_factory=dict)
    pins: dict[int, int] = field(default_factory=dict)  # the item of each rule that pins one

    @classmethod
    def of(cls, given: Any, shown: Any, items: Ratings, attributes: Callable[[], Attributes], n: int) -> Rules | None:
        """The rules for lists of n; None if there are none. Rules that are impossible for these items are refused."""
        rules = rules_of(given)
        if not rules and shown is None:
            return None
        if (shown is None) != (not any(isinstance(rule, NotShown) for rule in rules)):
            problem = "the rule not-shown needs a table" if shown is None else "no rule uses the table of shown items"
            raise InvalidParameterError(
                f"{problem}; expected both the rule not-shown and a table with the columns user, item and perhaps time"
            )
        found = cls(rules, items, attributes(), None if shown is None else shown_pairs(shown))
        for place, rule in enumerate(rules):
            if isinstance(rule, Boost):
                found.matches[place], doubts = Condition(rule.where).matches(found.attributes)
                found.doubts.extend(doubts)
            elif isinstance(rule, AtMost):
                found.limits[place] = found._column(rule)
            elif isinstance(rule, Pin):
                found._pin(place, rule, n)
            elif isinstance(rule, MinRatings) and not len(items):
                raise InvalidParameterError(
                    "the model was saved without its ratings, so the numbers of ratings are not known; "
                    "expected no rule min-ratings, or a model saved with its ratings"
                )
        return found

    def _column(self, rule: AtMost) -> Column:
        column = self.attributes.find(rule.of)
        if column is None:
            problem, expected = self.attributes.unknown(rule.of)
            if self.items.item_attributes is None:
                expected += "; the model has no attributes of items: read the ratings with items=FILE"
            raise InvalidParameterError(f"the rule {rule} {problem}; expected {expected}")
        if column.kind == "other":
            raise InvalidParameterError(f"the rule {rule} asks for {column.name!r}; expected texts or numbers")
        return column

    def _pin(self, place: int, rule: Pin, n: int) -> None:
        (row,) = known_items(self.items, pl.Series([rule.item])).tolist()
        others = [other for other in self.rules[:place] if isinstance(other, Pin)]
        if rule.place > n:
            raise InvalidParameterError(f"the rule {rule} has place {rule.place}; expected one in lists of {n}")
        if any(other.place == rule.place for other in others) or row in self.pins.values():
            raise InvalidParameterError(
                f"the rule {rule} pins an item or a place that another rule also pins; expected each once"
            )
        self.pins[place] = row

    @cached_property
    def lift(self) -> FloatArray | None:
        """How far each item moves up, in spreads; None if nothing moves."""
        if not self.matches:
            return None
        lift = np.zeros(len(self.items.items.ids), np.float32)
        for place, matching in self.matches.items():
            rule = self.rules[place]
            assert isinstance(rule, Boost)
            lift[matching] += np.float32(rule.sign * rule.strength)
        return lift

    @cached_property
    def enough(self) -> BoolArray | None:
        """Which items have enough ratings; pinned ones need none."""
        least = [rule.n for rule in self.rules if isinstance(rule, MinRatings)]
        if not least:
            return None
        enough = np.asarray(self.attributes.rating_counts >= max(least))
        enough[list(self.pins.values())] = True
        return enough

    @cached_property
    def recent(self) -> tuple[pl.Series, IntArray] | None:
        """Users, and rows of items (-1: unknown) that they were shown lately."""
        days = [rule.days for rule in self.rules if isinstance(rule, NotShown)]
        if self.shown is None or not days:
            return None
        users, items = self.shown.user_ids(), self.items.items.rows_of(self.shown.items.ids)[self.shown.item_rows]
        if self.shown.times is None:
            return users, items
        since = np.datetime64("now", "s") - np.timedelta64(int(max(days) * 86400), "s")
        lately = ~(self.shown.times < since)  # An unknown time may be any.
        return users.filter(pl.Series(lately)), items[lately]

    def filters(self, make: Callable[..., Filters], matching: BoolArray | None) -> Filters:
        """The filters of a request, with those of the rules; `make` takes the matching and the shown items."""
        if self.pins:
            allowed = make(matching=matching).allowed
            rows = list(self.pins.values())
            if allowed is not None and not allowed[rows].all():
                wrong = self.items.items.at(np.array(rows)[~allowed[rows]])
                raise InvalidParameterError(
                    f"item {named(wrong)} is pinned, but left out by exclude, only or where; expected one of the two"
                )
        if self.enough is not None:
            matching = self.enough if matching is None else matching & self.enough
        return make(matching=matching, shown=self.recent)

    def count_shown(self, each: Any, effects: Effects) -> None:
        """Count the items that are not shown again to each of these users."""
        if self.recent is None:
            return
        users = each.rows_of(self.recent[0])
        there = (users >= 0) & (self.recent[1] >= 0)
        for place, rule in enumerate(self.rules):
            if isinstance(rule, NotShown):
                effects[place, "items"] += int(there.sum())
                effects[place, "lists"] += len(np.unique(users[there]))

    def count_moved(self, before: Neighbours, after: Neighbours, effects: Effects) -> None:
        """Count the items that boosts brought into lists, and that burying took from them."""
        for place, matching in self.matches.items():
            rule = self.rules[place]
            old, new = (before, after) if rule.sign > 0 else (after, before)  # type: ignore[union-attr]
            for had, has in zip(old.items, new.items, strict=True):
                moved = np.setdiff1d(has[has >= 0], had)
                if n_moved := int(matching[moved].sum()):
                    effects[place, "items"] += n_moved
                    effects[place, "lists"] += 1

    def values_to_fill(self, filters: Filters) -> Values:
        """The values of limited attributes; nothing can be added to a list that has at most k of each.

        Only of attributes that all items have which are allowed for everyone: others are never used up.
        """
        found = {}
        for place, column in self.limits.items():
            values = column.values_of_items
            some = values if filters.allowed is None else [values[item] for item in np.flatnonzero(filters.allowed)]
            if all(some):
                found[place] = set().union(*some)
        return found

    def _limited(
        self, found: IntArray, n: int, filters: Filters, effects: Effects, to_fill: Values
    ) -> tuple[IntArray, bool]:
        """The first n items of each ordered list that the limits allow, -1 for none; and whether all are complete.

        Pinned items are inserted later and are skipped here.
        """
        chosen = np.full((len(found), n), -1, np.int32)
        limits = [(place, self.rules[place].k, column.values_of_items) for place, column in self.limits.items()]  # type: ignore[union-attr]
        is_full = True
        for user, items in enumerate(found.tolist()):
            pinned = set(self._pinned_for(user, filters).values())
            held = {place: Counter(code for item in pinned for code in values[item]) for place, _, values in limits}
            skipped: Counter[int] = Counter()
            count, wanted = 0, n - len(pinned)
            for item in items:
                if item < 0 or count == wanted:
                    break
                if item in pinned:
                    continue
                over = [p for p, k, values in limits if any(held[p][code] >= k for code in values[item])]
                skipped.update(over)
                if over:
                    continue
                for place, _, values in limits:
                    held[place].update(values[item])
                chosen[user, count] = item
                count += 1
            used_up = any(all(held[p][code] >= k for code in to_fill[p]) for p, k, _ in limits if p in to_fill)
            is_full &= count == wanted or items[-1] < 0 or used_up
            for place, n_skipped in skipped.items():
                effects[place, "items"] += n_skipped
                effects[place, "lists"] += 1
            for place in self.limits if count < wanted else ():
                effects[place, "short"] += 1
        return chosen, is_full

    def _pinned_for(self, user: int, filters: Filters) -> dict[int, int]:
        """The pins of one user: those that their own filters allow."""
        if filters.own is not None:
            allowed = set(filters.items_for(user, len(self.items.items.ids)).tolist())
            return {place: row for place, row in self.pins.items() if row in allowed}
        if not self.pins or (excluded := filters.excluded) is None:
            return self.pins
        own = excluded.items[excluded.offsets[user] : excluded.offsets[user + 1]]
        return {place: row for place, row in self.pins.items() if row not in own}

    def choose(
        self, found: IntArray, n: int, filters: Filters, effects: Effects, to_fill: Values
    ) -> tuple[IntArray, bool]:
        """Lists of n from ordered ones, under the limits and with the pins; and whether all are complete.

        That is a list of n, or one to which nothing can be added, because all values `to_fill` have been used up.
        """
        chosen, is_full = self._limited(found, n, filters, effects, to_fill)
        for user in range(len(chosen)) if self.pins else ():
            pins = self._pinned_for(user, filters)
            listed = chosen[user][chosen[user] >= 0].tolist()
            for place in sorted(pins, key=lambda place: self.rules[place].place):  # type: ignore[union-attr]
                listed.insert(self.rules[place].place - 1, pins[place])  # type: ignore[union-attr]
                effects[place, "lists"] += 1
            chosen[user, : len(listed)] = listed
        return chosen, is_full

    def remarks(self, effects: Effects, n_lists: int) -> tuple[str, ...]:
        """The effect of each rule, one sentence each."""
        return tuple(self._remark(place, rule, effects, n_lists) for place, rule in enumerate(self.rules))

    def _remark(self, place: int, rule: Rule, effects: Effects, n_lists: int) -> str:
        items, lists, short = (effects[place, what] for what in ("items", "lists", "short"))
        n_items = len(self.items.items.ids)
        if isinstance(rule, AtMost):
            did = f"left {_count(items, 'item')} out of {_of(lists, n_lists)}"
            did += f"; {short} could not be filled" if short else ""
        elif isinstance(rule, Boost):
            did = f"brought {_count(items, 'item')} into" if rule.sign > 0 else f"took {_count(items, 'item')} from"
            did += f" {_of(lists, n_lists)}; {int(self.matches[place].sum())} of {n_items} items fulfil the condition"
        elif isinstance(rule, Pin):
            did = f"is in {_of(lists, n_lists)}"
        elif isinstance(rule, MinRatings):
            left = (self.attributes.rating_counts < rule.n) & ~np.isin(np.arange(n_items), list(self.pins.values()))
            did = f"left out {int(left.sum())} of {_count(n_items, 'item')}"
        else:
            did = f"left out {_count(items, 'item')} for {_of(lists, n_lists, 'user')}{self._unknown()}"
        return f"{rule}: {did}"

    def _unknown(self) -> str:
        """The part of the table of shown items that is unknown to the model."""
        if self.shown is None:
            return ""
        parts = [("user", self.items.users, self.shown.users), ("item", self.items.items, self.shown.items)]
        counts = [(side, int((known.rows_of(said.ids) < 0).sum()), len(said.ids)) for side, known, said in parts]
        said = [f"{n} of {_count(of, side)}" for side, n, of in counts if n]
        return f"; of its table, {' and '.join(said)} are unknown to the model" if said else ""


def shown_pairs(shown: Any) -> Ratings | None:
    """A table of shown items: each pair with its last time, if times are known; None if it is empty."""
    if isinstance(shown, Ratings):
        return shown
    shown = shown.collect() if isinstance(shown, pl.LazyFrame) else shown
    if not hasattr(shown, "columns"):
        raise InvalidParameterError(
            f"shown is of type {type(shown).__name__}; expected a table with the columns user, item and perhaps time"
        )
    if not len(shown):
        return None
    return Ratings.from_frame(shown, duplicates="latest", kind="one-class")


@dataclass(frozen=True, eq=False)
class ListedScores:
    """The values by which lists are ordered, of all items, where items are first found by score."""

    belief: Belief
    n_items: int

    def scores(self, rows: IntArray) -> FloatMatrix:
        items = np.tile(np.arange(self.n_items, dtype=np.int32), len(rows))
        return self.belief.listed(Pairs(np.repeat(rows, self.n_items), items)).reshape(len(rows), self.n_items)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _of(n: int, total: int, noun: str = "list") -> str:
    return f"{n} of {_count(total, noun)}"
