"""Writes docs/gallery.md, and draws the picture of each of its cells into the folder beside this script.

python -m docs.images.gallery

Words and equations are the docstrings', pictures what `explain` draws of a training step, speeds those of
benchmarks/results/gallery-cpu.json, if that is there: this measures nothing.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import torch

import unspool
from benchmarks.gallery import SHAPES, problem_of
from benchmarks.harness import Options
from unspool import gallery

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = Path(__file__).with_suffix("")
RESULTS = ROOT / "benchmarks" / "results" / "gallery-cpu.json"

FAMILIES = {
    "gated": "Gated cells",
    "linear": "Linear recurrences and state spaces",
    "exponential": "Exponential gates",
    "deep": "Deep transitions",
    "ordered": "Ordered and sparse updates",
    "continuous": "Continuous time",
    "dynamical": "Dynamical systems",
    "polynomial": "Polynomial memories",
    "memory": "Memories",
    "images": "Images",
    "spiking": "Spiking neurons",
    "latent": "Latent variables",
    "contrib.gates": "TensorFlow's gated cells",
    "contrib.coupled": "TensorFlow's coupled and normalised LSTMs",
    "contrib.blocks": "TensorFlow's fused cells",
    "contrib.frequency": "TensorFlow's time and frequency",
    "contrib.grid": "TensorFlow's grids",
    "contrib.images": "TensorFlow's images",
    "contrib.attention": "TensorFlow's attention",
}
"""The files of the gallery, in the order of the page, and their headings."""

INTRODUCTION = """# The gallery

Cells from papers, each written from its equations in a few lines, with its citation and the initialisation that was
published with it. They are an import of their own, and ordinary cells: `dynamic_rnn` runs them as it runs yours.

```python
import torch
import unspool
from unspool.gallery import MogrifierLSTMCell

cell = MogrifierLSTMCell(3, 8)
outputs, state = unspool.dynamic_rnn(cell, torch.randn(2, 5, 3), [5, 2], dtype=torch.float32)
```

Each has a test against a reference of a few lines in NumPy, and one of outputs, states and all gradients against the
plain loop (`tests/gallery`). What stands beside inputs, a time gap or a mask, is a second input. In equations `'` marks
what is new, `W x` and `x @ W` are products with matrices, `*` is one of elements; pictures are what
[`explain`](engine.md) draws of a training step.

The last families are the cells of TensorFlow 1's `tf.contrib`, with its arguments (`UGRNNCell(8, input_size=3)`), and
its names and layouts of weights. `unspool.gallery.contrib` has them too, and TensorFlow's forms of `ConvLSTMCell` and
`PhasedLSTMCell`.
"""


class Words(NamedTuple):
    """The parts of a cell's docstring."""

    what: str
    citation: str
    equations: str
    notes: list[str]


class Speed(NamedTuple):
    """What was measured of a cell."""

    ratios: dict[str, list[float]]
    """How long the Python loop takes, `dynamic_rnn` being 1: by shape, for one thread and for two."""
    first_s: float
    """The first call at the first of the shapes."""
    emitters: tuple[str, str]


def cells_of(family: str) -> list[type[Any]]:
    """The cells of a file, in its order."""
    module = importlib.import_module(f"unspool.gallery.{family}")
    found = [each for name, each in vars(module).items() if getattr(gallery, name, None) is each]
    return [each for each in found if getattr(each, "__module__", None) == module.__name__]


def words_of(cell: type[Any]) -> Words:
    """The docstring of a cell, up to its arguments."""
    text = (inspect.getdoc(cell) or "").partition("\nArgs:")[0].strip()
    first, *others = text.split("\n\n")
    found = re.fullmatch(r"(.*?) \((.*?\b\d{4}\b.*?)\)(.*)\.", " ".join(first.split()))
    assert found is not None, f"{cell.__name__} has no citation"
    equations = [each for each in others if each.startswith("    ")]
    notes = [" ".join(each.split()) for each in others if not each.startswith("    ")]
    return Words(found[1], found[2] + found[3], inspect.cleandoc("\n\n".join(equations)), notes)


def speeds_of(report: dict[str, Any]) -> dict[str, Speed]:
    """What a report of benchmarks/gallery.py says of each cell that was compared at all shapes."""
    cases, found = report["cases"], dict[str, Speed]()
    for name in gallery.__all__:
        titles = [[f"{name}, {shape}, {threads}" for threads in ("1 thread", "2 threads")] for shape in SHAPES]
        if all(title in cases and cases[title]["Python loop"]["ratio"] for both in titles for title in both):
            ratios = [[cases[title]["Python loop"]["ratio"] for title in both] for both in titles]
            ours = cases[titles[0][0]]["dynamic_rnn"]
            emitters = tuple(ours["about"].get(direction, "plain loop") for direction in ("forward", "backward"))
            found[name] = Speed(dict(zip(map(str, SHAPES), ratios, strict=True)), ours["first_ms"] / 1e3, emitters)
    return found


def about(report: dict[str, Any], speeds: dict[str, Speed]) -> str:
    """The speeds of all cells in a paragraph."""
    medians = list[str]()
    for shape in SHAPES:
        threads = zip(*(each.ratios[str(shape)] for each in speeds.values()), strict=True)
        one, two = (_number(statistics.median(each)) for each in threads)
        medians.append(f"{one}, {two} with {_named(shape)}")
    first = [each.first_s for each in speeds.values()]
    slow = [f"`{name}` ({', '.join(each.emitters)})" for name, each in speeds.items() if set(each.emitters) != {"c++"}]
    where, versions = f"../benchmarks/results/{RESULTS.name}", report["environment"]
    return f"""## How fast they are

Tables say how long training takes in a Python loop over the same step, forward and backward, `dynamic_rnn` being 1 in
the same run: on one thread, and on two ([measured]({where}) on {versions["device"]} with torch {versions["torch"]};
inputs are half as deep as there are units). The median of {len(speeds)} cells is {" and ".join(medians)}.
{f"All but {', '.join(slow)}" if slow else "All"} are compiled to C++, forwards and backwards. A first call with nothing
compiled beforehand takes {statistics.median(first):.1f} s (median), and {max(first):.1f} s at most.
"""


def measured() -> dict[str, Any] | None:
    """The report that is kept, if there is one."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else None


def page(report: dict[str, Any] | None) -> str:
    """The whole page, with what was measured."""
    speeds = speeds_of(report) if report else {}
    parts = [INTRODUCTION, *([about(report, speeds)] if report else [])]
    for family, heading in FAMILIES.items():
        intro = importlib.import_module(f"unspool.gallery.{family}").__doc__
        cells = cells_of(family)
        parts += [f"## {heading}\n", f"{_prose(' '.join(str(intro).split()))}\n", table(cells, speeds)]
        parts += [section(cell) for cell in cells]
    return "\n".join(parts)


def table(cells: list[type[Any]], speeds: dict[str, Speed]) -> str:
    """A row for each of the cells."""
    columns = [*map(_named, SHAPES), "first call"] if speeds else []
    lines = ["| " + " | ".join(["cell", "what it is", *columns]) + " |", "|---|---|" + "--:|" * len(columns)]
    for cell in cells:
        row = [f"`{cell.__name__}`", _prose(words_of(cell).what)]
        if speed := speeds.get(cell.__name__):
            row += [", ".join(map(_number, ratios)) for ratios in speed.ratios.values()]
            row.append(f"{speed.first_s:.1f} s")
        lines.append("| " + " | ".join([*row, *[""] * (2 + len(columns) - len(row))]) + " |")
    return "\n".join(lines) + "\n"


def section(cell: type[Any]) -> str:
    """A cell: where it is from, its equations, and how it runs."""
    name, words = cell.__name__, words_of(cell)
    file = "/".join(cell.__module__.split(".")[2:]) + ".py"
    lines = [
        f"### {name}",
        "",
        f"{_prose(words.citation)}. [Code](../unspool/gallery/{file}).",
        "",
        "```",
        words.equations,
        "```",
        "",
        *(line for note in words.notes for line in (_prose(note), "")),
        "<details><summary>How it runs</summary>",
        "",
        f"![What runs before the loop over steps, in it, and after it](images/gallery/{name}.svg)",
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)


def picture(name: str) -> str:
    """What `explain` draws of a training step of a cell."""
    problem = problem_of(name, SHAPES[0], Options("cpu", 1, False, False))
    return unspool.explain(problem.cell, problem.inputs, dtype=torch.float32, time_major=True).svg() + "\n"


def _prose(text: str) -> str:
    """Words of a docstring as Markdown, which has its own ideas of stars and brackets outside code."""
    return "".join(
        each if each.startswith("`") else re.sub(r"([*<|\[\]])", r"\\\1", each) for each in re.split(r"(`[^`]*`)", text)
    )


def _named(shape: Any) -> str:
    return f"{shape.batch} rows, {shape.steps} steps, {shape.units} units"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def main() -> None:
    """Writes all of it."""
    PICTURES.mkdir(exist_ok=True)
    for name in gallery.__all__:
        (PICTURES / f"{name}.svg").write_text(picture(name))
    PAGE.write_text(page(measured()))


if __name__ == "__main__":
    main()
