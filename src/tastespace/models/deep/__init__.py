"""Recommenders that are neural networks on ratings. They are trained with PyTorch, and answer without it.

Begin with `autorec.py`; what it concludes is in `codes.py`. May import `models/base`, the files of `models/`, and what
is below, `networks` above all.
"""
