"""Draws internals.svg: the rooms of the engine that a call goes through, the first time and after that."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

BLUE, PALE, ORANGE, GREY, INK = "#2f6fb5", "#9ec9f0", "#e2813b", "#eeeeee", "#30363d"
WIDE, TALL = 2.9, 1.15

ROOMS: dict[str, tuple[float, float, str, str]] = {
    "loops": (0, 2, "loops/", "arguments checked,\na Request"),
    "run": (3.6, 2, "run.py", "the door: plan,\nor plain loop"),
    "cache": (7.2, 2, "plans/", "cache, fast path;\nguards/ say if it holds"),
    "trace": (7.2, 4.4, "trace/", "step and adjoint\nas one graph"),
    "rows": (10.8, 4.4, "rows/", "proof that rows\ndo not meet"),
    "partition": (14.4, 4.4, "partition/", "before, core, after;\nwhat backward keeps"),
    "emit": (18.0, 4.4, "emit/", "core as C++, CUDA\ngraph or Python (ir/)"),
    "forward": (10.8, 2, "execute/", "forward: chunks,\nresiduals put aside"),
    "backward": (14.4, 2, "execute/", "backward: chunks,\nlast one first"),
    "plain": (3.6, -0.2, "execute/plain.py", "step by step, by\nordinary autograd"),
    "explain": (7.2, -0.2, "explain/", "the plan as text,\nHTML, picture"),
}
"""Each room: its place, its name, what happens in it."""

FIRST = [("cache", "trace"), ("trace", "rows"), ("rows", "partition"), ("partition", "emit")]
EVERY = [("loops", "run"), ("run", "cache"), ("cache", "forward"), ("forward", "backward")]
ELSE = [("run", "plain"), ("cache", "explain")]


def draw(axes: plt.Axes) -> None:
    """Rooms as boxes, ways as arrows."""
    first = {name for way in FIRST for name in way} - {"cache"}
    other = {"plain", "explain"}
    for name, (x, y, head, text) in ROOMS.items():
        colour = ORANGE if name in first else GREY if name in other else BLUE
        ink = INK if name in other else "white"
        axes.add_patch(
            FancyBboxPatch((x, y), WIDE, TALL, boxstyle="round,pad=0,rounding_size=0.14", fc=colour, ec="none")
        )
        axes.text(x + WIDE / 2, y + TALL - 0.16, head, ha="center", va="top", color=ink, fontsize=10, fontweight="bold")
        axes.text(x + WIDE / 2, y + 0.12, text, ha="center", va="bottom", color=ink, fontsize=8.5)
    for ways, colour in ((EVERY, BLUE), (FIRST, ORANGE), (ELSE, "#8a8a8a")):
        for one, other_end in ways:
            arrow(axes, one, other_end, colour)
    axes.plot([19.45, 19.45, 12.25, 12.25], [4.4, 3.75, 3.75, 3.35], color=ORANGE, lw=1.6)
    axes.annotate("", (12.25, 2 + TALL), (12.25, 3.4), arrowprops=dict(arrowstyle="-|>", color=ORANGE, lw=1.6))
    axes.text(7.2, 5.85, "only the first time: 0.2 to 1 s", color=ORANGE, fontsize=10.5, fontweight="bold")
    axes.text(0, 3.35, "every call", color=BLUE, fontsize=10.5, fontweight="bold")
    axes.set_xlim(-0.2, 21.1)
    axes.set_ylim(-0.4, 6.3)
    axes.set_aspect("equal")
    axes.axis("off")


def arrow(axes: plt.Axes, one: str, other: str, colour: str) -> None:
    """From the side of one room to that of another."""
    (x, y, *_), (to_x, to_y, *_) = ROOMS[one], ROOMS[other]
    if y == to_y:
        start, end = (x + WIDE, y + TALL / 2), (to_x, to_y + TALL / 2)
    elif y < to_y:
        start, end = (x + WIDE / 2, y + TALL), (to_x + WIDE / 2, to_y)
    else:
        start, end = (x + WIDE / 2, y), (to_x + WIDE / 2, to_y + TALL)
    axes.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=colour, lw=1.6, shrinkA=0, shrinkB=1))


def main() -> None:
    """Writes the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "unspool", "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(figsize=(13, 4.2))
    draw(axes)
    figure.savefig(Path(__file__).with_suffix(".svg"), bbox_inches="tight", facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    main()
