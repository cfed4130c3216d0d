"""Stand-alone samplers: each file has an `init` and a `step` for a log density, independent of any model.

Begin with `target.py`, the density, then `metropolis.py`. May import the rest of inference and distributions.
"""
