"""Sums and sums of products of points, in exact arithmetic where that is possible."""

from __future__ import annotations

import math

import numpy as np


def moments(points):
    """Every sum correctly rounded."""
    columns = points.astype(np.float64).T
    total = np.array([math.fsum(column) for column in columns])
    gram = np.array([[math.fsum(left * right) for right in columns] for left in columns])
    return total, gram.reshape(len(columns), len(columns))
