"""What intervals are called: of ratings, or of scores from choices, which are no ratings."""

from __future__ import annotations

INTERVAL_OF_CHOICES = "scores are no ratings: an interval is where a score may still move to as more is chosen"


def interval_heading(coverage: float, of_choices: bool) -> str:
    """The heading of a column."""
    return f"{100 * coverage:g}% {'interval' if of_choices else 'of ratings'}"
