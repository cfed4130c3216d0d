"""One chooser: which model, with which settings, found on a part of the training data, and why.

Every model declares the settings with which it may be tried on ratings (`Recommender.candidates`). For stars there is
one candidate, `Joint`, which finds by itself what choosing and what liking an item is worth: nothing is tried here, and
choosing costs nothing. The same holds for yes and no. For implicit feedback

- a fifth of the choices of some users are held out: those of enough users for `HELD_OUT` choices, the latest of each
  user where there are times, and any otherwise;
- each model is fitted to the rest with the first of its settings, and judged by the NDCG@100 of what was held out;
- models whose first trial came within `CLOSE` of the best are tried with their other settings, the best of them first;
- where there are times, the best of those to which counts matter is tried with choices that fade (`Ratings.decayed`).

What a model finds out by itself (a parameter that is "auto") is kept for its later trials, for those of models made of
it, and for the final fit: that one searches nothing, and its scores are those that were judged. All of it ends with the
budget; a trial that is not finished by then does not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tastespace.arrays import DoubleArray, TimeArray
from tastespace.data.formats.files import ratings_of, read
from tastespace.data.ratings import Ratings
from tastespace.data.sources import resolve as source_of
from tastespace.data.splits import Split, rank_within_user
from tastespace.errors import TastespaceError, TastespaceWarning, warn
from tastespace.evaluation.resampling import UNDEFINED, counted, figure
from tastespace.models import MODELS, Recommender
from tastespace.models.composed.blend import ndcg
from tastespace.models.registry import suitable_model
from tastespace.parameters import check_number
from tastespace.progress import Observer, Progress, shown, silent
from tastespace.randomness import generator, resolve
from tastespace.selection.trials import Task, attempt, renamed
from tastespace.settings import suggests
from tastespace.tables import TableResult, TextTable

HELD_OUT, HELD_OUT_SHARE = 15_000, 0.2  # choices, and which share of those of a user
FEWEST_HELD_OUT = 100  # choices; with fewer, what is best is chance
CLOSE = 0.9  # of the best: a model whose first settings achieve less is not tried with others
LEAST_SECONDS, TIMES_THE_FIT = 60.0, 10.0  # the usual budget
HALF_LIVES = (1.0, 0.25)  # as shares of the time from the first choice to the last
SIGNIFICANT = 1.96  # standard errors
MEASURE = "NDCG@100"


class OutOfTimeError(TastespaceError):
    """The budget is spent."""


@dataclass(frozen=True)
class Tried:
    """A model that was tried. `value` is what it achieved on held-out choices, None if it did not come so far."""

    model: str
    settings: Mapping[str, Any]  # those that differ from the defaults; what it found by itself is in `found`
    half_life: float | None = None  # in days; None where choices do not fade
    value: float | None = None
    seconds: float = 0.0  # of the fit
    error: str | None = None
    found: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The model and its settings, in one line."""
        said = {**self.settings, **({} if self.half_life is None else {"half_life": self.half_life})}
        settings = ", ".join(f"{key}={_short(value)}" for key, value in said.items() if value != "auto")
        return f"{self.model} ({settings})" if settings else self.model


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False, repr=False)
class ModelChoice(TableResult[Tried]):
    """What was tried, what was taken, and why; `recommender()` is the model taken, yet to be fitted to all ratings."""

    key: ClassVar[str] = "name"

    taken: Tried
    parameters: Mapping[str, Any]  # of the model taken
    why: str  # what the values say
    evidence: str = ""  # what the trials say
    held_out: int = 0  # choices that decided; 0 if nothing was tried
    users: int = 0  # whose choices these are
    seconds: float = 0.0
    budget: float | None = None  # None where nothing was to be tried

    @property
    def reason(self) -> str:
        """Why this model was taken, in words."""
        return f"{self.why}; {self.evidence}" if self.evidence else self.why

    def recommender(self) -> Recommender:
        """The model taken, with what its trial found, to be fitted to all ratings."""
        return MODELS[self.taken.model](**self.parameters)

    def prepared(self, ratings: Ratings) -> Ratings:
        """The ratings that this model is to be fitted to: faded ones, if that was better."""
        return ratings if self.taken.half_life is None else ratings.decayed(self.taken.half_life)

    def fit(self, ratings: Ratings, observer: Observer = silent) -> Recommender:
        """The model taken, fitted to these ratings; it keeps why it was taken as `choice_`."""
        fitted = self.recommender().fit(self.prepared(ratings), observer=observer)
        fitted.choice_ = self.summary(fitted)
        return fitted

    def summary(self, fitted: Recommender) -> dict[str, Any]:
        """What the fitted model keeps of it, and its artifact: `to_dict` without times, which differ from run to run.

        `found` is what the model has found by itself since, where nothing was tried.
        """
        content = {key: value for key, value in self.to_dict().items() if key not in ("seconds", "budget")}
        tried = [{key: value for key, value in each.items() if key != "seconds"} for each in content["tried"]]
        found = {key: str(value) if value == math.inf else value for key, value in found_by(fitted).items()}
        return {**content, "tried": tried, "found": found}

    @property
    def ranked(self) -> list[Tried]:
        """The best first; those that were not finished last."""
        return sorted(self.entries, key=lambda tried: math.inf if tried.value is None else -tried.value)

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {
            "model": self.taken.model,
            "because": self.reason,
            "half_life": self.taken.half_life,
            "measure": MEASURE if self.entries else None,
            "held_out": self.held_out,
            "users": self.users,
            "seconds": round(self.seconds, 3),
            "budget": self.budget,
            "tried": [
                {key: value for key, value in record.items() if key not in ("name", "found")}
                for record in self.records()
            ],
        }

    def records(self) -> list[dict[str, Any]]:
        """One a trial, the best first."""
        return [{"name": tried.name, **asdict(tried), "seconds": round(tried.seconds, 3)} for tried in self.ranked]

    def schema(self) -> dict[str, Any]:
        """What was tried, what it achieved, how long it took, and what went wrong."""
        return {"name": pl.String, "value": pl.Float64, "seconds": pl.Float64, "error": pl.String}

    def table(self) -> TextTable:
        """One row a trial, the best first, and below what was taken and why; without trials that alone."""
        rows = [
            (tried.name, UNDEFINED if tried.value is None else figure(tried.value), f"{tried.seconds:.1f}")
            for tried in self.ranked
        ]
        held = f"{counted(self.held_out, 'choice')} of {counted(self.users, 'user')}"
        most = UNDEFINED if self.budget is None else f"{self.budget:.0f} s"
        title = f"Models tried on {held}, held out from training; {self.seconds:.0f} s of at most {most}"
        taken = f"taken: {self.taken.name}, because {self.reason}"
        return TextTable(title, ("model", MEASURE, "s"), tuple(rows), taken)

    def __str__(self) -> str:
        return str(self.table()) if self.entries else self.table().note


def found_by(fitted: Recommender) -> dict[str, Any]:
    """What a model has found of the parameters that are "auto"."""
    names = [name for name, value in fitted.get_params().items() if isinstance(value, str) and value == "auto"]
    return {name: getattr(fitted, f"{name}_") for name in names if hasattr(fitted, f"{name}_")}


@suggests
def fit(
    data: Any,
    *,
    budget: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    observer: Observer = silent,
) -> Recommender:
    """Choose a model for these ratings and fit it: ``model = ts.fit("ratings.csv")``.

    `data` are `Ratings`, a file, a frame of polars or pandas, or the name of a data set. What was tried, what was taken
    and why is `choice_` of the fitted model; it is stored with the model. The other parameters are those of `choose`.
    """
    observer = shown(observer)
    ratings = as_ratings(data, observer)
    return choose(ratings, budget=budget, seed=seed, threads=threads, observer=observer).fit(ratings, observer)


def as_ratings(data: Any, observer: Observer = silent) -> Ratings:
    """The ratings that are meant by a file, a frame or the name of a data set; counts of 0 are left out."""
    if isinstance(data, str | Path):
        source = source_of(data)
        ratings = read(data) if source is None else source.load(observer=observer)
    else:
        ratings = ratings_of(data, "fit")
    return ratings.chosen()


@suggests
def choose(
    ratings: Ratings,
    *,
    budget: float | None = None,
    fixed: Mapping[str, Any] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    half_lives: Sequence[float] | None = None,
    observer: Observer = silent,
) -> ModelChoice:
    """Which model, with which settings, suits these ratings best, found on a part of them (see this module).

    `budget` is how many seconds may be spent on trials; by default ten times the fit of the best so far, at least 60 s.
    With 0 nothing is tried, and the choice is that of `suitable_model`. `fixed` are parameters that are given: the
    first guess must have all of them, and only models that have them are tried. `half_lives`, in days, are tried where
    there are times: by default some that go with the time between the first choice and the last; none with an empty
    list. An interrupt (Ctrl-C) ends the trials, and the best so far is taken.

    The same seed gives the same trials, whatever the number of threads, as long as the budget suffices for all of them.
    """
    ratings, observer = ratings_of(ratings, "choose"), shown(observer)
    if budget is not None:
        check_number("budget", budget, least=0)
    given = {**(fixed or {}), "seed": resolve(seed), "threads": threads}
    first, why = suitable_model(ratings)
    first.set_params(**given)
    first.check()
    guess = Tried(MODELS.name_of(type(first)) or type(first).__name__, {})
    guessed = ModelChoice((), guess, first.get_params(), why, budget=budget)
    candidates = candidates_for(ratings, fixed or {})
    if len(candidates) < 2 and all(len(settings) < 2 for settings in candidates.values()):
        return guessed
    if budget == 0:
        return replace(guessed, evidence="with a budget of 0 s nothing else was tried")
    split = split_of(ratings, given["seed"])
    if split is None:
        return replace(guessed, evidence="there are too few choices to hold some out and try other models")
    return _Search(ratings, split, given, budget, half_lives, observer).choice(candidates, guessed)


Candidates = Mapping[str, Sequence[Mapping[str, Any]]]  # by the name of the model, the settings to try of it


def candidates_for(ratings: Ratings, fixed: Mapping[str, Any]) -> Candidates:
    """The settings to try of each model that has some for these ratings, and that has all the fixed parameters."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name, model in MODELS.items():
        if not fixed.keys() <= model().get_params().keys():
            continue
        for settings in model.candidates(ratings):
            own = {key: value for key, value in settings.items() if key not in fixed}
            is_other = any(value != "auto" for value in own.values())  # than the usual ones
            if is_other or not found.get(name):
                found.setdefault(name, []).append(own)
    return found


def split_of(ratings: Ratings, seed: int) -> Split | None:
    """A fifth of the choices of some users as the test part; None where that would be too few."""
    rng, times = generator(seed), _times_of(ratings)
    counts = np.bincount(ratings.user_rows, minlength=ratings.n_users)
    n_held = np.minimum(np.floor(HELD_OUT_SHARE * counts + 0.5).astype(np.int64), counts - 1)
    order = rng.permutation(ratings.n_users)
    enough = int(np.searchsorted(np.cumsum(n_held[order]), HELD_OUT)) + 1
    n_held[order[enough:]] = 0
    age = rng.random(len(ratings)) if times is None else -times.astype(np.int64)
    is_test = rank_within_user(ratings, age) < n_held[ratings.user_rows]
    if np.count_nonzero(is_test) < FEWEST_HELD_OUT:
        return None
    return Split(ratings.take(~is_test), ratings.take(is_test))


def _values_count(parameters: Mapping[str, Any]) -> bool:
    """Whether it matters to a model with these parameters how much each choice counts."""
    return parameters.get("growth", "none") != "none" and bool(parameters.get("strength"))


def _times_of(ratings: Ratings) -> TimeArray | None:
    """When everything was chosen; None where that is not known of all."""
    times = ratings.times
    return None if times is None or np.isnat(times).any() else times


def list_values(recommender: Recommender, split: Split, observer: Observer = silent) -> DoubleArray:
    """NDCG@100 of each user of the test part, in the order of its rows; items that the model lacks are never found."""
    test, values = split.test, np.zeros(split.test.n_users)
    items = recommender.ratings_.items.rows_of(test.items.ids)
    for rows, scores in recommender.scores(test.users.ids):
        part = test.by_user.take(rows)
        users, own = part.rows(), items[part.columns]
        # Beside the items of the model one column for each that it lacks: wanted, and never in a list.
        n_lacking = np.bincount(users[own < 0], minlength=len(rows))
        lacking = np.arange(n_lacking.max(initial=0)) < n_lacking[:, None]
        wanted = np.zeros(scores.shape, np.bool_)
        wanted[users[own >= 0], own[own >= 0]] = True
        nowhere = np.full(lacking.shape, -np.inf, np.float32)
        values[rows] = ndcg(np.hstack([scores, nowhere]), np.hstack([wanted, lacking]))
    return values


@dataclass(eq=False)
class _Search:
    """Trials on one split, until all are done or the time is up."""

    ratings: Ratings
    split: Split
    given: Mapping[str, Any]  # parameters of every model
    budget: float | None
    half_lives: Sequence[float] | None
    observer: Observer
    tried: list[Tried] = field(default_factory=list)
    values: dict[int, DoubleArray] = field(default_factory=dict)  # of users, by the place of what was tried
    parameters: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the same
    n_left: int = 0  # trials that there was no time for
    began: float = field(default_factory=time.monotonic)

    def choice(self, candidates: Candidates, guess: ModelChoice) -> ModelChoice:
        """The best of the candidates; `guess` is what to take where none of them could be measured."""
        is_interrupted = False
        try:
            self._try_all(candidates, guess.taken.model)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            is_interrupted = True
            name = self.tried[self.best].name
            warn(f"interrupted: {name}, the best so far, is taken; interrupt again to end", TastespaceWarning)
        notes = ["it was interrupted, and the best so far was taken"] if is_interrupted else []
        if self.n_left:
            notes.append(f"the budget of {self._seconds:.3g} s ended before {counted(self.n_left, 'other trial')}")
        guess = replace(
            guess,
            entries=tuple(self.tried),
            held_out=len(self.split.test),
            users=self.split.test.n_users,
            seconds=time.monotonic() - self.began,
            budget=self._seconds if math.isfinite(self._seconds) else None,
        )
        place = self.best
        if place is None:
            notes.insert(0, f"none of {counted(len(self.tried), 'trial')} came to an end")
            return replace(guess, evidence="; ".join(notes))
        evidence = "; ".join([self._comparison(place), *notes])
        return replace(guess, taken=self.tried[place], parameters=self.parameters[place], evidence=evidence)

    @property
    def best(self) -> int | None:
        """The place of the best so far; one whose choices fade only if it is better than chance would have it."""
        lasting = [place for place in self.values if self.tried[place].half_life is None]
        best = max(lasting, key=self._value, default=None)
        fading = max(self.values, key=self._value, default=None)
        return fading if best is None or fading is None or self._gain(fading, best) > 1 else best

    def _gain(self, place: int, other: int) -> float:
        """How much better one is than another, user by user, in standard errors."""
        gains = self.values[place] - self.values[other]
        return float(gains.mean() * math.sqrt(len(gains)) / (gains.std() or 1.0))

    def _value(self, place: int) -> float:
        return self.tried[place].value or 0.0

    @property
    def _seconds(self) -> float:
        """How long trials may take: until one has been measured, as long as it needs, unless it is said."""
        if self.budget is not None:
            return float(self.budget)
        return math.inf if self.best is None else max(LEAST_SECONDS, TIMES_THE_FIT * self.tried[self.best].seconds)

    @property
    def _figures(self) -> dict[str, float]:
        """How much of the budget is spent, and what the best achieved: shown with progress."""
        spent = {"seconds": time.monotonic() - self.began}
        budget = {"budget": self._seconds} if math.isfinite(self._seconds) else {}
        return spent | budget | ({} if self.best is None else {MEASURE: self._value(self.best)})

    def _try_all(self, candidates: Candidates, guess: str) -> None:
        total = sum(map(len, candidates.values()))
        # The guess first, then what is made of it, which takes over what it has found.
        made_of = {name: issubclass(MODELS[name], MODELS[guess]) for name in candidates}
        for name in sorted(candidates, key=lambda name: (name != guess, not made_of[name])):
            self._try(name, candidates[name][0], total)
        firsts = {tried.model: tried.value or 0.0 for tried in self.tried}
        for name in sorted(firsts, key=lambda name: -firsts[name]):
            for settings in candidates[name][1:] if firsts[name] >= CLOSE * max(firsts.values()) else ():
                self._try(name, settings, total)
        times = _times_of(self.split.train)
        able = [place for place in self.values if _values_count(self.parameters[place])]
        if times is None or not able:
            return
        best, half_lives = self.tried[max(able, key=self._value)], self.half_lives
        if half_lives is None:
            days = float((times.max() - times.min()) / np.timedelta64(1, "D"))
            half_lives = [float(f"{share * days:.3g}") for share in HALF_LIVES if days > 0]
        for half_life in half_lives:
            self._try(best.model, best.settings, total + len(half_lives), half_life)

    def _try(self, name: str, settings: Mapping[str, Any], total: int, half_life: float | None = None) -> None:
        if time.monotonic() - self.began >= self._seconds:
            self.n_left += 1
            return
        self.observer(Progress("choosing a model", len(self.tried), total, self._figures))
        model, place = MODELS[name], len(self.tried)
        found = self._found_for(model) if half_life is None else {}  # What has faded asks for other confidences.
        parameters = {**model.settings_for(self.ratings.kind), **found, **settings, **self.given}
        split = self.split if half_life is None else replace(self.split, train=self.split.train.decayed(half_life))
        outcome = attempt(Task(model, parameters, list_values), split, self._watched(renamed(name, self.observer)))
        tried = Tried(name, settings, half_life, error=outcome.error)
        if outcome.error is None:
            fitted, cost = outcome.recommender, outcome.cost
            assert fitted is not None
            assert cost is not None
            found = found_by(fitted)
            self.values[place], self.parameters[place] = outcome.value, {**fitted.get_params(), **found}
            tried = replace(tried, value=float(outcome.value.mean()), seconds=cost.seconds, found=found)
        self.tried.append(tried)

    def _found_for(self, model: type[Recommender]) -> dict[str, Any]:
        """What earlier trials of a model, or of one that it is made of, found by themselves."""
        found: dict[str, Any] = {}
        for tried in self.tried:
            if tried.found is not None and issubclass(model, MODELS[tried.model]):
                found = {**tried.found, **found}
        return found

    def _watched(self, observer: Observer) -> Observer:
        """An observer that ends a trial when the time is up."""

        def watch(event: Progress) -> None:
            if time.monotonic() - self.began > self._seconds:
                raise OutOfTimeError(f"not finished within the budget of {self._seconds:.3g} s")
            observer(event)

        return watch

    def _comparison(self, place: int) -> str:
        """What the best achieved, and the best of each other model beside it, in words."""
        taken, others = self.tried[place], list[str]()
        said = {taken.model}
        for other in sorted(self.values, key=self._value, reverse=True):
            tried = self.tried[other]
            if tried.model in said:
                continue
            said.add(tried.model)
            doubt = "" if self._gain(place, other) > SIGNIFICANT else " (not significantly less)"
            others.append(f"{figure(tried.value or 0.0)} of {tried.model}{doubt}")
        against = f", against {', '.join(others)}" if others else ""
        held = f"{counted(len(self.split.test), 'held-out choice')}"
        return f"its {MEASURE} on {held} is {figure(taken.value or 0.0)}{against}"
