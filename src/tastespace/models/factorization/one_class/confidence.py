"""How much more an observation counts than a cell of which nothing is known, by how often it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray

Growth = Literal["log", "linear", "none"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)


@dataclass(frozen=True)
class Confidence:
    """A cell that nobody chose has the confidence 1; a chosen one 1 + strength * f(count).

    f is log(1 + count) ("log"), the count ("linear") or 1 ("none"), after Hu, Koren and Volinsky (2008). A thousand
    plays are no thousand times as good a sign as one: hence the logarithm.
    """

    strength: float
    growth: Growth = "log"

    def beyond_one(self, counts: NDArray[Any]) -> FloatArray:
        """strength * f(count), one a cell; 0 for a count of 0, which is no choice."""
        values = np.asarray(counts, np.float64)
        if self.growth == "log":
            values = np.log1p(values)
        elif self.growth == "none":
            values = np.sign(values)
        with np.errstate(over="ignore"):  # Whoever uses them says what is too much.
            return (self.strength * values).astype(np.float32)
