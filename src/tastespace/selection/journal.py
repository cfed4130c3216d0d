"""A search in a folder: each trial that has ended is a line, and a run that was killed goes on after the last one.

The file is a journal of Optuna, which its own tools can read. Only trials that have ended are in it, so that one during
which a run was killed leaves no trace, and is made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.errors import CheckpointError, CheckpointWarning, shortened, warn
from tastespace.selection.search import quiet
from tastespace.storage import LOCK, Lock

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial


FILE, STUDY = "tune.journal", "tastespace"
RUN, DEFAULTS = "run", "defaults"  # names of what is kept beside the trials


class Journal:
    """The trials of a run, in a folder or, without one, nowhere."""

    def __init__(self, study: Study | None, lock: Lock | None) -> None:
        self._study, self._lock = study, lock

    @classmethod
    def begin(cls, folder: Path | None, *, resume: bool, is_smaller_better: bool, run: Mapping[str, Any]) -> Journal:
        """The journal of this run, found or to be made. `run` is what makes it this one, by name."""
        if folder is None:
            return cls(None, None)
        file, run = folder / FILE, json.loads(json.dumps(run))
        check_folder(folder, resume=resume)
        if resume and not file.exists():
            warn(f"there is no search in {folder} yet: it starts from the beginning", CheckpointWarning)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder / LOCK)
            _check_lines(file)
        except BlockingIOError:
            raise CheckpointError(
                f"another search is writing to {folder}; wait for it, stop it, or take another folder"
            ) from None
        except OSError as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"{folder} cannot be written to ({error.strerror or error}); expected a folder for the search"
            ) from error
        study = _study(file, is_smaller_better)
        known = study.user_attrs.get(RUN)
        if known is None:
            with quiet():
                study.set_user_attr(RUN, run)
        else:
            _require_same(known, run, folder)
        return cls(study, lock)

    def trials(self) -> list[FrozenTrial]:
        """Those that have ended."""
        return [] if self._study is None else self._study.get_trials()

    def defaults(self) -> float | None:
        """What the model achieves as it is, if that is known already."""
        return None if self._study is None else self._study.user_attrs.get(DEFAULTS)

    def keep_defaults(self, value: float) -> None:
        if self._study is not None:
            with quiet():
                self._study.set_user_attr(DEFAULTS, value)

    def keep(self, trial: FrozenTrial) -> None:
        if self._study is not None:
            with quiet():
                self._study.add_trial(trial)

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.release()


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse early what cannot be meant."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; expected a folder for the search")
    if (folder / FILE).exists() and not resume:
        raise CheckpointError(
            f"{folder} holds a search already; resume it (--resume on the command line), start afresh in another "
            "folder, or delete this one"
        )


def _study(file: Path, is_smaller_better: bool) -> Study:
    import optuna
    from optuna.storages.journal import JournalStorage

    backend = _backend(file)
    try:
        with quiet():
            return optuna.create_study(
                storage=JournalStorage(backend),
                study_name=STUDY,
                direction="minimize" if is_smaller_better else "maximize",
                load_if_exists=True,
            )
    except Exception as error:  # What is found in a damaged file is up to the damage.
        raise _damaged(file, f"{type(error).__name__}: {error}") from error


def _damaged(file: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{file} is damaged ({shortened(why)}); expected the journal of a search: delete it and begin again, or take "
        "another folder"
    )


def _backend(file: Path) -> JournalFileBackend:
    """The file without a lock of its own: the folder has one, which ends with its process whatever becomes of that."""
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    class Unlocked(JournalFileOpenLock):
        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    return JournalFileBackend(str(file), lock_obj=Unlocked(str(file)))


def _check_lines(file: Path) -> None:
    """Refuse what is no journal, and leave out a line that a run was killed in the middle of writing.

    Optuna would put its next line behind the unfinished one, and see what is wrong only when it reads that again.
    """
    if not file.exists():
        return
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        warn(f"the last line of {file} was not finished, and is left out", CheckpointWarning)
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
        told = "; ".join(
            f"{name}: {shortened(str(known.get(name)))} there, {shortened(str(run.get(name)))} here"
            for name in different
        )
        raise CheckpointError(
            f"{folder} holds another search ({told}); expected the same settings to resume it, or another folder"
        )
