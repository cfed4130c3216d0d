"""What every model shares: the recommender, posteriors and beliefs, queries, lists, and results."""
