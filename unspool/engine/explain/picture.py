"""A picture of a plan: the chain of steps as it is written, and folded into before, core and after."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from unspool.engine.explain.units import counted

if TYPE_CHECKING:
    from unspool.engine.explain.explanation import Direction, Explanation

WIDTH, MARGIN, LEFT, RIGHT = 980, 28, 242, 952
"""The width of the picture, where words begin, and where what is drawn begins and ends."""
INK, MUTED, RULE = "#24292f", "#57606a", "#d0d7de"
COLOURS = {
    "before": ("#dcebfa", "#2f6fb5", "#1d4f86"),
    "core": ("#fde3cd", "#d9752c", "#8f4a12"),
    "after": ("#daf0e5", "#2f8f69", "#1a6347"),
    "step": ("#f0f2f5", "#8c959f", "#57606a"),
}
"""Fill, border and ink of each part."""
AROUND_CORE = "#fff6ee"
SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LETTER = 7.6
"""The width of a letter of code, of which all are as wide."""
NEEDS = {
    "before": "needs the input alone",
    "core": "takes the state, makes the next",
    "after": "no later step needs it",
    "step": "the whole step",
}


def draw(explanation: Explanation) -> str:
    """The picture as SVG."""
    canvas, extent, forward = Canvas(), explanation.extent, explanation.forward
    what = f"{counted(extent.batch_size, 'sequence')} of up to {counted(extent.steps, 'step')}"
    canvas.words(MARGIN, 38, (explanation.cell, f'font-weight="700" font-size="19" fill="{INK}"'), (what, ""))
    if forward is None:
        _written(canvas, explanation, ["step"])
        canvas.y += 10
        canvas.text(MARGIN, canvas.y, "The plain loop runs it just so, one call of the cell a step. Why:", weight=600)
        for line in textwrap.wrap(str(explanation.reason or ""), 125):
            canvas.y += 20
            canvas.text(MARGIN, canvas.y, line, colour=MUTED)
        canvas.y += 24
        return canvas.svg()
    _written(canvas, explanation, [part for part in ("before", "core", "after") if getattr(forward, part)])
    _folded(canvas, explanation, forward, backward=False)
    if explanation.backward is not None:
        _folded(canvas, explanation, explanation.backward, backward=True)
    return canvas.svg()


@dataclass
class Canvas:
    """What is drawn, and how far down."""

    y: float = 58
    pieces: list[str] = field(default_factory=list[str])

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        border: str,
        *,
        round: int = 6,
        dashed: bool = False,
    ) -> None:
        """A box with round corners."""
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self.pieces.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round}" fill="{fill}" '
            f'stroke="{border}"{dashes}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 12.5,
        colour: str = INK,
        weight: int = 400,
        anchor: str = "start",
        family: str = SANS,
    ) -> None:
        """Words; `y` is their base line."""
        self.pieces.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{family}" font-size="{size:g}" font-weight="{weight}" '
            f'fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def words(self, x: float, y: float, *spans: tuple[str, str]) -> None:
        """Words in different looks, one after another."""
        inside = "".join(
            f'<tspan dx="{9 * bool(k)}" {look}>{escape(each)}</tspan>' for k, (each, look) in enumerate(spans)
        )
        self.pieces.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{SANS}" font-size="13.5" fill="{MUTED}">{inside}</text>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float, colour: str = MUTED, width: float = 1.5) -> None:
        """A straight arrow, level or upright."""
        across, down = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        back_x, back_y = to_x - 6 * across, to_y - 6 * down
        corners = [(to_x, to_y), (back_x - 4 * down, back_y - 4 * across), (back_x + 4 * down, back_y + 4 * across)]
        points = " ".join(f"{a:g},{b:g}" for a, b in corners)
        self.pieces.append(
            f'<path d="M{x:g} {y:g}L{back_x:g} {back_y:g}" stroke="{colour}" stroke-width="{width:g}"/>'
            f'<polygon points="{points}" fill="{colour}"/>'
        )

    def dots(self, x: float, y: float, colour: str) -> None:
        """Something that is left out, around `x`."""
        self.pieces += [f'<circle cx="{x + k:g}" cy="{y:g}" r="2" fill="{colour}"/>' for k in (-8, 0, 8)]

    def heading(self, words: str, rest: str) -> None:
        """The head of a panel, with a rule above it."""
        self.pieces.append(f'<path d="M{MARGIN} {self.y:g}H{RIGHT}" stroke="{RULE}"/>')
        self.words(MARGIN, self.y + 27, (words, f'font-weight="700" fill="{INK}"'), (rest, ""))
        self.y += 27

    def svg(self) -> str:
        """Everything that was drawn."""
        size = f'width="{WIDTH}" height="{self.y:g}" viewBox="0 0 {WIDTH} {self.y:g}"'
        background = f'<rect width="{WIDTH}" height="{self.y:g}" fill="#ffffff"/>'
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', background, *self.pieces, "</svg>"])


# -- the chain of whole steps -----------------------------------------------------------------------------------------


def _written(canvas: Canvas, explanation: Explanation, parts: list[str]) -> None:
    steps = explanation.extent.steps
    canvas.heading("As it is written", f"{counted(steps, 'step')}, each of which waits for all of the one before it")
    top, band, wide = canvas.y + 42, 25, 66
    height = band * len(parts) + 7
    middle, half = top + height / 2, wide / 2
    places = _places(steps, 7, LEFT, RIGHT, wide)
    for row, part in enumerate(parts):
        canvas.text(MARGIN, top + band * row + 20, NEEDS[part], colour=COLOURS[part][2])
    for number, x in places:
        if number is None:
            canvas.dots(x + half, middle, MUTED)
            continue
        canvas.text(x + half, top - 21, f"x{_small(number)}", colour=MUTED, anchor="middle")
        canvas.arrow(x + half, top - 16, x + half, top - 1)
        canvas.box(x, top, wide, height, "#ffffff", COLOURS["step"][1])
        for row, part in enumerate(parts):
            canvas.box(x + 4, top + 4.5 + band * row, wide - 8, band - 2, *COLOURS[part][:2], round=3)
        canvas.arrow(x + half, top + height + 1, x + half, top + height + 16)
        canvas.text(x + half, top + height + 30, f"y{_small(number)}", colour=MUTED, anchor="middle")
    for (_, x), (_, following) in pairwise(places):
        canvas.arrow(x + wide + 3, middle, following - 3, middle, INK, 1.8)
    canvas.y = top + height + 50


# -- the parts of a chunk ---------------------------------------------------------------------------------------------


def _folded(canvas: Canvas, explanation: Explanation, direction: Direction, *, backward: bool) -> None:
    extent = explanation.extent
    steps = extent.chunk
    head = "How its gradients run" if backward else "How it runs"
    chunks = f"in {extent.chunks} chunks of up to {counted(steps, 'step')}" if extent.chunks > 1 else "in one chunk"
    last_first = ", the last first" if backward and extent.chunks > 1 else ""
    canvas.heading(head, f"{chunks}{last_first}; only the core is a chain")
    canvas.y += 18
    at_once = f"{counted(steps, 'step')} at once"
    _bar(canvas, direction, "before", [at_once, "local derivatives" if backward else NEEDS["before"]])
    places = _places(steps, 8, LEFT + 44, RIGHT - 44, 46)
    down, top = [x + 23 for number, x in places if number is not None], canvas.y
    canvas.y += 20
    _chain(canvas, direction, places, backward=backward)
    for x in down:
        if direction.before:
            canvas.arrow(x, top + 2, x, top + 28, COLOURS["before"][1])
        if direction.after:
            canvas.arrow(x, canvas.y + 2, x, canvas.y + 19, COLOURS["core"][1])
    canvas.y += 20
    _bar(canvas, direction, "after", [at_once, "gradients of weights, inputs" if backward else NEEDS["after"]])
    canvas.y += 26


def _bar(canvas: Canvas, direction: Direction, part: str, words: list[str]) -> None:
    """A part that runs for all steps of a chunk at once."""
    count: int = getattr(direction, part)
    height = 50 if count else 26
    _label(canvas, part, count, words if count else [])
    fill, border, _ = COLOURS[part] if count else ("#ffffff", RULE, "")
    canvas.box(LEFT, canvas.y, RIGHT - LEFT, height, fill, border, dashed=not count)
    if count:
        _products(canvas, direction, part, canvas.y + height / 2, "")
    canvas.y += height


def _chain(canvas: Canvas, direction: Direction, places: list[tuple[int | None, float]], *, backward: bool) -> None:
    """The core: a small box a step, each of which waits for the one beside it."""
    waits = "backwards, step by step" if backward else "step by step"
    _label(canvas, "core", direction.core, [waits, "carries the state's gradient" if backward else NEEDS["core"]])
    fill, border, ink = COLOURS["core"]
    canvas.box(LEFT, canvas.y, RIGHT - LEFT, 86, AROUND_CORE, border, dashed=True)
    top = canvas.y + 10
    middle = top + 17
    for number, x in places:
        if number is None:
            canvas.dots(x + 23, middle, border)
        else:
            canvas.box(x, top, 46, 34, fill, border)
            canvas.text(x + 23, middle + 4.5, str(number), anchor="middle", colour=ink, weight=600)
    ends = [LEFT - 14, *(each for _, x in places for each in (x, x + 46)), RIGHT + 14]
    for start, end in zip(ends[::2], ends[1::2], strict=True):
        tail, tip = (end - 3, start + 3) if backward else (start + 3, end - 3)
        canvas.arrow(tail, middle, tip, middle, border, 2.2)
    _products(canvas, direction, "core", canvas.y + 65, "each: ")
    canvas.y += 86


def _label(canvas: Canvas, part: str, count: int, words: list[str]) -> None:
    """The name of a part, and what there is to know of it, to its left."""
    how_many = counted(count, "operation") if count else "nothing"
    look = f'font-weight="700" font-size="15" fill="{COLOURS[part][2]}"'
    canvas.words(MARGIN, canvas.y + 16, (part, look), (how_many, f'font-size="12.5" fill="{COLOURS[part][2]}"'))
    for number, line in enumerate(words):
        canvas.text(MARGIN, canvas.y + 33 + 16 * number, line, colour=MUTED, size=12)


def _products(canvas: Canvas, direction: Direction, part: str, middle: float, before: str) -> None:
    """The products of a part side by side, as many as there is room for."""
    _, border, ink = COLOURS[part]
    shapes = Counter(
        each.shapes.replace(" x ", " \N{MULTIPLICATION SIGN} ") for each in direction.products if each.part == part
    )
    labels = [f"{count} of {each}" if count > 1 else each for each, count in shapes.items()]
    room, shown = RIGHT - LEFT - 120, list[str]()
    for label in labels:
        if not shown or sum(map(_width, [*shown, label])) <= room:
            shown.append(label)
    rest = f"and {len(labels) - len(shown)} more" if len(shown) < len(labels) else ""
    before = before if labels else "no matrix product"
    x = (LEFT + RIGHT - sum(map(_width, shown)) - LETTER * (len(before) + len(rest))) / 2
    for words, boxed in [(before, False), *((label, True) for label in shown), (rest, False)]:
        width = _width(words) if boxed else LETTER * len(words)
        if boxed:
            canvas.box(x + 4, middle - 13, width - 8, 26, "#ffffff", border, round=13)
        if words:
            canvas.text(x + width / 2, middle + 4.5, words, anchor="middle", colour=ink, family=MONO if boxed else SANS)
        x += width


def _width(label: str) -> float:
    """The room that a product takes."""
    return LETTER * len(label) + 32


def _places(steps: int, most: int, left: float, right: float, width: float) -> list[tuple[int | None, float]]:
    """The steps that are drawn, and where; None stands for those left out."""
    first: list[int | None] = list(range(1, min(steps, most) + 1))
    numbers = first if steps <= most else [*first[: most - 2], None, steps]
    if len(numbers) == 1:
        return [(1, (left + right - width) / 2)]
    gap = (right - left - width) / (len(numbers) - 1)
    return [(number, left + k * gap) for k, number in enumerate(numbers)]


def _small(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
