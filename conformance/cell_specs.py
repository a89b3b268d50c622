"""Drawing cells: each recipe is a kind of cell with its options, for inputs of a given depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.dealer import Dealer
from conformance.structures import CONTAINERS

CellSpec = dict[str, Any]
Recipe = Callable[[Dealer, int], CellSpec]

FUNCTIONS = ("tanh", "relu", "sigmoid", "softplus", "elu")
# Without "gelu": TensorFlow takes its sqrt(1/2) through float32, and so is wrong by 5e-9 in float64.
NAMES = (
    *("elu", "exponential", "hard_sigmoid", "linear", "mish", "relu"),
    *("selu", "sigmoid", "softmax", "softplus", "softsign", "swish", "tanh"),
)


def draw_cell(dealer: Dealer, depth: int) -> CellSpec:
    """Any cell that takes one matrix of inputs."""
    cards = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
    return RECIPES[dealer.deal("recipe", cards, lambda name: depth > 0 or name not in NEED_DEPTH)](dealer, depth)


def draw_nested_cell(dealer: Dealer) -> CellSpec:
    """A cell of our own with nested inputs, outputs and states."""
    outputs = dealer.deal("outputs", ["leaf", *CONTAINERS])
    return {"kind": "NestedCell", "num_units": _units(dealer), "outputs": outputs, **_states(dealer)}


def output_width(cell: CellSpec) -> int:
    """The width of a cell's output."""
    if "cells" in cell:
        return output_width(cell["cells"][-1])
    return output_width(cell["cell"]) if "cell" in cell else cell.get("num_proj") or cell["num_units"]


def walk(cells: list[CellSpec]) -> Iterator[CellSpec]:
    """The cells and all cells inside them."""
    for cell in cells:
        yield cell
        yield from walk(cell.get("cells", []))
        yield from walk([cell["cell"]] if "cell" in cell else [])


def _units(dealer: Dealer) -> int:
    return dealer.deal("units", [1, 2, 3, 4, 5])


def _states(dealer: Dealer) -> CellSpec:
    return {"states": dealer.deal("states", CONTAINERS)}


def _simple(dealer: Dealer, num_units: int) -> CellSpec:
    kind = dealer.deal("simple", ["BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"])
    return {"kind": kind, "num_units": num_units}


def _activated(kind: str) -> Recipe:
    def recipe(dealer: Dealer, depth: int) -> CellSpec:
        if dealer.one_in(2, "activation is a function"):
            activation = {"activation": dealer.deal("function", FUNCTIONS)}
        else:
            activation = {"activation_name": dealer.deal("name of an activation", NAMES)}
        return {"kind": kind, "num_units": _units(dealer), **activation}

    return recipe


def _basic_lstm(dealer: Dealer, depth: int) -> CellSpec:
    forget_bias = dealer.deal("forget_bias of BasicLSTMCell", [0.0, 1.0, 2.5])
    return {"kind": "BasicLSTMCell", "num_units": _units(dealer), "forget_bias": forget_bias}


def _lstm(dealer: Dealer, depth: int) -> CellSpec:
    """Any of the options of an LSTMCell, alone or together."""
    choices = {
        "use_peepholes": [True],
        "cell_clip": [0.05, 0.3, 0.0],
        "num_proj": [1, 2, 3, 4],
        "proj_clip": [0.1, 0.4],
        "forget_bias": [0.0, 2.5],
        "state_is_tuple": [False],
        "activation": FUNCTIONS,
        "name": ["foo"],
        "own_dtype": [True],
    }
    drawn = {name: dealer.deal(name, values) for name, values in choices.items() if dealer.one_in(3, f"has {name}")}
    return {"kind": "LSTMCell", "num_units": _units(dealer), **drawn}


def _clipped_projection(dealer: Dealer, depth: int) -> CellSpec:
    projection = {"num_proj": dealer.integer(1, 4), "proj_clip": dealer.deal("proj_clip", [0.1, 0.4])}
    return {"kind": "LSTMCell", "num_units": _units(dealer), "use_peepholes": True, **projection}


def _sharded(dealer: Dealer, depth: int) -> CellSpec:
    """An LSTMCell whose kernel, and perhaps projection, is several variables in TensorFlow."""
    cell: CellSpec = {"kind": "LSTMCell", "num_units": dealer.integer(3, 5), "num_unit_shards": dealer.integer(2, 3)}
    if dealer.one_in(2, "has num_proj_shards"):
        cell.update(num_proj=dealer.integer(3, 4), num_proj_shards=2)
    return cell


def _concatenated(dealer: Dealer, depth: int) -> CellSpec:
    """A cell whose state is one tensor."""
    kind = dealer.deal("concatenated", ["LSTMCell", "BasicLSTMCell", "GRUCell", "BasicRNNCell"])
    return {"kind": kind, "num_units": _units(dealer), **({"state_is_tuple": False} if "LSTM" in kind else {})}


def _multi(dealer: Dealer, depth: int) -> CellSpec:
    cells: list[CellSpec] = []
    for _ in range(dealer.integer(2, 3)):
        names = ["rnn", "gru", "basic_lstm", "lstm", "residual", "dropout", "device", "counting"]
        name = dealer.deal("layer", names, lambda name, depth=depth: depth > 0 or name not in NEED_DEPTH)
        cells.append(RECIPES[name](dealer, depth))
        depth = output_width(cells[-1])
    return {"kind": "MultiRNNCell", "cells": cells}


def _multi_concatenated(dealer: Dealer, depth: int) -> CellSpec:
    cells = [_concatenated(dealer, depth) for _ in range(dealer.integer(2, 3))]
    return {"kind": "MultiRNNCell", "cells": cells, "state_is_tuple": False}


def _multi_of_multi(dealer: Dealer, depth: int) -> CellSpec:
    inner = _multi(dealer, depth)
    return {"kind": "MultiRNNCell", "cells": [inner, _lstm(dealer, output_width(inner))]}


def _multi_repeated(dealer: Dealer, depth: int) -> CellSpec:
    """The same cell object in every layer, which shares its weights."""
    return {"kind": "MultiRNNCell", "cells": [_simple(dealer, depth)], "repeat": dealer.integer(2, 3)}


def _residual(dealer: Dealer, depth: int) -> CellSpec:
    return {"kind": "ResidualWrapper", "cell": _simple(dealer, depth)}


def _residual_fn(dealer: Dealer, depth: int) -> CellSpec:
    residual_fn = dealer.deal("residual_fn", ["scaled", "sliced"])
    num_units = depth if residual_fn == "scaled" else dealer.integer(1, depth)
    return {"kind": "ResidualWrapper", "cell": _simple(dealer, num_units), "residual_fn": residual_fn}


def _dropout(dealer: Dealer, depth: int) -> CellSpec:
    """A DropoutWrapper that keeps everything, in every way to say so."""
    keep = dealer.deal("keep", ["number", "tensor", "variational"])
    size = {"input_size": depth} if keep == "variational" else {}
    return {"kind": "DropoutWrapper", "cell": _simple(dealer, _units(dealer)), "keep": keep, **size}


def _device(dealer: Dealer, depth: int) -> CellSpec:
    inner = dealer.deal("in a DeviceWrapper", ["lstm", "dropout", "multi"])
    return {"kind": "DeviceWrapper", "cell": RECIPES[inner](dealer, depth), "device": "cpu"}


def _counting(dealer: Dealer, depth: int) -> CellSpec:
    return {"kind": "CountingCell", "num_units": _units(dealer), **({"name": "bar"} if dealer.one_in(3, "bar") else {})}


RECIPES: dict[str, Recipe] = {
    "rnn": _activated("BasicRNNCell"),
    "gru": _activated("GRUCell"),
    "basic_lstm": _basic_lstm,
    "activated_basic_lstm": _activated("BasicLSTMCell"),
    "activated_lstm": _activated("LSTMCell"),
    "lstm": _lstm,
    "clipped_projection": _clipped_projection,
    "sharded": _sharded,
    "concatenated": _concatenated,
    "multi": _multi,
    "multi_concatenated": _multi_concatenated,
    "multi_of_multi": _multi_of_multi,
    "multi_repeated": _multi_repeated,
    "residual": _residual,
    "residual_fn": _residual_fn,
    "dropout": _dropout,
    "device": _device,
    "counting": _counting,
}
WEIGHTS = {**dict.fromkeys(RECIPES, 1), "rnn": 2, "gru": 3, "lstm": 4}
"""How often each recipe comes up in a round; those with the most options most often."""

NEED_DEPTH = ("multi_repeated", "residual", "residual_fn")
"""Recipes that need inputs at least one wide."""
