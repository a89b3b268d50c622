"""Draws lengths.svg: what `dynamic_rnn` computes for sequences of different lengths."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

LENGTHS = [10, 4, 0, 7]
STEPS = 10
INPUT, OUTPUT, STATE, GREY, INK = "#9ec9f0", "#2f6fb5", "#e2813b", "#eeeeee", "#30363d"


def box(axes: plt.Axes, x: float, y: float, colour: str, text: str = "", ink: str = "white") -> None:
    """One step of one row."""
    axes.add_patch(FancyBboxPatch((x, y), 0.8, 0.7, boxstyle="round,pad=0,rounding_size=0.12", fc=colour, ec="none"))
    axes.text(x + 0.4, y + 0.33, text, ha="center", va="center", color=ink, fontsize=9)


def draw(axes: plt.Axes) -> None:
    """Inputs on the left, outputs in the middle, final states on the right."""
    outputs, states = STEPS + 2.2, 2 * STEPS + 3.2
    for row, length in enumerate(LENGTHS):
        y = len(LENGTHS) - row
        axes.text(-0.5, y + 0.33, f"row {row}, length {length}", ha="right", va="center", color=INK, fontsize=10)
        for step in range(STEPS):
            live = step < length
            box(axes, step, y, INPUT if live else GREY, f"x{step}" if live else "?", INK if live else "#b0b0b0")
            last = step == length - 1
            colour = STATE if last else OUTPUT if live else GREY
            box(axes, outputs + step, y, colour, f"y{step}" if live else "0", "white" if live else "#8a8a8a")
        box(axes, states, y, STATE, f"s{length}", "white")
    top = len(LENGTHS) + 1.05
    heads = [(0, "inputs: padding is never looked at"), (outputs, "outputs: zero past the length"), (states, "state")]
    for x, text in heads:
        axes.text(x, top, text, ha="left", va="bottom", color=INK, fontsize=11, fontweight="bold")
    for step in (0, STEPS - 1):
        axes.text(step + 0.4, 0.75, f"t = {step}", ha="center", va="top", color=INK, fontsize=9)
    axes.annotate("", (outputs - 0.3, 2.9), (STEPS + 0.1, 2.9), arrowprops=dict(arrowstyle="-|>", color=INK, lw=1.5))
    axes.text((STEPS + outputs) / 2 - 0.1, 3.1, "cell", ha="center", va="bottom", color=INK, fontsize=10)
    note = "Each final state is the one after the row's own last step; a row of length 0 keeps its initial state, s0."
    axes.text(outputs, 0.75, note, ha="left", va="top", color=INK, fontsize=9, wrap=True)
    axes.set_xlim(-4.2, states + 2)
    axes.set_ylim(0.1, len(LENGTHS) + 1.6)
    axes.set_aspect("equal")
    axes.axis("off")


def main() -> None:
    """Writes the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "unspool", "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(figsize=(13, 3.2))
    draw(axes)
    figure.savefig(Path(__file__).with_suffix(".svg"), bbox_inches="tight", facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    main()
