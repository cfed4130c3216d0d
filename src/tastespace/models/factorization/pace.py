"""How fast gradient descent goes, and for how long, where nobody says.

The start is a saddle: nothing improves until the factors have grown. How long that takes depends on how far steps could
have led (see `Descent.travel`), not on epochs: an epoch of a small file has few steps. So patience is counted in such
travel, and where there are few steps they are longer.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from tastespace.models.factorization.descent import Descent, Method, ScheduleName

PATIENT_TRAVEL = 30.0
LEAST_PATIENCE, LEAST_STEPS = 10, 50  # epochs; and steps with momentum, which swings before it goes anywhere
LEAST_EPOCHS, MOST_EPOCHS, PATIENCES = 200, 1000, 5
USUAL_SCHEDULES: dict[Method, ScheduleName] = {
    "stochastic": "inverse",
    "mini-batch": "inverse",
    "full-batch": "constant",
}
SLOW, OF_FEW_VISITS, MANY_VISITS = 0.02, 0.06, 100  # one rating at a time
OF_ONE_BATCH = 0.2  # whose gradient has no noise


def usual_rate(method: Method, visits: float, n_batches: int) -> float:
    """The rate of the first steps, given an average row's visits in an epoch, and the batches of one.

    Steps are shorter the more there are of them: their noise is averaged over by as many.
    """
    if method == "full-batch":
        return OF_ONE_BATCH
    if method == "mini-batch":
        return float(np.clip(OF_ONE_BATCH / np.sqrt(n_batches), SLOW, OF_ONE_BATCH))
    return float(np.clip(SLOW * np.sqrt(MANY_VISITS / max(visits, 1e-9)), SLOW, OF_FEW_VISITS))


def usual_patience(descent: Descent) -> int:
    """Epochs without a better one after which none is to be expected."""
    least = LEAST_PATIENCE
    if descent.steps.method != "stochastic":
        least = max(least, ceil(LEAST_STEPS / descent.steps.n_batches(descent.n_ratings)))
    return max(least, _patient(descent))


def usual_epochs(descent: Descent) -> int:
    """Epochs after which descent ends, whatever it still finds."""
    return int(np.clip(PATIENCES * _patient(descent), LEAST_EPOCHS, MOST_EPOCHS))


def _patient(descent: Descent) -> int:
    return ceil(min(PATIENT_TRAVEL / descent.travel, MOST_EPOCHS))
