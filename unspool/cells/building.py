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


class Buildable(nn.Module):
    """A module built at first use, after torch's conventions for lazy modules.

    Weights are declared in `__init__`, where an optimiser finds them, and made in `build`. In between the module can be
    moved, copied, pickled, frozen and loaded.

    New weights have the dtype that the module was given, else the one it was converted to, else the one `build` is
    called with; and the device likewise.
    """

    built: bool

    def __init__(self, trainable: bool, weight_dtype: torch.dtype | None) -> None:
        super().__init__()
        self.trainable = trainable
        self.weight_dtype = weight_dtype
        self.built = False
        # Goes wherever the module goes: what has changed about it by the time of `build` was asked for.
        self._blank = torch.empty(0)
        self._unmoved = (self._blank.dtype, self._blank.device)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = _build_once(cls.build)

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for inputs of `input_size`; override it for weights that depend on the input size.

        It runs once: every class that defines it has it wrapped, so that the module knows when it is built. What it
        makes is moved to the dtype and device of `where`, and has the module's mode: training or not, trainable or not.

        Args:
            input_size: the size of one row of the inputs, in their structure: an int for `[batch, n]` inputs.
            where: the `dtype` and `device` for new weights, as torch's own modules take them. An override may leave
                them out.
        """
        self.built = True

    def declare_weights(self, *names: str) -> None:
        """Registers weights whose shapes `build` will know, in the order of TensorFlow's variables."""
        for name in names:
            weight: Any = UnbuiltWeight(requires_grad=self.trainable)  # a Parameter, whatever its annotations say
            self.register_parameter(name, weight)

    def add_weight(self, name: str, shape: Sequence[int], initializer: Initializer, **where: Any) -> None:
        """Makes the weight `name`, declared or not, and fills it; one that is there already, loaded say, stays."""
        if name not in self._parameters:
            self.declare_weights(name)
        weight: Any = self._parameters[name]
        if isinstance(weight, UnbuiltWeight):
            weight.materialize(tuple(shape), **where)
            with torch.no_grad():
                filled = initializer(weight)
                # TensorFlow's initialisers return a tensor, torch's fill the one they are given.
                if isinstance(filled, Tensor) and filled is not weight:
                    weight.copy_(filled)
        elif weight.shape != tuple(shape):
            have, expected = list(weight.shape), list(shape)
            raise ValueError(f"{type(self).__name__}: the weight {name!r} has shape {have}, but expected {expected}")

    def has_uninitialized_params(self) -> bool:
        """Whether a declared weight is still without its shape (torch's name for it)."""
        return any(isinstance(weight, UnbuiltWeight) for weight in self._parameters.values())

    def placement(self, dtype: torch.dtype | None = None, device: Any = None) -> dict[str, Any]:
        """The dtype and device of new weights, if `build` is called with these."""
        was_converted, was_moved = self._blank.dtype != self._unmoved[0], self._blank.device != self._unmoved[1]
        return {
            "dtype": self.weight_dtype or (self._blank.dtype if was_converted else dtype),
            "device": self._blank.device if was_moved else device,
        }

    def requires_grad_(self, requires_grad: bool = True) -> Buildable:
        """Freezes or thaws the module, with what it has yet to make."""
        self.trainable = requires_grad
        super().requires_grad_(requires_grad)
        return self

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Buildable:
        unbuilt = [name for name, weight in self._parameters.items() if isinstance(weight, UnbuiltWeight)]
        super()._apply(fn, recurse)
        self._blank = fn(self._blank)
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
                weight.materialize(tuple(loaded.shape), **self.placement(loaded.dtype))
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

    def bfloat16(self, *args: Any, **kwargs: Any) -> Any:
        """Converted, as torch's lazy parameters are to every other dtype."""
        return self.to(torch.bfloat16)

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


# So that `torch.load` reads the state_dict of an unbuilt module.
torch.serialization.add_safe_globals([UnbuiltWeight])


def _build_once(build: Callable[..., None]) -> Callable[..., None]:
    """Marks a module as built when its `build` returns, and refuses to build it again."""
    parameters = inspect.signature(build).parameters.values()
    takes_where = any(each.kind is each.VAR_KEYWORD or each.name == "dtype" for each in parameters)

    @functools.wraps(build)
    def wrapper(self: Buildable, input_size: Any, **where: Any) -> None:
        if self.built:
            raise RuntimeError(f"{type(self).__name__} is built already; make a new one for another input size")
        where = self.placement(**where)
        before = {id(part) for part in (*self.modules(), *self.parameters(), *self.buffers())}
        # Weights made in inference mode could never be trained.
        with torch.inference_mode(False):
            build(self, input_size, **where if takes_where else {})
            _adopt(self, before, **where)
        self.built = True

    return wrapper


def _adopt(module: Buildable, before: set[int], **where: Any) -> None:
    """Gives what `build` made the module's place and mode."""
    for child in module.children():
        if id(child) not in before:
            child.to(**where).train(module.training)
    for weight in module.parameters():
        if id(weight) not in before and not isinstance(weight, UninitializedParameter):
            weight.data = weight.data.to(**where)
            weight.requires_grad_(weight.requires_grad and module.trainable)
    for name, buffer in module.named_buffers(recurse=False):
        if id(buffer) not in before:
            dtype = where["dtype"] if buffer.is_floating_point() else None
            setattr(module, name, buffer.to(device=where["device"], dtype=dtype))
