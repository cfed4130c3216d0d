"""Evaluation: measures on held-out ratings with confidence intervals, and comparisons of models.

Begin with `evaluate.py`; `report.py` holds its results, `significance.py` compares reports, and `side_by_side.py` puts
lists beside those of the popularity baseline. `metrics/` has the measures as plain functions. May import models through
`models/base`, the baselines, `index`, `artifact` and what is below them; never `selection` or `report`.
"""
