"""Inference algorithms: transitions and the loops that drive them, independent of any model.

Begin with `transition.py`, then `drivers.py`, whose `sample()` and `ascend()` are the only loops. `samplers/` are
transitions that can be used alone. May import distributions, data and the foundation.
"""
