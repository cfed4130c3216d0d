"""Matrix factorization by gradient descent.

Begin with `pmf.py`; `descent.py` is the transition, `blocks.py` the ratings it visits, from memory or from a file. May
import `als/` and `empirical_bayes/`.
"""
