"""Fit a list of cases with the tastespace of this interpreter and write down everything it answers.

`compare_editions.py` starts one such process for each edition and compares what they wrote. Only names that both
editions have are used: those of `tastespace`, the tables of models and indexes, the command line and the service.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from data import DATA, new_ratings, split_of, stars_frame, table_of
from programs import of_cli, of_service, of_stream, of_verbs
from questions import ask_everything
from record import Record, put_artifact
from settings import CHECKPOINTED, MODELS, OF_CHOICES, SHORT, UPDATED, VARIANTS

import tastespace as ts

# How a name of the first edition is called in the second, where the first one is gone: the probe tries both.
NAMES = {"contest": "compare_models", "compare": "compare_reports", "choose_rank": "select_rank"}


def public(name: str) -> Any:
    """A public name of either edition."""
    found = getattr(ts, name, None)
    return getattr(ts, NAMES[name]) if found is None and name in NAMES else getattr(ts, name)


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to do; `run` writes into a record. `equals` is a case that must come out the same in one edition."""

    name: str
    run: Callable[[Record, Path], None]
    equals: str | None = None


def built(model: str, parameters: Mapping[str, Any], threads: int = 1) -> Any:
    return getattr(ts, MODELS[model])(**{"seed": 5, "threads": threads, **parameters})


def cases() -> Iterator[Case]:
    """All of them, in the order in which they are run."""
    for name in DATA:
        yield Case(f"data/{name}", of_data(name))
    known = [model for model, name in MODELS.items() if hasattr(ts, name)]  # Earlier editions have fewer.
    for model in known:
        for data in ("counts", "demo-counts") if model in OF_CHOICES else ("stars", "demo"):
            yield Case(f"{model}/{data}", of_fit(model, data, {}))
        for variant, (data, parameters) in VARIANTS.get(model, {}).items():
            yield Case(f"{model}/{variant}", of_fit(model, data, parameters))
    for model in ("als", "bpmf", "implicit-als", "sphere", *(("joint",) if "joint" in known else ())):
        data = "counts" if model in OF_CHOICES else "stars"
        yield Case(f"{model}/two threads", of_fit(model, data, {}, threads=2), equals=f"{model}/{data}")
    for name, given in ((name, given) for name, given in UPDATED.items() if given[0] in known):
        yield Case(f"update/{name}", of_update(*given))
    for name, given in ((name, given) for name, given in CHECKPOINTED.items() if given[0] in known):
        yield Case(f"checkpoints/{name}, not interrupted", of_run(*given))
        yield Case(f"checkpoints/{name}", of_resumed(*given), equals=f"checkpoints/{name}, not interrupted")
    yield Case("start/bpmf from als", of_start("bpmf"))
    yield Case("start/als from als", of_start("als"))
    yield Case("start/vb from als", of_start("vb"))
    for births in ("informed", "blind", "annealed"):
        yield Case(f"jump/{births}", of_jump(births))
    yield Case("rank/reversible jump", of_rank("reversible-jump"))
    yield Case("rank/ard", of_rank("ard"))
    yield Case("tune/als", of_tune)
    yield Case("compare/models", of_contest)
    yield Case("compare/reports", of_reports)
    for model, data in (("als", "stars"), ("bpmf", "stars"), ("implicit-als", "counts")):
        yield Case(f"cli/{model}", of_cli(model, data))
        yield Case(f"service/{model}", of_service(model, data))
    yield Case("cli/pmf of a stream", of_stream)
    yield Case("cli/other verbs", of_verbs)


def of_data(name: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        ratings = DATA[name]()
        for field in ("user_rows", "item_rows", "values"):
            record.put(field, getattr(ratings, field))
        record.put("times", None if ratings.times is None else ratings.times.astype(np.int64))
        record.put("kind", ratings.kind)
        record.put("items", pl.DataFrame({"id": ratings.items.ids, "title": ratings.item_titles}))
        record.put("attributes", ratings.item_attributes)
        if name == "stars":
            record.put("tables", {"models": dict.fromkeys(importlib.import_module("tastespace.models").MODELS, True)})
        record.put("suitable", type(ts.suitable_model(ratings)).__name__)
        record.put("fingerprint", ratings.fingerprint())
        splits: dict[str, Callable[[], Any]] = {
            "random": lambda: ts.random_split(ratings, 0.2, seed=1),
            "leave one out": lambda: ts.leave_one_out(ratings, seed=1),
            "last": lambda: ts.last_per_user(ratings, 2),
            "time": lambda: ts.time_split(ratings, 0.2),
            "users": lambda: ts.held_out_users(ratings, 0.2, seed=1),
            "fold": lambda: list(ts.k_fold(ratings, 3, seed=1))[1],
        }
        for kind, split in splits.items():
            for part in ("train", "test", "history"):
                record.answer(f"split/{kind}/{part}", lambda split=split, part=part: table_of(getattr(split(), part)))
        if name == "stars":
            drawn = ts.synthetic("ml-100k", scale=0.05, times=True, seed=3, threads=1)
            record.put("synthetic", drawn.values)
            record.put("synthetic items", drawn.item_rows)
            frame, items = stars_frame()
            frame.write_csv(folder / "ratings.csv")
            items.write_csv(folder / "items.csv")
            record.answer("read", lambda: ts.read(folder / "ratings.csv", items=folder / "items.csv").to_polars())

    return run


def parameters_of(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {**SHORT.get(model, {}), **given}
    if isinstance(parameters.get("regularisation"), dict):
        parameters["regularisation"] = ts.EmpiricalBayes(**parameters["regularisation"])
    return parameters


def of_fit(model: str, data: str, given: Mapping[str, Any], threads: int = 1) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of(data)
        fitted = built(model, parameters_of(model, given), threads).fit(split.train)
        ts.save(fitted, folder / "model")
        put_artifact(record, "artifact", folder / "model")
        ask_everything(record, fitted, split)
        again = ts.load(folder / "model")
        again.threads = threads
        asked = split.train.users.ids.to_list()[:5], split.train.items.ids.to_list()[:5]
        record.answer("loaded/predict", lambda: again.predict(*asked))
        record.answer("loaded/recommend", lambda: again.recommend(asked[0], 5))
        if not getattr(type(fitted), "is_its_ratings", False):
            record.answer("without ratings", lambda: ts.save(fitted, folder / "bare", with_ratings=False))
            record.answer("without ratings/predict", lambda: ts.load(folder / "bare").predict(*asked))

    return run


def of_update(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of(data)
        fitted = built(model, parameters_of(model, given)).fit(split.train)
        news = new_ratings(split.train)
        for sweeps in ("auto", 0, 3) if model in ("bpmf", "sphere") else ("auto",):
            updated = fitted.update(news, sweeps=sweeps)
            ts.save(updated, folder / f"model-{sweeps}")
            put_artifact(record, f"{sweeps}/artifact", folder / f"model-{sweeps}")
            part = Record()
            ask_everything(part, updated, split, evaluate=sweeps == "auto", index=False)
            record.arrays |= {f"{sweeps}/{name}": array for name, array in part.arrays.items()}
            record.values |= {f"{sweeps}/{name}": value for name, value in part.values.items()}
            asked = ["new user", "another", "new user"], ["new item", "new item", split.train.items.ids[3]]
            record.answer(f"{sweeps}/predict of new ones", lambda updated=updated, asked=asked: updated.predict(*asked))
        if model in ("bpmf", "sphere"):  # so many that chains go on by themselves
            many = pl.concat([news, split.test.to_polars().select("user", "item", "rating")], how="vertical_relaxed")
            put_run(record, folder, fitted.update(many))
        if model == "bpmf":
            twice = fitted.update(news, sweeps=0).update(news.head(3).with_columns(rating=pl.col("rating")), sweeps=2)
            record.answer("twice/predict", lambda: twice.predict(["new user", "another"], ["new item", "new item"]))

    return run


def of_run(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        put_run(record, folder, built(model, parameters_of(model, given)).fit(split_of(data).train))

    return run


class StoppedError(Exception):
    """What an observer raises in the middle of a run."""


def of_resumed(model: str, data: str, given: Mapping[str, Any]) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        parameters, train = parameters_of(model, given), split_of(data).train
        heard = 0

        def observer(event: Any) -> None:
            nonlocal heard
            heard += 1
            if heard > 12:
                raise StoppedError

        stopped = False
        try:
            kept = ts.Checkpoints(folder / "kept", every=2)
            built(model, parameters).fit(train, checkpoints=kept, observer=observer)
        except StoppedError:
            stopped = True
        record.put("was interrupted", stopped)
        kept = ts.Checkpoints(folder / "kept", every=2, resume=True)
        put_run(record, folder, built(model, parameters).fit(train, checkpoints=kept))

    return run


def put_run(record: Record, folder: Path, fitted: Any) -> None:
    ts.save(fitted, folder / "model")
    put_artifact(record, "artifact", folder / "model")
    users, items = fitted.ratings_.users.ids.to_list()[:5], fitted.ratings_.items.ids.to_list()[:5]
    record.answer("predict", lambda: fitted.predict(users, items))
    record.answer("recommend", lambda: fitted.recommend(users, 5))


def of_start(model: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        split = split_of("stars")
        begun = built("als", {"n_factors": 3, "regularisation": 0.1}).fit(split.train)
        fitted = built(model, SHORT[model]).fit(split.train, start=begun, held_out=split.test)
        put_run(record, folder, fitted)

    return run


def of_jump(births: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        train = split_of("stars").train
        steps = {"warmup": 5, "tuning": 6, "draws": 10, "quench": 3, "bridge": 5}
        for within in ("gibbs", "heavy-tailed") if births == "informed" else ("gibbs",):
            asked = train.user_rows[:20], train.item_rows[:20]
            found = ts.ReversibleJump(births=births, within=within, **steps).run(train, 5, seed=2, asked=asked)
            record.put(f"{within}/ranks", found.ranks)
            record.put(f"{within}/posterior", found.posterior)
            record.put(f"{within}/predicted", found.predicted)
            record.put(f"{within}/precisions", found.precisions)
            for name, values in found.trace.items():
                record.put(f"{within}/trace/{name}", np.asarray(values))

    return run


def of_rank(method: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        steps = {"warmup": 5, "tuning": 6, "draws": 10, "quench": 3}
        jumps = {"jumps": ts.ReversibleJump(**steps)} if method == "reversible-jump" else {}
        found = public("choose_rank")(DATA["stars"](), method, max_rank=4, seed=1, threads=1, **jumps)
        record.put("choice", found.to_dict())

    return run


def of_tune(record: Record, folder: Path) -> None:
    found = ts.tune(DATA["stars"](), "als", trials=4, seed=1, threads=1, rungs=1, fixed={"n_factors": 2})
    record.put("result", found.to_dict())
    record.put("trials", found.to_polars())
    found = ts.tune(DATA["stars"](), "bias", trials=8, share=0.3, seed=1, threads=1)
    record.put("bias/result", found.to_dict())


def of_contest(record: Record, folder: Path) -> None:
    models = {
        name: built(name, SHORT.get(name, {}))
        for name in ("mean", "bias", "item-knn", "als", "bpmf", "popular", "implicit-als")
    }
    found = public("contest")(split_of("stars"), models, bootstrap=30, apart=False, seed=1)
    record.put("result", found.to_dict())
    record.put("table", found.to_polars())
    record.put("groups", found.groups_to_polars())
    found = public("contest")(
        split_of("counts"),
        {name: built(name, SHORT.get(name, {})) for name in ("popular", "implicit-als", "ease")},
        bootstrap=30,
        apart=False,
        seed=1,
    )
    record.put("choices", found.to_dict())


def of_reports(record: Record, folder: Path) -> None:
    split = split_of("stars")
    reports = [
        ts.evaluate(built(name, SHORT.get(name, {})).fit(split.train), split, bootstrap=30, seed=1)
        for name in ("bias", "als")
    ]
    record.put("comparison", public("compare")(*reports))


def main() -> None:
    """`edition_probe.py OUT PATTERN SHARD SHARDS`: run every SHARDS-th case that the pattern finds."""
    out, pattern, shard, shards = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    asked = {case.name: case.equals for case in cases() if re.search(pattern, case.name)}
    chosen = [case for case in cases() if case.name in asked or case.name in asked.values()]
    if out.name == "list":
        sys.stdout.write("".join(f"{name}\n" for name in asked))
        return
    for number, case in enumerate(chosen):
        if number % shards != shard:
            continue
        begun, record = time.perf_counter(), Record()
        with tempfile.TemporaryDirectory(prefix="edition-") as scratch:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    case.run(record, Path(scratch))
            except Exception as error:
                record.values["fails"] = type(error).__name__
                sys.stderr.write(f"{case.name} fails:\n{traceback.format_exc(limit=-6)}\n")
        record.values["case"] = {"name": case.name, "equals": case.equals}
        record.write(out / f"{number:03d}")
        sys.stdout.write(f"{time.perf_counter() - begun:6.2f} s  {case.name}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
