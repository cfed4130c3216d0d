"""Maximal marginal relevance, one user and one choice at a time."""

from __future__ import annotations

import numpy as np


def choose(scores, similarities, n, diversity):
    """Positions in a pool (best first) in the order of choice; similarities are pool x pool."""
    scores = np.asarray(scores, np.float64)
    spread = scores.max() - scores.min()
    relevance = (scores - scores.min()) / (spread if spread > 0 else 1)
    chosen = [0]
    while len(chosen) < min(n, len(scores)):
        values = {
            place: (1 - diversity) * relevance[place] - diversity * max(similarities[place][c] for c in chosen)
            for place in range(len(scores))
            if place not in chosen
        }
        chosen.append(max(values, key=values.get))
    return chosen
