"""Ids with a slash in paths: sent as %2F, which is decoded before a route is chosen and would then divide the path."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from starlette.types import Scope

ENCODED = re.compile(rb"%2f", re.IGNORECASE)
STAND_IN = "\uf02f"  # from the area for private use; no id that is sent may have it


def keep_slashes(scope: Scope) -> None:
    """Let a character stand for the slashes that are part of an id."""
    raw: bytes = scope.get("raw_path") or b""
    if ENCODED.search(raw):
        path = ENCODED.sub(quote(STAND_IN).encode(), raw.partition(b"?")[0])
        scope["path"] = unquote(path.decode("latin-1"))


def with_slashes(text: str) -> str:
    """What was meant."""
    return text.replace(STAND_IN, "/")
