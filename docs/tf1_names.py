"""Writes the table of what `unspool.tf1` has, by module, into docs/tf1.md.

python docs/tf1_names.py
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from unspool import tf1

PAGE = Path(__file__).parent / "tf1.md"
TABLE = re.compile(r"(<!-- names -->\n).*?(<!-- /names -->)", re.DOTALL)
"""Where the page has the table."""


def table() -> str:
    """A row for each module that has names of its own, beside modules; of two paths the shorter one comes first."""
    paths: dict[int, list[str]] = {}
    every = sorted(tf1.namespace.modules().items(), key=lambda each: (each[0].count("."), each[0]))
    for path, module in every:
        paths.setdefault(id(module), []).append(f"`{f'tf.{path}'.rstrip('.')}`")
    modules = {id(module): module for _, module in every}
    rows = ["| module | names |", "|---|---|"]
    for key in sorted(paths, key=lambda key: paths[key][0].strip("`")):
        names = ", ".join(f"`{each}`" for each in sorted(_own(modules[key]), key=lambda each: (each.lower(), each)))
        if names:
            rows.append(f"| {' = '.join(paths[key])} | {names} |")
    return "\n".join(rows) + "\n"


def _own(module: ModuleType) -> set[str]:
    """Its names, without modules; those that wait to be asked for may need something that is not installed."""
    there = {each for each in module.__all__ if not isinstance(getattr(module, each), ModuleType)}
    return there | {each for each in getattr(module, "LATER", ()) if not each.islower()}


def refreshed(page: str) -> str:
    """The page with the table as it is now."""
    assert TABLE.search(page), "the page has no place for the table"
    return TABLE.sub(lambda found: f"{found[1]}\n{table()}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))
