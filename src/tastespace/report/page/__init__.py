"""The files of the web page and of the report: our own HTML, CSS and JavaScript.

Begin with `index.html` and `main.js`. This file only puts them together.
"""

from __future__ import annotations

from importlib import resources

# In the order in which they are loaded: each may use those before it.
SHELL = ("api.js", "words.js", "graphic.js", "parts.js", "items.js", "main.js")
VIEWS = {  # loaded by main.js when they are opened
    "recommendations": ("recommendations.js",),
    "person": ("person.js",),
    "map": ("canvas.js", "map.js"),
    "model": ("story.js", "model.js"),
}
REPORT = (*SHELL[:-1], "canvas.js", "story.js", "report.js")
STYLE, ICON, INDEX = "style.css", "icon.svg", "index.html"
DOCS, DOCS_SCRIPT = "docs.html", "docs.js"  # the routes of the service
SCRIPTS = (*SHELL, *(name for names in VIEWS.values() for name in names))


def read(name: str) -> bytes:
    """One of our files."""
    return (resources.files(__name__) / name).read_bytes()


def document(head: str, body: str) -> str:
    """A complete HTML file."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}
</head>
<body>
{body}
</body>
</html>
"""
