"""Draw the pictures of a page of the documentation again: run its Python where the pictures are.

    python benchmarks/page_pictures.py docs/contributing/samplers.md

For pages whose blocks save the very files that they show. Nothing is measured.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main(page: Path) -> None:
    code = "\n".join(BLOCK.findall(page.read_text()))
    os.chdir(IMAGES)
    exec(compile(code, str(page), "exec"), {"__name__": "page"})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
