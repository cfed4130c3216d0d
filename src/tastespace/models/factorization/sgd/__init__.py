"""Matrix factorization by gradient descent; begin with pmf.py."""
