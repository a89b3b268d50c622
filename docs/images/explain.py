"""Draws explain.svg, and writes what `explain` says of the README's own cell below its code in README.md.

python docs/images/explain.py
"""

from __future__ import annotations

import io
import linecache
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"
PICTURE = Path(__file__).with_suffix(".svg")
CODE = re.compile(r"```python\n((?:(?!```).)*?unspool\.explain\(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
"""The code that explains a cell, and the text that it prints."""


def explained(readme: str) -> Any:
    """The explanation that the README's code makes."""
    found = CODE.search(readme)
    assert found is not None, "README.md explains no cell"
    code, name, names = found[1], "tagger.py", dict[str, Any]()
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # so that lines have their text
    with redirect_stdout(io.StringIO()):
        exec(compile(code, name, "exec"), names)
    return names["explanation"]


def refreshed(readme: str, text: str) -> str:
    """The README with that text."""
    return CODE.sub(lambda found: f"```python\n{found[1]}```\n\n```\n{text}\n```\n", readme)


def main() -> None:
    """Writes both."""
    readme = README.read_text()
    explanation = explained(readme)
    README.write_text(refreshed(readme, str(explanation)))
    PICTURE.write_text(explanation.svg() + "\n")


if __name__ == "__main__":
    main()
