"""What uncertainty is worth: new users are shown one item a step, and say how they like it; jester and ml-1m.

Some users with many ratings are kept from training. At each step a policy chooses one of the items that they rated and
were not shown yet, and their rating of it is revealed; the next step knows it. So what counts is not only how well an
item is liked but also what its rating teaches: policies that explore give up something now to know more later.

best, rating, curious, thompson   the policies of `Joint`, fitted to the other users with its defaults, seed 0
curious, thompson by rating       those of its rating side alone, which is `BPMF` with the same seed
three questions, then rating      the first three items are those that `ask` would ask about; they count as shown
popular, random                   most rated by the others first; any order (seed 1)

All that can be shown are things that a user chose to rate, so that a belief about choosing cannot help here.

Measured are the mean rating of what was shown up to a step, and the regret: what the same number of the user's best
items would have had more, added up. Intervals are 95 % bootstraps over users; differences to `rating` are paired, user
by user. Users are a sample (seed 0) of those with at least 60 ratings. Items that nobody else rates are left out.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
import polars as pl

import tastespace as ts
from tastespace.errors import TastespaceWarning
from tastespace.evaluation.resampling import Sums, bootstrap, middle
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, SEA, STEADY

STEPS, SHOWN = 30, (1, 3, 5, 10, 20, 30)
LEAST_RATINGS, USERS = 60, 200
QUESTIONS = 3
RESAMPLES = 2000
BASE, ASKED, POPULAR, RANDOM = "rating", "three questions, then rating", "popular", "random"
BY_RATING = " by rating"
LOOKS = {
    BASE: (ACCENT, "-"),
    f"curious{BY_RATING}": (RUST, "-"),
    f"thompson{BY_RATING}": (RUST, "--"),
    ASKED: (ACCENT, "--"),
    "best": (SEA, "-"),
    "curious": (SEA, "--"),
    "thompson": (SEA, ":"),
    POPULAR: (INK, "-"),
    RANDOM: (INK, ":"),
}
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "replay.svg"


def jester(data: Path) -> ts.Ratings:
    return ts.Ratings.from_frame(pl.read_parquet(data / "jester-1.parquet"))


DATA = {"jester": jester, "ml-1m": movielens.ratings}


class Replay:
    """Users whom the model has not met, what they would say, and what each way of choosing shows them."""

    def __init__(self, ratings: ts.Ratings, n_users: int, **settings: Any) -> None:
        able = np.flatnonzero(ratings.by_user.counts >= LEAST_RATINGS)
        is_out = np.isin(ratings.user_rows, np.random.default_rng(0).permutation(able)[:n_users])
        others = ratings.take(np.flatnonzero(~is_out))
        self.model = ts.Joint(seed=0, **settings).fit(others)
        self.by_rating = ts.BPMF(seed=0, **settings).fit(others)
        own = ratings.take(np.flatnonzero(is_out))
        own = own.take(np.flatnonzero(self.model.ratings_.items.rows_of(own.item_ids()) >= 0))
        self.own, self.names = own, own.users.ids
        pairs = zip(own.user_ids(), own.item_ids(), strict=True)
        self.known = dict(zip(pairs, own.values.tolist(), strict=True))
        self.only = pl.DataFrame({"user": own.user_ids(), "item": own.item_ids()})

    def shown(self, way: str) -> np.ndarray:
        """The ratings of what is shown, users x steps."""
        if way in (POPULAR, RANDOM):
            counts = self.model.ratings_.by_item.counts
            keys = np.random.default_rng(1).random(len(self.own))
            if way == POPULAR:
                keys = -counts[self.model.ratings_.items.rows_of(self.own.item_ids())].astype(float)
            return self._first(keys)
        users: list[Any] = []
        items: list[Any] = []
        values: list[float] = []
        for step in range(STEPS):
            history = ts.Ratings.from_arrays(users, items, values) if step else None
            chosen = self._next(way, step, history)
            users += self.names.to_list()
            items += chosen
            values += [self.known[pair] for pair in zip(self.names, chosen, strict=True)]
        return np.array(values).reshape(STEPS, len(self.names)).T

    def best(self) -> np.ndarray:
        """The ratings of what each user likes best, in that order."""
        return self._first(-self.own.values)

    def _first(self, keys: np.ndarray) -> np.ndarray:
        """The ratings with the smallest keys of each user."""
        order = np.lexsort((keys, self.own.user_rows))
        counts = self.own.by_user.counts
        starts = np.cumsum(counts) - counts
        return self.own.values[order][starts[:, None] + np.arange(STEPS)].astype(float)

    def _next(self, way: str, step: int, history: ts.Ratings | None) -> list[Any]:
        if way == ASKED and step < QUESTIONS:
            found = self.model.ask(self.names, 1, history=history, only=self.only)
        else:
            name = BASE if way == ASKED else way.removesuffix(BY_RATING)
            policy: Any = ts.Thompson(request=step) if name == "thompson" else name
            model = self.by_rating if way.endswith(BY_RATING) else self.model
            found = model.recommend(self.names, 1, history=history, only=self.only, policy=policy, uncertainty=False)
        return self.model.ratings_.items.ids.gather(found.item_rows[:, 0]).to_list()


def measure(data: Path, name: str, quick: bool) -> dict[str, Any]:
    warnings.simplefilter("ignore", TastespaceWarning)
    few: dict[str, Any] = {"warmup": 5, "draws": 5} if quick else {}
    replay = Replay(DATA[name](data), 20 if quick else USERS, **few)
    steps, best = np.arange(1, STEPS + 1), np.cumsum(replay.best(), axis=1)
    sums: dict[Any, Sums] = {}
    for way in LOOKS:
        total = np.cumsum(replay.shown(way), axis=1)
        print(f"{name} {way}: {total[:, -1].mean() / STEPS:.4f}", flush=True)
        for t in range(STEPS):
            sums[way, "mean rating", t] = Sums.of_values(total[:, t] / steps[t])
            sums[way, "regret", t] = Sums.of_values(best[:, t] - total[:, t])
    drawn = bootstrap(sums, RESAMPLES, 0)

    def figures(way: str, what: str, t: int) -> dict[str, Any]:
        return {
            "value": sums[way, what, t].value(),
            "interval": middle(drawn[way, what, t]),
            "less rating": sums[way, what, t].value() - sums[BASE, what, t].value(),
            "less rating, interval": middle(drawn[way, what, t] - drawn[BASE, what, t]),
        }

    ways = {
        way: {what: [figures(way, what, t) for t in range(STEPS)] for what in ("mean rating", "regret")}
        for way in LOOKS
    }
    found = replay.model.posterior_.found
    return {"users": len(replay.names), "weight": found.weight, "regularization": found.regularization, "ways": ways}


def table(result: Mapping[str, Any]) -> str:
    rows = []
    for way, found in result["ways"].items():
        last = found["regret"][-1]
        low, high = last["less rating, interval"]
        less = "" if way == BASE else f"{last['less rating']:+.2f} ({low:+.2f} to {high:+.2f})"
        means = (f"{found['mean rating'][t - 1]['value']:.3f}" for t in SHOWN)
        rows.append([way, *means, f"{last['value']:.2f}", less])
    return harness.markdown(["", *(f"{t} shown" for t in SHOWN), "regret", "less `rating`"], rows)


def draw(results: Mapping[str, Any]) -> bytes:
    """Mean ratings so far, and the regret less that of the expected rating."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STEADY):
        figure = Figure(figsize=(10.2, 7.2), layout="constrained")
        panels = figure.subplots(2, len(results), sharex=True, squeeze=False)
        for place, (name, result) in enumerate(results.items()):
            for way, (color, line) in LOOKS.items():
                found, steps = result["ways"][way], range(1, STEPS + 1)
                means = [one["value"] for one in found["mean rating"]]
                panels[0, place].plot(steps, means, line, color=color, linewidth=1.5, label=way)
                if way in (POPULAR, RANDOM):
                    continue
                less, spans = (
                    np.array([one[f"less rating{part}"] for one in found["regret"]]) for part in ("", ", interval")
                )
                panels[1, place].plot(steps, less, line, color=color, linewidth=1.5)
                if way != BASE:
                    panels[1, place].fill_between(steps, *spans.T, color=color, alpha=0.12, linewidth=0)
            panels[0, place].set_title(f"{name}, {result['users']} new users", loc="left", fontsize=11, color=INK)
            panels[1, place].set_xlabel("items shown", color=INK)
            for axes in panels[:, place]:
                axes.spines[["top", "right"]].set_visible(False)
                axes.spines[["left", "bottom"]].set_color(PALE)
                axes.tick_params(length=0, labelcolor=INK)
                axes.grid(axis="y", color=GRID)
                axes.set_axisbelow(True)
        panels[0, 0].set_ylabel("mean rating so far", color=INK)
        panels[1, 0].set_ylabel("regret less that of rating", color=INK)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, labelcolor=INK)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        figure={"type": Path, "default": FIGURE, "help": f"where to draw (default: {FIGURE.name})"},
    )
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR or set TASTESPACE_DATA")
    results = {name: harness.in_fresh_process(1, measure, Path(options.data), name, options.quick) for name in DATA}
    for name, result in results.items():
        print(f"\n## {name}, {result['users']} new users: mean rating so far\n")
        print(table(result))
    if not options.quick or options.figure != FIGURE:
        options.figure.write_bytes(draw(results))
    harness.save("replay", {"protocol": __doc__, **results}, options)


if __name__ == "__main__":
    main()
