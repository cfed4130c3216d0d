"""Fits that survive an interruption: a model that samples keeps checkpoints, and goes on from the last one."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from tastespace import randomness
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.checkpoints import Checkpoints, RunCheckpoints
from tastespace.models.posterior import Posterior
from tastespace.models.run import run_of
from tastespace.progress import Observer


@runtime_checkable
class Resumable(Protocol):
    """Capability of a recommender: its inference can be interrupted, and go on later from a checkpoint."""

    seed: int | None

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def infer_resumably(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None,
        checkpoints: RunCheckpoints | None,
    ) -> Posterior[Any]:
        """As `infer`, and to the same end, with checkpoints."""
        ...


def resumable(recommender: Any, checkpoints: Checkpoints) -> Resumable:
    """The recommender; checkpoints that are none, that it cannot keep, or that are in the way, are refused."""
    if not isinstance(checkpoints, Checkpoints):
        raise InvalidParameterError(
            f"checkpoints is {checkpoints!r}; expected Checkpoints, such as tastespace.Checkpoints('folder')"
        )
    if not isinstance(recommender, Resumable):
        raise InvalidParameterError(
            f"{type(recommender).__name__} keeps no checkpoints: it draws no samples, and is fitted in one go; "
            "expected none, or a model that samples, such as BPMF"
        )
    checkpoints.check()
    return recommender


def infer_with_checkpoints(
    recommender: Resumable, observed: Ratings, held_out: Ratings | None, observer: Observer, checkpoints: Checkpoints
) -> tuple[int, Posterior[Any]]:
    """The seed, and what was concluded."""
    # Without a seed, the run that goes on has that of the run that began.
    began_with = checkpoints.seed() if recommender.seed is None and checkpoints.resume else None
    seed = randomness.resolve(recommender.seed) if began_with is None else began_with
    run = run_of(type(recommender).__name__, recommender.get_params(), seed, observed, held_out)
    rng = randomness.generator(seed)
    with checkpoints.begin(run) as begun:
        return seed, recommender.infer_resumably(observed, rng, observer, held_out, begun)
