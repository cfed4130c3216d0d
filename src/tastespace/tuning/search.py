"""Which setting to try next, and whether to go on with one: the part that Optuna does.

Settings are proposed by its tree-structured Parzen estimator, and dropped by its rule of successive halving (see
`tastespace.tuning.rungs`). The proposal of trial n is drawn with a generator of its own, made from the seed and n, and
depends on nothing but that and the trials before it. So a run that goes on from a journal proposes what it would have
proposed, had it never been interrupted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tastespace.errors import MissingExtraError
from tastespace.randomness import derive
from tastespace.tuning.rungs import GROWTH
from tastespace.tuning.spaces import Choice, Range, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

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
