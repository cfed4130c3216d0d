"""From ratings to recommendations: split, fit, evaluate, recommend, save, load."""

import tastespace as ts

ratings = ts.dataset("movielens-demo")
print(ratings.describe())

split = ts.random_split(ratings, 0.1, seed=0)
for model in (ts.GlobalMean(), ts.DampedBias(), ts.ALS(seed=0)):
    report = ts.evaluate(model.fit(split.train), split.test)
    print(f"{type(model).__name__:<10}  {report}")

print(model.recommend([2], n=5))

ts.save(model, "films")
again = ts.load("films")
assert again.recommend([2], n=5).item_ids.equals(model.recommend([2], n=5).item_ids)
print("saved to films, loaded, and it says the same")
