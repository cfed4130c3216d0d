"""Metrics: plain functions on small arrays."""
