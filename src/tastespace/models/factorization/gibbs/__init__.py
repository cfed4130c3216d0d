"""Bayesian matrix factorization by Gibbs sampling.

Begin with `bpmf.py`, then `generative_model.py` (the model) and `sweep.py` (one sweep for every pairing of likelihood
and priors); `posterior.py` answers. May import `likelihoods/`, `priors/`, `als/`, `sphere/` and `rank/`.
"""
