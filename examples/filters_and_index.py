"""Filter what is recommended, and pass an index of your own."""

import polars as pl

import tastespace as ts
from tastespace.index.structures.exact import Exact

ratings = ts.dataset("movielens-demo")
model = ts.ALS(regularization=0.055, seed=0).fit(ratings)

# Only comedies since 2000: any list of item ids will do.
about = ratings.item_attributes.with_columns(item=ratings.items.ids)
comedies = about.filter(pl.col("genres").list.contains("Comedy") & (pl.col("year") >= 2000))["item"]
print(model.recommend([2], n=5, only=comedies))

# Never these two (items that the user has rated are left out as well).
print(model.recommend([2], n=5, exclude=[318, 858]))

# Everything, rated or not.
print(model.recommend([2], n=5, exclude=None))

# An index is anything with build and search over the item vectors; the exact scan is the one that is built in.
index = Exact(threads=1).build(model.posterior_.item_vectors)
print(model.recommend([2], n=5, index=index))
