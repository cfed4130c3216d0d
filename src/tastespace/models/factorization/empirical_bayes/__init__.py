"""Empirical Bayes: regularization that is learned from the ratings.

Begin with `settings.py`, then `inference.py`. May import `als/`, `gibbs/`, `likelihoods/` and `priors/`; `als/`, `sgd/`
and `monotone/` use it where `regularization="empirical-bayes"`.
"""
