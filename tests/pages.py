"""Run the documentation: what its pages show must be what the code prints.

`python tests/pages.py [PAGE ...]` runs pages and writes what they print into them, where it has changed; without names,
all of them. On a page

- a `python` block is run, and the `text` block directly below is what it prints;
- a `sh` block is run if there is a `text` or `json` block directly below, which is what its commands print;
- three dots stand for anything within a line, and on a line of their own for any lines; in JSON, "..." is any value,
  the rest of a list, or, as a name, any further members;
- `<!-- not run: reason -->` above a block leaves it out; `<!-- output varies: reason -->` runs it and compares nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
from cli.program import tastespace

import tastespace as ts

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|output varies): [^\n]+ -->\n+)?"
    r"```(?P<language>python|sh)\n(?P<code>.*?)^```$"
    r"(?:\n+```(?P<format>text|json)\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
JSON_VALUE = re.compile(r'("(?:[^"\\]|\\.)*"\s*:)|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
SPACING = re.compile(r"([ ─═-])\1+")  # columns are as wide as their numbers


def pages() -> list[str]:
    """The pages with anything to run."""
    every = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    return [str(page.relative_to(ROOT)) for page in every if _has_work(page.read_text())]


def _has_work(text: str) -> bool:
    return any(block["language"] == "python" or block["format"] for block in BLOCK.finditer(text))


def write_files(folder: Path) -> None:
    """What the pages call ratings.csv and movies.csv: movielens-demo in the layout of MovieLens."""
    ratings = ts.dataset("movielens-demo")
    ratings.to_polars().write_csv(folder / "ratings.csv")
    films = ratings.item_attributes.with_columns(
        pl.col("genres").list.join("|"), item=ratings.items.ids, title=ratings.item_titles
    )
    films.select("item", "title", "genres").write_csv(folder / "movies.csv")


def rerun(page: str, folder: Path) -> str:
    """The text of a page with outputs that are current, after running it in a folder that `write_files` has filled."""
    text = (ROOT / page).read_text()
    module = types.ModuleType("page")
    pieces, end = [], 0
    # Dataclasses look their module up. It stays: `patch.dict` would also forget what the page is the first to import.
    sys.modules["page"] = module
    with contextlib.chdir(folder), mock.patch.dict(os.environ, TASTESPACE_CACHE=str(folder / "cache")):
        for block in BLOCK.finditer(text):
            if block["mark"] == "not run" or (block["language"] == "sh" and not block["format"]):
                continue
            line = text.count("\n", 0, block.start("code")) + 1
            if block["language"] == "python":
                printed = _run_python(block["code"], page, line, module)
            else:
                printed = _run_shell(block["code"])
            if block["mark"] or agrees(block["output"] or "", printed, block["format"]):
                continue
            if block["format"]:
                update = updated_json if block["format"] == "json" else _updated
                pieces += [text[end : block.start("output")], update(block["output"], printed)]
                end = block.end("output")
            else:
                pieces += [text[end : block.end()], f"\n\n```text\n{printed}```"]
                end = block.end()
    return "".join([*pieces, text[end:]])


def _updated(shown: str, printed: str) -> str:
    """What was printed, but for lines with three dots that still agree."""
    before, after = shown.splitlines(keepends=True), printed.splitlines(keepends=True)
    if len(before) != len(after):
        return printed
    return "".join(old if "..." in old and agrees(old, new) else new for old, new in zip(before, after, strict=True))


def updated_json(shown: str, printed: str) -> str:
    """What was printed, laid out and left out as on the page, if it still has the same members."""
    try:
        values = _values(json.loads(shown), json.loads(printed))
        return JSON_VALUE.sub(lambda found: found[0] if found[1] else next(values) or found[0], shown)
    except (IndexError, KeyError, TypeError):
        return printed


def _values(shown: Any, printed: Any) -> Iterator[str | None]:
    """The values in the order of the page; None where it need not change."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            yield from [None] if name == "..." else _values(value, printed[name])
    elif isinstance(shown, list):
        for position, value in enumerate(shown):
            yield from [None] if value == "..." else _values(value, printed[position])
    elif _same_json(shown, printed):
        yield None
    else:
        digits = len(repr(shown).partition(".")[2])
        yield json.dumps(round(printed, digits) if isinstance(printed, float) else printed, ensure_ascii=False)


def _run_python(code: str, page: str, line: int, module: types.ModuleType) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        # Blank lines in front, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + code, page, "exec", dont_inherit=True), module.__dict__)
    return _trimmed(out.getvalue())


def _run_shell(code: str) -> str:
    printed = ""
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("tastespace "):  # In this process: another one would import everything again.
            ran = tastespace(*shlex.split(line, comments=True)[1:])
        else:
            ran = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        printed += ran.stdout
    return _trimmed(printed)


def _trimmed(printed: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def agrees(shown: str, printed: str, output_format: str | None = "text") -> bool:
    """Whether a page shows what was printed, but for what it leaves out by three dots."""
    if output_format == "json":
        return _same_json(json.loads(shown), json.loads(printed))
    words = re.escape(SPACING.sub(r"\1", NUMBER.sub("\0", shown)))
    words = words.replace(re.escape("...\n"), "(?:.*\n)*?").replace(re.escape("..."), ".*?")
    found = re.fullmatch(words.replace("\0", f"({NUMBER.pattern})"), SPACING.sub(r"\1", printed))
    return found is not None and all(map(_close, NUMBER.findall(shown), found.groups()))


def _close(shown: str, printed: str) -> bool:
    """Whether two numbers are the same to a few units of the last digit: other processors round otherwise."""
    digits = len(shown.split("e")[0].partition(".")[2])
    return "e" in shown + printed or math.isclose(float(shown), float(printed), rel_tol=1e-3, abs_tol=2.5 * 10**-digits)


def _same_json(shown: Any, printed: Any) -> bool:
    if shown == "...":
        return True
    if isinstance(shown, dict):
        names = set(shown) - {"..."}
        whole = names <= set(printed) if "..." in shown else names == set(printed)
        return whole and all(_same_json(shown[name], printed[name]) for name in names)
    if isinstance(shown, list):
        some = shown[:-1] if shown[-1:] == ["..."] else shown
        long_enough = len(printed) >= len(some) if some is not shown else len(printed) == len(some)
        return long_enough and all(map(_same_json, some, printed))
    if isinstance(shown, float) and isinstance(printed, float):
        return _close(repr(shown), repr(printed))
    return bool(shown == printed)


@contextlib.contextmanager
def fits_remembered() -> Iterator[None]:
    """Fit what was fitted before on an earlier page only once: the same seed gives the same bytes."""
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    fit: Callable[..., ts.Recommender] = ts.Recommender.fit

    def remembered(self: ts.Recommender, observed: ts.Ratings, **options: Any) -> ts.Recommender:
        if options or self.seed is None or not isinstance(observed, ts.Ratings):
            return fit(self, observed, **options)
        key = (repr(self), _digest(observed))
        if key not in known:
            before = set(vars(self))
            fit(self, observed)
            known[key] = {name: value for name, value in vars(self).items() if name not in before}
        vars(self).update(known[key])
        return self

    with mock.patch.object(ts.Recommender, "fit", remembered):
        yield


def _digest(ratings: ts.Ratings) -> str:
    titles, attributes = ratings.item_titles, ratings.item_attributes
    parts = [ratings.to_polars().write_csv(), titles is not None and titles.to_list()]
    parts += [attributes is not None and attributes.write_json(), ratings.item_features, ratings.user_features]
    parts += [ratings.declared_kind, ratings.merged, ratings.rejected]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def main(names: list[str]) -> None:
    with fits_remembered():
        for page in names or pages():
            with tempfile.TemporaryDirectory() as folder:
                write_files(Path(folder))
                try:
                    current = rerun(page, Path(folder))
                except Exception as error:  # The other pages can be brought up to date all the same.
                    sys.stdout.write(f"FAILED {page}: {error!r}\n")
                    continue
            path = ROOT / page
            lines = path.read_text().splitlines(), current.splitlines()
            sys.stdout.writelines(f"{line}\n" for line in difflib.unified_diff(*lines, page, page, lineterm="", n=0))
            path.write_text(current)


if __name__ == "__main__":
    main(sys.argv[1:])
