"""Ratings through curves of their own: matrix factorization that preserves order."""
