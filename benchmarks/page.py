"""The web page in a real browser: first paint, the taste map at ten thousand items, and a switch of the policy.

`tastespace serve` on the loopback address with one worker, and Debian's Chromium without a window or a graphics card,
on the same machine, which both share with whatever else runs. So the load is told with the figures; processor time is
told beside time, and what an empty page takes beside what the map takes.

paint     MovieLens 1M: first contentful paint, and the first card, each round with an empty cache, and the processor
          of the page slowed four times
policies  MovieLens 1M: from the click on each of the policies until the new list has been drawn, for users with few,
          usual and many ratings; and how long the service takes for the same question alone
map       10 000 items of synthetic ratings: 200 moves of the mouse and 100 steps of its wheel, but for 30 s at most.
          From the event, by its own time stamp, until the next frame has been drawn; and the processor time of the
          page's thread a step, which counts what is put off until later too.

Targets: first paint within 0.3 s, first card within 1 s; p95 of a switch below 200 ms, of a step on the map below
100 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import harness
import numpy as np
import polars as pl
from service import Server

import tastespace as ts
from tastespace import artifact
from tastespace.data.shapes import Shape

BUILD = Path(__file__).parent.parent / "build" / "page-benchmark"
PROGRAM = [sys.executable, "-c", "from tastespace.cli.main import run; run()"]
BROWSER = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
BROWSER += ["--no-first-run", "--disable-component-update", "--disable-sync"]
VIEWPORT = {"width": 1200, "height": 900}
PAINTS, TURNS = 10, 4
ITEMS, MOVES, WHEELS, LONGEST = 10_000, 200, 100, 30.0
POLICIES = {"best": "Best", "cautious": "Safe bets", "curious": "Discover"}
MOST = {"paint": 300.0, "map": 100.0, "policies": 200.0}  # ms
SLOWED = 4  # times, the processor of the page, for the first paint and the first card

# When the first card is there, by the clock that starts with the navigation.
WATCH_FOR_CARD = """(() => {
    const watch = new MutationObserver(() => {
        if (!document.querySelector("article.card")) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => { window.firstCard = performance.now(); }));
    });
    watch.observe(document, { childList: true, subtree: true });
})();"""

FIRST_PAINT = '() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime'

# A message comes after the frame's drawing, which the page's own animation frame belongs to.
AFTER_FRAME = """
    const afterFrame = (action) => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = action;
        channel.port2.postMessage(0);
    });
"""
WATCH_STEPS = (
    """() => {"""
    + AFTER_FRAME
    + """
    window.steps = { pointermove: [], wheel: [] };
    for (const kind of Object.keys(window.steps))
        window.addEventListener(kind, (event) => {
            const came = event.timeStamp;
            afterFrame(() => window.steps[kind].push(performance.now() - came));
        }, { capture: true, passive: true });
}"""
)
WATCH_SWITCHES = (
    """() => {"""
    + AFTER_FRAME
    + """
    window.switched = null;
    let clicked = null;
    window.addEventListener("click", (event) => { clicked ??= event.timeStamp; }, { capture: true });
    const isList = (node) => node.matches?.("ul.row:not(.skeleton)");
    new MutationObserver((changes) => {
        if (clicked === null || !changes.some((change) => [...change.addedNodes].some(isList))) return;
        const came = clicked;
        clicked = null;
        afterFrame(() => {
            const now = performance.now();
            const all = performance.getEntriesByType("resource");
            const asked = all.filter((one) => one.name.endsWith("/v1/recommendations")).pop();
            window.switched = { total: now - came, fetch: asked.responseEnd - asked.startTime };
            performance.clearResourceTimings();
        });
    }).observe(document.querySelector("section[aria-label='Picked for you']"), { childList: true });
}"""
)


def film_model(options: argparse.Namespace) -> Path:
    """BPMF on MovieLens 1M as `fit` does it, with measures and an index; once."""
    folder: Path = options.model
    if not (folder / "manifest.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fit = ["fit", str(Path(options.data) / "ml-1m"), "--holdout", "0.1", "--out", str(folder)]
        for command in (fit, ["index", str(folder), "--seconds", "10"]):
            subprocess.run([*PROGRAM, *command], check=True, stdout=subprocess.DEVNULL)
    return folder


def large_model(options: argparse.Namespace) -> Path:
    """Ten thousand items with titles, genres and years, as the map shows them; once."""
    folder: Path = options.model.with_name("ten-thousand")
    if not (folder / "manifest.json").exists():
        shape = Shape(n_users=2000, n_items=ITEMS, n_ratings=300_000)
        ratings, rng = ts.synthetic(shape, seed=0), np.random.default_rng(0)
        genres = np.array(["Drama", "Comedy", "Action", "Thriller", "Romance", "Horror", "Crime", "War", "Western"])
        about = pl.DataFrame(
            {
                "genres": [genres[rng.choice(len(genres), rng.integers(1, 4), replace=False)] for _ in range(ITEMS)],
                "year": rng.integers(1930, 2001, ITEMS),
            }
        )
        ratings = ratings.with_items(pl.Series("title", [f"Film number {item}" for item in range(ITEMS)]), about)
        model = ts.BPMF(n_factors=8, chains=1, warmup=10, draws=20, seed=0).fit(ratings)
        artifact.save(model, folder)
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder, workers=1)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=program, args=BROWSER)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def fresh_page(browser: Any) -> Iterator[Any]:
    """A page that has nothing kept."""
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(60_000)
    try:
        yield context.new_page()
    finally:
        context.close()


def address(server: Server) -> str:
    return str(server.url).removesuffix("/v1") + "/"


def spread(milliseconds: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(float(np.percentile(milliseconds, 50)), 1),
        "p95_ms": round(float(np.percentile(milliseconds, 95)), 1),
        "n": len(milliseconds),
    }


def paint(options: argparse.Namespace, browser: Any, server: Server) -> dict[str, Any]:
    """First paint, and first card, of the page with the default list and with that of a user."""
    user = chosen_users(options.model)["usual"][0][0]
    places = {"anybody": address(server), "a user": f"{address(server)}#/recommendations?user={user}"}
    found: dict[str, dict[str, list[float]]] = {name: {"first_paint": [], "first_card": []} for name in places}
    for _ in range(2 if options.quick else PAINTS):
        for name, place in places.items():
            with fresh_page(browser) as page:
                page.add_init_script(WATCH_FOR_CARD)
                page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
                page.goto(place)
                page.locator("article.card").first.wait_for()
                found[name]["first_paint"].append(wait_for(page, FIRST_PAINT))
                found[name]["first_card"].append(wait_for(page, "() => window.firstCard"))
    return {
        name: {what: {**spread(times), "first_of_all_ms": round(times[0], 1)} for what, times in measured.items()}
        for name, measured in found.items()
    }


def wait_for(page: Any, function: str) -> float:
    """What a function in the page says once it says something; the page's own rules forbid Playwright's way."""
    for _ in range(3000):
        value = page.evaluate(function)
        if value:
            return float(value)
        time.sleep(0.01)
    raise SystemExit(f"nothing came of {function}")


def taste_map(options: argparse.Namespace, browser: Any, server: Server) -> dict[str, Any]:
    """Hovering and zooming over thousands of points, and over an empty page."""
    found: dict[str, Any] = {}
    place = f"{address(server)}#/map?method=pca"
    with fresh_page(browser) as page:
        opened = time.perf_counter()
        page.goto(place)
        page.locator(".map canvas").wait_for()
        found["opened_first_ms"] = round(1000 * (time.perf_counter() - opened), 1)
        found["items"] = page.locator(".map canvas").get_attribute("aria-label")
    for name, (where, element) in {
        "tastespace": (place, ".map canvas"),
        "an empty page": ("about:blank", "html"),
    }.items():
        with fresh_page(browser) as page:
            page.goto(where)
            page.locator(element).wait_for(state="attached")
            found[name] = steps(page, element, options.quick)
    return found


def thread_time(page: Any) -> Callable[[], float]:
    """Processor time of the page's thread up to now, in ms."""
    numbers = page.context.new_cdp_session(page)
    numbers.send("Performance.enable")

    def now() -> float:
        told = {one["name"]: one["value"] for one in numbers.send("Performance.getMetrics")["metrics"]}
        return 1000 * float(told["ThreadTime"])

    return now


def steps(page: Any, element: str, quick: bool) -> dict[str, Any]:
    """Real moves and turns of the wheel: until drawn, and the work of the page's thread for each."""
    page.wait_for_timeout(1000)
    box = page.locator(element).bounding_box()
    page.evaluate(WATCH_STEPS)
    busy = thread_time(page)

    def walk(turn: int, n: int) -> tuple[float, float]:
        """Around the middle, where most points are, and out to the edges."""
        angle, far = 2 * np.pi * 7 * turn / n, 0.1 + 0.8 * turn / n
        across = box["x"] + box["width"] * (0.5 + 0.5 * far * np.cos(angle))
        return float(across), float(box["y"] + box["height"] * (0.5 + 0.5 * far * np.sin(angle)))

    def move(turn: int, n: int) -> None:
        page.mouse.move(*walk(turn, n))
        time.sleep(0.02)

    def wheel(turn: int, n: int) -> None:
        page.mouse.wheel(0, -100 if turn // 10 % 2 == 0 else 100)  # Ten steps in, ten out: often all points show.
        time.sleep(0.1)  # as a finger does it

    found = {}
    for what, kind, act, n in (("hover", "pointermove", move, MOVES), ("zoom", "wheel", wheel, WHEELS)):
        n = n // 10 if quick else n
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(1000)
        page.evaluate("(kind) => { window.steps[kind] = []; }", kind)
        before, until, made = busy(), time.monotonic() + LONGEST, 0
        while made < n and time.monotonic() < until:
            act(made, n)
            made += 1
        page.wait_for_timeout(1000)
        worked = (busy() - before) / made
        times = page.evaluate("(kind) => window.steps[kind]", kind)
        found[what] = {**spread(times), "processor_ms_a_step": round(worked, 2)}
    return found


def chosen_users(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Two users each with the fewest, the usual number and the most ratings, and how many."""
    ratings = artifact.load(folder).ratings_
    counts, users = ratings.by_user.counts, ratings.users.ids.to_list()
    ascending = np.argsort(counts, kind="stable")
    middle = len(ascending) // 2
    rows = {"few": ascending[:2], "usual": ascending[middle : middle + 2], "many": ascending[-2:]}
    return {name: [(str(users[row]), int(counts[row])) for row in some] for name, some in rows.items()}


def policies(options: argparse.Namespace, browser: Any, server: Server) -> dict[str, Any]:
    """From the click to the list, by policy and by user."""
    users = chosen_users(options.model)
    rows = []
    for group, some in users.items():
        for user, _ in some:
            with fresh_page(browser) as page:
                found = switches(page, f"{address(server)}#/recommendations?user={user}", options.quick)
            with closing(HTTPConnection(urlsplit(server.url).netloc)) as connection:
                ask(connection, user, "best", 10)
                for place, row in enumerate(found):
                    before = processor_time(server)
                    row |= {"group": group, "service": ask(connection, user, row["policy"], 30 + place)}
                    rows.append({**row, "processor": processor_time(server) - before})

    def summed(these: list[dict[str, Any]]) -> dict[str, Any]:
        parts = {part: spread([row[part] for row in these]) for part in ("total", "fetch", "service")}
        worked = {part: round(float(np.mean([row[part] for row in these])), 1) for part in ("page", "processor")}
        return {
            "switch": parts["total"],
            "fetch": parts["fetch"],
            "service_alone": parts["service"],
            "page_processor_ms": worked["page"],
            "service_processor_ms": worked["processor"],
        }

    return {
        "all": summed(rows),
        "by_policy": {name: summed([row for row in rows if row["policy"] == name]) for name in POLICIES},
        "by_user": {name: summed([row for row in rows if row["group"] == name]) for name in users},
        "ratings": {name: [n for _, n in some] for name, some in users.items()},
    }


def switches(page: Any, place: str, quick: bool) -> list[dict[str, Any]]:
    """Each policy in turn, from another one; lists of another length every turn, so that no answer is kept, but for the
    one that a page begins with and comes back to."""
    found = []
    for turn in range(1 if quick else TURNS):
        page.goto("about:blank")
        page.goto(f"{place}&known={0.001 * (turn + 1)}")
        page.locator("article.card").first.wait_for()
        page.evaluate(WATCH_SWITCHES)
        busy = thread_time(page)
        for policy in (*list(POLICIES)[1:], "best"):
            page.evaluate("() => { window.switched = null; }")
            before = busy()
            page.get_by_label(POLICIES[policy], exact=True).check()
            wait_for(page, "() => window.switched?.total")
            page.wait_for_timeout(50)
            found.append({"policy": policy, **page.evaluate("() => window.switched"), "page": busy() - before})
    return found


def processor_time(server: Server) -> float:
    """Of all processes of the service up to now, in ms; it ticks in steps of 10."""
    ticks = 0
    for process in {server._process.pid, *server.workers()}:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


def ask(connection: HTTPConnection, user: str, policy: str, n: int) -> float:
    """The question that the page asks, without a browser: ms."""
    body = json.dumps({"user": user, "n": n, "explain": True, "policy": policy})
    began = time.perf_counter()
    connection.request("POST", "/v1/recommendations", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    took = 1000 * (time.perf_counter() - began)
    if answer.status != 200:
        raise SystemExit(f"the service answered {answer.status}: {content.decode()}")
    return took


FILMS = {"paint": paint, "policies": policies}
LARGE = {"map": taste_map}


def tell(found: dict[str, Any]) -> list[str]:
    """Tables, and the verdicts."""
    verdicts = []
    columns = ["", "p50 ms", "p95 ms", "n"]
    if "paint" in found:
        rows = [
            [f"{what.replace('_', ' ')}, {name}", *list(figures.values())]
            for name, measured in found["paint"].items()
            for what, figures in measured.items()
        ]
        print("\n" + harness.markdown([*columns, "first of all"], rows))
        for name, measured in found["paint"].items():
            figure = measured["first_paint"]["p95_ms"]
            verdicts.append(harness.verdict(f"first paint, {name}: p95 ms", figure, MOST["paint"], at_most=True))
    if "map" in found:
        drawn = {name: figures for name, figures in found["map"].items() if isinstance(figures, dict)}
        ours, rows = drawn["tastespace"], []
        for name, figures in drawn.items():
            for what, figure in figures.items():
                ratios = [figure[key] / ours[what][key] for key in ("p95_ms", "processor_ms_a_step")]
                rows.append([f"{what}, {name}", *figure.values(), *ratios])
        print("\n" + harness.markdown([*columns, "cpu ms a step", "p95 / ours", "cpu / ours"], rows))
        for what, figure in ours.items():
            verdicts.append(harness.verdict(f"map, {what}: p95 ms", figure["p95_ms"], MOST["map"], at_most=True))
    if "policies" in found:
        parts = {"all": found["policies"]["all"], **found["policies"]["by_policy"], **found["policies"]["by_user"]}
        rows = []
        for name, part in parts.items():
            beside = [part[one][key] for one in ("fetch", "service_alone") for key in ("p50_ms", "p95_ms")]
            rows.append(
                [name, *part["switch"].values(), *beside, part["page_processor_ms"], part["service_processor_ms"]]
            )
        columns += ["fetch p50", "fetch p95", "service p50", "service p95", "page cpu", "service cpu"]
        print("\n" + harness.markdown(columns, rows))
        figure = parts["all"]["switch"]["p95_ms"]
        verdicts.append(harness.verdict("switch of the policy: p95 ms", figure, MOST["policies"], at_most=True))
    return verdicts


def main() -> None:
    options = harness.arguments(
        __doc__,
        model={"type": Path, "default": BUILD / "ml-1m", "help": "folder to keep the model of MovieLens 1M in"},
        only={"choices": (*FILMS, *LARGE), "help": "one of the questions alone, whose answer is not kept"},
    )
    found: dict[str, Any] = {}
    load: dict[str, list[float]] = {}
    with browsing() as browser:
        found["browser"] = browser.version
        for questions, model in ((FILMS, film_model), (LARGE, large_model)):
            asked = [name for name in questions if options.only in (None, name)]
            if not asked:
                continue
            with serving(model(options)) as server:
                for name in asked:
                    before = os.getloadavg()[0]
                    found[name] = questions[name](options, browser, server)
                    load[name] = [round(before, 2), round(os.getloadavg()[0], 2)]
    if not options.only:
        harness.save("page", {**found, "load_before_and_after": load}, options)
    verdicts = tell(found)
    print("\nload before and after:", load)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
