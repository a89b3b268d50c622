"""Draws beam_search.svg: the search of beam_search.md, what it kept at each step and what it came from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import Circle

KEPT, ENDED, DROPPED, INK = "#2f6fb5", "#e2813b", "#c9d1d9", "#30363d"


def search() -> dict[str, Any]:
    """What the first block of the document computes, by name."""
    document = Path(__file__).parent.parent / "beam_search.md"
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)[0], names)
    return names


def draw(axes: plt.Axes) -> None:
    """A circle for each beam of each step, a line to its parent; what no sequence goes through is pale."""
    names = search()
    steps, letters = names["outputs"].beam_search_decoder_output, names["LETTERS"]
    ids, parents, probs = steps.predicted_ids[0].tolist(), steps.parent_ids[0].tolist(), steps.scores[0].exp().tolist()
    width, alive, kept = len(ids[0]), set(range(len(ids[0]))), []
    for step in reversed(range(len(ids))):
        kept.append(alive)
        alive = {parents[step][beam] for beam in alive}
    kept.reverse()
    place = {(-1, 0): (0.0, 0.0)}
    node(axes, 0.0, 0.0, letters[names["START"]], INK)
    for step in range(len(ids)):
        for beam in range(width):
            x, y = 1.6 * (step + 1), (width - 1) / 2 - beam
            place[step, beam] = x, y
            live = beam in kept[step]
            ended = ids[step][beam] == names["END"]
            from_x, from_y = place[step - 1, parents[step][beam]]
            axes.plot([from_x, x], [from_y, y], color=KEPT if live else DROPPED, lw=1.6, zorder=1)
            node(axes, x, y, letters[ids[step][beam]], DROPPED if not live else ENDED if ended else KEPT)
            axes.text(x, y - 0.3, f"{probs[step][beam]:.3g}", ha="center", va="top", color=INK, fontsize=8)
        axes.text(1.6 * (step + 1), width / 2, f"step {step}", ha="center", va="bottom", color=INK, fontsize=9)
    best = names["decoder"].n_best(names["outputs"], names["final_state"])
    for n, beam in enumerate(best.beams[0].tolist()):
        x, y = place[len(ids) - 1, beam]
        text = "".join(letters[token] for token in best.predicted_ids[0, n, : best.lengths[0, n]].tolist())
        axes.text(x + 0.45, y, text, ha="left", va="center", color=INK, fontsize=11, family="monospace")
    axes.set_xlim(-0.5, 1.6 * len(ids) + 1.6)
    axes.set_ylim(-width / 2 - 0.2, width / 2 + 0.4)
    axes.set_aspect("equal")
    axes.axis("off")


def node(axes: plt.Axes, x: float, y: float, letter: str, colour: str) -> None:
    """One token."""
    axes.add_patch(Circle((x, y), 0.24, fc=colour, ec="none", zorder=2))
    axes.text(x, y - 0.01, letter, ha="center", va="center", color="white", fontsize=11, fontweight="bold", zorder=3)


def main() -> None:
    """Writes the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "unspool", "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(figsize=(8.5, 3.2))
    draw(axes)
    figure.savefig(Path(__file__).with_suffix(".svg"), bbox_inches="tight", facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    main()
