"""Models of implicit feedback: clicks, plays and purchases; begin with implicit_als.py."""
