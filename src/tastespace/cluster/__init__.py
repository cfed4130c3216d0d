"""Fitting on several machines: the sweeps of one machine, with the rows of users and items in parts (extra [cluster]).

Begin with `fitting.py`; `parts.py` cuts ratings into parts and says how a node sees its own, `ray.py` is the only file
that knows Ray. Models do not know this room: they see ratings whose rows are in parts, and every sum and every random
number goes block by block, so that the result has the same bytes as on one machine.
"""

from __future__ import annotations

from tastespace.cluster.fitting import ClusterSummary, fit

__all__ = ["ClusterSummary", "fit"]
