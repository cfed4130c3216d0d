"""Matrix factorization by variational Bayes.

Begin with `vb.py`, then `ascent.py`; `rows.py` is the interface to the kernel. May import `als/`, `gibbs/`,
`likelihoods/`, `priors/` and `rank/`.
"""
