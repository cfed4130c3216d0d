"""Monotone matrix factorization: ratings through learned curves that preserve order.

Begin with `monotone.py`, then `curves.py` and `cross_fit.py`. May import `als/`, `gibbs/` and `empirical_bayes/`.
"""
