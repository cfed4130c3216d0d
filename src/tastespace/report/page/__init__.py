"""The files of the web page and of the report: our own HTML, CSS and JavaScript, and Plotly's from its package.

Begin with `index.html` and `main.js`. This file puts them together, and imports nothing but errors.
"""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec

from tastespace.errors import MissingExtraError

# In the order in which they are loaded: each may use those before it.
PARTS = ("api.js", "words.js", "graphic.js", "parts.js", "items.js", "cards.js", "canvas.js", "figures.js", "story.js")
VIEWS = ("recommendations.js", "person.js", "map.js", "model.js", "main.js")
STYLE, OLD_STYLE, ICON, INDEX, REPORT = "style.css", "old.css", "icon.svg", "index.html", "report.js"
PLOTLY = "plotly.min.js"


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


def read_plotly() -> bytes:
    """Plotly's JavaScript, which comes with the installed package: no page loads anything from another site."""
    if find_spec("plotly") is None:
        raise MissingExtraError("drawing figures", "plot")
    return (resources.files("plotly") / "package_data" / PLOTLY).read_bytes()
