"""Regularisation that is learned from the ratings themselves: empirical Bayes."""
