"""Promises: what the model believed just before each rating was stored, held against that rating.

Begin with `monitor.py`, which does it in the background; `records.py` has the tables, `measures.py` what follows from
them by version, `drift.py` a test of whether the ratings still are what the model expects. May import the store and the
live model, and is imported by the routes.
"""
