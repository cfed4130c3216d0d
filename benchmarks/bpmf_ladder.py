"""Item means, biases, ALS, BPMF on MovieLens 1M: test RMSE by how much is known of a user, and coverage of intervals.

1. Users by their number of training ratings: 90:10, seed 0, the groups of `evaluate`.
2. Strangers cut down to k ratings: a tenth of the users (seed 0) are kept from training with all their ratings. Ten
   ratings of each, at random, are set apart, and the rest is the test part, the same for every k. The fitted model
   meets them with the first k of the ten (k = 0: with nothing) as their history.
3. How many ratings the 90 % intervals of BPMF hold: on the test parts of 1 and 2, and on ratings drawn from the model.

Every model has its defaults, and D = 32 where it has factors. Intervals are 95 % bootstraps over users; differences are
paired, user by user. "biases only" is DampedBias: mean, user and item, without factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

import tastespace as ts
from tastespace.errors import DataWarning
from tastespace.evaluation.groups import LABELS, group_of
from tastespace.evaluation.resampling import Sums, bootstrap, middle
from tastespace.randomness import generator
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, SEA, STEADY
from tastespace.testing import toys

N_FACTORS = 32
CUTS = (0, 1, 2, 5, 10)
SET_ASIDE = max(CUTS)
RESAMPLES = 2000
ALS, BPMF = "ALS", "BPMF"
LOOKS = {
    "item mean": (PALE, "v"),
    "biases only": (SEA, "D"),
    ALS: (RUST, "s"),
    BPMF: (ACCENT, "o"),
}
COVERED = (0.87, 0.93)
FEWEST = 500  # test ratings that a group needs for its coverage to be judged
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "bpmf-ladder.svg"


def rungs(quick: bool) -> dict[str, ts.Recommender]:
    """The models, from the simplest to the best."""
    few: dict[str, Any] = {"warmup": 5, "draws": 5} if quick else {}
    return {
        "item mean": ts.ItemMean(),
        "biases only": ts.DampedBias(),
        ALS: ts.ALS(n_factors=N_FACTORS, seed=0),
        BPMF: ts.BPMF(n_factors=N_FACTORS, seed=0, **few),
    }


@dataclass(frozen=True)
class Errors:
    """Squared errors of each model on the same test ratings."""

    users: np.ndarray  # one a test rating
    of: Mapping[str, np.ndarray]  # by model

    @classmethod
    def measured(cls, models: Mapping[str, ts.Recommender], test: ts.Ratings, history: ts.Ratings | None) -> Errors:
        def squares(model: ts.Recommender) -> np.ndarray:
            mean = model.predict(test.user_ids(), test.item_ids(), history=history).mean
            return (mean.astype(np.float64) - test.values) ** 2

        return cls(test.user_rows, {name: squares(model) for name, model in models.items()})

    def take(self, which: np.ndarray) -> Errors:
        return Errors(self.users[which], {name: squares[which] for name, squares in self.of.items()})

    def summary(self) -> dict[str, Any]:
        """RMSE of each model with its interval, and what BPMF has less than each."""
        members, users = np.unique(self.users, return_inverse=True)
        counts = np.bincount(users).astype(np.float64)
        sums = {name: Sums(np.bincount(users, squares), counts, is_root=True) for name, squares in self.of.items()}
        drawn = bootstrap(sums, RESAMPLES, 0)
        models = {}
        for name, measure in sums.items():
            difference = sums[BPMF].value() - measure.value()
            models[name] = {
                "rmse": measure.value(),
                "interval": middle(drawn[name]),
                "difference": difference,
                "difference interval": middle(drawn[BPMF] - drawn[name]),
            }
        return {"users": len(members), "n": len(self.users), "models": models}


def strangers(ratings: ts.Ratings) -> tuple[ts.Split, Callable[[int], ts.Ratings | None]]:
    """The split, and the history cut down to k ratings a user: those of a smaller k are among those of a larger one."""
    split = ts.held_out_users(ratings, 0.1, given=SET_ASIDE, seed=0)
    assert split.history is not None
    history = split.history
    order = np.lexsort((generator(1).random(len(history)), history.user_rows))
    rank = np.empty(len(history), np.int64)
    rank[order] = np.arange(len(history)) - np.searchsorted(history.user_rows[order], history.user_rows[order])

    def cut(k: int) -> ts.Ratings | None:
        return history.take(np.flatnonzero(rank < k)) if k else None

    return split, cut


def by_group(models: Mapping[str, ts.Recommender], split: ts.Split) -> Iterator[tuple[str, dict[str, Any]]]:
    """Users of the training part."""
    errors = Errors.measured(models, split.test, None)
    counts = np.append(split.train.by_user.counts, 0)[split.train.users.rows_of(split.test.user_ids())]
    yield "all", errors.summary()
    for place, label in enumerate(LABELS):
        here = np.flatnonzero(group_of(counts) == place)
        if len(here):
            yield label, errors.take(here).summary()


def coverage(report: ts.Report) -> dict[str, Any]:
    """Of 90 % intervals: overall, and by groups."""
    found = report.calibration
    assert found is not None
    name = "coverage_90"
    overall = {
        "n": report.n,
        "coverage": found[name],
        "interval": found.intervals.get(name),
        "expected": found["expected_90"],
    }
    groups = {
        side: {
            group.label: {"n": group.n, "coverage": group.measures[name], "interval": group.intervals.get(name)}
            for group in members
            if group.n
        }
        for side, members in found.groups.items()
    }
    return {"all": overall, **groups}


def measure(data: Path | None, quick: bool) -> dict[str, Any]:
    """Fit everything twice, once without the strangers, and ask."""
    warnings.simplefilter("ignore", DataWarning)  # that some items of a history are unknown is no news
    ratings = movielens.ratings(data)
    split = movielens.split(data)
    models = {name: model.fit(split.train) for name, model in rungs(quick).items()}
    result: dict[str, Any] = {"groups": dict(by_group(models, split))}
    covered = {"held-out ratings": coverage(ts.evaluate(models[BPMF], split.test, ranking=False))}
    kept_out, cut = strangers(ratings)
    models = {name: model.fit(kept_out.train) for name, model in rungs(quick).items()}
    result["strangers"] = {str(k): Errors.measured(models, kept_out.test, cut(k)).summary() for k in CUTS}
    for k in CUTS:
        part = ts.Split(kept_out.train, kept_out.test, cut(k))
        covered[f"strangers, {k} ratings"] = coverage(ts.evaluate(models[BPMF], part, ranking=False))
    covered["drawn from the model"] = coverage(drawn_from_model(quick))
    return {**result, "coverage": covered}


def drawn_from_model(quick: bool) -> ts.Report:
    """Ratings of the very kind that BPMF assumes, with popular and with rare items; four factors behind them."""
    size = (500, 200) if quick else (4000, 1000)
    ratings, _truth = toys.gaussian(*size, n_factors=4, density=0.05, observed="skewed", rng=generator(0))
    split = ts.random_split(ratings, 0.1, seed=0)
    return ts.evaluate(rungs(quick)[BPMF].fit(split.train), split.test, ranking=False)


def ladder_table(title: str, rows: Mapping[str, dict[str, Any]]) -> str:
    """RMSE of each model by what is known, and BPMF less ALS."""
    names = list(next(iter(rows.values()))["models"])
    cells = []
    for label, row in rows.items():
        against = row["models"][ALS]
        low, high = against["difference interval"]
        cells.append(
            [label, row["users"], f"{row['n']:,}"]
            + [f"{row['models'][name]['rmse']:.4f}" for name in names]
            + [f"{against['difference']:+.4f} ({low:+.4f} to {high:+.4f})"]
        )
    return harness.markdown([title, "users", "test ratings", *names, f"{BPMF} - {ALS}"], cells)


def coverage_table(covered: Mapping[str, Any]) -> str:
    """Strangers without groups: all of one k have as many ratings."""
    cells = []
    for title, found in covered.items():
        cells.append(_coverage_row(title, "all", found["all"]))
        sides = () if title.startswith("strangers") else ("users", "items")
        cells += [
            _coverage_row("", f"{side}, {label}", group) for side in sides for label, group in found[side].items()
        ]
    return harness.markdown(["", "training ratings", "test ratings", "coverage", "95 % interval"], cells)


def _coverage_row(title: str, label: str, figures: Mapping[str, Any]) -> list[str]:
    span = figures["interval"]
    shown = "" if span is None else f"{span[0]:.3f} to {span[1]:.3f}"
    return [title, label, f"{figures['n']:,}", f"{figures['coverage']:.3f}", shown]


def draw(result: Mapping[str, Any]) -> bytes:
    """Strangers by how many ratings they bring, and training users by how many they have."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    groups = {label: row for label, row in result["groups"].items() if label != "all"}
    columns = {
        "Strangers, by the ratings they bring": result["strangers"],
        "Training users, by the ratings they have": groups,
    }
    with mpl.rc_context(STEADY):
        figure = Figure(figsize=(10.2, 6.0), layout="constrained")
        panels = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=[3, 1.6])
        for place, (title, rows) in enumerate(columns.items()):
            upper, lower = panels[:, place]
            draw_errors(upper, rows)
            draw_differences(lower, rows)
            upper.set_title(title, loc="left", fontsize=11, color=INK)
            lower.set_xlabel("ratings", color=INK)
        panels[0, 0].set_ylabel("test RMSE", color=INK)
        panels[1, 0].set_ylabel(f"{BPMF} less {ALS}", color=INK)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False, labelcolor=INK)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def draw_errors(axes: Any, rows: Mapping[str, Any]) -> None:
    """The ladder. Its own intervals are wide and alike, since users differ more than models: those are in the table."""
    for name, (colour, marker) in LOOKS.items():
        values = [row["models"][name]["rmse"] for row in rows.values()]
        axes.plot(range(len(rows)), values, color=colour, marker=marker, markersize=5.5, linewidth=1.4, label=name)
    tidy(axes)


def draw_differences(axes: Any, rows: Mapping[str, Any]) -> None:
    """Paired, user by user, with 95 % intervals."""
    against = [row["models"][ALS] for row in rows.values()]
    colour, marker = LOOKS[BPMF]
    axes.axhline(0, color=LOOKS[ALS][0], linewidth=1.2)
    axes.vlines(range(len(rows)), *np.array([row["difference interval"] for row in against]).T, color=colour)
    axes.plot(range(len(rows)), [row["difference"] for row in against], marker, color=colour, markersize=5.5)
    axes.set_xticks(range(len(rows)), list(rows))
    tidy(axes)


def tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)


def verdicts_of(result: Mapping[str, Any]) -> list[str]:
    """BPMF must be better than ALS everywhere, and intervals must hold what they say."""
    lines = []
    places = {f"training users, {label}": row for label, row in result["groups"].items()}
    places |= {f"strangers with {k}": row for k, row in result["strangers"].items() if k != "0"}
    for label, row in places.items():
        lines.append(harness.verdict(f"{BPMF} - {ALS}, {label}", row["models"][ALS]["difference"], 0.0, at_most=True))
    for title in ("held-out ratings", "drawn from the model"):
        found = result["coverage"][title]
        judged = {"all": found["all"]} | {f"users, {label}": group for label, group in found["users"].items()}
        for label, group in judged.items():
            if group["n"] >= FEWEST:
                name = f"coverage of 90 % intervals, {title}, {label}"
                lines.append(harness.verdict(name, group["coverage"], COVERED[0]))
                lines.append(harness.verdict(name, group["coverage"], COVERED[1], at_most=True))
    return lines


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        figure={"type": Path, "default": FIGURE, "help": f"where to draw (default: {FIGURE.name})"},
    )
    result = harness.in_fresh_process(2, measure, options.data, options.quick)
    print("\n## Test RMSE by training ratings of the user, ml-1m 90:10 seed 0\n")
    print(ladder_table("training ratings", result["groups"]))
    print("\n## Test RMSE of strangers with k ratings, a tenth of the users of ml-1m\n")
    print(ladder_table("k", result["strangers"]))
    print("\n## Coverage of the 90 % intervals of BPMF\n")
    print(coverage_table(result["coverage"]))
    if not options.quick or options.figure != FIGURE:
        options.figure.write_bytes(draw(result))
    verdicts = verdicts_of(result)
    harness.save("bpmf_ladder", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
