"""Who else looks at what torch computes: tracers, transforms, modes; and whether the values of a tensor can be seen.

A plan writes into memory behind torch's back, so whoever records operations would record memory that nobody wrote. And
what is recorded is repeated with other values, so no number that was read from a tensor may become a part of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._C import (
    _are_functorch_transforms_active as are_transforms_active,  # pyright: ignore[reportPrivateUsage]
)
from torch._C import (
    _functorch,  # pyright: ignore[reportPrivateUsage]
    _get_dispatch_mode,  # pyright: ignore[reportPrivateUsage]
    _get_tracing_state,  # pyright: ignore[reportPrivateUsage]
    _len_torch_dispatch_stack,  # pyright: ignore[reportPrivateUsage]
    _len_torch_function_stack,  # pyright: ignore[reportPrivateUsage]
    _set_tracing_state,  # pyright: ignore[reportPrivateUsage]
    _TorchDispatchModeKey,  # pyright: ignore[reportPrivateUsage]
)
from torch._ops import _get_dispatch_mode_pre_dispatch  # pyright: ignore[reportPrivateUsage]
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.overrides import _get_current_function_mode_stack  # pyright: ignore[reportPrivateUsage]
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # pyright: ignore[reportPrivateUsage]


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
    proxies = _TorchDispatchModeKey.PROXY
    if _get_dispatch_mode(proxies) is not None or _get_dispatch_mode_pre_dispatch(proxies) is not None:
        return "make_fx"
    return "FakeTensorMode" if _get_dispatch_mode(_TorchDispatchModeKey.FAKE) is not None else None


def onlooker() -> str | None:
    """What sees every operation now, a recorder or a mode of torch's; None if nothing does.

    >>> from torch.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False):
    ...     onlooker()
    'FlopCounterMode'
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
    if are_transforms_active():
        return "a transform of torch.func"
    if forward_ad._current_level >= 0:  # pyright: ignore[reportPrivateUsage]
        return "forward-mode differentiation"
    return None


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
    if recorder() is not None or tensor.device.type == "meta":
        return False
    while _functorch.is_gradtrackingtensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    # Another transform's tensor may stand for many; that of a subclass, such as a FakeTensor, for none.
    return type(tensor) in (Tensor, nn.Parameter, nn.Buffer) and not _functorch.is_functorch_wrapped_tensor(tensor)


def static_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of `tensor` as numbers; `torch.jit.trace` has tensors there, and warns wherever one is looked at."""
    state = _get_tracing_state()
    if state is None:
        return tensor.shape
    _set_tracing_state(None)  # pyright: ignore[reportArgumentType]
    try:
        return tensor.shape
    finally:
        _set_tracing_state(state)
