"""Words of texts: found, brought to a base form, and stored as numbers.

A text becomes words of letters of any script, in lower case; stop words are left out, and the others are lemmatized,
stemmed, both, or kept as they are. Both libraries have their rules in the package: nothing is downloaded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import IntArray, OffsetArray
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.progress import Observer, Progress, silent

Form = Literal["stem", "lemma", "lemma-stem", "plain"]
# Languages that can be stemmed, by their codes; those that can be lemmatized are simplemma's.
STEMMERS = {
    **{"ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish"},
    **{"fi": "finnish", "fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian"},
    **{"pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish"},
}
_WORD = re.compile(r"[^\W\d_]{2,40}")  # longer runs of letters are no words
_PIECE = 1 << 20  # characters of a text that are looked at at a time: memory is bounded however long it is
MOST_FORMS = 500_000  # that are remembered: queries may be of any words
_EVERY = 200  # texts between reports of progress


class Cleaning:
    """How a word of a text becomes the form that is counted, or nothing if it is a stop word."""

    def __init__(self, form: Form, language: str, stop_words: Sequence[str] | str | None) -> None:
        self.stop_words = _stop_words(stop_words, language)
        self._base = _base_form(form, language)

    def __call__(self, word: str) -> str | None:
        return None if word in self.stop_words else self._base(word)


def _stop_words(given: Sequence[str] | str | None, language: str) -> frozenset[str]:
    if given is None:
        return frozenset()
    if given == "auto":
        if language != "en":
            return frozenset()  # Words in most documents are left out in every language.
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    if isinstance(given, str) or not all(isinstance(word, str) for word in given):
        raise InvalidParameterError(f"stop_words is {given!r}; expected 'auto', None, or a list of words")
    return frozenset(word.lower() for word in given)


def _base_form(form: Form, language: str) -> Callable[[str], str]:
    if form == "plain":
        return str
    try:
        stem = _stemmer(language) if "stem" in form else str
        lemmatize = _lemmatizer(language) if "lemma" in form else str
    except ImportError as error:
        raise MissingExtraError("finding the base forms of words", "content") from error
    return lambda word: stem(lemmatize(word))


def _stemmer(language: str) -> Callable[[str], str]:
    import snowballstemmer

    if language not in STEMMERS:
        raise InvalidParameterError(
            f"language is {language!r}, which cannot be stemmed; expected one of "
            f"{', '.join(STEMMERS)}, or words='plain'"
        )
    stem: Callable[[str], str] = snowballstemmer.stemmer(STEMMERS[language]).stemWord
    return stem


def _lemmatizer(language: str) -> Callable[[str], str]:
    import simplemma

    def lemmatize(word: str) -> str:
        return str(simplemma.lemmatize(word, lang=language)).lower()

    try:
        lemmatize("word")
    except ValueError as error:
        raise InvalidParameterError(
            f"language is {language!r}, which cannot be lemmatized; expected a code such as en, de or fr, or "
            "words='plain'"
        ) from error
    return lemmatize


@dataclass(frozen=True, eq=False)
class Corpus:
    """The words of texts, as numbers of a vocabulary."""

    words: list[str]
    codes: IntArray  # the words of all texts, one text after the other
    offsets: OffsetArray  # n_texts + 1

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def rows(self) -> NDArray[np.int64]:
        """The text of each word."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def counts(self) -> Any:
        """How often each word occurs in each text, as a sparse matrix."""
        import scipy.sparse as sp

        # Copies: adding up repeated words changes the arrays in place.
        parts = np.ones(len(self.codes), np.float32), self.codes.copy(), self.offsets.copy()
        matrix: Any = sp.csr_array(parts, shape=(len(self), len(self.words)))
        matrix.sum_duplicates()
        return matrix

    def sentences(self) -> list[list[str]]:
        """The words of each text as texts."""
        return [[self.words[code] for code in self.codes[low:high]] for low, high in self._spans()]

    def _spans(self) -> Iterator[tuple[int, int]]:
        return zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)

    def only(self, kept: NDArray[np.bool_]) -> Corpus:
        """The same texts with a part of the vocabulary."""
        places = np.where(kept, np.cumsum(kept) - 1, -1)
        codes = places[self.codes]
        lengths = np.bincount(self.rows[codes >= 0], minlength=len(self))
        words = [word for word, keep in zip(self.words, kept, strict=True) if keep]
        return Corpus(words, codes[codes >= 0].astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]))


class Codes(dict[str, int]):
    """The number of each word form that was met; -1 for one that does not count. Forms are cleaned once."""

    def __init__(self, clean: Cleaning, known: Sequence[str] | None = None) -> None:
        super().__init__()
        self._clean, self.grows, self.known = clean, known is None, list(known or ())
        self.numbers = {word: code for code, word in enumerate(known or ())}

    def __missing__(self, form: str) -> int:
        base = self._clean(form)
        if base is None:
            code = -1
        elif self.grows:
            code = self.numbers.setdefault(base, len(self.numbers))
        else:
            code = self.numbers.get(base, -1)
        self[form] = code
        return code


def corpus_of(texts: Sequence[str], codes: Codes, observer: Observer = silent) -> Corpus:
    """The words of texts, as numbers of the vocabulary of these codes."""
    if len(codes) > MOST_FORMS:
        codes.clear()
    found, lengths = [], []
    for number, text in enumerate(texts, 1):
        own = [code for part in _pieces(text) for form in _WORD.findall(part) if (code := codes[form]) >= 0]
        found.append(np.array(own, np.int32))
        lengths.append(len(own))
        if number % _EVERY == 0 or number == len(texts):
            observer(Progress("words", number, len(texts)))
    flat = np.concatenate([*found, np.zeros(0, np.int32)])
    return Corpus(
        list(codes.numbers) if codes.grows else codes.known,
        flat,
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
    )


def _pieces(text: str) -> Iterator[str]:
    """A text in lower case, in pieces that end between words."""
    start = 0
    while start < len(text):
        stop = start + _PIECE
        if stop < len(text):
            space = text.rfind(" ", start, stop)
            stop = stop if space <= start else space
        yield unicodedata.normalize("NFKC", text[start:stop]).lower()
        start = stop
