"""Recommend to users who were not in the training data, from a few ratings, without fitting again."""

import tastespace as ts

ratings = ts.dataset("movielens-demo")
model = ts.ALS(regularization=0.055, seed=0).fit(ratings)

# One new user: a mapping from item to rating. Items 1 and 2355 are animated films, 1221 is a gangster film.
print(model.recommend(history={1: 5.0, 2355: 4.5, 1221: 1.0}, n=5))

# Several users at once: ratings with ids of their own, known to the model or not.
history = ts.Ratings.from_arrays(["ann", "ann", "bob"], [260, 1196, 527], [5.0, 5.0, 4.0])
print(model.recommend(history=history, n=3).to_polars())

# A user of the training ratings with one new rating: old and new count together.
before = model.predict([2], [1210]).mean[0]
after = model.predict([2], [1210], history={260: 5.0, 1196: 5.0}).mean[0]
print(f"user 2, Return of the Jedi: {before:.2f} before, {after:.2f} after two new ratings")
