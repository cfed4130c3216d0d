"""Cases of the command line and of the service behind it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
from data import new_ratings, split_of, stars_frame
from record import Record, put_artifact
from settings import SHORT

COMMAND = [sys.executable, "-c", "from tastespace.cli.main import run; run()"]


def tastespace(*arguments: Any, cwd: Path) -> tuple[int, str]:
    """The program in this process: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, {"COLUMNS": "200"}),
        mock.patch.object(sys, "argv", ["tastespace", *map(str, arguments)]),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        from tastespace.cli.main import run

        try:
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    if code and os.environ.get("PROBE_SHOW_ERRORS"):
        sys.stderr.write(f"  {arguments}: {err.getvalue()}\n")
    return code, out.getvalue()


def put_verb(record: Record, name: str, folder: Path, *arguments: Any) -> None:
    code, printed = tastespace(*arguments, cwd=folder)
    record.put(f"{name}/exit code", code)
    try:
        record.put(name, json.loads(printed))
    except ValueError:
        record.put(f"{name}/is JSON", False)


def write_files(folder: Path, data: str) -> tuple[list[Any], list[Any]]:
    """Ratings to fit on and to test with, a history, pairs and items; returned are ids of users and items."""
    split = split_of(data)
    for part in ("train", "test"):
        getattr(split, part).to_polars().write_csv(folder / f"{part}.csv")
    stars_frame()[1].write_csv(folder / "items.csv")
    users, items = split.train.users.ids.to_list(), split.train.items.ids.to_list()
    high = float(split.train.values.max())
    pl.DataFrame({"user": users[:4], "item": items[2:6]}).write_csv(folder / "pairs.csv")
    pl.DataFrame({"item": items[:3], "rating": [high] * 3}).write_csv(folder / "history.csv")
    pl.DataFrame({"item": items[4:20]}).write_csv(folder / "only.csv")
    new_ratings(split.train).write_csv(folder / "new.csv")
    return users, items


def fit_by_cli(record: Record, folder: Path, model: str, data: str) -> tuple[list[Any], list[Any]]:
    users, items = write_files(folder, data)
    settings = [f"--set={name}={value}" for name, value in SHORT[model].items()]
    kind = ["--kind=counts"] if data == "counts" else []
    fit = ["fit", "train.csv", "--model", model, "--out", "model", "--items", "items.csv", "--test", "test.csv"]
    put_verb(record, "fit", folder, *fit, *settings, *kind, "--seed=5", "--threads=1", "--json")
    return users, items


def of_cli(model: str, data: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        users, items = fit_by_cli(record, folder, model, data)
        put_artifact(record, "artifact", folder / "model")
        end = ["--threads=1", "--json"]
        someone = ["--user", users[0], "--user", "nobody"]
        verbs: dict[str, list[Any]] = {
            "predict": ["predict", "model", "pairs.csv", "--coverage=0.8"],
            "predict/at least": ["predict", "model", "pairs.csv", "--at-least=0.5"],
            "recommend": ["recommend", "model", *someone, "-n", 5],
            "recommend/filters": ["recommend", "model", *someone, "--where=genre = Drama", "--diversity=0.4"],
            "recommend/only": ["recommend", "model", *someone, "--only-file=only.csv", "--exclude", items[5]],
            "recommend/policy": ["recommend", "model", *someone, "--policy=cautious:c=2", "--exact"],
            "recommend/damping": ["recommend", "model", *someone, "--popularity-damping=30", "--include-seen"],
            "recommend/history": ["recommend", "model", "--history=history.csv"],
            "similar/items": ["similar", "model", "--item", items[0], "--item", items[1], "-n", 4],
            "similar/users": ["similar", "model", "--user", users[0], "-n", 4],
            "explain": ["explain", "model", "--user", users[0], "--item", items[1], "--item", items[7]],
            "explain/history": ["explain", "model", "--history=history.csv", "--item", items[7]],
            "ask": ["ask", "model", "--user", users[0], "-n", 3],
            "ask/anybody": ["ask", "model", "--goal=list", "-n", 3],
            "evaluate": ["evaluate", "model", "test.csv", "--bootstrap=30"],
            "update": ["update", "model", "new.csv", "--out", "updated"],
        }
        for name, arguments in verbs.items():
            put_verb(record, name, folder, *arguments, *end)
        put_verb(record, "diagnose", folder, "diagnose", "model", "--json")
        put_verb(record, "data", folder, "data", "describe", "train.csv", "--json")
        if (folder / "updated").exists():
            put_artifact(record, "updated", folder / "updated")

    return run


def of_verbs(record: Record, folder: Path) -> None:
    """Verbs that fit models of their own, and those that only one model answers."""
    write_files(folder, "stars")
    end = ["--seed=5", "--threads=1", "--json"]
    noisy = [
        "--model=bpmf",
        "--set=noise=per-user-and-item",
        *(f"--set={key}={SHORT['bpmf'][key]}" for key in SHORT["bpmf"]),
    ]
    curved = ["--model=monotone", "--set=sharing=one", "--set=sweeps=4", "--n-factors=2"]
    for name, arguments in {
        "fit/noise": ["fit", "train.csv", "--out=noisy", *noisy, *end],
        "fit/curves": ["fit", "train.csv", "--out=curved", *curved, *end],
        "fit/kind": ["fit", "train.csv", "--dry-run", *end],
        "noise/users": ["noise", "noisy", "-n", "4", "--json"],
        "noise/items": ["noise", "noisy", "--items", "-n", "4", "--json"],
        "curves": ["curves", "curved", "--json"],
        "compare": ["compare", "train.csv", "--models=mean,bias,als", "--n-factors=2", "--bootstrap=20", *end],
        "compare/time": ["compare", "train.csv", "--models=bias,popular", "--by=time", "--bootstrap=0", *end],
        "rank": ["rank", "train.csv", "--methods=grid,ard", "--ranks=1,2", "--max-rank=3", *end],
        "tune": ["tune", "train.csv", "--model=bias", "--trials=3", "--save-config=best.toml", *end],
        "fit/config": ["fit", "train.csv", "--config=best.toml", "--out=best", *end],
        "split": ["data", "split", "train.csv", "--train=a.csv", "--test=b.csv", "--by=last", "--json"],
    }.items():
        put_verb(record, name, folder, *arguments)
    for made in ("noisy", "curved", "best"):
        put_artifact(record, made, folder / made)
    for file in ("a.csv", "b.csv", "best.toml"):
        record.answer(f"written/{file}", (folder / file).read_text)


def of_stream(record: Record, folder: Path) -> None:
    split_of("stars").train.to_polars().write_parquet(folder / "train.parquet")
    fit = ["fit", "train.parquet", "--model=pmf", "--stream", "--out=model", "--set=n_factors=3", "--set=epochs=4"]
    put_verb(record, "fit", folder, *fit, "--regularisation=0.05", "--seed=5", "--threads=1", "--json")
    put_artifact(record, "artifact", folder / "model")


def of_service(model: str, data: str) -> Callable[[Record, Path], None]:
    def run(record: Record, folder: Path) -> None:
        users, items = fit_by_cli(Record(), folder, model, data)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = ["serve", "model", "--port", str(port), "--state", "state", "--rate", "0", "--log-level", "error"]
        with (folder / "service.log").open("w") as log:
            process = subprocess.Popen([*COMMAND, *serve], cwd=folder, stdout=log, stderr=log)
        try:
            put_routes(record, Client(port, process), users, items, float(split_of(data).train.values.max()))
        finally:
            process.terminate()
            process.wait(20)

    return run


class Client:
    """Asks a service on this machine; the version of the model, which no two artifacts share, is left out."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.address = f"http://127.0.0.1:{port}/v1"
        for _ in range(200):
            if process.poll() is not None:
                raise RuntimeError(f"the service ended with {process.returncode}")
            with contextlib.suppress(OSError):
                if self.ask("GET", "/ready")[0] == 200:
                    break
            time.sleep(0.15)
        self.version = self.ask("GET", "/model")[1]["version"]

    def ask(self, method: str, route: str, body: Any = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + route, content, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"null")

    def put(self, record: Record, name: str, method: str, route: str, body: Any = None) -> None:
        status, answer = self.ask(method, route, body)
        record.put(f"{name}/status", status)
        record.put(name, json.loads(json.dumps(answer).replace(self.version, "VERSION")))


def put_routes(record: Record, client: Client, users: list[Any], items: list[Any], high: float) -> None:
    user, history = users[0], {items[0]: high, items[3]: high}
    filters = "n=4&where=genre%20%3D%20Drama&diversity=0.3&explain=true"
    for name, method, route, body in [
        ("health", "GET", "/health", None),
        ("model", "GET", "/model", None),
        ("model/outline", "GET", "/model/outline", None),
        ("model/story", "GET", "/model/story", None),
        ("items", "GET", "/items?search=Film%201&limit=5", None),
        ("item", "GET", f"/items/{items[0]}", None),
        ("similar", "GET", f"/items/{items[0]}/similar?n=4", None),
        ("map", "GET", "/map", None),
        ("users", "GET", "/users?search=u1", None),
        ("user", "GET", f"/users/{user}", None),
        ("ratings", "GET", f"/users/{user}/ratings?limit=5", None),
        ("recommendations", "GET", f"/users/{user}/recommendations?n=5", None),
        ("recommendations/filters", "GET", f"/users/{user}/recommendations?{filters}", None),
        ("recommendations/policy", "GET", f"/users/{user}/recommendations?{filters}&policy=cautious", None),
        ("recommendations/history", "POST", "/recommendations", {"history": history, "n": 4, "explain": True}),
        ("recommendations/thompson", "POST", "/recommendations", {"user": user, "policy": "thompson:request=2"}),
        ("predictions", "POST", "/predictions", {"user": user, "items": items[:4], "coverage": 0.8}),
        ("predictions/history", "POST", "/predictions", {"history": history, "items": items[4:8]}),
        ("questions", "GET", f"/users/{user}/questions?n=3", None),
        ("questions/history", "POST", "/questions", {"history": history, "n": 3, "goal": "list"}),
        ("place", "POST", "/place", {"history": history}),
        ("rate", "PUT", f"/users/{user}/ratings/{items[6]}", {"rating": high}),
        ("rate/new user", "PUT", f"/users/somebody/ratings/{items[6]}", {"rating": high}),
        ("rate/unknown item", "PUT", f"/users/{user}/ratings/nothing", {"rating": high}),
        ("rate/many", "POST", "/ratings", {"ratings": [{"user": "b", "item": items[1], "rating": high}]}),
        ("recommendations/after", "GET", f"/users/{user}/recommendations?n=5", None),
        ("recommendations/new user", "GET", "/users/somebody/recommendations?n=5", None),
        ("unrate", "DELETE", f"/users/{user}/ratings/{items[6]}", None),
        ("recommendations/back", "GET", f"/users/{user}/recommendations?n=5", None),
        ("forget", "DELETE", f"/users/{user}", None),
        ("recommendations/forgotten", "GET", f"/users/{user}/recommendations?n=5", None),
        ("bad request", "POST", "/predictions", {"items": []}),
    ]:
        client.put(record, name, method, route, body)
