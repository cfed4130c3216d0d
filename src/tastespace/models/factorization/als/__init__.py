"""Matrix factorization by alternating least squares; begin with als.py."""
