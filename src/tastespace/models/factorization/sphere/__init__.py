"""Items on a sphere: all vectors have the same length, so that the best item for a user is the nearest point.

Begin with `sphere.py`, both recommenders; `moves.py` is the interface to the kernel. May import `als/`, `gibbs/`,
`likelihoods/` and `priors/`.
"""
