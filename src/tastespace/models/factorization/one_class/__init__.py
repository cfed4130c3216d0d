"""Clicks, plays and purchases: only what was chosen is seen, and all else counts a little as not chosen."""
