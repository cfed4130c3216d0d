"""Find the step size at which paths are accepted as often as wanted, while a chain warms up.

After step t with acceptance probability a_t, wanted d (Hoffman and Gelman 2014, section 3.2; Nesterov 2009):

    error_t    = (1 - 1/(t + t0)) error_(t-1) + (d - a_t) / (t + t0)
    log step   = centre - sqrt(t)/gamma error_t                 what is tried next
    log kept   = t^-k log step + (1 - t^-k) log kept            what warm-up ends with

with centre = log(10 first step): larger steps are cheaper, so those are tried first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

GAMMA, T0, K = 0.05, 10.0, 0.75
LARGEST_LOG = 60.0  # steps beyond exp(60) or below exp(-60) are an overflow on the way, not a step size


@dataclass(frozen=True)
class DualAveraging:
    """The step size in use, and what finds the next one."""

    step_size: float
    kept: float  # the average that warm-up ends with
    centre: float  # of the logarithm
    error: float = 0.0
    count: int = 0


def begin(step_size: float) -> DualAveraging:
    """With this step; it stays, unless acceptance is told."""
    return DualAveraging(step_size, step_size, math.log(10 * step_size))


def told(
    averaging: DualAveraging, acceptance: float, *, wanted: float, largest: float = math.exp(LARGEST_LOG)
) -> DualAveraging:
    """After a step with this acceptance probability; the next step is at most the `largest`."""
    count = averaging.count + 1
    weight = 1 / (count + T0)
    error = (1 - weight) * averaging.error + weight * (wanted - acceptance)
    log_step = averaging.centre - math.sqrt(count) / GAMMA * error
    log_step = min(max(log_step, -LARGEST_LOG), math.log(largest))
    share = count**-K
    kept = math.exp(share * log_step + (1 - share) * math.log(averaging.kept))
    return replace(averaging, step_size=math.exp(log_step), kept=kept, error=error, count=count)


def settled(averaging: DualAveraging) -> DualAveraging:
    """The end of warm-up: the average is used from now on."""
    return replace(averaging, step_size=averaging.kept)


def adapted(
    averaging: DualAveraging,
    acceptance: float,
    *,
    step: int,
    warmup: int,
    wanted: float,
    largest: float = math.exp(LARGEST_LOG),
) -> DualAveraging:
    """After this step (from 1 on) of a chain: told during warm-up, settled at its end, as it was afterwards."""
    if step > warmup:
        return averaging
    averaging = told(averaging, acceptance, wanted=wanted, largest=largest)
    return settled(averaging) if step == warmup else averaging
