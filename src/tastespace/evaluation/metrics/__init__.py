"""Metrics: plain functions on small arrays, one value per user, list or rating.

Begin with `rating.py`; `order.py` has the measures of lists, `binary.py` those of yes and no, `catalogue.py` those of
lists beyond accuracy. They know no model; the room above calls them.
"""
