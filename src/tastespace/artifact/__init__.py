"""Fitted recommenders on disk: a folder with a manifest, arrays and tables. No pickle.

Begin with `saving.py`, whose names are those of this package; `features.py` and `index.py` have the parts of an
artifact that not every model has, `erasure.py` takes users out of one. May import models and the rooms below them.
"""

from __future__ import annotations

from tastespace.artifact.saving import (
    FORMAT,
    FORMAT_VERSION,
    RATINGS,
    USERS,
    check_separable,
    check_writable,
    copy,
    load,
    read_manifest,
    rewriting,
    save,
    save_index,
    verified,
)

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "RATINGS",
    "USERS",
    "check_separable",
    "check_writable",
    "copy",
    "load",
    "read_manifest",
    "rewriting",
    "save",
    "save_index",
    "verified",
]
