"""The routes of the HTTP API and of the web page, one file per subject.

Begin with `parts.py`, the shared parts, then `recommendations.py`. Routes are transport: they import the service,
results of `models/base` and the pages of `report`, and compute nothing.
"""
