"""Reads the checkpoints that TensorFlow has saved, and compares every variable bit by bit, and every output.

    python conformance/compare_checkpoints.py build/conformance/checkpoints --out build/conformance/written

What was read is written again, into a folder for TensorFlow to restore: `checkpoints.py --restore`. Outputs are those
of torch's own modules where they have the equations of a model, else of cells, and must be within 1e-5, or 1e-10 in
float64.

Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import unspool

TOLERANCES = {"float32": 1e-5, "float64": 1e-10}

MODULES: dict[str, tuple[Callable[[], nn.RNNBase], dict[str, Any]]] = {
    "lstm_projection": (lambda: nn.LSTM(4, 5, proj_size=3), {"forget_bias": 0.5}),
    "basic_lstm": (lambda: nn.LSTM(4, 4), {}),
    "basic_rnn": (lambda: nn.RNN(4, 4), {}),
    "lstm_layers": (lambda: nn.LSTM(4, 4, 2), {}),
    "bidirectional": (lambda: nn.LSTM(4, 3, bidirectional=True), {}),
    "bidirectional_layers": (lambda: nn.LSTM(4, 3, 2, bidirectional=True), {}),
}
"""The torch modules with the equations of a model, with the arguments of `load_tf1_weights`."""

CELLS: dict[str, tuple[Callable[[], Any], bool]] = {
    "lstm_stack": (lambda: unspool.MultiRNNCell([unspool.LSTMCell(5), unspool.LSTMCell(3)]), True),
    "lstm_stack_float64": (lambda: unspool.MultiRNNCell([unspool.LSTMCell(5), unspool.LSTMCell(3)]), True),
    "lstm_options": (lambda: unspool.LSTMCell(5, use_peepholes=True, num_proj=3), True),
    "gru": (lambda: unspool.GRUCell(4), True),
    "partitioned": (lambda: unspool.LSTMCell(6, num_proj=4), False),
}
"""The cells of the other models, with whether these have lengths."""


def outputs_of(name: str, path: Path, x: torch.Tensor, lengths: list[int]) -> torch.Tensor | None:
    """What a model computes here, with the weights of its checkpoint."""
    if name in MODULES:
        make, arguments = MODULES[name]
        module = make().to(x.dtype)
        unspool.load_tf1_weights(module, path, **arguments)
        return module(x.transpose(0, 1))[0].transpose(0, 1)
    if name in CELLS:
        make_cell, has_lengths = CELLS[name]
        cell = make_cell()
        unspool.load_tf1_weights(cell, path)
        return unspool.dynamic_rnn(cell, x, lengths if has_lengths else None, dtype=x.dtype)[0]
    return None


def compare(folder: Path, out: Path) -> list[str]:
    """What differs about one model."""
    problems: list[str] = []
    with np.load(folder / "expected.npz") as file:
        expected = dict(file)
    variables = {name[4:]: value for name, value in expected.items() if name.startswith("var:")}
    found = dict(unspool.load_tf1_checkpoint(folder))
    if found.keys() != variables.keys():
        problems.append(f"names: {sorted(found.keys() ^ variables.keys())}")
    for name in found.keys() & variables.keys():
        one, other = found[name], variables[name]
        if (one.dtype, one.shape, one.tobytes()) != (other.dtype, other.shape, other.tobytes()):
            problems.append(f"{name} differs")
    out.mkdir(parents=True, exist_ok=True)
    unspool.save_tf1_checkpoint(out / "model.ckpt", found)
    np.savez_compressed(out / "written.npz", **found)
    outputs = outputs_of(folder.name, folder, torch.from_numpy(expected["x"]), expected["lengths"].tolist())
    shown = ""
    if outputs is not None:
        wanted = expected["out_0"]
        if folder.name == "bidirectional":
            wanted = np.concatenate([wanted, expected["out_1"]], 2)
        error = float(np.abs(outputs.detach().numpy() - wanted).max())
        shown = f", outputs within {error:.1e}"
        if not error <= TOLERANCES[str(wanted.dtype)]:
            problems.append(f"outputs differ by {error:.1e}, more than {TOLERANCES[str(wanted.dtype)]}")
    print(f"{folder.name}: {len(found)} variables{shown}")
    return [f"{folder.name}: {problem}" for problem in problems]


def main() -> int:
    """Compares the models of a folder; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where checkpoints.py has put the models")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what TensorFlow is to restore")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
    folders = sorted(path.parent for path in arguments.folder.glob("*/expected.npz"))
    problems = [problem for folder in folders for problem in compare(folder, arguments.out / folder.name)]
    missing = {*MODULES, *CELLS} - {folder.name for folder in folders}
    problems += [f"there is no model {name}" for name in sorted(missing)]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
