"""Which setting to try next, and whether to go on with one: the part that Optuna does.

Settings are proposed by its tree-structured Parzen estimator, and dropped by its rule of successive halving (see
`tastespace.selection.search`). The proposal of trial n is drawn with a generator of its own, made from the seed and n,
and depends on nothing but that and the trials before it. So a run that goes on from a journal proposes what it would
have proposed, had it never been interrupted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.randomness import derive

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial


GROWTH = 3  # how many times the users of one rung the next one has
LEAST_HELD_OUT = 200  # ratings: with fewer a rung tells more of luck than of settings


@dataclass(frozen=True, eq=False)
class Rung:
    """A part of the users, with what is fitted to and what is held out of it."""

    step: int  # users, in parts of as many as the lowest rung has: 1, 3, 9
    share: float  # of the users
    split: Split


def rungs_of(split: Split, most: int, seed: int) -> tuple[Rung, ...]:
    """At most so many rungs, each part of the users within the next; fewer where too little would be held out."""
    affordable = 1
    while affordable < most and len(split.test) / GROWTH**affordable >= LEAST_HELD_OUT:
        affordable += 1
    order = derive(seed, "users of a rung").permutation(split.train.n_users)
    found = []
    for place in range(affordable):
        share = GROWTH ** (place + 1 - affordable)
        users = order[: max(1, round(share * split.train.n_users))]
        found.append(Rung(GROWTH**place, float(share), split if share == 1 else _part(split, users)))
    return tuple(found)


def _part(split: Split, user_rows: NDArray[np.int64]) -> Split:
    """What these users have on either side."""
    users = Vocabulary(split.train.users.at(np.sort(user_rows)))
    return Split(_of_users(split.train, users), _of_users(split.test, users))


def _of_users(ratings: Ratings, users: Vocabulary) -> Ratings:
    return ratings.take(np.flatnonzero(users.rows_of(ratings.users.ids)[ratings.user_rows] >= 0))


Unit = Callable[[Ratings], float]


def no_unit(ratings: Ratings) -> float:
    """A setting that means the same whatever the ratings are."""
    return 1.0


def spread(ratings: Ratings) -> float:
    """Of what has the unit of the ratings: their standard deviation."""
    return float(np.std(ratings.values, dtype=np.float64)) or 1.0


def thousand_users(ratings: Ratings) -> float:
    """Of what is held against the number of users who have rated a thing."""
    return ratings.n_users / 1000


def cells(ratings: Ratings) -> float:
    """Of what is held against a whole row of users or of items."""
    return float(np.sqrt(ratings.n_users * ratings.n_items))


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, in multiples of the unit; tried evenly on a scale of logarithms."""

    low: float
    high: float
    whole: bool = False
    unit: Unit = no_unit

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < np.inf:
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected numbers above 0, the lower one first"
            )
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected whole numbers for this setting"
            )

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is told for these ratings: to three digits, so that it can be written down as it was tried."""
        return int(searched) if self.whole else float(f"{searched * self.unit(ratings):.3g}")

    def between(self, low: float, high: float, ratings: Ratings) -> Range:
        """The same setting with other ends: what a model would be told for these ratings."""
        unit = self.unit(ratings)
        return Range(low / unit, high / unit, self.whole, self.unit)

    def told(self, ratings: Ratings) -> str:
        """Its ends, for these ratings."""
        return f"{self.value(self.low, ratings):g}..{self.value(self.high, ratings):g}"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def value(self, searched: Any, ratings: Ratings) -> Any:
        return searched

    def told(self, ratings: Ratings) -> str:
        return ", ".join(map(str, self.values))


Space = Mapping[str, Range | Choice]

FACTORS = Range(4, 128, whole=True)
_NEIGHBOURS: Space = MappingProxyType(
    {
        "n_neighbours": Range(5, 200, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(0.5, 500, unit=thousand_users),
        "damping": Range(0.01, 10),
    }
)
_SIMILAR_USERS: Space = MappingProxyType(
    {
        "n_neighbours": Range(10, 400, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(1, 200),  # by items that two users have in common: no matter how many users there are
        "damping": Range(0.01, 10),
    }
)
_RANK: Space = MappingProxyType({"n_factors": FACTORS})

SPACES: Mapping[str, Space] = {
    "mean": {},
    "bias": {"user_damping": Range(0.1, 100), "item_damping": Range(0.1, 100)},
    "item-mean": {"damping": Range(0.1, 100)},
    "popular": {},
    "item-knn": _NEIGHBOURS,
    "user-knn": _SIMILAR_USERS,
    "als": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "user_bias_regularisation": Range(0.001, 0.5),
    },
    "pmf": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "learning_rate": Range(0.002, 0.1),
        "decay": Range(0.005, 0.5),
    },
    "monotone": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "pull": Range(1, 200),
    },
    "vb": _RANK,
    "bpmf": _RANK,
    "sphere": _RANK,
    "sphere-als": {"n_factors": FACTORS, "regularisation": Range(0.005, 0.5, unit=spread)},
    "implicit-als": {
        "n_factors": Range(8, 256, whole=True),
        "strength": Range(0.25, 128),
        "regularisation": Range(0.0001, 0.3, unit=cells),
    },
    "logistic": {
        "n_factors": Range(8, 256, whole=True),
        "regularisation": Range(0.1, 30),
        "n_negatives": Range(5, 200, whole=True),
        "learning_rate": Range(0.03, 1),
    },
    "ease": {"regularisation": Range(1, 10_000, unit=thousand_users)},
}
LEARNING = ("vb", "bpmf", "sphere")  # models that learn the rest from the ratings


def space_of(
    model: str,
    ratings: Ratings,
    fixed: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Space:
    """What is searched of a model: its space, less what is fixed, with other ends where they are given."""
    usual = SPACES.get(model, {})
    if not usual:
        able = ", ".join(name for name, space in SPACES.items() if space)
        raise InvalidParameterError(f"the model {model} has nothing to be tuned; expected one of {able}")
    given = dict(ranges or {})
    for name in given:
        if name not in usual or isinstance(usual[name], Choice):
            numbers = ", ".join(key for key, part in usual.items() if isinstance(part, Range))
            raise InvalidParameterError(
                f"a range is given for {name!r}, which is no number that is searched of {model}; expected one of "
                f"{numbers}"
            )
        if name in fixed:
            raise InvalidParameterError(f"{name} is fixed, and a range is given for it; expected one of the two")
    space = {
        name: part if name not in given or isinstance(part, Choice) else part.between(*given[name], ratings)
        for name, part in usual.items()
        if name not in fixed
    }
    if not space:
        raise InvalidParameterError(
            f"all that is searched of {model} is fixed ({', '.join(usual)}); expected at least one of them to be left"
        )
    return space


AT_RANDOM = 8  # trials before the estimator has seen enough


def require_optuna() -> None:
    """Say how to get it, before anything else is done."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Tuning", "tune") from error


@contextmanager
def quiet() -> Iterator[None]:
    """What Optuna has to say on the way is for its own users: what matters to ours is in the result."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


class Search:
    """A study in memory: it begins with the trials that there are already."""

    def __init__(self, space: Space, *, is_smaller_better: bool, seed: int, before: Sequence[FrozenTrial]) -> None:
        import optuna

        self._space, self._seed = {name: _distribution(part) for name, part in space.items()}, seed
        with quiet():
            self._study = optuna.create_study(
                direction="minimize" if is_smaller_better else "maximize",
                pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=GROWTH),
            )
            self._study.add_trials(before)

    def __len__(self) -> int:
        """How many trials have ended."""
        return len(self._study.get_trials(deepcopy=False))

    def ask(self) -> Trial:
        """The next setting: `trial.params`."""
        import optuna

        with quiet():
            drawn = int(derive(self._seed, "trial", len(self)).integers(1 << 32))
            self._study.sampler = optuna.samplers.TPESampler(seed=drawn, n_startup_trials=AT_RANDOM)
            return self._study.ask(self._space)

    def is_hopeless(self, trial: Trial, step: int, value: float) -> bool:
        """Whether a setting with this value on a rung is not worth the next one."""
        with quiet():
            trial.report(value, step)
            return trial.should_prune()

    def end(self, trial: Trial, told: dict[str, Any], *, value: float | None, is_complete: bool) -> FrozenTrial:
        """A trial that went all the way, or was dropped on it; no value for one whose fit failed."""
        from optuna.trial import TrialState

        with quiet():
            for name, content in told.items():
                trial.set_user_attr(name, content)
            if value is None:
                return self._study.tell(trial, state=TrialState.FAIL)
            if is_complete:
                return self._study.tell(trial, value)
            return self._study.tell(trial, state=TrialState.PRUNED)


def _distribution(part: Range | Choice) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(part, Choice):
        return CategoricalDistribution(part.values)
    if part.whole:
        return IntDistribution(int(part.low), int(part.high), log=True)
    return FloatDistribution(part.low, part.high, log=True)
