"""Parts of the site that are made from the program when it is built: mkdocs calls the functions named `on_...`."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import typer

from tastespace.cli import main
from tastespace.cli.main import GROUPS, VERBS

VERB_TABLE = "<!-- verbs -->"
OPTIONS = re.compile(r"^<!-- options of (?P<verb>[\w -]+) -->$", re.MULTILINE)
READING = ("items", "users", "item-features", "user-features", "separator", "header", "duplicates", "bad-lines", "kind")
READING += ("threads", "json")


ABOUT = """# tastespace

> Bayesian recommender systems in Python: ratings, clicks, plays or purchases in, lists and predictions with calibrated
> uncertainty out. `import tastespace as ts; model = ts.fit("ratings.csv"); model.recommend(user_id)`. The command line
> is `tastespace`; `tastespace mcp MODEL` offers a fitted model to assistants.
"""
_sentences: dict[str, str] = {}  # the first sentence of each page, by its file


def on_post_build(config: Any, **_: Any) -> None:
    """Write llms.txt, the list of pages for language models (see llmstxt.org), in the order of the navigation."""
    Path(config["site_dir"], "llms.txt").write_text(ABOUT + "".join(_listed(config["nav"], 2)))


def _listed(entries: Any, level: int) -> list[str]:
    lines = []
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, str):
            page = target.removesuffix("index.md") if target.endswith("index.md") else target.removesuffix(".md") + "/"
            said = _sentences.get(target, "")
            lines.append(f"- [{title}]({page or './'}){': ' + said if said else ''}\n")
        else:
            lines += [f"\n{'#' * level} {title}\n\n", *_listed(target, level + 1)]
    return lines


def _first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph, without marks."""
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n", markdown))
    plain = next((part for part in paragraphs if part and part[0] not in "#|<`!-:"), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(plain.split()))
    return re.split(r"(?<=[.:]) ", plain)[0].rstrip(":")


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Put the tables of verbs and options in their places, and verbs that have no section at the end."""
    if page is not None:
        _sentences[page.file.src_uri] = _first_sentence(markdown)
    if VERB_TABLE in markdown:
        shown = {found["verb"] for found in OPTIONS.finditer(markdown)}
        markdown = markdown.replace(VERB_TABLE, verb_table())
        for verb in (verb for verb in commands() if verb not in shown):
            heading = f"## {verb}\n\n" if f"\n## {verb}\n" not in markdown else ""
            markdown += f"\n{heading}{_command(verb).help}\n\n<!-- options of {verb} -->\n"
    return OPTIONS.sub(lambda found: options_table(found["verb"]), markdown)


def verb_table() -> str:
    lines = (f"| [{verb}](#{verb}) | {sentence.rstrip('.')} |\n" for verb, sentence in (VERBS | GROUPS).items())
    return "| verb | what it does |\n|---|---|\n" + "".join(lines)


def commands() -> list[str]:
    """Every verb that is not hidden; of a group, its verbs."""
    found = [(verb, getattr(one, "commands", None)) for verb, one in _command("").commands.items() if not one.hidden]
    return [name for verb, inner in found for name in ([verb] if inner is None else [f"{verb} {one}" for one in inner])]


def options_table(verb: str) -> str:
    """A table of the options of a verb; how files are read is described once, at `fit`."""
    as_for_fit = [(one.opts, one.help) for one in _options("fit") if _is_shared(one.opts[0])]
    shared = [] if verb == "fit" else [one for one in _options(verb) if (one.opts, one.help) in as_for_fit]
    rows = [(_names([one]), _default(one), one.help) for one in _options(verb) if one not in shared]
    if shared:
        rows.append((_names(shared), "", "as for [fit](#fit)"))
    cells = [("option", "default", "meaning"), ("---",) * 3, *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |\n" for row in cells)


def _is_shared(option: str) -> bool:
    return option.endswith("-column") or option[2:] in READING


def _options(verb: str) -> list[Any]:
    return [one for one in _command(verb).params if one.param_type_name == "option" and not one.hidden]


def _command(verb: str) -> Any:
    command: Any = _program()
    for name in verb.split():
        command = command.commands[name]
    return command


@functools.cache
def _program() -> Any:
    return typer.main.get_command(main.app)


def _names(options: list[Any]) -> str:
    return ", ".join(f"`{name}`" for option in options for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    default = option.show_default if isinstance(option.show_default, str) else option.default
    return "" if default is None or default is False else str(default)
