"""Conditions on items as people write them, such as `genre = Comedy and year >= 1990`.

    condition = both { "or" both }
    both      = single { "and" single }
    single    = "not" single | "(" condition ")" | name test
    test      = ("=" | "!=" | "<" | "<=" | ">" | ">=") value
              | ["not"] "in" "(" value { "," value } ")"
              | ["not"] "contains" value
              | "is" ["not"] "missing"
    value     = number | word | "text in quotes" | 'text in quotes'

The text is read by this grammar and by nothing else: no part of it is ever executed. Values of items are looked up in
`Attributes`; an item without a value matches no test but `is missing`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, NoReturn

import numpy as np

from tastespace.arrays import BoolArray
from tastespace.data.attributes import Attributes, Column, Value
from tastespace.errors import InvalidParameterError, shortened

MAX_NESTED = 50  # nested brackets: far more than anyone needs, far fewer than the stack can take
_RESERVED = ("and", "or", "not", "in", "contains", "is")
_OTHER_SPELLINGS = {"==": "=", "<>": "!="}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted> "(?:[^"]|"")*" | '(?:[^']|'')*' )
      | (?P<mark> <= | >= | != | <> | == | [=<>(),] )
      | (?P<bare> [^\s()=!<>,"'] [^\s()=!<>,"]* ) )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SHOWN_BEFORE, _SHOWN_BEHIND = 60, 40  # of a long condition, around the place where something is wrong
_EXPECTED_VALUE = 'a value: a number, a word, or a text in "quotes"'
_EXPECTED_TEST = "=, !=, <, <=, >, >=, in, contains, or is missing"


@dataclass(frozen=True)
class Token:
    """A piece of the text: a word or number as written, a text without its quotes, a mark, or the end."""

    kind: Literal["quoted", "mark", "bare", "end"]
    text: str
    start: int

    def says(self, *words: str) -> bool:
        """Whether this is one of these words or marks."""
        return self.kind in ("bare", "mark") and self.text.lower() in words

    @property
    def is_value(self) -> bool:
        return self.kind == "quoted" or (self.kind == "bare" and not self.says(*_RESERVED))

    def __str__(self) -> str:
        return "ends here" if self.kind == "end" else f"has {shortened(self.text)!r} here"


class Condition:
    """A parsed condition; `matches` says which items satisfy it."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidParameterError(
                f"where is of type {type(text).__name__}; expected a text such as 'genre = Comedy and year >= 1990'"
            )
        self.text = text
        self._holds = _Parser(text).whole()

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def matches(self, items: Attributes) -> tuple[BoolArray, list[str]]:
        """One flag per item, and remarks about doubtful values, such as a genre that no item has."""
        doubts: list[str] = []
        return self._holds(items, doubts), doubts


# A compiled condition: returns the items for which it holds, and appends remarks to a list.
Test = Callable[[Attributes, list[str]], BoolArray]


class _Parser:
    """One function per line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.place, self.depth = text, _tokens(text), 0, 0

    def whole(self) -> Test:
        condition = self.condition()
        if self.next.kind != "end":
            expected = "and, or, or the end"
            if self.next.is_value:
                expected += '; a value of several words is written in "quotes"'
            self.fail(expected)
        return condition

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def accept(self, *words: str) -> bool:
        """Consume one of these words, if it comes next."""
        if self.next.says(*words):
            self.place += 1
            return True
        return False

    def fail(self, expected: str) -> NoReturn:
        wrong(self.text, self.next.start, str(self.next), expected)

    def condition(self) -> Test:
        return self.joined("or", np.logical_or, self.both)

    def both(self) -> Test:
        return self.joined("and", np.logical_and, self.single)

    def joined(self, word: str, join: Callable[[Any, Any], Any], read: Callable[[], Test]) -> Test:
        parts = [read()]
        while self.accept(word):
            parts.append(read())
        return lambda items, doubts: reduce(join, (part(items, doubts) for part in parts))

    def single(self) -> Test:
        negated = False
        while self.accept("not"):
            negated = not negated
        part = self.bracketed() if self.next.says("(") else self.test()
        return (lambda items, doubts: ~part(items, doubts)) if negated else part

    def bracketed(self) -> Test:
        opened = self.take()
        self.depth += 1
        if self.depth > MAX_NESTED:
            wrong(self.text, opened.start, "nests its brackets too deeply", f"at most {MAX_NESTED} levels")
        condition = self.condition()
        if not self.accept(")"):
            self.fail("and, or, or )")
        self.depth -= 1
        return condition

    def test(self) -> Test:
        if not self.next.is_value:
            self.fail("the name of an attribute, such as genre or year")
        name = self.take()
        if self.accept("is"):
            negated = self.accept("not")
            if not self.accept("missing"):
                self.fail("missing" if negated else "missing, or not missing")
            if negated:
                return lambda items, doubts: self.column(name, items).present
            return lambda items, doubts: ~self.column(name, items).present
        prefix = "not " if self.accept("not") else ""
        if self.accept("in"):
            return self.comparison(name, prefix + "in", self.several())
        if self.accept("contains"):
            return self.comparison(name, prefix + "contains", [self.value()])
        if prefix:
            self.fail("in or contains")
        if not self.next.says("=", "==", "!=", "<>", "<", "<=", ">", ">="):
            self.fail(_EXPECTED_TEST)
        operator = self.take().text
        return self.comparison(name, _OTHER_SPELLINGS.get(operator, operator), [self.value()])

    def comparison(self, name: Token, operator: str, tokens: Sequence[Token]) -> Test:
        """`name operator value`, or several values after `in`."""

        def holds(items: Attributes, doubts: list[str]) -> BoolArray:
            column = self.column(name, items)
            values = [self.comparable(operator, token, column) for token in tokens]
            if operator in ("=", "!=", "in", "not in"):
                doubts.extend(column.doubt(value) for value in values if not column.has(value))
            return column.matches(operator, values)

        return holds

    def column(self, name: Token, items: Attributes) -> Column:
        column = items.find(name.text)
        if column is None:
            wrong(self.text, name.start, *items.unknown(name.text))
        if column.kind == "other":
            problem = f"asks for {column.name!r}, which is neither text nor numbers"
            wrong(self.text, name.start, problem, "an attribute that can be compared")
        return column

    def comparable(self, operator: str, token: Token, column: Column) -> Value:
        """The value as a number where the column has numbers, else as it was typed."""
        if operator in ("contains", "not contains") and column.kind == "number":
            problem = f"looks for a text within {column.name}, which has numbers"
            wrong(self.text, token.start, problem, "=, !=, <, <=, >, >= or in")
        if column.kind == "text":
            return token.text
        number = _number(token.text)
        if number is None:
            wrong(self.text, token.start, str(token), f"a finite number: that is what {column.name} has")
        return number

    def several(self) -> list[Token]:
        if not self.accept("("):
            self.fail("( and values, such as (Horror, War)")
        values = [self.value()]
        while self.accept(","):
            values.append(self.value())
        if not self.accept(")"):
            self.fail('a comma or ); a value of several words is written in "quotes"')
        return values

    def value(self) -> Token:
        if not self.next.is_value:
            self.fail(_EXPECTED_VALUE)
        return self.take()


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            place = len(text) - len(text[place:].lstrip())
            if text[place] == "!":
                wrong(text, place, "has '!' here", "!= or not")
            wrong(text, place, "opens a quotation mark here", "one that closes it, too")
        kind = str(found.lastgroup)
        content = found[kind]
        if kind == "quoted":
            content = content[1:-1].replace(content[0] * 2, content[0])
        tokens.append(Token(kind, content, found.start(kind)))  # type: ignore[arg-type]
        place = found.end()
    if not tokens:
        raise InvalidParameterError("where is empty; expected a condition such as 'genre = Comedy and year >= 1990'")
    return [*tokens, Token("end", "", end)]


def _number(text: str) -> float | int | None:
    if not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text)
    if not np.isfinite(number):
        return None
    # Beyond 2^53 a double would confuse one id with the next.
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return int(text) if re.fullmatch(r"\s*[+-]?\d{1,300}\s*", text, re.ASCII) else number


def wrong(text: str, place: int, problem: str, expected: str) -> NoReturn:
    """The error for an invalid condition, with a mark at the place."""
    first, last = max(0, place - _SHOWN_BEFORE), place + _SHOWN_BEHIND
    before = ("…" if first else "") + text[first:place]
    shown = before + text[place:last] + ("…" if last < len(text) else "")
    # A line feed or a tab in the text would move the mark away from its place.
    shown = "".join(" " if unicodedata.category(letter).startswith("C") else letter for letter in shown)
    raise InvalidParameterError(
        f"the condition {problem}; expected {expected}\n  {shown}\n  {' ' * sum(map(_width, before))}^"
    )


def _width(letter: str) -> int:
    """The number of terminal columns that a letter takes."""
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
