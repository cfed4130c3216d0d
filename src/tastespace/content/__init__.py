"""Documents and images: features of their content, search by them, and item features for what nobody has rated.

Begin with `model.py`, the content model that is searched and saved; `documents.py` and `images.py` turn texts and
images into vectors, `reading.py` and `pictures.py` read them. May import `index`, `networks`, `data` and what is below.
The libraries that it needs are in the extra `content`; networks are trained by PyTorch (the extra `deep`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Kinds of features by name, as content models refer to them.
FEATURES = {
    "text": "tastespace.content.documents:DocumentFeatures",
    "images": "tastespace.content.images:ImageFeatures",
}


def features_type(kind: str) -> type[Any]:
    """The class of features of this kind; a ValueError for an unknown one."""
    if kind not in FEATURES:
        raise ValueError(f"there are no features of {kind!r}; this version knows {', '.join(FEATURES)}")
    module, _, name = FEATURES[kind].partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found
