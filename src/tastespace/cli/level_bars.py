"""The distribution of a rating over its levels as a small bar, one letter a level, for a cell of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.cli import console

BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.:-=+*#"  # for a terminal or pipe without blocks
WIDEST = 12  # letters: 0 to 10 fits


def bars(probabilities: NDArray[Any], names: Sequence[str]) -> tuple[str, list[str]]:
    """A heading, from which level to which, and one bar a row; of many levels a letter stands for several.

    The highest letter of a row is its most likely level, the others are in proportion to it.
    """
    letters = BLOCKS if console.can_print(BLOCKS) else LETTERS
    together = -(-len(names) // WIDEST)
    groups = np.array_split(probabilities, -(-len(names) // together), axis=1)
    # The mean of each, not the sum: the last group may be smaller.
    heights = np.stack([group.mean(1) for group in groups], axis=1)
    heights = heights / np.maximum(heights.max(1, keepdims=True), np.finfo(np.float64).tiny)
    places = np.rint(heights * (len(letters) - 1)).astype(np.int64)
    heading = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
    return heading, ["".join(letters[place] for place in row) for row in places]
