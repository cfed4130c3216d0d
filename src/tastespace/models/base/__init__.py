"""What every model shares: the recommender, posteriors and beliefs, queries, lists, and results.

Begin with `recommender.py`, then `posterior.py` for what a model has to provide; `query.py`, `top_n.py` and
`results.py` are the path of a query. May import `index`, `inference` and what is below them; knows no family.
"""
