"""Refuses steps that hook gradients: in a trace a hook sees no step; and those that overwrite what backward needs."""

from __future__ import annotations

import inspect
from typing import Any

import torch.autograd.graph
from torch import Tensor
from torch.overrides import TorchFunctionMode

from unspool.engine.reasons import CannotPlanError, Code, is_users
from unspool.engine.trace.user_lines import Place, line_at, line_now, place_now


class NoHooks(TorchFunctionMode):
    """Refuses a step that wants to see gradients on their way, or to change them.

    In the plain loop a hook is called at every step, with the gradient of one step's tensor from all that is computed
    from it: for a state, from the step before as well. A trace would call it once, on a gradient without values, and
    would miss what other steps, or the caller, add. So there is no plan, whatever the hook does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reason: CannotPlanError | None = None

    def check(self) -> None:
        """Raises what was raised before: the step may have caught it."""
        if self._reason is not None:
            raise self._reason

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = HOOKING.get(func)
        if name is None and func in SEEING:
            own = inspect.currentframe()
            asking = own and own.f_back  # modules look at these too, of their parameters
            file = asking.f_code.co_filename if asking else ""
            if asking and (is_users(file) or file == torch.autograd.graph.__file__):
                name = SEEING[func]
        if name is not None:
            message = f"the step uses {name}, which sees gradients of single steps"
            self._reason = CannotPlanError(Code.GRADIENT_HOOKS, message, line=line_now())
            raise self._reason
        return func(*args, **(kwargs or {}))


def saved(value: Tensor) -> tuple[Tensor, int, Place | None]:
    """A tensor that autograd saves, its version, and where that is."""
    return value, value._version, place_now()


def unpacked(kept: tuple[Tensor, int, Place | None]) -> Tensor:
    """A tensor that was saved: where there are hooks, torch leaves it to them to see that it is as it was.

    Raises:
        CannotPlanError: if it has been changed in place since.
    """
    value, version, place = kept
    if value._version != version:
        message = "the step changes a tensor in place that backward needs as it was"
        raise CannotPlanError(Code.OVERWRITES, message, line=line_at(place))
    return value


_properties: Any = Tensor
HOOKING: dict[Any, str] = {
    Tensor.register_hook: "register_hook",
    Tensor.register_post_accumulate_grad_hook: "register_post_accumulate_grad_hook",
    Tensor.retain_grad: "retain_grad",
    _properties._backward_hooks.__set__: "_backward_hooks",
}
"""What lets a step see gradients."""

SEEING: dict[Any, str] = {
    _properties.grad.__get__: "grad",
    _properties.grad_fn.__get__: "grad_fn",
    _properties._version.__get__: "_version",
}
"""What lets it too, or tells what was done to a tensor, unless it is torch that asks."""
