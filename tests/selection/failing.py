"""Models that come to a bad end, each in its own way; in a module, so that another process can import them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from tastespace import GlobalMean


@dataclass(kw_only=True)
class Killed(GlobalMean):
    """Its process is gone before it has concluded anything, as where memory runs out."""

    def infer(self, observed, rng, observer, held_out=None):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(kw_only=True)
class Broken(GlobalMean):
    """Has a mistake in it."""

    def infer(self, observed, rng, observer, held_out=None):
        raise RuntimeError("the wheels came off")


@dataclass(kw_only=True)
class Gone(GlobalMean):
    """Leaves without a word, but for what the system says."""

    def infer(self, observed, rng, observer, held_out=None):
        os.write(2, b"double free or corruption\n")
        os._exit(3)
