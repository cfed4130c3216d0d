"""Several pieces of work in threads of their own; the first failure, or somebody tired of waiting, stops all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from time import sleep
from typing import TypeVar

Piece = TypeVar("Piece")

PATIENCE = 0.1  # seconds until somebody who interrupts is heard


def side_by_side(
    run: Callable[[Piece], None], pieces: Sequence[Piece], workers: int, stopped: list[BaseException]
) -> None:
    """Run all in threads of their own; the first that fails, or somebody tired of waiting, stops the others.

    Whoever runs looks into `stopped` and ends with the step that he is in: a thread cannot be left alone inside a
    kernel while the program ends.
    """
    waiting, lock = deque(pieces), Lock()

    def work() -> None:
        while not stopped:
            with lock:
                if not waiting:
                    return
                piece = waiting.popleft()
            try:
                run(piece)
            except BaseException as error:
                stopped.append(error)

    _run_to_the_end(work, workers, stopped)


def _run_to_the_end(work: Callable[[], None], workers: int, stopped: list[BaseException]) -> None:
    """Do the work in so many threads and wait for them; what stopped them is raised.

    They say themselves when they end. `Thread.join` does not: interrupted, it takes a running thread for one that has
    ended (Python 3.11), and a program must not end while kernels run.
    """
    ends: list[Event] = []

    def until_the_end(end: Event) -> None:
        try:
            work()
        finally:
            end.set()

    try:
        for _ in range(workers):
            end = Event()
            ends.append(end)
            try:
                Thread(target=until_the_end, args=(end,)).start()
            except RuntimeError:  # The system has no thread left: this one has ended before it began.
                end.set()
                raise
        for end in ends:
            while not end.wait(PATIENCE):  # Not one long wait: an interrupt may reach another thread, and wake nobody.
                pass
    except BaseException as error:
        stopped.append(error)
        while not all(end.is_set() for end in ends):  # However often somebody interrupts.
            with suppress(KeyboardInterrupt):
                sleep(PATIENCE)
        raise
    if stopped:
        raise stopped[0]
