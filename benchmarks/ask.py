"""What to ask a new user: errors after answers that were asked for, that are popular, or random; MovieLens.

Some users are kept from training. A random half of the ratings of each is the test part; the items of the other half
can be asked about, since of these the answers are known. Answers are revealed one by one, up to ten: those
that `ask` chooses (each question knows the answers before it), those about the items most rated in training, or random
ones (mean of five orders). After each answer the test part is predicted. Ratings of items that nobody rates in training
are left out.

"asked" is told by `only` what the user can be asked about, and aims at these. "asked, goal list" aims at the 50 best of
them. "asked for others" aims at the 500 items most rated in training, each as often as it was rated, as `ask` does
where it is not told.

BPMF has its defaults, D = 32, seed 0. RMSE is over all test ratings. Intervals are 95 % bootstraps over users;
differences are paired, user by user. Nobody is reported who was looked at while `ask` was made: its goal was chosen on
a fifth of the users, and a first comparison was on others (`groups`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np
import polars as pl

import tastespace as ts
from tastespace.data.csr import CSR
from tastespace.errors import TastespaceWarning
from tastespace.evaluation.resampling import Sums, bootstrap, middle
from tastespace.models import BPMF
from tastespace.models.base import posterior
from tastespace.models.base.active_learning import RATED
from tastespace.randomness import generator
from tastespace.report.plotting import ACCENT, GRID, INK, PALE, RUST, SEA, STEADY

MOST = 10  # answers
JUDGED = 5
ASKED, ASKED_LIST, ASKED_FOR_OTHERS = "asked", "asked, goal list", "asked for others"
POPULAR, RANDOM = "popular", "random"
LOOKS = {
    ASKED: (ACCENT, "o"),
    ASKED_FOR_OTHERS: (PALE, "v"),
    ASKED_LIST: (SEA, "D"),
    POPULAR: (RUST, "s"),
    RANDOM: (INK, "^"),
}
ORDERS = 5  # random ones, whose mean is reported
PARTS = {"ml-100k": (2, 0.2), "ml-1m": (1, 0.15)}  # how many groups of reported users, and the share of each
LOOKED_AT = {"ml-100k": 0.4, "ml-1m": 0.1}  # the share of users who were in the first comparison
RESAMPLES = 2000
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "ask.svg"


@dataclass(frozen=True, eq=False)
class People:
    """Users whom the model has not seen: what they can answer, and what is to be predicted. Rows are the model's."""

    model: ts.Recommender
    names: pl.Series
    candidates: pl.DataFrame  # user (position), item (row), rating
    test: pl.DataFrame

    @classmethod
    def of(cls, ratings: ts.Ratings, chosen: np.ndarray, model: ts.Recommender, seed: int) -> People:
        is_out = np.isin(ratings.user_rows, chosen)
        model.fit(ratings.take(np.flatnonzero(~is_out)))
        own = ratings.take(np.flatnonzero(is_out))
        table = pl.DataFrame(
            {
                "user": own.user_rows,
                "item": model.ratings_.items.rows_of(own.item_ids()),
                "rating": own.values,
                "order": generator(seed).random(len(own)),
            }
        ).filter(pl.col("item") >= 0)
        is_test = pl.col("order").rank("ordinal").over("user") * 2 > pl.len().over("user")
        return cls(model, own.users.ids, table.filter(~is_test), table.filter(is_test))

    def history(self, answers: pl.DataFrame) -> ts.Ratings | None:
        """Answers as the model takes them."""
        if not answers.height:
            return None
        items = self.model.ratings_.items.at(answers["item"].to_numpy())
        return ts.Ratings.from_arrays(self.names.gather(answers["user"]), items, answers["rating"].to_numpy())

    def squares(self, answers: pl.DataFrame) -> np.ndarray:
        """The sum of squared errors on the test part of each user."""
        low, high = self.model.rating_range_
        users, items = self.test["user"].to_numpy(), self.test["item"].to_numpy()
        mean = np.empty(self.test.height)
        for rows, scores in self.model.scores(self.names, history=self.history(answers)):
            here = np.flatnonzero((users >= rows[0]) & (users <= rows[-1]))
            mean[here] = scores[users[here] - rows[0], items[here]]
        return np.bincount(users, (np.clip(mean, low, high) - self.test["rating"].to_numpy()) ** 2, len(self.names))

    def counts(self) -> np.ndarray:
        return np.bincount(self.test["user"].to_numpy(), minlength=len(self.names)).astype(np.float64)

    # Ways to choose: the answers after each question, the first of them none.

    def in_order(self, key: np.ndarray) -> Iterator[pl.DataFrame]:
        """Those with the smallest key first."""
        rank = self.candidates.with_columns(key=key).select(pl.col("key").rank("ordinal").over("user")).to_series()
        return (self.candidates.filter(rank <= n) for n in range(MOST + 1))

    def popular(self) -> Iterator[pl.DataFrame]:
        return self.in_order(-self.model.ratings_.by_item.counts[self.candidates["item"].to_numpy()])

    def random(self, seed: int) -> Iterator[pl.DataFrame]:
        return self.in_order(generator(seed).random(self.candidates.height))

    def asked(self, goal: Any) -> Iterator[pl.DataFrame]:
        """What `ask` chooses, each question after the answer to the one before."""
        ids = self.model.ratings_.items.at(self.candidates["item"].to_numpy())
        only = pl.DataFrame({"user": self.names.gather(self.candidates["user"]), "item": ids})
        answers = self.candidates.clear()
        for _ in range(MOST):
            yield answers
            found = self.model.ask(self.names, 1, history=self.history(answers), only=only, goal=goal)
            questions = pl.DataFrame({"user": np.arange(len(self.names)), "item": found.item_rows[:, 0]})
            questions = questions.cast({name: self.candidates.schema[name] for name in questions.columns})
            answers = pl.concat([answers, self.candidates.join(questions, on=["user", "item"], how="semi")])
        yield answers

    def asked_for_others(self) -> Iterator[pl.DataFrame]:
        """The same where it is not told what the user has rated: what others rate is to be known."""
        counts = self.model.ratings_.by_item.counts.astype(np.float64)
        most = np.argsort(-counts, kind="stable")[:RATED].astype(np.int32)
        known = self.candidates.clear()
        for _ in range(MOST):
            yield known
            given = [known[name].to_numpy() for name in ("user", "item", "rating")]
            people = posterior.People.new_users(CSR.group_ascending(*given, len(self.names)))
            information = self.model.posterior_.believe(people, 2).information
            left = self.candidates.join(known, on=["user", "item"], how="anti")
            chosen = []
            for (user,), own in left.group_by("user", maintain_order=True):
                seen = known.filter(pl.col("user") == user)["item"].to_numpy()
                targets = most[~np.isin(most, seen)]
                importance = counts[targets] / counts[targets].sum()
                asked = own["item"].to_numpy()
                found = information.inquire(int(user), asked, targets, importance, 1)
                chosen.append(own.filter(pl.col("item") == found.items[0]))
            known = pl.concat([known, *chosen])
        yield known


def errors_of(people: People) -> dict[str, np.ndarray]:
    """Squared errors of each way, answers x users."""

    def squares(ways: Iterator[pl.DataFrame]) -> np.ndarray:
        return np.stack([people.squares(given) for given in ways])

    return {
        ASKED: squares(people.asked("ratings")),
        ASKED_FOR_OTHERS: squares(people.asked_for_others()),
        ASKED_LIST: squares(people.asked("list")),
        POPULAR: squares(people.popular()),
        RANDOM: np.mean([squares(people.random(10 + order)) for order in range(ORDERS)], axis=0),
    }


def groups(ratings: ts.Ratings, name: str) -> list[np.ndarray]:
    """Users to report on: neither those on whom the goal was chosen nor those of the first comparison."""
    used = ts.held_out_users(ratings, 0.2, seed=0).test.users.ids
    others = np.setdiff1d(np.arange(ratings.n_users), ratings.users.rows_of(used))
    n, share = PARTS[name]
    fresh = generator(1).permutation(others)[round(LOOKED_AT[name] * ratings.n_users) :]
    return np.array_split(fresh[: n * int(share * ratings.n_users)], n)


def ratings_of(data: Path | None, name: str) -> ts.Ratings:
    if name == "ml-1m" or data is None:
        return movielens.ratings(data)
    return ts.read(Path(data) / name)


def measure(data: Path | None, name: str, quick: bool) -> dict[str, Any]:
    """Errors by way and number of answers."""
    warnings.simplefilter("ignore", TastespaceWarning)
    ratings = ratings_of(data, name)
    squares: dict[str, list[np.ndarray]] = {way: [] for way in LOOKS}
    counts = []
    few: dict[str, Any] = {"warmup": 5, "draws": 5} if quick else {}
    for number, chosen in enumerate(groups(ratings, name)):
        people = People.of(ratings, chosen[:30] if quick else chosen, BPMF(seed=0, **few), seed=3 + number)
        counts.append(people.counts())
        for way, errors in errors_of(people).items():
            squares[way].append(errors)
    joined = {way: np.concatenate(parts, axis=1) for way, parts in squares.items()}
    taken = {"seconds for a stranger": seconds(people.model), "parameters": people.model.get_params()}
    return {**summary(joined, np.concatenate(counts)), **taken}


def seconds(model: ts.Recommender) -> dict[str, float]:
    """Seconds for five questions to a new user; the least of several."""
    model.ask()
    taken = [harness.measure(model.ask) for _ in range(7)]
    wall, processor = (min(column) for column in zip(*taken, strict=True))
    return {"wall": wall, "processor": processor}


def summary(squares: Mapping[str, np.ndarray], counts: np.ndarray) -> dict[str, Any]:
    """RMSE after each answer, with what `ask` has less than the other ways."""
    able = counts > 0
    counts = counts[able]
    measures = {
        (way, n): Sums(totals, counts, is_root=True)
        for way, by_answers in squares.items()
        for n, totals in enumerate(by_answers[:, able])
    }
    drawn = bootstrap(measures, RESAMPLES, 0)

    def figures(way: str, n: int) -> dict[str, Any]:
        return {
            "rmse": measures[way, n].value(),
            "interval": middle(drawn[way, n]),
            "difference": measures[ASKED, n].value() - measures[way, n].value(),
            "difference interval": middle(drawn[ASKED, n] - drawn[way, n]),
        }

    ways = {way: [figures(way, n) for n in range(MOST + 1)] for way in squares}
    return {"people": int(able.sum()), "n": int(counts.sum()), "ways": ways}


def errors_table(results: Mapping[str, Any]) -> str:
    """RMSE after 1, 2, 5 and 10 answers."""
    shown = (0, 1, 2, JUDGED, MOST)
    rows = [
        [name, way, *(f"{figures[n]['rmse']:.4f}" for n in shown)]
        for name, result in results.items()
        for way, figures in result["ways"].items()
    ]
    return harness.markdown(["data", "answers", *(str(n) for n in shown)], rows)


def differences_table(results: Mapping[str, Any]) -> str:
    """What asking leaves less than the others, after five answers."""
    rows = []
    for name, result in results.items():
        for way in (POPULAR, RANDOM, ASKED_FOR_OTHERS, ASKED_LIST):
            figures = result["ways"][way][JUDGED]
            low, high = figures["difference interval"]
            rows.append([name, way, f"{figures['difference']:+.4f}", f"{low:+.4f} to {high:+.4f}"])
    return harness.markdown(["data", "asked less", "difference", "95 % interval"], rows)


def draw(results: Mapping[str, Any]) -> bytes:
    """Errors by the number of answers, and how much less they are than after popular ones."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STEADY):
        figure = Figure(figsize=(10.2, 6.0), layout="constrained")
        panels = figure.subplots(2, len(results), sharex=True, sharey="row", height_ratios=[3, 1.8], squeeze=False)
        for place, (name, result) in enumerate(results.items()):
            draw_errors(panels[0, place], result["ways"])
            draw_differences(panels[1, place], result["ways"][POPULAR])
            panels[0, place].set_title(f"{name}, {result['people']} new users", loc="left", fontsize=11, color=INK)
            panels[1, place].set_xlabel("answers", color=INK)
        panels[0, 0].set_ylabel("test RMSE", color=INK)
        panels[1, 0].set_ylabel("asked less popular", color=INK)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False, labelcolor=INK)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def draw_errors(axes: Any, by_way: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for way, (colour, marker) in LOOKS.items():
        values = [figures["rmse"] for figures in by_way[way]]
        axes.plot(range(len(values)), values, color=colour, marker=marker, markersize=5, linewidth=1.4, label=way)
    tidy(axes)


def draw_differences(axes: Any, against: Sequence[Mapping[str, Any]]) -> None:
    """Paired, user by user, with 95 % intervals."""
    numbers = range(1, len(against))
    axes.axhline(0, color=LOOKS[POPULAR][0], linewidth=1.2)
    spans = np.array([against[n]["difference interval"] for n in numbers])
    axes.vlines(numbers, *spans.T, color=LOOKS[ASKED][0])
    axes.plot(numbers, [against[n]["difference"] for n in numbers], "o", color=LOOKS[ASKED][0], markersize=5)
    axes.set_xticks(range(len(against)))
    tidy(axes)


def tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)


def verdicts_of(results: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, result in results.items():
        for way in (POPULAR, RANDOM):
            title = f"{name}: RMSE after {JUDGED} asked less that after {JUDGED} {way}"
            lines.append(harness.verdict(title, result["ways"][way][JUDGED]["difference"], 0.0, at_most=True))
        taken = result["seconds for a stranger"]["processor"]
        lines.append(harness.verdict(f"{name}: seconds for a stranger", taken, 0.5, at_most=True))
    return lines


def main() -> None:
    options = harness.arguments(
        __doc__.splitlines()[0],
        figure={"type": Path, "default": FIGURE, "help": f"where to draw (default: {FIGURE.name})"},
        only={"choices": list(PARTS), "help": "one data set alone; nothing is drawn or kept"},
    )
    names = [options.only] if options.only else list(PARTS)
    results = {name: harness.in_fresh_process(2, measure, options.data, name, options.quick) for name in names}
    print("\n## RMSE by number of answers\n")
    print(errors_table(results))
    print(f"\n## After {JUDGED} answers\n")
    print(differences_table(results))
    verdicts = verdicts_of(results)
    if not options.only:
        if not options.quick or options.figure != FIGURE:
            options.figure.write_bytes(draw(results))
        harness.save("ask", {"protocol": __doc__, **results, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
