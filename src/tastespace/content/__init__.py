"""Documents and images: features of their content, search by them, and item features for what nobody has rated.

Begin with `model.py`, the content model that is searched and saved; `documents.py` and `images.py` turn texts and
images into vectors, `reading.py` and `pictures.py` read them. May import `index`, `networks`, `data` and what is below.
The libraries that it needs are in the extra `content`; networks are trained by PyTorch (the extra `deep`).
"""

from __future__ import annotations
