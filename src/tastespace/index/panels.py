"""Vectors as the scan takes them: panels of items, one coordinate of all of them after another."""

from __future__ import annotations

import numpy as np

from tastespace import _native
from tastespace.arrays import FloatArray, FloatMatrix


def panels_of(vectors: FloatMatrix) -> FloatArray:
    """So that one register holds several items; the last panel is padded with zeros."""
    n_items, n_dimensions = vectors.shape
    n_panels = -(-n_items // _native.SCAN_PANEL)
    padded = np.zeros((n_panels * _native.SCAN_PANEL, n_dimensions), np.float32)
    padded[:n_items] = vectors
    panels = padded.reshape(n_panels, _native.SCAN_PANEL, n_dimensions).transpose(0, 2, 1)
    return np.ascontiguousarray(panels).reshape(-1)
