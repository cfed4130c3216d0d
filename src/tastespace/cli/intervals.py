"""What intervals are called: of ratings, or of scores from choices, which are no ratings."""

from __future__ import annotations

INTERVAL_OF_CHOICES = "scores are no ratings: an interval is where a score may still move to as more is chosen"
CHANCES_OF_CHOICES = "scores are probabilities of a choice; belief sd is how far one may still move as more is chosen"


def interval_heading(coverage: float, of_choices: bool) -> str:
    """The heading of a column."""
    return f"{100 * coverage:g}% {'interval' if of_choices else 'of ratings'}"


def meaning_of_choices(are_chances: bool) -> str:
    """What the columns mean where a model is one of choices. Of a probability nothing but 0 or 1 comes out."""
    return CHANCES_OF_CHOICES if are_chances else INTERVAL_OF_CHOICES
