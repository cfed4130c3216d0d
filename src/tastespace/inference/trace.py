"""What was watched while chains ran: every sweep of every chain, warm-up included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray

PREFIX = "trace:"
# Names that mean something to readers of a trace; any other is just a quantity.
NOISE, LOG_JOINT, HELD_OUT = "noise sd", "log joint", "held-out rmse"
ACTIVE = "active factors"  # columns that are of use, where a prior lets the others shrink
ACCEPTANCE, ENERGY_ERROR = "acceptance", "energy error"  # of moves that propose: how they went, not what they found


@dataclass(frozen=True, eq=False)
class Trace:
    """Figures by name, and the predictions of some watched pairs: identified quantities only, never raw factors."""

    warmup: int  # sweeps before the first that counts
    thin: int  # of those that count, every so many is a kept draw
    quantities: Mapping[str, DoubleArray]  # chains x sweeps each
    predictions: FloatArray  # chains x sweeps x pairs, in rating units
    wanted_error: float | None = None  # chains went on for it (see `Exactness`); None if their length was given
    rank_search: DoubleArray | None = None  # 2 x sweeps: columns, and those of use, while their number was sought

    @property
    def chains(self) -> int:
        return int(self.predictions.shape[0])

    @property
    def sweeps(self) -> int:
        return int(self.predictions.shape[1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that must be saved."""
        arrays: dict[str, NDArray[Any]] = {f"{PREFIX}quantity:{name}": value for name, value in self.quantities.items()}
        arrays[f"{PREFIX}predictions"] = self.predictions
        arrays[f"{PREFIX}schedule"] = np.array([self.warmup, self.thin])
        if self.wanted_error is not None:
            arrays[f"{PREFIX}wanted error"] = np.array([self.wanted_error])
        if self.rank_search is not None:
            arrays[f"{PREFIX}rank search"] = self.rank_search
        return arrays

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> Trace | None:
        """What `arrays` gave, if there is one among these."""
        return cls.from_arrays(arrays) if f"{PREFIX}schedule" in arrays else None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Trace:
        warmup, thin = (int(value) for value in arrays[f"{PREFIX}schedule"])
        start = f"{PREFIX}quantity:"
        quantities = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
        wanted = arrays.get(f"{PREFIX}wanted error")
        return cls(
            warmup,
            thin,
            quantities,
            arrays[f"{PREFIX}predictions"],
            None if wanted is None else float(wanted[0]),
            arrays.get(f"{PREFIX}rank search"),
        )
