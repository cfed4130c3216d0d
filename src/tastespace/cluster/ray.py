"""Nodes as Ray actors: the only file that knows Ray, of which it uses actors and object references.

Arrays go from node to node through Ray's object stores: a meeting, which is an actor, passes references on and never
sees the arrays themselves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from tastespace import threads
from tastespace.cluster.fitting import NodeLostError, NodeSummary, infer_part
from tastespace.cluster.parts import Arrays, Facts, Share
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError
from tastespace.models import Recommender
from tastespace.models.base.posterior import Posterior
from tastespace.progress import Observer, Progress, silent
from tastespace.version import __version__

try:
    import ray
except ImportError as error:
    raise MissingExtraError("fitting on a cluster", "cluster") from error

LOCAL = "local:"
POLL = 0.2  # seconds between two looks at the progress
INSTRUCTION_SETS = ("base", "avx2", "avx512")  # from the lowest


class Meeting:
    """An actor where nodes leave references to their arrays, and get those of all."""

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes
        self._open: dict[Hashable, tuple[dict[int, Any], asyncio.Event]] = {}
        self._taken: dict[Hashable, int] = {}
        self._news: list[Progress] = []

    async def exchange(self, key: Hashable, node: int, own: list[Any]) -> list[Any]:
        """Leave a reference, and wait for those of all nodes."""
        left, complete = self._open.setdefault(key, ({}, asyncio.Event()))
        left[node] = own[0]
        if len(left) == self._n_nodes:
            complete.set()
        await complete.wait()
        self._taken[key] = self._taken.get(key, 0) + 1
        if self._taken[key] == self._n_nodes:
            del self._open[key], self._taken[key]
        return [left[place] for place in range(self._n_nodes)]

    async def tell(self, progress: Progress) -> None:
        """Leave news about the progress."""
        self._news.append(progress)

    async def news(self) -> list[Progress]:
        """Take the news."""
        news, self._news = self._news, []
        return news


class _Door:
    """The meeting as one node uses it."""

    def __init__(self, meeting: Any, node: int) -> None:
        self._meeting, self._node = meeting, node

    def exchange(self, key: Hashable, own: Arrays) -> list[Arrays]:
        reference = ray.put(own)  # Stays until all others have left references, too: then the meeting holds it.
        references = ray.get(self._meeting.exchange.remote(key, self._node, [reference]))
        others = iter(ray.get([other for node, other in enumerate(references) if node != self._node]))
        return [own if node == self._node else next(others) for node in range(len(references))]


class Node:
    """An actor that computes a part."""

    def about(self) -> tuple[str, str]:
        """The version of the library, and the best instruction set of this machine."""
        return __version__, threads.instruction_set()

    def run(
        self,
        model: Recommender,
        seed: int,
        share: tuple[Share, Share],
        facts: Facts,
        meeting: Any,
        node: int,
        is_told: bool,
    ) -> tuple[Posterior | None, NodeSummary]:
        """Infer together with the others; the first node returns the posterior."""

        def tell(progress: Progress) -> None:
            meeting.tell.remote(progress)

        observer = tell if node == 0 and is_told else silent
        posterior, summary = infer_part(model, seed, share, facts, _Door(meeting, node), observer)
        return (posterior if node == 0 else None), summary


class Nodes:
    """The nodes of a cluster; each run has actors of its own."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(
        self, model: Recommender, seed: int, shares: list[tuple[Share, Share]], facts: Facts, observer: Observer
    ) -> tuple[Posterior, list[NodeSummary]]:
        """Run the inference of a model on all nodes, and return the posterior and what each node did."""
        isa = self._common_instruction_set()
        options = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "runtime_env": {"env_vars": {"TASTESPACE_ISA": isa}}}
        meeting = ray.remote(Meeting).options(num_cpus=0).remote(self.count)
        actors = [ray.remote(Node).options(**options).remote() for _ in shares]
        try:
            runs = [
                actor.run.remote(model, seed, share, facts, meeting, place, observer is not silent)
                for place, (actor, share) in enumerate(zip(actors, shares, strict=True))
            ]
            waiting = list(runs)
            while waiting:
                done, waiting = ray.wait(waiting, timeout=POLL)
                ray.get(done)  # Raises what went wrong in a node, which would leave the others waiting.
                for progress in ray.get(meeting.news.remote()) if observer is not silent else ():
                    observer(progress)
            found = ray.get(runs)
            return found[0][0], [summary for _, summary in found]
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from error
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
            raise NodeLostError(f"a node of the cluster was lost: {_first_line(error)}") from error
        finally:
            for actor in (*actors, meeting):
                ray.kill(actor)

    def _common_instruction_set(self) -> str:
        """The best instruction set that all nodes have; an error if they have other versions of the library."""
        actors = [
            ray.remote(Node).options(num_cpus=1, scheduling_strategy="SPREAD").remote() for _ in range(self.count)
        ]
        try:
            about: list[tuple[str, str]] = ray.get([actor.about.remote() for actor in actors])
        except ray.exceptions.RayActorError as error:
            raise NodeLostError(f"a node of the cluster was lost: {_first_line(error)}") from error
        finally:
            for actor in actors:
                ray.kill(actor)
        if other := {version for version, _ in about} - {__version__}:
            raise DataError(
                f"nodes have tastespace {', '.join(sorted(other))}, and this is {__version__}",
                expected="the same version on all machines",
            )
        return min((isa for _, isa in about), key=INSTRUCTION_SETS.index)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]


@contextmanager
def nodes_of(cluster: str) -> Iterator[Nodes]:
    """The nodes of a cluster by its address; local ones are started, and ended afterwards."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if ray.is_initialized():
        raise InvalidParameterError("Ray is in use in this process already; expected a process without it")
    if cluster.startswith(LOCAL):
        number = cluster.removeprefix(LOCAL)
        if not number.isdigit() or int(number) < 1:
            raise InvalidParameterError(f"cluster is {cluster!r}; expected local:N with at least one node")
        ray.init(num_cpus=int(number), include_dashboard=False, **quiet)
        count = int(number)
    elif cluster == "auto" or cluster.startswith("ray://"):
        try:
            ray.init(address=cluster, **quiet)
        except (ConnectionError, ValueError) as error:
            raise InvalidParameterError(
                f"no cluster of Ray at {cluster!r} ({_first_line(error)}); expected one that was started with "
                "'ray start --head', or local:N"
            ) from error
        count = sum(1 for node in ray.nodes() if node["Alive"])
    else:
        raise InvalidParameterError(f"cluster is {cluster!r}; expected local:N, auto or ray://HOST:PORT")
    try:
        yield Nodes(count)
    finally:
        ray.shutdown()
