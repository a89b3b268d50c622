"""A module that makes its weights once it knows their shapes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

Initializer: TypeAlias = Callable[[Tensor], Any]
"""Fills a new weight in place, as the functions of `torch.nn.init` do."""


class LazyModule(nn.Module):
    """A module built at first use, after torch's conventions for lazy modules.

    Weights are declared in `__init__`, where an optimiser finds them, and made in `build`. In between the module can be
    moved, copied, pickled, frozen and loaded.
    """

    built: bool

    def __init__(self, trainable: bool, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.trainable = trainable
        self.dtype = dtype
        self.built = False
        # What a weight is before anybody says otherwise: a difference at build time means `.to()` was called.
        blank = torch.empty(0)
        self._unmoved = (blank.dtype, blank.device)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = _build_once(cls.build)

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for inputs of `input_size`; override it for weights that depend on the input size.

        Args:
            input_size: the size of one row of the inputs, in their structure: an int for `[batch, n]` inputs.
            where: the `dtype` and `device` for new weights, as torch's own modules take them.
        """
        self.built = True

    def declare_weights(self, *names: str) -> None:
        """Registers weights whose shapes `build` will know, in the order of TensorFlow's variables."""
        for name in names:
            weight: Any = UnbuiltWeight(requires_grad=self.trainable)  # a Parameter, whatever its annotations say
            self.register_parameter(name, weight)

    def add_weight(self, name: str, shape: Sequence[int], initializer: Initializer, **where: Any) -> None:
        """Makes the weight `name`, declared or not, and fills it.

        Its dtype is the cell's own, else what the cell was converted to, else the one in `where`; its device likewise.
        """
        if name not in self._parameters:
            self.declare_weights(name)
        self._materialize(name, shape, **where)
        with torch.no_grad():
            initializer(getattr(self, name))

    def has_uninitialized_params(self) -> bool:
        """Whether a declared weight is still without its shape (torch's name for it)."""
        return any(isinstance(weight, UnbuiltWeight) for weight in self._parameters.values())

    def _materialize(self, name: str, shape: Sequence[int], dtype: torch.dtype | None = None, device: Any = None):
        weight = self._parameters[name]
        if not isinstance(weight, UnbuiltWeight):
            raise ValueError(f"{type(self).__name__}: the weight {name!r} is made already")
        was_converted, was_moved = weight.dtype != self._unmoved[0], weight.device != self._unmoved[1]
        dtype = self.dtype or (weight.dtype if was_converted else dtype)
        weight.materialize(tuple(shape), dtype=dtype, device=weight.device if was_moved else device)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> LazyModule:
        unbuilt = [name for name, weight in self._parameters.items() if isinstance(weight, UnbuiltWeight)]
        super()._apply(fn, recurse)
        for name in unbuilt:
            # A move between kinds of devices, to "meta" say, makes torch put a new parameter in the place of the old.
            moved: Any = self._parameters[name]
            if not isinstance(moved, UnbuiltWeight):
                make: Any = UnbuiltWeight
                self._parameters[name] = make(moved.requires_grad, moved.device, moved.dtype)
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # Loading gives an unbuilt cell its shapes; it is built once every declared weight has one.
        was_unbuilt = self.has_uninitialized_params()
        for name, weight in self._parameters.items():
            loaded = state_dict.get(prefix + name)
            if isinstance(weight, UnbuiltWeight) and loaded is not None and not isinstance(loaded, UnbuiltWeight):
                self._materialize(name, loaded.shape, loaded.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if was_unbuilt and not self.has_uninitialized_params():
            self.built = True


class UnbuiltWeight(UninitializedParameter):
    """A weight without its shape; a torch `UninitializedParameter` that can also be saved, frozen and pickled.

    It becomes an ordinary parameter, the same object, when its module is built: an optimiser that holds it goes on.
    """

    def detach(self) -> UnbuiltWeight:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Itself: there is nothing to cut off yet, and `state_dict` detaches what it stores."""
        return self

    def requires_grad_(self, mode: bool = True) -> UnbuiltWeight:
        """Freezes or thaws the weight before it is made."""
        self.requires_grad = mode
        return self

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _build_once(build: Callable[..., None]) -> Callable[..., None]:
    """Marks a module as built when its outermost `build` returns, and refuses to build it again."""
    parameters = inspect.signature(build).parameters.values()
    takes_where = any(each.kind is each.VAR_KEYWORD or each.name == "dtype" for each in parameters)

    @functools.wraps(build)
    def wrapper(self: LazyModule, input_size: Any, **where: Any) -> None:
        if self.built:
            raise RuntimeError(f"{type(self).__name__} is built already; make a new one for another input size")
        if takes_where:
            build(self, input_size, **where)
        else:
            before = {id(part) for part in (*self.modules(), *self.parameters())}
            build(self, input_size)
            _move_new_parts(self, before, **where)
        self.built = True

    return wrapper


def _move_new_parts(cell: nn.Module, before: set[int], dtype: torch.dtype | None = None, device: Any = None) -> None:
    for module in cell.modules():
        if id(module) not in before:
            module.to(device=device, dtype=dtype)
    for weight in cell.parameters(recurse=False):
        if id(weight) not in before and not isinstance(weight, UninitializedParameter):
            weight.data = weight.data.to(device=device, dtype=dtype)
