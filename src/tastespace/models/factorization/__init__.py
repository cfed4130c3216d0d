"""Matrix factorization: users and items are vectors, and a rating is an inner product.

Begin with `rows.py`, the interface to the row kernel, then `als/als.py`, the simplest model, and `gibbs/bpmf.py`, the
default. `likelihoods/` and `priors/` are the axes that models combine; the other folders are one inference or one
subject each, and may import one another, `models/base` and what is below, but no other family.
"""
