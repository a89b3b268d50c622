"""Who else looks at what torch computes: tracers, transforms, modes; and whether the values of a tensor can be seen.

A plan writes into memory behind torch's back, so whoever records operations would record memory that nobody wrote. And
what is recorded is repeated with other values, so no number that was read from a tensor may become a part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import torch._ops as torch_ops
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.overrides import _get_current_function_mode_stack  # pyright: ignore[reportPrivateUsage]
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # pyright: ignore[reportPrivateUsage]

R = TypeVar("R")

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_get_tracing_state, _set_tracing_state = _C._get_tracing_state, _C._set_tracing_state
_len_torch_dispatch_stack, _len_torch_function_stack = _C._len_torch_dispatch_stack, _C._len_torch_function_stack
_functorch = _C._functorch


def recorder() -> str | None:
    """What records operations now, to repeat them with other values; None if nothing does.

    >>> recorder()
    >>> torch.jit.is_tracing()
    False
    """
    if is_compiling():  # first, since Dynamo knows the answer, and no other of these functions
        return "torch.export" if torch.compiler.is_exporting() else "torch.compile"
    if _get_tracing_state() is not None:
        return "torch.jit.trace"
    if not _len_torch_dispatch_stack() and not _len_torch_function_stack():
        return None
    kinds, before = _C._TorchDispatchModeKey, cast(Any, torch_ops)
    if _C._get_dispatch_mode(kinds.PROXY) or before._get_dispatch_mode_pre_dispatch(kinds.PROXY):
        return "make_fx"
    return "FakeTensorMode" if _C._get_dispatch_mode(kinds.FAKE) else None


def onlooker() -> str | None:
    """What sees every operation now, a recorder or a mode of torch's; None if nothing does.

    >>> from torch.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False):
    ...     onlooker()
    '_FlopCounterMode'
    >>> with torch.device("cpu"):  # which only fills in an argument
    ...     onlooker()
    """
    found = recorder()
    if found is None and (_len_torch_dispatch_stack() or _len_torch_function_stack()):
        modes = [*_get_current_dispatch_mode_stack(), *_get_current_function_mode_stack()]
        found = next((type(mode).__name__ for mode in modes if not isinstance(mode, DeviceContext)), None)
    return found


def differentiator() -> str | None:
    """What differentiates or maps operations in a way that only operations of torch's have; None if nothing does."""
    if _C._are_functorch_transforms_active():
        return "a transform of torch.func"
    if forward_ad._current_level >= 0:  # pyright: ignore[reportPrivateUsage]
        return "forward-mode differentiation"
    return None


def hooks_see_saved() -> bool:
    """Whether somebody packs what autograd saves for backward, as `torch.autograd.graph.save_on_cpu` does.

    >>> with torch.autograd.graph.save_on_cpu():
    ...     hooks_see_saved()
    True
    """
    return _C._autograd._top_saved_tensors_default_hooks(False) is not None


def is_batched(tensor: Tensor | None) -> bool:
    """Whether `tensor` stands for many, as gradients do under `is_grads_batched` of `torch.autograd.grad`."""
    if tensor is None:
        return False
    return _functorch.is_legacy_batchedtensor(tensor) or _functorch.is_batchedtensor(tensor)


def obstacle() -> str:
    """Why `has_values` says no, for a message: under what."""
    return recorder() or differentiator() or "tensors without values"


def has_values(tensor: Tensor) -> bool:
    """Whether a program may depend on the values of `tensor`: they are there, and nobody repeats it with others.

    >>> has_values(torch.ones(2)), has_values(torch.ones(2, device="meta"))
    (True, False)
    """
    if recorder() is not None or tensor.is_meta:
        return False
    while _functorch.is_gradtrackingtensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    # Another transform's tensor may stand for many; that of a subclass, such as a FakeTensor, for none.
    return type(tensor) in (Tensor, nn.Parameter, nn.Buffer) and not _functorch.is_functorch_wrapped_tensor(tensor)


def static_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of `tensor` as numbers; `torch.jit.trace` has tensors there, and warns wherever one is looked at."""
    return tensor.shape if _get_tracing_state() is None else _untraced(lambda: tensor.shape)


def constant(value: Any) -> Tensor:
    """`torch.as_tensor(value)`; `torch.jit.trace` would warn that it is a constant, which is what it is."""
    parts: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    if _get_tracing_state() is None or any(isinstance(each, Tensor) for each in parts):
        return torch.as_tensor(value)
    return _untraced(lambda: torch.as_tensor(value))


def _untraced(function: Callable[[], R]) -> R:
    state = _get_tracing_state()
    _set_tracing_state(None)
    try:
        return function()
    finally:
        _set_tracing_state(state)
