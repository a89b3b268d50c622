"""What there is to measure: parts, the cases of each, and the process that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SHAPES = [
    (16, 1024, 128),
    (1, 512, 512),
    (64, 256, 256),
    (256, 100, 256),
    (64, 256, 512),
    (16, 512, 768),
    (16, 512, 1024),
    (64, 256, 1024),
]
"""Rows, steps, units; inputs are as wide as states."""
CASES = ["x".join(map(str, shape)) for shape in SHAPES]
OWN_CELLS = [
    "LSTM by a user",
    "searched cell",
    "peepholes and projection",
    "peepholes and projection by a user",
    "LayerNorm LSTM",
]
NEW_CELLS = ["LSTM by a user", "LayerNorm LSTM"]
PEAKS = [
    *("nn.LSTM 1024", "keep 1024", "recompute 1024", "checkpoint 1024"),
    *("recompute+swap 512", "recompute+swap 1024", "recompute+swap 4096", "keep+swap 512", "keep+swap 4096"),
]
"""As in results/peaks-cuda.json: what is kept, and for how many steps."""
SLICES = 8


@dataclass(frozen=True)
class Part:
    """Cases that are measured alike.

    Args:
        module: the module of this package that measures them.
        cases: their names.
        options: what it is told about all of them.
        process: whether they share one with other parts, have one for the part, or one each, several at a time.
        seconds: how long a case may take.
    """

    module: str
    cases: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    process: Literal["shared", "own", "each"] = "shared"
    seconds: float = 75.0


def calls(kind: str, dtype: str, cases: Sequence[str] = CASES, *, own: bool = False, **options: Any) -> Part:
    """Whole calls of a cell beside a peer's."""
    told = {"kind": kind, "dtype": dtype, **options}
    return Part("calls", cases, told, "own" if own else "shared")


PARTS: dict[str, Part] = {
    "loop": Part("loop", CASES, {"dtype": "bfloat16"}),
    "calls-fp16": calls("LSTM", "float16"),
    "calls-bf16": calls("LSTM", "bfloat16"),
    "calls-fp32": calls("LSTM", "float32"),
    "calls-tf32": calls("LSTM", "float32", tf32=True),
    "ragged": calls("LSTM", "bfloat16", [case for case in CASES if case.startswith(("64x", "256x"))], ragged=True),
    "gru-bf16": calls("GRU", "bfloat16"),
    "gru-fp16": calls("GRU", "float16"),
    "rnn-bf16": calls("RNN", "bfloat16"),
    "rnn-fp16": calls("RNN", "float16"),
    "cells": Part("cells", OWN_CELLS, {"shape": "64x256x512", "dtype": "bfloat16"}),
    "first-call": Part("first_call", NEW_CELLS, {"shape": "64x256x512", "dtype": "bfloat16"}),
    "jax": calls("LSTM", "bfloat16", own=True, peer="jax"),
    "memory": Part("memory", PEAKS, process="each", seconds=120.0),
    "coverage": Part("coverage", [f"{k + 1}/{SLICES}" for k in range(SLICES)], process="each", seconds=180.0),
}
"""In the order in which they run: what is timed alone comes before what may run side by side."""
