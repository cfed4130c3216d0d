"""Models of implicit feedback: clicks, plays and purchases.

Begin with `implicit_als.py`; `logistic_mf.py` is the other one. `cells.py` (weights of all cells) and `negatives.py`
(sampled negatives) are used by likelihoods as well, and import none; the models import `likelihoods/` and `gibbs/`.
"""
