"""How many factors: columns that ratings have no use for shrink, and are counted."""
