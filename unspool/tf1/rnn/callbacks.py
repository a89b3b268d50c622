"""Functions of symbolic tensors that unspool's cells call with values: activations and what else programs pass."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

import unspool
from unspool import sizes
from unspool.cells.building import Buildable
from unspool.structure import Structure, flatten, map_structure
from unspool.tf1.dtypes import as_dtype
from unspool.tf1.functions import Like
from unspool.tf1.rnn.modules import Traced
from unspool.tf1.shapes import Dim
from unspool.tf1.tensor import Tensor

CALLED = ("activation", "y_activation", "residual_fn", "cell_input_fn")
"""The arguments of cells that are functions of a step's tensors."""


class Callback(torch.nn.Module):
    """A function of symbolic tensors, which may read others and make variables, as a module that runs on values.

    Args:
        function: called once, with symbolic tensors like those of the first call.
    """

    def __init__(self, function: Callable[..., Structure]) -> None:
        super().__init__()
        self.step = Traced(_Applied(function))
        self.rows: Dim = None
        """How many rows there are, where the function may know."""

    def variables(self) -> Iterator[tuple[str, Any]]:
        """The step, in the place of the names that only a call can tell."""
        yield "", self.step

    def forward(self, *arguments: Structure) -> Structure:
        """What the function makes of values; zeros in their place while the graph is built, where it is traced."""
        if self.step.runs:
            return self.step(arguments, ())[0]
        if not self.step.built:
            self.trace(*map_structure(lambda leaf: Like(as_dtype(leaf.dtype), (self.rows, *leaf.shape[1:])), arguments))
        first: torch.Tensor = flatten(arguments)[0]
        return map_structure(lambda leaf: _zeros(leaf, first), self.step.output)

    def trace(self, *arguments: Structure) -> None:
        """Calls the function with symbolic tensors like these, in the current scope."""
        self.step.trace(arguments, ())


def _zeros(leaf: Tensor, like: torch.Tensor) -> torch.Tensor:
    dims = leaf.dims or ()
    return like.new_zeros([*like.shape[:1], *(each or 0 for each in dims[1:])][: len(dims)], dtype=leaf.dtype.torch)


class CalledLayer(Buildable):
    """A layer of the graph in the place of one of unspool's.

    Args:
        layer: called with one symbolic tensor; says its width as `units`.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__(trainable=True, weight_dtype=None)
        self.callback = Callback(layer)
        self.out_features = int(layer.units)

    def variables(self) -> Iterator[tuple[str, Any]]:
        """Those of the callback."""
        yield from self.callback.variables()

    def build(self, input_size: Any, **where: Any) -> None:
        """Nothing yet: the layer makes its variables when it is traced, after those of the cell."""

    def forward(self, inputs: torch.Tensor) -> Structure:
        """What the layer makes of values."""
        return self.callback(inputs)


class _Applied:
    """A function as a step without a state."""

    state_size = output_size = ()

    def __init__(self, function: Callable[..., Structure]) -> None:
        self._function = function

    def __call__(self, inputs: Any, state: Structure) -> tuple[Structure, Structure]:
        return self._function(*inputs), state


def as_callback(function: Any) -> Any:
    """What a cell calls for a function of the graph; what is none, or computes with values as well, stays as it is.

    Operations are of that kind, and cheaper to call; so are torch's own functions.
    """
    if not callable(function) or isinstance(function, torch.nn.Module | type | types.BuiltinFunctionType):
        return function
    own = isinstance(function, types.FunctionType) and function.__module__.partition(".")[0] in ("torch", "unspool")
    return function if own else Callback(function)


def trace_callbacks(module: torch.nn.Module, rows: Dim, dtype: torch.dtype) -> None:
    """Traces every callback in a cell that is built, by one step of zeros of the cell that calls it."""
    for cell in list(module.modules()):
        waiting = [each for each in cell.children() if isinstance(each, Callback) and not each.step.built]
        if not waiting or not isinstance(cell, Buildable):
            continue
        for each in waiting:
            each.rows = rows
        with torch.no_grad():
            if isinstance(cell, CalledLayer):
                cell(sizes.zeros(cell.built_for, 1, dtype=dtype))
            elif isinstance(cell, unspool.ResidualWrapper):  # what is inside may need a memory, which only runs have
                waiting[0](*sizes.zeros((cell.built_for, cell.output_size), 1, dtype=dtype))
            else:
                cell(*sizes.zeros((cell.built_for, cell.state_size), 1, dtype=dtype))
