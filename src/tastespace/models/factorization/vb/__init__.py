"""Matrix factorization by variational Bayes; begin with vb.py."""
