"""Variational Bayes: beliefs about users and items that are normal, found by climbing a bound on the evidence."""
