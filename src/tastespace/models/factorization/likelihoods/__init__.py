"""How ratings come about given scores: one class each, for training and serving alike."""
