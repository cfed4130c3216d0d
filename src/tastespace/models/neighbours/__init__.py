"""Neighbourhood models: what similar items, or similar people, got."""
