"""An explanation as text for a terminal and as HTML for a notebook: the same paragraphs and tables in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from rich.box import Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from unspool.engine.explain.units import counted, in_bytes, in_flops
from unspool.engine.ir.products import RUNS

if TYPE_CHECKING:
    from unspool.engine.explain.explanation import Explanation, Kept, Line

WIDTH, OPERATIONS = 100, 16
"""The width of the text in characters, and of a column with operations."""


@dataclass(frozen=True)
class Table:
    """A table. Columns whose heads begin with `>` are aligned to the right."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


# -- what is said -----------------------------------------------------------------------------------------------------


def contents(explanation: Explanation) -> Iterator[str | Table]:
    """The paragraphs and tables, in order."""
    yield _headline(explanation)
    if not explanation.planned:
        yield f"Why: {explanation.reason}."
        if explanation.advice:
            yield f"What to change: {explanation.advice}"
        return
    yield _parts(explanation)
    yield _lines(explanation)
    yield _products(explanation)
    if explanation.backward is None:
        yield "No gradient is wanted: nothing is kept, and there is no backward."
    else:
        yield f"The core of backward, at every step: {_operations(explanation.backward.operations)}."
        yield _memory(explanation)
    yield _emitter(explanation)


def _headline(explanation: Explanation) -> str:
    extent = explanation.extent
    what = f"{counted(extent.batch_size, 'sequence')} of up to {counted(extent.steps, 'step')} on {extent.device}"
    if not explanation.planned:
        return f"{explanation.cell} runs in the plain loop, one call of the cell a step: {what}."
    chunks = f"{extent.chunks:,} chunks of up to {counted(extent.chunk, 'step')}" if extent.chunks > 1 else "one chunk"
    return f"{explanation.cell} runs by plan: {what}, {counted(extent.rows, 'row')} in all, in {chunks}."


def _parts(explanation: Explanation) -> Table:
    directions = {"forward": explanation.forward, "forward again": explanation.again, "backward": explanation.backward}
    found = {name: each for name, each in directions.items() if each is not None}
    drawn = any(each.draws for each in found.values())
    heads = [f">{part}\n{often}" for part, often in RUNS.items()]
    rows = [
        (name, *([str(each.draws)] if drawn else []), *(str(getattr(each, part)) for part in RUNS))
        for name, each in found.items()
    ]
    return Table("Instructions", ("", *([">drawn\nahead"] if drawn else []), *heads), tuple(rows))


def _lines(explanation: Explanation) -> Table:
    lines = explanation.lines
    files = list(dict.fromkeys(line.file for line in lines))
    once = any(line.invariant for line in lines)

    def row(line: Line) -> tuple[str, ...]:
        place = str(line.number) if len(files) == 1 else f"{line.file}:{line.number}"
        parts = [*([line.invariant] if once else []), line.before, line.core, line.after]
        return (place, line.text or "(no source)", *map(_operations, parts))

    heads = (">", "line", *(["once"] if once else []), "before", "in the loop", "after")
    return Table(f"The lines of {', '.join(files)}, and when their operations run", heads, tuple(map(row, lines)))


def _products(explanation: Explanation) -> Table:
    rows = tuple(
        (
            each.direction,
            each.part,
            each.shapes,
            each.runs,
            "-" if each.row_flops is None else in_flops(each.row_flops),
            in_flops(each.flops),
        )
        for each in explanation.products
    )
    if not rows:
        return Table("Matrix products: none", (), ())
    total = ("", "", "", "", "", in_flops(sum(each.flops for each in explanation.products)))
    note = "rows: those of one step in the core, of all the steps of a chunk elsewhere."
    return Table("Matrix products", ("", "part", "shapes", "runs", ">a row", ">this call"), (*rows, total), note)


def _memory(explanation: Explanation) -> Table:
    memory = explanation.memory
    assert memory is not None

    def row(kept: Kept) -> tuple[str, ...]:
        name = f"{kept.policy!r}{' *' if kept is memory.chosen else ''}"
        if kept.reason is not None:
            return (name, f"no plan: {kept.reason}", "", "")
        return (name, kept.what, in_bytes(kept.row_bytes), in_bytes(kept.bytes))

    policies = (memory.chosen, *memory.others)
    where = " It waits in host memory." if memory.swap else ""
    again = "".join(
        f" {each.policy!r} holds up to {in_bytes(each.again)} more while backward runs the steps between again."
        for each in policies
        if each.again
    )
    return Table(
        "Kept for backward, besides inputs, outputs and weights",
        ("policy", "keeps", ">a row and step", ">this call"),
        tuple(map(row, policies)),
        f"* chosen: {memory.why}.{where}{again}",
    )


def _emitter(explanation: Explanation) -> str:
    forward = explanation.forward
    assert forward is not None
    others = [f" Not {name}: {reason}." for name, reason in forward.passed_over]
    return f"Emitter of the core: {forward.emitter}.{''.join(others)}"


def _operations(names: Sequence[str]) -> str:
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in Counter(names).items())


# -- how it looks -----------------------------------------------------------------------------------------------------

# One rule below the heads, in ASCII, for terminals and files that have nothing else.
RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def as_text(explanation: Explanation) -> str:
    """The explanation in a fixed width, without colours."""
    file = StringIO()
    console = Console(file=file, width=WIDTH, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(*as_rich(explanation), sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n")


def as_rich(explanation: Explanation) -> Iterator[RenderableType]:
    """The explanation for rich's consoles."""
    for number, each in enumerate(contents(explanation)):
        if number:
            yield Text()
        if isinstance(each, str):
            yield Text(each)
            continue
        yield Text(each.title, style="bold")
        if each.rows:
            yield _rich_table(each)
        if each.note:
            yield Padding(Text(each.note, style="dim"), (0, 1))


def _rich_table(table: Table) -> RichTable:
    rich = RichTable(box=RULED, show_edge=False, header_style="bold")
    for head in table.heads:
        right, narrow = head.startswith(">"), "line" in table.heads and not head.endswith(("line", ">"))
        rich.add_column(
            Text(head.removeprefix(">")),
            justify="right" if right else "left",
            overflow="fold",
            max_width=OPERATIONS if narrow else None,
        )
    for row in table.rows:
        rich.add_row(*map(Text, row))
    return rich


STYLE = """
.unspool { background: #fff; color: #24292f; padding: 12px 16px; font: 13px/1.45 system-ui, sans-serif; }
.unspool svg { max-width: 100%; height: auto; }
.unspool table { border-collapse: collapse; margin: 4px 0 14px; background: #fff; color: #24292f; }
.unspool caption { text-align: left; font-weight: 600; padding: 4px 0; color: #24292f; }
.unspool th, .unspool td { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; white-space: pre-wrap; }
.unspool th { border-bottom: 1px solid #8c959f; vertical-align: bottom; }
.unspool td { border-bottom: 1px solid #eaeef2; }
.unspool .right { text-align: right; }
"""


def as_html(explanation: Explanation) -> str:
    """The explanation as a piece of HTML that needs nothing else."""
    pieces = [f'<div class="unspool"><style>{STYLE}</style>', explanation.svg()]
    pieces += [
        f"<p>{escape(each)}</p>" if isinstance(each, str) else _html_table(each) for each in contents(explanation)
    ]
    return "\n".join([*pieces, "</div>"])


def _html_table(table: Table) -> str:
    sides = [' class="right"' if head.startswith(">") else "" for head in table.heads]
    heads = "".join(
        f"<th{side}>{escape(head.removeprefix('>'))}</th>" for head, side in zip(table.heads, sides, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<table><caption>{escape(table.title)}</caption><tr>{heads}</tr>{rows}</table>{note}"
