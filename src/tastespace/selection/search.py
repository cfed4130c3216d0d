"""Hyperparameter search with Optuna: which setting to try next, when to stop one, and the journal of trials.

Settings are proposed by Optuna's tree-structured Parzen estimator, and stopped by its successive halving: a rung is
a part of the users, three times as many as the one below, and only the best third of the settings is promoted. The
proposal of trial n is drawn with its own generator, made from the seed and n, and depends only on that and the
trials before it. So a run that continues from a journal proposes what it would have proposed without the
interruption.

The journal is a file of Optuna, which its own tools can read. Each finished trial is a line, and no other: one
during which a run was killed leaves no trace, and is made again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import CheckpointError, CheckpointWarning, MissingExtraError, shortened, warn
from tastespace.parameters import Choice, Range, SearchSpace
from tastespace.randomness import derive
from tastespace.storage import LOCK, Lock

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial, Trial


GROWTH = 3  # factor between the numbers of users of two rungs
MIN_HELD_OUT = 200  # ratings: with fewer, chance matters more than settings
RANDOM_TRIALS = 8  # before the estimator has seen enough
FILE, STUDY = "tune.journal", "tastespace"
RUN, DEFAULTS = "run", "defaults"  # names of the entries kept beside the trials


@dataclass(frozen=True, eq=False)
class Rung:
    """A part of the users, with its training and held-out ratings."""

    step: int  # number of users, in units of the lowest rung: 1, 3, 9
    share: float  # of the users
    split: Split


def rungs_of(split: Split, n: int, seed: int) -> tuple[Rung, ...]:
    """At most n rungs, each part of the users within the next; fewer where too little would be held out.

    Successive halving: a rung is a part of the users, each with three times those of the one below, the last with all
    of them. A setting is promoted to the next rung if it is among the best third of all that have been there. Rungs
    are users and not sweeps because every model has users, and because a few sweeps show how fast a setting learns, not
    how good it is in the end. A user has all ratings or none; items are known less well below the top,
    which is why the best is chosen among the settings at the top.
    """
    affordable = 1
    while affordable < n and len(split.test) / GROWTH**affordable >= MIN_HELD_OUT:
        affordable += 1
    order = derive(seed, "users of a rung").permutation(split.train.n_users)
    found = []
    for place in range(affordable):
        share = GROWTH ** (place + 1 - affordable)
        users = Vocabulary(split.train.users.at(np.sort(order[: max(1, round(share * split.train.n_users))])))
        theirs = (_of_users(ratings, users) for ratings in (split.train, split.test))
        found.append(Rung(GROWTH**place, float(share), split if share == 1 else Split(*theirs)))
    return tuple(found)


def _of_users(ratings: Ratings, users: Vocabulary) -> Ratings:
    return ratings.take(np.flatnonzero(users.rows_of(ratings.users.ids)[ratings.user_rows] >= 0))


def require_optuna() -> None:
    """Refuse early, with instructions, if Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Tuning", "tune") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's own messages: what matters is in the result."""
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
    """A study in memory, which starts with the existing trials."""

    def __init__(
        self, space: SearchSpace, *, is_smaller_better: bool, seed: int, before: Sequence[FrozenTrial]
    ) -> None:
        import optuna

        self._space, self._seed = {name: _distribution(part) for name, part in space.items()}, seed
        with quiet():
            pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=GROWTH)
            self._study = optuna.create_study(direction=_direction(is_smaller_better), pruner=pruner)
            self._study.add_trials(before)

    def ask(self) -> Trial:
        """The next setting: `trial.params`."""
        import optuna

        with quiet():
            n_ended = len(self._study.get_trials(deepcopy=False))
            drawn = int(derive(self._seed, "trial", n_ended).integers(1 << 32))
            self._study.sampler = optuna.samplers.TPESampler(seed=drawn, n_startup_trials=RANDOM_TRIALS)
            return self._study.ask(self._space)

    def is_hopeless(self, trial: Trial, step: int, value: float) -> bool:
        """Whether a setting with this value on a rung is not worth the next one."""
        with quiet():
            trial.report(value, step)
            return trial.should_prune()

    def end(self, trial: Trial, kept: dict[str, Any], *, value: float | None, is_complete: bool) -> FrozenTrial:
        """Record a trial that was finished or stopped; no value for one whose fit failed."""
        from optuna.trial import TrialState

        with quiet():
            for name, content in kept.items():
                trial.set_user_attr(name, content)
            if value is not None and is_complete:
                return self._study.tell(trial, value)
            return self._study.tell(trial, state=TrialState.FAIL if value is None else TrialState.PRUNED)


def _distribution(part: Range | Choice) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(part, Choice):
        return CategoricalDistribution(part.values)
    if part.whole:
        return IntDistribution(int(part.low), int(part.high), log=True)
    return FloatDistribution(part.low, part.high, log=True)


def _direction(is_smaller_better: bool) -> Literal["minimize", "maximize"]:
    return "minimize" if is_smaller_better else "maximize"


def begin_run(
    folder: Path | None, held: ExitStack, *, resume: bool, is_smaller_better: bool, run: Mapping[str, Any]
) -> Study:
    """The finished trials of a run, in a folder or, without one, in memory.

    The folder is locked until `held` is left. `run` identifies a run by name and value: a folder of
    another is refused.
    """
    if folder is None:
        return _study(None, is_smaller_better)
    file, run = folder / FILE, json.loads(json.dumps(run))
    check_folder(folder, resume=resume)
    if resume and not file.exists():
        warn(f"there is no search in {folder} yet: it starts from the beginning", CheckpointWarning)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held.callback(Lock(folder / LOCK).release)
        _check_lines(file)
    except CheckpointError:
        raise
    except BlockingIOError:
        raise CheckpointError(
            f"another search is writing to {folder}; wait for it, stop it, or use another folder"
        ) from None
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written to ({error.strerror or error}); expected a folder for the search"
        ) from error
    study = _study(file, is_smaller_better)
    if RUN not in study.user_attrs:
        with quiet():
            study.set_user_attr(RUN, run)
    _require_same(study.user_attrs[RUN], run, folder)
    return study


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse early a folder that cannot be used."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; expected a folder for the search")
    if (folder / FILE).exists() and not resume:
        raise CheckpointError(
            f"{folder} holds a search already; resume it (--resume on the command line), start again in another "
            "folder, or delete this one"
        )


def _study(file: Path | None, is_smaller_better: bool) -> Study:
    import optuna
    from optuna.storages.journal import JournalStorage

    direction = _direction(is_smaller_better)
    with quiet():
        if file is None:
            return optuna.create_study(direction=direction)
        backend = _backend(file)
        try:
            return optuna.create_study(
                storage=JournalStorage(backend), study_name=STUDY, direction=direction, load_if_exists=True
            )
        except Exception as error:  # A damaged file may fail in any way.
            raise _damaged(file, f"{type(error).__name__}: {error}") from error


def _damaged(file: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{file} is damaged ({shortened(why)}); expected the journal of a search: delete it and start again, or use "
        "another folder"
    )


def _backend(file: Path) -> JournalFileBackend:
    """The file without a lock of its own: the folder has one, which ends with its process in any case."""
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    class Unlocked(JournalFileOpenLock):
        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    return JournalFileBackend(str(file), lock_obj=Unlocked(str(file)))


def _check_lines(file: Path) -> None:
    """Refuse a file that is not a journal, and drop a line that was not finished because the run was killed.

    Optuna would append its next line to the unfinished one, and notice the error only on reading it again.
    """
    if not file.exists():
        return
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        warn(f"the last line of {file} was not finished and is left out", CheckpointWarning)
        with file.open("r+b") as stream:
            stream.truncate(len(whole))
    for place, line in enumerate(whole.splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError as error:
            raise _damaged(file, f"line {place}: {error}") from error


def _require_same(known: Mapping[str, Any], run: Mapping[str, Any], folder: Path) -> None:
    different = [name for name in dict.fromkeys([*known, *run]) if known.get(name) != run.get(name)]
    if different:
        differences = "; ".join(
            f"{name}: {shortened(str(known.get(name)))} there, {shortened(str(run.get(name)))} here"
            for name in different
        )
        raise CheckpointError(
            f"{folder} holds another search ({differences}); expected the same settings to resume it, or another folder"
        )
