"""What layers share that have a kernel, a bias and an activation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspool.tf1.layers.base import Layer


class WeightedLayer(Layer):
    """A layer with a kernel, a bias, and a function of the sum.

    Args:
        activation: the function; None for the sum itself.
        use_bias: whether there is a bias.
        kernel: the kernel's initialiser, regulariser and constraint.
        bias: the same for the bias.
        more: see `Layer`.

    Raises:
        NotImplementedError: if there is a constraint.
    """

    kernel_name, bias_name = "kernel", "bias"

    def __init__(
        self,
        activation: Callable[[Any], Any] | None,
        use_bias: bool,
        kernel: tuple[Any, Any, Any],
        bias: tuple[Any, Any, Any],
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.kernel_initializer, self.kernel_regularizer, kernel_constraint = kernel
        self.bias_initializer, self.bias_regularizer, bias_constraint = bias
        if kernel_constraint is not None or bias_constraint is not None:
            raise NotImplementedError("kernel_constraint and bias_constraint are not supported")
        self.activation, self.use_bias = activation, use_bias
        self.kernel: Any = None
        self.bias: Any = None

    def make_kernel(self, name: str, sizes: Sequence[int]) -> None:
        """Makes the kernel."""
        self.kernel = self.add_variable(
            name, sizes, initializer=self.kernel_initializer, regularizer=self.kernel_regularizer
        )

    def make_bias(self, size: int) -> None:
        """Makes the bias, if there is one."""
        if self.use_bias:
            self.bias = self.add_variable(
                self.bias_name, [size], initializer=self.bias_initializer, regularizer=self.bias_regularizer
            )
