"""What the built-in cells have in common: one matrix of inputs, weights in TensorFlow's layout, and their checks."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.building import Initializer
from unspool.cells.cell import RNNCell
from unspool.cells.unbuilt import UnbuiltWeight
from unspool.dtypes import may_mix
from unspool.flags import checks_flags
from unspool.sizes import UNKNOWN, axis_of_layers
from unspool.structure import Structure, describe, flatten
from unspool.tracers import static_shape


class LayerRNNCell(RNNCell):
    """A cell whose inputs are one floating-point matrix `[batch, depth]`.

    Its kernels multiply from the right, `[inputs, state] @ kernel`: the rows of the inputs first, then the state's.
    """

    first_kernel: str = "kernel"
    """The weight whose rows are the inputs', then the state's."""

    @checks_flags
    def __init__(self, name: str | None, dtype: Any, reuse: bool | None, trainable: bool) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        self.reuse = check_reuse(reuse)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shape of each weight for inputs of that depth, in the order of TensorFlow's variables."""
        raise NotImplementedError

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        return nn.init.zeros_ if weight.endswith("bias") else glorot_uniform

    def declare(self, input_size: int | None) -> None:
        """Declares the weights, and makes them if the input size is given."""
        self.declare_weights(*self.shapes(0))
        if input_size is not None:
            self.build(input_size)

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for inputs `[batch, input_size]`."""
        depth = check_width(input_size, self.name)
        if self.input_size not in (None, depth):  # the weights were loaded
            raise ValueError(f"{self.name}: inputs have depth {depth}, but the cell was built for {self.input_size}")
        for name, shape in self.shapes(depth).items():
            self.add_weight(name, shape, self.initializer_of(name), **where)

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights have shapes."""
        kernel = getattr(self, self.first_kernel)
        return None if isinstance(kernel, UnbuiltWeight) else self.depth_of(kernel.shape[0])

    def depth_of(self, rows: int) -> int:
        """The depth of the inputs, by how many rows the first kernel has."""
        return rows - self.output_size

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # An unbuilt cell takes any depth, but its weights must agree on it.
        loaded = state_dict.get(prefix + self.first_kernel)
        if self.input_size is None and isinstance(loaded, Tensor) and not isinstance(loaded, UnbuiltWeight):
            depth = self.depth_of(loaded.shape[0]) if loaded.dim() == 2 else -1
            for name, shape in self.shapes(depth).items():
                have = state_dict.get(prefix + name)
                if have is None or isinstance(have, UnbuiltWeight):
                    continue
                if depth < 0 or tuple(have.shape) != shape:
                    error_msgs: list[str] = args[-1]
                    error_msgs.append(f"{prefix}{name} has shape {list(have.shape)}, which no {self!r} can have")
                    return
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def check_inputs(self, inputs: Any, state: Any) -> None:
        """Raises unless `inputs` is a floating-point matrix of the state's dtype."""
        check_matrix(self.name, inputs)
        check_same_dtype(self.name, inputs, state)

    def check_step(self, inputs: Tensor, kernel: Tensor, **states: tuple[Any, int]) -> None:
        """Raises `ValueError` unless inputs and states fit each other and the kernel, `TypeError` for mixed dtypes."""
        check_matrix(self.name, inputs, kernel, self.depth_of(static_shape(kernel)[0]))
        rows = static_shape(inputs)[0]
        for name, (state, width) in states.items():
            if not isinstance(state, Tensor):
                raise TypeError(f"{self.name}: {name} must be a tensor, but is {describe(state)}")
            shape = static_shape(state)
            if len(shape) != 2 or shape[0] != rows or shape[1] != width:
                hint = axis_of_layers(shape, (rows, width))
                raise ValueError(f"{self.name}: {name} has shape {list(shape)}, expected {[rows, width]}{hint}")
            check_dtype(f"{self.name}: {name} is", state, kernel)


def check_matrix(name: str, inputs: Any, kernel: Tensor | None = None, depth: int | None = None) -> None:
    """Raises unless `inputs` is a floating-point matrix; given a kernel, of its dtype and depth (or the one given)."""
    if not isinstance(inputs, Tensor):
        hint = "; for a list of steps there is static_rnn" if type(inputs) is list else ""
        raise TypeError(f"{name}: inputs must be one tensor, but are {describe(inputs)}{hint}")
    if not (inputs.is_floating_point() or inputs.is_complex()):
        hint = "convert them, or look token ids up first: embedding(ids) of an nn.Embedding, or an EmbeddingWrapper"
        raise ValueError(f"{name}: RNN cell only supports floating point inputs, but got {inputs.dtype}; {hint}")
    if inputs.dim() != 2:
        loops = "unspool.RNN(cell)(inputs) and dynamic_rnn(cell, inputs) run one over [batch, time, depth]"
        hint = {1: "; those of a loop are [batch, time, depth]", 3: f"; a cell is one step: {loops}"}.get(
            inputs.dim(), ""
        )
        raise ValueError(f"{name}: inputs have shape {list(inputs.shape)}, but expected ndim=2: [batch, depth]{hint}")
    if kernel is None:
        return
    depth, found = static_shape(kernel)[0] if depth is None else depth, static_shape(inputs)[1]
    if found != depth:
        raise ValueError(f"{name}: inputs have depth {found}, but the cell was built for {depth}")
    check_dtype(f"{name}: inputs are", inputs, kernel)


def check_same_dtype(name: str, inputs: Tensor, state: Structure) -> None:
    """Raises `TypeError` if a state has another floating dtype than the inputs, before weights are made for either."""
    for leaf in flatten(state):
        differs = isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dtype != inputs.dtype
        if differs and not may_mix(inputs.device):
            hint = "convert one of them, or give the loop the inputs' dtype"
            raise TypeError(f"{name}: inputs are {inputs.dtype}, but the state is {leaf.dtype}; {hint}")


def check_dtype(what: str, value: Tensor, kernel: Tensor) -> None:
    """Raises `TypeError` unless `value` has the dtype of the weights, or autocast takes care of it."""
    if value.dtype != kernel.dtype and not may_mix(value.device):
        raise TypeError(f"{what} {value.dtype}, but the weights are {kernel.dtype}")


def check_reuse(reuse: bool | None) -> bool | None:
    """`reuse` if it asks for nothing; a `ValueError` that says how weights are shared here otherwise."""
    if reuse:
        raise ValueError(
            f"reuse={reuse!r}: a cell owns its weights here; to share them, use the same cell object in both places"
        )
    return reuse


def check_units(name: str, units: Any) -> int:
    """`units` as an int; raises unless it is a positive whole number."""
    try:
        units = operator.index(units)
    except TypeError:
        raise TypeError(f"{name} must be an int, but got {units!r}") from None
    if units < 1:
        raise ValueError(f"{name} must be positive, but is {units}")
    return units


def check_width(input_size: Any, name: str) -> int:
    """`input_size` as an int, for cells that take one matrix; raises `ValueError` for anything else."""
    if input_size is UNKNOWN:
        raise ValueError(f"{name}: the size of what it is given is not known: give unspool.cell its output_size")
    width: Any = input_size[0] if isinstance(input_size, torch.Size) and len(input_size) == 1 else input_size
    try:
        return operator.index(width)
    except TypeError:
        raise ValueError(
            f"{name}: rows of size {input_size!r} were given, but expected ndim=2: [batch, depth]"
        ) from None


def check_initializer(name: str, initializer: Any) -> Initializer | None:
    """`initializer` if it is None or can be called; a `TypeError` that says how to write one otherwise."""
    if initializer is None or callable(initializer):
        return initializer
    raise TypeError(
        f"{name} must be a function that fills a tensor in place, such as torch.nn.init.zeros_, but got {initializer!r}"
    )


def glorot_uniform(weight: Tensor) -> None:
    """TensorFlow's default: uniform within sqrt(6 / (fan_in + fan_out)); a vector of n has both fans n."""
    fans = weight.shape[0] + weight.shape[-1]
    limit = math.sqrt(6.0 / fans) if fans else 0.0
    nn.init.uniform_(weight, -limit, limit)
