"""File formats: how ratings are laid out in files, read and written.

Begin with `files.py`, which detects the format of a file and calls the others; `writers.py` writes files. May
import the rest of `data` and the foundation; data sets by name (`sources/`) are built on it.
"""
