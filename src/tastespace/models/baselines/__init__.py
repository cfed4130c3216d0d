"""Models without taste: what everything else must beat."""
