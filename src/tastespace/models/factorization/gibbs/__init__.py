"""Bayesian matrix factorization by Gibbs sampling; begin with bpmf.py."""
