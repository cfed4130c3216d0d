"""What the variants of gradient descent reach on MovieLens 1M (90:10, seed 0, D = 32, one thread).

Every variant finds its strength (but for the adaptive one) and its epochs by itself, on a tenth of the training
ratings. RMSE over all test ratings, predictions clipped to the range, cold ones included.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

from tastespace import PMF

VARIANTS: dict[str, dict[str, Any]] = {
    "PMF()": {},
    'schedule="bold-driver"': {"schedule": "bold-driver"},
    'form="raw"': {"form": "raw"},
    'form="sigmoid"': {"form": "sigmoid"},
    'weighting="weighted"': {"weighting": "weighted"},
    'weighting="plain"': {"weighting": "plain"},
    'regularization="adaptive"': {"regularization": "adaptive"},
    'method="full-batch"': {"method": "full-batch"},
    'method="mini-batch"': {"method": "mini-batch"},
}


def reached(data: Path | None, name: str) -> dict[str, Any]:
    """The error of a variant, and what it found."""
    parts = movielens.split(data)
    model = PMF(seed=0, threads=1, **VARIANTS[name])
    seconds = harness.measure(lambda: model.fit(replace(parts.train)))[1]
    predicted = model.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    posterior = model.posterior_
    return {
        "rmse": float(np.sqrt(np.mean((predicted - parts.test.values.astype(np.float64)) ** 2))),
        "strength": posterior.penalty.strengths.users,
        "epochs": len(posterior.losses),
        "seconds": seconds,
    }


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    rows: dict[str, dict[str, Any]] = {}
    for name in list(VARIANTS)[: 1 if options.quick else None]:
        rows[name] = harness.in_fresh_process(1, reached, options.data, name)
        print(f"{name}: {rows[name]}", flush=True)
    columns = ["rmse", "strength", "epochs", "seconds"]
    table = [[name, *(row[key] for key in columns)] for name, row in rows.items()]
    print("\n" + harness.markdown(["", *columns[:3], "s (cpu)"], table))
    harness.save("pmf_variants", {"protocol": __doc__, "rows": rows}, options)


if __name__ == "__main__":
    main()
