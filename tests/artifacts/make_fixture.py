"""Writes the fixture of the current format version; run once when the version changes, never to repair a test.

python tests/artifacts/make_fixture.py
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from tastespace import ALS, DampedBias, Ratings, save
from tastespace.artifact import FORMAT_VERSION
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

folder = Path(__file__).parent / f"format-{FORMAT_VERSION}"
toy = tastes(12, 9, rng=generator(8))[0]
ratings = Ratings.from_arrays([f"user-{row}" for row in toy.user_rows], toy.item_ids(), toy.values)
titles = pl.Series("title", [f"Film {item} – é" for item in ratings.items.ids])
genres = pl.Series("genres", [["Comedy"] if item % 2 else ["Drama", "War"] for item in ratings.items.ids])
ratings = ratings.with_items(titles, pl.DataFrame({"genres": genres}))
folder.mkdir(exist_ok=True)
for name, model in {"als": ALS(n_factors=2, regularisation=0.1, seed=0), "bias": DampedBias(seed=0)}.items():
    model.fit(ratings)
    save(model, folder / name, measures={"holdout": {"rmse": 0.5}})
    ranking = model.recommend(["user-3"], 3)
    answers = {
        "predictions": model.predict(["user-0", "user-1", "nobody"], [0, 1, 2]).mean.tolist(),
        "items": ranking.item_ids.to_list(),
        "titles": ranking.titles.to_list(),
        "scores": ranking.scores[0].tolist(),
        "folded": model.recommend(history={0: 5.0, 3: 1.0}, n=3).scores[0].tolist(),
    }
    (folder / f"{name}.answers.json").write_text(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
