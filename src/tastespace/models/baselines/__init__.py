"""Baselines, most of them without personal tastes, which every other model must beat.

Most are in `baselines.py`; `profile.py` goes by features of items alone. May import `models/base` and the biases that
families share (`models/biases.py`).
"""
