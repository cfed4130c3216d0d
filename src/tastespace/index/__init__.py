"""Nearest neighbours: finding the best items for a query vector."""
