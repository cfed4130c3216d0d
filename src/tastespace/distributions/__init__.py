"""Conjugate algebra, and the distributions of predictions.

Begin with `conjugate.py`, the distributions of samplers, or `normal_mixture.py`, those of predictions. May import
kernels, `parameters`, `data` and the foundation, and nothing of inference or models.
"""
