"""Observed data: ratings, where they come from, and how they are split.

Begin with `ratings.py`. `formats/` reads and writes files, `sources/` has data sets by name; `tables.py` is shared by
all readers. May import only the files of the package's foundation (`storage`, `tables`, `threads`, `errors` ...).
"""
