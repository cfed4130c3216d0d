"""Matrix factorization by alternating least squares.

Begin with `als.py`; `sweep.py` is the transition, `posterior.py` the result. Other folders of factorization start
from it; it imports `empirical_bayes/` and `gibbs/` for the settings that need them.
"""
