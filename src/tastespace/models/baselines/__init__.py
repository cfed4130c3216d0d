"""Baselines without personal tastes, which every other model must beat.

All are in `baselines.py`. May import `models/base` and the biases that families share (`models/biases.py`).
"""
