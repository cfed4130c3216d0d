"""The HTTP service under load: requests a second, latencies and memory, on the loopback address.

BPMF and Joint on MovieLens 1M (all ratings, D = 32, 2 chains of 50 draws; BPMF with an index), served by two workers
with SQLite. The load comes from wrk (Debian's package) on the same machine, which so has its share of the two cores:

known      lists of 10 with intervals and probabilities for 100 users in turn, whose beliefs are kept; each time another
           item is excluded, one that does not exist, so that no answer was kept and each list is found again
again      lists of 10 of the same users, which were asked for before: answers that are kept
strangers  lists of 10 for people with 50 ratings each, sent along: every request folds in
lists      as known, without uncertainty

at 1, 8 and 32 connections; with the processor time of the workers a request, which says more than requests a second
where other programs run beside. Targets at 8 connections: 600 a second (known) and 100 (strangers) with BPMF, 150
(known) with Joint, p99 below 100 ms, no errors.

monitoring: the processor time of one worker that goes into remembering what was shown and judging ratings, beside all
other of the same requests: for known users whose lists are the same each time, for lists that differ each time (what
was shown is only stored again if it is another list), and for one new rating in ten requests, which is held against
what the model believed. Within one process, so that other programs slow down both; target for known users: 5 %.

memory: the resident set of the workers while known users and new ratings come for ten minutes. databases: known users
and ratings with SQLite and PostgreSQL in turn. reading: what a check of all bytes takes, processor seconds a GB.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

import tastespace as ts
from tastespace import artifact
from tastespace.evaluation.retrieval import tune_index
from tastespace.service.app import create_app, prepare
from tastespace.service.live_model import Versions
from tastespace.service.promises.monitor import Monitor
from tastespace.service.settings import Settings

CONNECTIONS = (1, 8, 32)
KNOWN, STRANGERS, HISTORY = 100, 200, 50
SECONDS, MEMORY_SECONDS = 10, 600
QUESTIONS = 60  # in turn, of each user: of half of them, which one worker gets, far more than answers are kept
LEAST = {"bpmf, known": 600.0, "bpmf, again": 600.0, "bpmf, strangers": 100.0, "joint, known": 150.0}  # a second
MOST_P99 = 100.0  # ms, at 8 connections
WATCHED = 3000  # requests of each kind
MOST_MONITORING = 0.05  # of the processor time of a request
GIGABYTE, MOST_READING = 1e9, 2.0  # seconds a GB
MODELS = {"bpmf": ts.BPMF, "joint": ts.Joint}


def model(options: Any, name: str = "bpmf") -> Path:
    """Fitted once, and kept in the build folder."""
    folder = Path(__file__).parent.parent / "build" / "service-benchmark" / name
    if not (folder / "manifest.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        recommender = MODELS[name](n_factors=32, chains=2, warmup=50, draws=50, thin=2, seed=0)
        recommender.fit(movielens.ratings(options.data))
        if name == "bpmf":  # Joint looks at every item quickly enough.
            recommender.index_ = tune_index(recommender, accuracy=0.95)
        artifact.save(recommender, folder)
    return folder


class Server:
    """`tastespace serve`, from a state folder of its own."""

    def __init__(self, folder: Path, workers: int = 2, *more: str) -> None:
        self._state = Path(tempfile.mkdtemp(prefix="tastespace-load-"))
        program = [sys.executable, "-c", "from tastespace.cli.main import run; run()", "serve", str(folder)]
        options = ["--workers", str(workers), "--port", "0", "--rate", "0", "--log-level", "warning"]
        options += ["--state", str(self._state), "--cached-users", str(2 * KNOWN), *more]
        self._process = subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = re.findall(r"http://\S+?/v1", self._process.stdout.readline())[0]
        for _ in range(600):
            try:
                if self.get("/ready"):
                    break
            except OSError:
                time.sleep(0.1)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.loads(answer.read())

    def workers(self) -> list[int]:
        """Process ids of those that answer."""
        listed = subprocess.run(["ps", "--ppid", str(self._process.pid), "-o", "pid="], capture_output=True, text=True)
        return [int(number) for number in listed.stdout.split()]

    def memory(self) -> float:
        """Of all workers together, in MB, shared pages by their share."""
        total = 0
        for process in self.workers():
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        return total / 1024

    def processor(self) -> float:
        """Seconds of processor time that the workers have had: what other programs take is not in it."""
        ticks = 0
        for process in self.workers():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def under(self, requests: list[tuple[str, str, str | None]], connections: int, seconds: int) -> dict[str, float]:
        """What load does, and what it costs: processor milliseconds of the workers a request."""
        before = self.processor()
        found = load(self.url, requests, connections, seconds)
        return found | {"processor_ms": (self.processor() - before) * 1e3 / max(found["answered"], 1)}

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        shutil.rmtree(self._state, ignore_errors=True)


def script(folder: Path, requests: list[tuple[str, str, str | None]]) -> Path:
    """What wrk asks, in turn, as Lua."""
    lines = ["local requests, turn = {}, 0", "init = function(args)"]
    for method, path, body in requests:
        headers = '{["Content-Type"] = "application/json"}' if body else "nil"
        text = "nil" if body is None else f"[==[{body}]==]"
        lines.append(f'  table.insert(requests, wrk.format("{method}", "{path}", {headers}, {text}))')
    lines += ["end", "request = function()", "  turn = turn % #requests + 1", "  return requests[turn]", "end"]
    written = folder / "load.lua"
    written.write_text("\n".join(lines))
    return written


def load(url: str, requests: list[tuple[str, str, str | None]], connections: int, seconds: int) -> dict[str, float]:
    """One run of wrk."""
    with tempfile.TemporaryDirectory() as folder:
        lua = script(Path(folder), requests)
        told = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", str(lua), url],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", told)[0])
    answered = int(re.findall(r"(\d+) requests in", told)[0])
    times = {share: milliseconds(text) for share, text in re.findall(r"(\d+)%\s+([\d.]+\w+)", told)}
    errors = sum(int(n) for n in re.findall(r"Non-2xx or 3xx responses: (\d+)", told))
    errors += sum(int(n) for line in re.findall(r"Socket errors: (.*)", told) for n in re.findall(r"\d+", line))
    return {
        "connections": connections,
        "answered": answered,
        "per_second": rate,
        "p50_ms": times["50"],
        "p99_ms": times["99"],
        "errors": errors,
    }


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[unit]


def questions(folder: Path) -> dict[str, list[tuple[str, str, str | None]]]:
    """What is asked of each kind."""
    recommender = artifact.load(folder)
    ratings, rng = recommender.ratings_, np.random.default_rng(0)
    users = rng.choice(ratings.users.ids.to_numpy(), KNOWN, replace=False)
    again = [("GET", f"/v1/users/{user}/recommendations", None) for user in users]
    known = [("GET", f"{path}?exclude=none-{k}", None) for k in range(QUESTIONS) for _, path, _ in again]
    lists = [("GET", f"{path}&uncertainty=false", None) for _, path, _ in known]
    strangers = []
    items = ratings.items.ids.to_numpy()
    popular = items[np.argsort(-ratings.by_item.counts)[:1000]]
    for _ in range(STRANGERS):
        history = {str(item): float(rng.integers(1, 6)) for item in rng.choice(popular, HISTORY, replace=False)}
        strangers.append(("POST", "/v1/recommendations", json.dumps({"history": history})))
    return {"known": known, "again": again, "strangers": strangers, "lists": lists}


def answers(options: Any) -> list[str]:
    if shutil.which("wrk") is None:
        raise SystemExit("needs wrk: apt-get install wrk")
    seconds = 2 if options.quick else SECONDS
    found: dict[str, Any] = {}
    for name in MODELS:
        folder = model(options, name)
        asked, server = questions(folder), Server(folder)
        try:
            for kind, requests in asked.items():
                load(server.url, requests, 4, 3)  # Beliefs are concluded, and whatever is made once is made.
                found[f"{name}, {kind}"] = [server.under(requests, n, seconds) for n in CONNECTIONS]
        finally:
            server.end()
    harness.save("service", {"load_average": os.getloadavg()[1], **found}, options)
    columns = ("connections", "per_second", "p50_ms", "p99_ms", "processor_ms", "errors")
    rows = [[kind, *(row[name] for name in columns)] for kind, many in found.items() for row in many]
    print(harness.markdown(["", "connections", "a second", "p50 ms", "p99 ms", "processor ms", "errors"], rows))
    print(f"load average of the machine over the last five minutes: {os.getloadavg()[1]:.1f}")
    verdicts = []
    for kind, least in LEAST.items():
        at_eight = next(row for row in found[kind] if row["connections"] == 8)
        verdicts.append(harness.verdict(f"{kind}: requests a second at 8 connections", at_eight["per_second"], least))
        verdicts.append(harness.verdict(f"{kind}: p99 ms at 8 connections", at_eight["p99_ms"], MOST_P99, at_most=True))
    verdicts.append(harness.verdict("errors", sum(row[-1] for row in rows), 0, at_most=True))
    return verdicts


def monitoring(options: Any) -> list[str]:
    """The share of the processor time of one worker that goes into watching, within one run."""
    folder = model(options)
    known, n = questions(folder)["known"], 500 if options.quick else WATCHED
    users = [path.split("/")[3] for _, path, _ in known[:KNOWN]]
    mixed = [
        ("PUT", f"/v1/users/{users[k % KNOWN]}/ratings/{1 + k // KNOWN % 20}", '{"rating": 4}') if k % 10 == 9 else one
        for k, one in enumerate(known)
    ]
    changed = changing(folder)
    kinds = {"the same list each time": known, "another list each time": changed, "one new rating in ten": mixed}
    found = asyncio.run(watched(folder, {kind: requests[:n] for kind, requests in kinds.items()}))
    harness.save("service_monitoring", found, options)
    columns = ("processor_ms", "watching_ms", "cost")
    rows = [[kind, *(row[name] for name in columns)] for kind, row in found.items()]
    print(harness.markdown(["", "processor ms a request", "of it for watching", "cost"], rows))
    cost = found["the same list each time"]["cost"]
    return [harness.verdict("cost of monitoring, known users", cost, MOST_MONITORING, at_most=True)]


async def watched(folder: Path, kinds: dict[str, list[tuple[str, str, str | None]]]) -> dict[str, dict[str, float]]:
    """A worker in this process: what requests cost, and what the thread that watches and noting lists take of it."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="tastespace-load-") as state:
        settings = Settings(model=str(folder), state=state, rate=0, cached_users=2 * KNOWN)
        prepare(settings)
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            (watcher,) = [thread for thread in threading.enumerate() if thread.name == "monitor"]
            clock = time.pthread_getcpuclockid(watcher.ident or 0)
            for kind, requests in kinds.items():
                for request in requests[:KNOWN]:
                    await send(app, *request)  # Beliefs are concluded.
                await asyncio.sleep(3)
                all_before, its_before = time.process_time(), time.clock_gettime(clock)
                for request in requests:
                    await send(app, *request)
                await asyncio.sleep(3)  # What still waits is stored and judged.
                total, its = time.process_time() - all_before, time.clock_gettime(clock) - its_before
                its += noting(app.state.context.monitor) * len(requests)
                milliseconds = {"processor_ms": total * 1e3 / len(requests), "watching_ms": its * 1e3 / len(requests)}
                found[kind] = milliseconds | {"cost": its / (total - its)}
    return found


async def send(app: Any, method: str, path: str, body: str | None) -> None:
    """One request, without a network."""
    place, _, query = path.partition("?")
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    about = {"type": "http", "http_version": "1.1", "scheme": "http", "root_path": "", "state": {}, "method": method}
    about |= {"path": place, "raw_path": place.encode(), "query_string": query.encode(), "headers": headers}
    about |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)}
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": (body or "").encode(), "more_body": False}

    async def answer(message: dict[str, Any]) -> None:
        statuses.append(message.get("status", 200))

    await app(about, receive, answer)
    assert statuses[0] == 200, (path, statuses)


def noting(monitor: Monitor, n: int = 2000) -> float:
    """Seconds of the request itself: to note a list."""
    items = tuple(map(str, range(10)))
    began = time.thread_time()
    for k in range(n):
        monitor.show("nobody", (*items, str(k)), "none")
    monitor.forget("nobody")
    return (time.thread_time() - began) / n


def changing(folder: Path) -> list[tuple[str, str, str | None]]:
    """Questions as of known users, but with another list each time: one item of the best ten is left out in turn."""
    recommender, known = artifact.load(folder), questions(folder)["known"]
    users = [path.split("/")[3] for _, path, _ in known[:KNOWN]]
    best = {user: recommender.recommend([int(user)], 10).item_ids.to_list() for user in users}
    return [
        ("GET", f"{path}&exclude={best[path.split('/')[3]][k // KNOWN % 10]}", None)
        for k, (_, path, _) in enumerate(known)
    ]


def reading(options: Any) -> list[str]:
    """What it takes to read all of an artifact, and to take a copy of it, which services do at a reload."""
    found: dict[str, dict[str, float]] = {}
    for name in MODELS:
        folder = model(options, name)
        n_bytes = sum(file.stat().st_size for file in folder.iterdir())
        with tempfile.TemporaryDirectory() as place:
            versions = Versions(Path(place))
            ways = {"check": lambda: artifact.verified(folder), "take": lambda: versions.take(folder, again=True)}  # noqa: B023
            timings = harness.alternate(ways, options.rounds)
        found[name] = {way: float(np.median(timing.processor)) * GIGABYTE / n_bytes for way, timing in timings.items()}
    harness.save("service_reading", {"seconds_a_gigabyte": found}, options)
    print(
        harness.markdown(
            ["processor s a GB", "check", "take a copy"], [[name, *row.values()] for name, row in found.items()]
        )
    )
    slowest = max(row["check"] for row in found.values())
    return [harness.verdict("processor seconds to check a GB", slowest, MOST_READING, at_most=True)]


def databases(options: Any) -> list[str]:
    """SQLite and PostgreSQL in turn: lists of known users, ratings of new ones, and both at a time."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from service.postgres import Postgres

    folder, seconds = model(options), 2 if options.quick else SECONDS
    asked = questions(folder)
    users = [path.split("/")[3] for _, path, _ in asked["again"]]
    ratings = [("PUT", f"/v1/users/{user}/ratings/{item}", '{"rating": 4}') for item in range(1, 21) for user in users]
    mixed = [request for pair in zip(asked["known"], ratings, strict=False) for request in pair]
    kinds = {"known": asked["known"], "ratings": ratings, "both": mixed}
    postgres = Postgres(is_durable=True)
    servers = {"SQLite": Server(folder), "PostgreSQL": Server(folder, 2, "--db", postgres.url)}
    found: dict[str, list[dict[str, float]]] = {f"{kind}, {name}": [] for kind in kinds for name in servers}
    try:
        for server in servers.values():
            load(server.url, asked["known"], 4, 3)
        for _ in range(options.rounds):
            for kind, requests in kinds.items():
                for name, server in servers.items():
                    found[f"{kind}, {name}"].append(server.under(requests, 8, seconds))
    finally:
        for server in servers.values():
            server.end()
        postgres.remove()
    columns = ("per_second", "p50_ms", "p99_ms", "processor_ms", "errors")
    medians = {
        kind: {name: float(np.median([row[name] for row in rows])) for name in columns} for kind, rows in found.items()
    }
    harness.save("service_databases", {"load_average": os.getloadavg()[1], **medians}, options)
    rows = [[kind, *(row[name] for name in columns)] for kind, row in medians.items()]
    print(harness.markdown(["8 connections", "a second", "p50 ms", "p99 ms", "processor ms", "errors"], rows))
    return [harness.verdict("errors", sum(row["errors"] for row in medians.values()), 0, at_most=True)]


def memory(options: Any) -> list[str]:
    folder = model(options)
    asked, server = questions(folder), Server(folder)
    users = [path.split("/")[3] for _, path, _ in asked["again"]]
    mixed = [*asked["again"], *(("PUT", f"/v1/users/{user}/ratings/1", '{"rating": 4}') for user in users)]
    measured, errors = [], 0.0
    try:
        load(server.url, mixed, 8, 20)
        for _ in range(2 if options.quick else MEMORY_SECONDS // 60):
            measured.append(round(server.memory(), 1))
            errors += load(server.url, mixed, 8, 5 if options.quick else 60)["errors"]
        measured.append(round(server.memory(), 1))
    finally:
        server.end()
    harness.save("service_memory", {"megabytes": measured, "errors": errors}, options)
    print("MB of both workers, minute by minute:", measured)
    half = len(measured) // 2
    growth = float(np.mean(measured[half:]) / np.mean(measured[:half]) - 1)
    return [
        harness.verdict("growth of memory from the first half to the second", growth, 0.05, at_most=True),
        harness.verdict("errors", errors, 0, at_most=True),
    ]


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    asked = {"answers": answers, "monitoring": monitoring, "databases": databases, "reading": reading, "memory": memory}
    harness.answer(asked, __doc__ or "")
