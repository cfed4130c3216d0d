"""The number of factors: by columns that shrink, or by reversible jumps.

Begin with `reversible_jump.py`, or with `column_search.py` for `n_factors="auto"`. May import `gibbs/`, `likelihoods/`
and `priors/`.
"""
