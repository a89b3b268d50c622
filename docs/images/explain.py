"""Draws explain.svg, and writes what `explain` says of the cell of docs/explain.md below its code there.

python docs/images/explain.py
"""

from __future__ import annotations

import io
import linecache
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "explain.md"
PICTURE = Path(__file__).with_suffix(".svg")
CODE = re.compile(r"```python\n((?:(?!```).)*?unspool\.explain\(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
"""The code that explains a cell, and the text that it prints."""


def explained(page: str) -> Any:
    """The explanation that the page's code makes."""
    found = CODE.search(page)
    assert found is not None, "the page explains no cell"
    code, name, names = found[1], "tagger.py", dict[str, Any]()
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # so that lines have their text
    with redirect_stdout(io.StringIO()):
        exec(compile(code, name, "exec"), names)
    return names["explanation"]


def refreshed(page: str, text: str) -> str:
    """The page with that text."""
    return CODE.sub(lambda found: f"```python\n{found[1]}```\n\n```\n{text}\n```\n", page)


def main() -> None:
    """Writes both."""
    page = PAGE.read_text()
    explanation = explained(page)
    PAGE.write_text(refreshed(page, str(explanation)))
    PICTURE.write_text(explanation.svg() + "\n")


if __name__ == "__main__":
    main()
