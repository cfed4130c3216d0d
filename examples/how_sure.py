"""Draw the uncertainty of a list, of a new user with more and more ratings, and of the lists of three policies."""

from pathlib import Path

import numpy as np

import tastespace as ts
from tastespace.report.uncertainty_figures import list_picture, narrowing_picture, policies_picture

ratings = ts.dataset("movielens-demo")
is_new = (ratings.user_ids() == 22).to_numpy()
model = ts.BPMF(seed=0).fit(ratings.take(np.flatnonzero(~is_new)))  # has never seen user 22

answers = dict(ratings.take(np.flatnonzero(is_new)).to_polars().select("item", "rating").rows())
films = [296, 356, 480, 586, 588, 1527]
history = {n: {item: answers[item] for item in list(answers)[:n]} or None for n in (0, 1, 3, 10)}
steps = {n: model.predict(["you"] * len(films), films, history=given) for n, given in history.items()}

lists = {policy: model.recommend([2], policy=policy) for policy in ("mean", "cautious:c=3", "curious:c=3")}
everything = model.predict([2] * model.ratings_.n_items, model.ratings_.items.ids)

drawn = [list_picture(lists["mean"]), narrowing_picture(steps, [answers[film] for film in films])]
for picture in [*drawn, policies_picture(everything, lists)]:
    Path(f"{picture.name}.svg").write_bytes(picture.svg)
    print(picture.alt)
