"""pandas in, pandas out; column names are recognized, or passed."""

import pandas as pd

import tastespace as ts

# Any frame with a user, an item and a rating; here one with column names of its own.
frame: pd.DataFrame = ts.dataset("movielens-demo").to_pandas()
frame = frame.rename(columns={"user": "viewer", "item": "film", "rating": "liked"})

ratings = ts.Ratings.from_frame(frame, user="viewer", item="film", rating="liked")
model = ts.ALS(regularization=0.055, seed=0).fit(ratings)

lists = model.recommend([1, 2, 3], n=2).to_pandas()
print(lists)
print(model.predict(frame["viewer"].head(3), frame["film"].head(3)).to_pandas())
