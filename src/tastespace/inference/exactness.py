"""When chains have drawn enough: a schedule's rule for as many draws as predictions need, and no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace.inference.diagnostics import monte_carlo_errors
from tastespace.inference.figures import of_most
from tastespace.inference.limits import LARGEST_ERROR
from tastespace.inference.trace import Trace


@dataclass(frozen=True)
class Exactness:
    """Chains go on, a block of draws at a time, until the Monte Carlo errors of watched predictions are small.

    Nine pairs in ten must have an error of at most `error`, in units of the noise sd (where there is none, of the
    spread of the predictions), and all together must not make the diagnostics warn. Chains that disagree have large
    errors: they go on to the most that the schedule allows.
    """

    error: float
    block: int  # draws of each chain between two looks, and the least that are taken

    def is_met(self, trace: Trace) -> bool:
        errors = monte_carlo_errors(trace)
        if errors is None:
            return False
        return of_most(errors) <= self.error and float(np.sqrt(np.mean(errors**2))) <= LARGEST_ERROR
