"""Parameters of a cell before its first call, while the size of its inputs is unknown."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

UNBUILT = (
    "its cell learns the size of its inputs at first use. Give the cell its input_size, call cell.build(input_size), "
    "RNN(cell).materialize(x), or run it once before"
)
"""Why a weight has no shape, and what to do: the end of every message about one."""


class UnbuiltWeight(UninitializedParameter):
    """A weight without its shape; a torch `UninitializedParameter` that can also be saved, frozen and pickled.

    It becomes an ordinary parameter, the same object, when its module is built: an optimiser that holds it goes on. It
    also does when values are copied into it, as averages of models are at first. Whatever else needs its shape is an
    error, and so is asking for one: a filter by `ndim` would not find a matrix.

    Args:
        data: a tensor on the device and of the dtype that are meant, as `nn.Parameter` takes one; or `requires_grad`,
            as torch's class does.
        device: where the weight will be.
        dtype: what it will be.
        requires_grad: whether it will be trained.
    """

    # safetensors looks for weights that share memory before it loads any.
    _allowed_methods: list[Any] = [*cast(Any, UninitializedParameter)._allowed_methods, Tensor.untyped_storage]

    def __new__(  # noqa: D102  # pyright: ignore[reportInconsistentConstructor]
        cls, data: Tensor | bool | None = None, device: Any = None, dtype: Any = None, *, requires_grad: bool = True
    ) -> Any:
        if isinstance(data, Tensor):
            device, dtype = data.device, data.dtype
        elif data is not None:
            requires_grad = data
        return cast(Any, super()).__new__(cls, requires_grad, device, dtype)

    def detach(self) -> UnbuiltWeight:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Itself: there is nothing to cut off yet, and `state_dict` detaches what it stores."""
        return self

    def requires_grad_(self, mode: bool = True) -> UnbuiltWeight:
        """Freezes or thaws the weight before it is made."""
        self.requires_grad = mode
        return self

    def copy_(self, other: Tensor, non_blocking: bool = False) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Takes the shape and the values of a weight that is made; one that is not has nothing to copy."""
        if isinstance(other, UnbuiltWeight):
            return self
        converted = self.dtype != torch.get_default_dtype()
        with torch.inference_mode(False), torch.no_grad():
            self.materialize(tuple(other.shape), self.device, self.dtype if converted else other.dtype)
            return Tensor.copy_(self, other, non_blocking)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.empty_like:  # which is what `to_empty` puts in the place of every weight
            weight: UnbuiltWeight = args[0]
            given: dict[str, Any] = kwargs or {}
            return cls(weight.requires_grad, given.get("device") or weight.device, given.get("dtype") or weight.dtype)
        try:
            return cast(Any, super()).__torch_function__(func, types, args, kwargs)
        except ValueError as error:
            name = getattr(func, "__name__", str(func))
            raise ValueError(f"{name} of a weight that has no shape yet: {UNBUILT}") from error

    @property
    def shape(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """It has none yet."""
        raise _missing("shape")

    @property
    def ndim(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """It has none yet."""
        raise _missing("ndim")

    @property
    def nbytes(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """It has none yet."""
        raise _missing("nbytes")

    def size(self, dim: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """It has none yet."""
        raise _missing("size")

    @classmethod
    def unmake(cls, weight: Any) -> None:
        """Takes the shape of a weight away again: the reverse of `materialize`."""
        weight.data = weight.data.new_empty(0)
        weight.__class__ = cls

    def bfloat16(self, *args: Any, **kwargs: Any) -> Any:
        """Converted, as torch's lazy parameters are to every other dtype."""
        return self.to(torch.bfloat16)

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _missing(what: str) -> RuntimeError:
    return RuntimeError(f"the {what} of a weight that has none yet: {UNBUILT}")


# So that `torch.load` reads the state_dict of an unbuilt module.
torch.serialization.add_safe_globals([UnbuiltWeight])
