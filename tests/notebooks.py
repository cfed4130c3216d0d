"""Tutorials as notebooks: `python tests/notebooks.py` writes those in examples/ from the pages in docs/tutorials.

Prose and code are those of the pages, and outputs are what the pages show, which tests compare with what is printed.
What is for a terminal stays text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pages import BLOCK, ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
EXAMPLES = ROOT / "examples"
# Pages that begin with the files of the first one.
FILES = """\
import polars as pl

import tastespace as ts

demo = ts.dataset("movielens-demo")
demo.to_polars().write_csv("ratings.csv")
films = demo.item_attributes.with_columns(pl.col("genres").list.join("|"), item=demo.items.ids, title=demo.item_titles)
films.select("item", "title", "genres").write_csv("movies.csv")
"""


def notebooks() -> dict[Path, str]:
    """The text of each notebook, by its file."""
    return {
        EXAMPLES / f"{page.stem.replace('-', '_')}.ipynb": notebook(page.read_text())
        for page in sorted(TUTORIALS.glob("*.md"))
    }


def notebook(page: str) -> str:
    """A page as a notebook."""
    cells: list[dict[str, Any]] = []
    end = 0
    if '"ratings.csv"' in page and 'write_csv("ratings.csv")' not in page:
        cells.append(_code(FILES, None))
    for block in BLOCK.finditer(page):
        if block["language"] == "python" and block["mark"] != "not run":
            _add_prose(cells, page[end : block.start()])
            cells.append(_code(block["code"], block["output"]))
            end = block.end()
    _add_prose(cells, page[end:])
    if cells[0]["cell_type"] == "code":  # The title comes first.
        cells[:2] = cells[1::-1]
    made = [{"id": f"cell-{place}", **cell} for place, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _add_prose(cells: list[dict[str, Any]], text: str) -> None:
    # Links of the page lead from its folder.
    plain = re.sub(r"(?<=\]\()(?!https?:|#)([^)]+)(?=\))", lambda link: _from_examples(link[1]), text.strip())
    if plain:
        cells.append({"cell_type": "markdown", "metadata": {}, "source": plain.splitlines(keepends=True)})


def _from_examples(link: str) -> str:
    parts = ["docs", "tutorials", *link.split("/")]
    while ".." in parts:
        place = parts.index("..")
        del parts[place - 1 : place + 1]
    return "/".join(["..", *parts])


def _code(code: str, output: str | None) -> dict[str, Any]:
    outputs = []
    if output is not None:
        outputs.append({"name": "stdout", "output_type": "stream", "text": output.splitlines(keepends=True)})
    source = code.rstrip().splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs, "source": source}


if __name__ == "__main__":
    for path, text in notebooks().items():
        path.write_text(text)
