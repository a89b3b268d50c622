"""A module that makes its weights once it knows their shapes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unspool.cells.unbuilt import UnbuiltWeight
from unspool.wrapped import check_not_wrapped

Initializer: TypeAlias = Callable[[Tensor], Any]
"""Called with a new weight: fills it in place, as the functions of `torch.nn.init` do, or returns its values."""


_witness: ContextVar[dict[Tensor, Initializer] | None] = ContextVar("witness", default=None)


@contextmanager
def witnessed_initializers() -> Generator[dict[Tensor, Initializer], None, None]:
    """Notes what fills each weight that is made in the block: a front end can fill it again, at its own time."""
    found: dict[Tensor, Initializer] = {}
    token = _witness.set(found)
    try:
        yield found
    finally:
        _witness.reset(token)


_NOTHING = torch.empty(0)


class Buildable(nn.Module):
    """A module built at first use, after torch's conventions for lazy modules.

    Weights are declared in `__init__`, where an optimiser finds them, and made in `build`. In between the module can be
    moved, copied, pickled, frozen and loaded.

    New weights have the dtype that the module was given, else the one it was converted to, else the one `build` is
    called with; and the device likewise.
    """

    built: bool
    building: bool

    def __init__(self, trainable: bool, weight_dtype: torch.dtype | None) -> None:
        super().__init__()
        self.trainable = trainable
        self.weight_dtype = weight_dtype
        self.built = False
        self.building = False
        self.built_for: Any = None
        """The input size that `build` was called with; None before, and where there was nothing to build."""
        # Goes wherever the module goes: what has changed about it by the time of `build` was asked for.
        self._blank = torch.empty(0)
        self._unmoved = (self._blank.dtype, self._blank.device)

    def has_nothing_to_build(self) -> None:
        """Says that no weights will ever be made. All such modules are alike to a guard, which compares identities."""
        self.built, self._blank = True, _NOTHING

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
        self.built = not self.building  # called by an override, it leaves the verdict to that one's end

    def declare_weights(self, *names: str) -> None:
        """Registers weights whose shapes `build` will know, in the order of TensorFlow's variables."""
        for name in names:
            with torch.inference_mode(False):  # or it could never be trained
                weight: Any = UnbuiltWeight(requires_grad=self.trainable)  # a Parameter, whatever its annotations say
            self.register_parameter(name, weight)

    def add_weight(self, name: str, shape: Sequence[int], initializer: Initializer, **where: Any) -> None:
        """Makes the weight `name`, declared or not, and fills it; one that is there already, loaded say, stays."""
        if name not in self._parameters:
            self.declare_weights(name)
        weight: Any = self._parameters[name]
        if isinstance(weight, UnbuiltWeight):
            if where.get("device") is None and weight.is_meta:
                where["device"] = weight.device  # put there by itself, as a library that wants no memory used does
            with torch.no_grad():
                values = torch.empty(tuple(shape), **where)
                if weight.is_meta and not values.is_meta:
                    kind, place = type(self).__name__, values.device
                    raise RuntimeError(
                        f"{kind}: the weight {name!r} is on the meta device, which has no memory, but is to be made on "
                        f"{place}: call to_empty(device={str(place)!r}) on the model before"
                    )
                # TensorFlow's initialisers return a tensor, torch's fill the one they are given.
                filled = initializer(values)
                weight.materialize(tuple(shape), **where)
                weight.copy_(filled if isinstance(filled, Tensor) else values)
            if (witness := _witness.get()) is not None:
                witness[weight] = initializer
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
        # Loading gives unbuilt weights their shapes; `build`, when it runs, makes those that are still without.
        for name, weight in self._parameters.items():
            loaded = state_dict.get(prefix + name)
            if isinstance(weight, UnbuiltWeight) and loaded is not None and not isinstance(loaded, UnbuiltWeight):
                weight.materialize(tuple(loaded.shape), **self.placement(loaded.dtype))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _build_once(build: Callable[..., None]) -> Callable[..., None]:
    """`build` for a module that is not built yet, and is afterwards; if it fails, as if it had not been called."""
    parameters = inspect.signature(build).parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    accepted = {"dtype", "device"} if takes_any else {"dtype", "device"} & {each.name for each in parameters}

    @functools.wraps(build)
    def wrapper(self: Buildable, input_size: Any, dtype: torch.dtype | None = None, device: Any = None) -> None:
        where = self.placement(dtype, device)
        told = {name: where[name] for name in accepted}
        if self.building:  # a subclass's build calling its base's
            build(self, input_size, **told)
            return
        if self.built:
            raise RuntimeError(f"{type(self).__name__} is built already; make a new one for another input size")
        unbuilt: list[Any] = [weight for weight in self.parameters(recurse=False) if isinstance(weight, UnbuiltWeight)]
        before = _own_parts(self)
        self.building = True
        try:
            # Weights made in inference mode could never be trained.
            with torch.inference_mode(False):
                build(self, input_size, **told)
                if unbuilt or _has_new_weights(self, before):
                    check_not_wrapped(self)
                _adopt(self, before, **({} if len(accepted) == 2 else where))
        except BaseException:
            for weight in unbuilt:
                if not isinstance(weight, UnbuiltWeight):
                    UnbuiltWeight.unmake(weight)
            raise
        finally:
            self.building = False
        self.built, self.built_for = True, input_size

    return wrapper


def _own_modules(module: nn.Module) -> Iterator[nn.Module]:
    """A module and the modules in it, but not those that another Buildable sees to."""
    yield module
    for child in module.children():
        if not isinstance(child, Buildable):
            yield from _own_modules(child)


def _own_parts(module: nn.Module) -> list[Any]:
    """Its own modules, with their weights and buffers."""
    modules = list(_own_modules(module))
    return [*modules, *(part for each in modules for part in (*each.parameters(False), *each.buffers(False)))]


def _has_new_weights(module: nn.Module, before: list[Any]) -> bool:
    known = {id(part) for part in before}
    return any(isinstance(part, nn.Parameter) and id(part) not in known for part in _own_parts(module))


def _adopt(module: Buildable, before: list[Any], dtype: torch.dtype | None = None, device: Any = None) -> None:
    """Gives what `build` made the module's mode and, where `build` was not told it, its place."""
    known = {id(part) for part in before}
    moved: dict[int, Any] = {}  # a weight in two places stays one
    for owner in list(_own_modules(module)):
        if id(owner) not in known:
            owner.training = module.training
        for name, part in [*owner.named_parameters("", False), *owner.named_buffers("", False)]:
            if id(part) in known:
                continue
            if isinstance(part, nn.Parameter):
                part.requires_grad = part.requires_grad and module.trainable
            if not isinstance(part, UninitializedParameter):
                place = {"device": device, "dtype": dtype if part.is_floating_point() else None}
                setattr(owner, name, moved.setdefault(id(part), _moved(part, **place)))


def _moved(part: Tensor, **place: Any) -> Tensor:
    value = part.detach().to(**place)
    if (value.dtype, value.device) == (part.dtype, part.device):
        return part
    return nn.Parameter(value, part.requires_grad) if isinstance(part, nn.Parameter) else value
