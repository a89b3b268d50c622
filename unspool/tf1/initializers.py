"""How variables begin."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, float32
from unspool.tf1.operations import apply, constant
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Operators, Tensor


class Initializer:
    """Makes the first value of a variable: a tensor of the shape and dtype asked for.

    Given a torch tensor instead of a shape, as the cells of unspool do, it returns values for it.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.ones_initializer()([2]))
    array([1., 1.], dtype=float32)
    """

    kind = "Initializer"
    least_rank = 0
    """How many axes there must be."""
    numbers: tuple[str, ...] = ()
    """The arguments that may be scalar tensors."""

    def __init__(self, dtype: Any = float32, seed: int | None = None) -> None:
        self.dtype, self.seed = as_dtype(dtype), seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """A tensor of that shape; values, for a torch tensor."""
        late = {name: given for name in self.numbers if isinstance(given := getattr(self, name), Operators)}
        if isinstance(shape, torch.Tensor):  # of which a session will have the values, where tensors say how
            return torch.zeros_like(shape) if late else self.draw(torch.empty_like(shape), None)
        sizes = tuple(int(each) for each in TensorShape(shape).as_list())  # pyright: ignore[reportArgumentType]
        chosen: DType = self.dtype if dtype is None else as_dtype(dtype)
        if len(sizes) < self.least_rank:
            raise ValueError(f"{type(self).__name__} fills matrices, or more axes, but the shape is {list(sizes)}")
        draw = Draw(self.seed)

        def values(run: Any, *given: torch.Tensor) -> torch.Tensor:
            told = copy.copy(self)
            for name, number in zip(late, given, strict=True):
                setattr(told, name, number.item())
            return told.draw(torch.empty(sizes, dtype=chosen.torch), draw.generator(run))

        return apply(self.kind, values, *late.values(), outputs=[(chosen, sizes)], takes_run=True)

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Fills the tensor and returns it."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another one like this."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if hasattr(self, name)}


class zeros_initializer(Initializer):  # noqa: N801 (TensorFlow's name)
    """All 0."""

    kind = "zeros"

    def __init__(self, dtype: Any = float32) -> None:
        super().__init__(dtype)

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Zeros."""
        return blank.zero_()


class ones_initializer(Initializer):  # noqa: N801
    """All 1."""

    kind = "ones"

    def __init__(self, dtype: Any = float32) -> None:
        super().__init__(dtype)

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Ones."""
        return blank.fill_(1)


class constant_initializer(Initializer):  # noqa: N801
    """Numbers that are given: one for all elements, or an array that is reshaped."""

    kind = "Const"

    def __init__(self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False) -> None:
        super().__init__(dtype)
        self.value, self.verify_shape = value, verify_shape

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """A tensor of that shape; values, for a torch tensor."""
        if isinstance(shape, torch.Tensor):
            return self.draw(torch.empty_like(shape), None)
        return constant(self.value, self.dtype if dtype is None else dtype, shape, verify_shape=self.verify_shape)

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """The numbers, in the shape of the tensor."""
        given = torch.as_tensor(self.value)
        return blank.copy_(given if given.numel() == 1 else given.reshape(blank.shape))


class random_uniform_initializer(Initializer):  # noqa: N801
    """Uniform between two bounds, which may be scalar tensors."""

    kind = "random_uniform"
    numbers = ("minval", "maxval")

    def __init__(self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(dtype, seed)
        self.minval, self.maxval = minval, 1 if maxval is None else maxval

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Uniform numbers."""
        if not blank.is_floating_point():
            return blank.random_(int(self.minval), int(self.maxval), generator=generator)
        return blank.uniform_(self.minval, self.maxval, generator=generator)


class random_normal_initializer(Initializer):  # noqa: N801
    """Normal, with mean and standard deviation, which may be scalar tensors."""

    kind = "random_normal"
    numbers = ("mean", "stddev")

    def __init__(self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(dtype, seed)
        self.mean, self.stddev = mean, stddev

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Normal numbers."""
        return blank.normal_(self.mean, self.stddev, generator=generator)


class truncated_normal_initializer(random_normal_initializer):  # noqa: N801
    """Normal, drawn again where further than two standard deviations from the mean."""

    kind = "truncated_normal"

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Normal numbers without the far ones."""
        return truncated_normal_(blank, self.mean, self.stddev, generator)


class variance_scaling_initializer(Initializer):  # noqa: N801
    """Random, with a variance of `scale / n`, where n is the number of inputs, of outputs, or their mean.

    Args:
        scale: the factor.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform", "truncated_normal" (or "normal"), or "untruncated_normal".
        seed: makes the draw repeatable.
        dtype: of the values.
    """

    kind = "variance_scaling"

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        if scale <= 0:
            raise ValueError(f"`scale` must be positive, but is {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}; it is fan_in, fan_out or fan_avg")
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        super().__init__(dtype, seed)
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Numbers of that variance."""
        fan_in, fan_out = fans(blank.shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, count)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return blank.uniform_(-limit, limit, generator=generator)
        if self.distribution == "untruncated_normal":
            return blank.normal_(0, math.sqrt(variance), generator=generator)
        # What is cut off takes variance with it: 0.8796 is the deviation of a normal cut at two.
        return truncated_normal_(blank, 0.0, math.sqrt(variance) / 0.87962566103423978, generator)


class glorot_uniform_initializer(variance_scaling_initializer):  # noqa: N801
    """Uniform within `sqrt(6 / (inputs + outputs))` (Glorot and Bengio, 2010)."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class glorot_normal_initializer(variance_scaling_initializer):  # noqa: N801
    """Truncated normal, of deviation `sqrt(2 / (inputs + outputs))`."""

    def __init__(self, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class orthogonal_initializer(Initializer):  # noqa: N801
    """An orthogonal matrix, times `gain` (Saxe et al., 2014); more than two axes are seen as rows and columns."""

    kind = "orthogonal"
    least_rank = 2

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(dtype, seed)
        self.gain = gain

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """An orthogonal matrix."""
        # All axes but the last are rows, as in TensorFlow; torch takes the first for the rows.
        flat = blank.new_empty(blank.numel() // max(blank.shape[-1], 1), blank.shape[-1])
        return blank.copy_(torch.nn.init.orthogonal_(flat, self.gain, generator=generator).reshape(blank.shape))


class identity_initializer(Initializer):  # noqa: N801
    """The identity matrix, times `gain`."""

    kind = "identity"
    least_rank = 2

    def __init__(self, gain: float = 1.0, dtype: Any = float32) -> None:
        super().__init__(dtype)
        self.gain = gain

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """The identity."""
        if blank.dim() != 2:
            raise ValueError(f"an identity is a matrix, but the shape is {list(blank.shape)}")
        return blank.copy_(self.gain * torch.eye(*blank.shape, dtype=blank.dtype))


def as_initializer(initializer: Any) -> Callable[..., Any]:
    """An initialiser from one, from its class, or from any function of a shape and a dtype."""
    made = initializer() if isinstance(initializer, type) else initializer
    if isinstance(made, Initializer):
        return made
    takes = inspect.signature(made).parameters
    with_partition = "partition_info" in takes

    def call(shape: Any, dtype: DType) -> Tensor:
        if not takes:
            return made()
        return made(shape, dtype=dtype, partition_info=None) if with_partition else made(shape, dtype=dtype)

    return call


def truncated_normal_(
    blank: torch.Tensor, mean: float, stddev: float, generator: torch.Generator | None
) -> torch.Tensor:
    """Fills a tensor with normal numbers no further than two standard deviations from the mean."""
    return torch.nn.init.trunc_normal_(blank, mean, stddev, mean - 2 * stddev, mean + 2 * stddev, generator=generator)


def fans(shape: Any) -> tuple[float, float]:
    """How many inputs and outputs a weight of that shape connects."""
    sizes = list(shape)
    if len(sizes) < 1:
        return 1, 1
    if len(sizes) == 1:
        return sizes[0], sizes[0]
    field = math.prod(sizes[:-2])
    return sizes[-2] * field, sizes[-1] * field
