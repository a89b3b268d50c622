"""What the built-in cells have in common: one matrix of inputs, weights in TensorFlow's layout, and their checks."""

from __future__ import annotations

import math
import operator
from typing import Any

from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.lazy import Initializer
from unspool.dtypes import may_mix


class LayerRNNCell(RNNCell):
    """A cell whose inputs are one floating-point matrix `[batch, depth]`.

    Its kernels multiply from the right, `[inputs, state] @ kernel`: the rows of the inputs first, then the state's.
    """

    first_kernel: str = "kernel"

    def __init__(self, name: str | None, dtype: Any, reuse: bool | None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.reuse = check_reuse(reuse)

    def build_now(self, input_size: int | None) -> None:
        """Builds at construction, if the input size is given there."""
        if input_size is not None:
            self.build(input_size)

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the cell is built."""
        return getattr(self, self.first_kernel).shape[0] - self.output_size if self.built else None

    def check_inputs(self, inputs: Any) -> None:
        """Raises unless `inputs` is a floating-point matrix."""
        check_matrix(self.name, inputs)

    def check_step(self, inputs: Tensor, kernel: Tensor, **states: tuple[Tensor, int]) -> None:
        """Raises `ValueError` unless inputs and states fit each other and the kernel, `TypeError` for mixed dtypes."""
        check_matrix(self.name, inputs, kernel.shape[0] - self.output_size)
        for name, (state, width) in states.items():
            if state.dim() != 2 or state.shape[0] != inputs.shape[0] or state.shape[1] != width:
                raise ValueError(
                    f"{self.name}: {name} has shape {list(state.shape)}, expected {[inputs.shape[0], width]}"
                )
        for name, value in [("inputs are", inputs), *((f"{name} is", state) for name, (state, _) in states.items())]:
            if value.dtype != kernel.dtype and not may_mix(value.device):
                raise TypeError(f"{self.name}: {name} {value.dtype}, but the weights are {kernel.dtype}")


def check_matrix(name: str, inputs: Any, depth: int | None = None) -> None:
    """Raises unless `inputs` is a floating-point matrix, of the given depth if there is one."""
    if not isinstance(inputs, Tensor):
        raise TypeError(f"{name}: inputs must be a tensor [batch, depth], but are a {type(inputs).__name__}")
    if not (inputs.is_floating_point() or inputs.is_complex()):
        raise ValueError(f"{name}: RNN cell only supports floating point inputs, but got {inputs.dtype}")
    if inputs.dim() != 2:
        raise ValueError(f"{name}: inputs have shape {list(inputs.shape)}, but expected ndim=2: [batch, depth]")
    if depth is not None and inputs.shape[1] != depth:
        raise ValueError(f"{name}: inputs have depth {inputs.shape[1]}, but the cell was built for {depth}")


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


def check_width(input_size: Any, name: str = "cell") -> int:
    """`input_size` as an int, for cells that take one matrix; raises `ValueError` for anything else."""
    try:
        return operator.index(input_size)
    except TypeError:
        raise ValueError(
            f"{name}: input_size is {input_size!r}, but expected ndim=2 inputs [batch, depth]: one int"
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
