"""Conjugate algebra and the distributions that answers are made of."""
