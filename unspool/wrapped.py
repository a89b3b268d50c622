"""Modules that torch has wrapped for many processes: `DistributedDataParallel`, and `fully_shard` (FSDP2).

Both do their work around a module's forward: they gather the shards of its weights before it, free them afterwards, and
have gradients reduced. A loop is one forward of whatever is wrapped in its cell, not one for each step: processes whose
sequences have different lengths take different numbers of steps, and would wait for each other's collectives for ever.
Within the loop the cell is what it was before it was wrapped, so that its step is planned as any other.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from unspool.structure import Structure, flatten, map_tensors, unflatten_as

if TYPE_CHECKING:  # cells are built without the engine
    from unspool.engine.request import Request

R = TypeVar("R", bound="Request")

HOOKS = ("_forward_pre_hooks", "_forward_hooks")
"""Where a module keeps the hooks by which it is sharded."""
RECORDS = ("__composable_api_state_key", "_is_fsdp_managed_module", "_fsdp_use_orig_params")
"""What the attributes begin with in which torch notes how a module is sharded, and all that are in it."""
METHOD = "_unspool_loop"
"""What a loop is called while it is made a forward of a sharded module."""


def run_wrapped(request: R, loop: Callable[[R], tuple[Structure, Structure]]) -> tuple[Structure, Structure]:
    """Runs a loop as one forward of all that is wrapped in its cell: outputs and the final state.

    Args:
        request: what is asked for. A policy of mixed precision may change the dtypes of inputs, state and outputs.
        loop: runs it, on a cell in which nothing is wrapped.

    Raises:
        ValueError: if a module within the cell has a policy of mixed precision that the cell has not.
    """
    wrapped = _wrapped(request.cell)
    if not wrapped:
        return loop(request)
    given, found = [*flatten(request.inputs), *flatten(request.state)], list[Structure]()
    first = len(flatten(request.inputs))

    def body(*leaves: Any) -> tuple[Any, ...]:
        casts = {old.dtype: new.dtype for old, new in zip(given, leaves, strict=True) if isinstance(new, Tensor)}
        now = replace(
            request,
            inputs=unflatten_as(request.inputs, list(leaves[:first])),
            state=unflatten_as(request.state, list(leaves[first:])),
            output_dtype=casts.get(cast(Any, request.output_dtype), request.output_dtype),
        )
        with unwrapped(request.cell):
            found[:] = loop(now)
        return (*flatten(found[0]), *flatten(found[1]))

    results = _through(wrapped, body, given)
    outputs, state = found
    last = len(flatten(outputs))
    return unflatten_as(outputs, list(results[:last])), unflatten_as(state, list(results[last:]))


def is_wrapped(cell: Any) -> bool:
    """Whether something in a cell is wrapped."""
    return bool(_wrapped(cell))


@contextmanager
def unwrapped(cell: Any) -> Generator[None, None, None]:
    """Has the modules of a cell as they were before they were wrapped; their weights are as they are."""
    with ExitStack() as stack:
        for module in _wrapped(cell, every=True):
            if isinstance(module, DistributedDataParallel):
                for children, name in _places(cell, module):
                    _put(stack, children, name, module.module)
            else:
                _as_before_sharding(stack, module)
        yield


@contextmanager
def unwrapped_without_values(cell: Any) -> Generator[None, None, None]:
    """`unwrapped`, with whole weights that have no values in the place of shards: to look at, not to run."""
    with unwrapped(cell), ExitStack() as stack:
        whole: dict[Any, nn.Parameter] = {}  # a weight in two places stays one
        for module in cell.modules() if may_be_wrapped() and isinstance(cell, nn.Module) else ():
            weights = vars(module)["_parameters"]
            for name, each in weights.items():
                if hasattr(each, "placements"):
                    empty = torch.empty(each.shape, dtype=each.dtype, device=each.device)
                    _put(stack, weights, name, whole.setdefault(each, nn.Parameter(empty, each.requires_grad)))
        yield


def check_not_wrapped(module: nn.Module) -> None:
    """Raises `RuntimeError` if `module`, which is about to make its weights, is wrapped already, or a part of what is.

    Its weights would be neither sharded nor kept the same in all processes, and nobody would notice. A module does not
    know what it is a part of, but whoever has it built does: one of the methods that are running.
    """
    frame = inspect.currentframe() if may_be_wrapped() else None
    seen: set[int] = set()
    while frame is not None:
        who = frame.f_locals.get("self")
        if isinstance(who, nn.Module) and id(who) not in seen and "_modules" in vars(who):  # else it is being made
            seen.add(id(who))
            for each in who.modules():
                if _is_wrapping(each) and any(part is module for part in each.modules()):
                    raise _unbuilt(module, each)
        frame = frame.f_back


def without_views(module: nn.Module, results: Any) -> Any:
    """What `module` returns, with copies of views if it is sharded.

    The gathering of shards for backward hangs on what it returns, and a change in place would take that from a view.
    """
    if not may_be_wrapped() or not _is_sharded(module):
        return results
    return map_tensors(lambda leaf: leaf if leaf._base is None else leaf.clone(), results)


# -- what is wrapped --------------------------------------------------------------------------------------------------


def may_be_wrapped() -> bool:
    """Whether there are processes that something could be wrapped for."""
    distributed: Any = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def _is_sharded(module: nn.Module) -> bool:
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")  # without it, nothing is
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


def _is_wrapping(module: nn.Module) -> bool:
    return isinstance(module, DistributedDataParallel) or _is_sharded(module)


def _wrapped(cell: Any, *, every: bool = False) -> list[nn.Module]:
    """The wrapped modules in a cell, outermost first; one for those that were sharded together, or every one."""
    if not may_be_wrapped() or not isinstance(cell, nn.Module):
        return []
    found: dict[int, nn.Module] = {}
    for module in cell.modules():
        if _is_sharded(module):
            found.setdefault(id(module if every else cast(Any, module)._get_fsdp_state()), module)
        elif isinstance(module, DistributedDataParallel) and module is not cell:
            found[id(module)] = module
    return list(found.values())


def _places(cell: nn.Module, module: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    for parent in cell.modules():
        children = vars(parent)["_modules"]
        yield from [(children, name) for name, child in children.items() if child is module]


def _unbuilt(module: nn.Module, wrapped: nn.Module) -> RuntimeError:
    by = "DistributedDataParallel" if isinstance(wrapped, DistributedDataParallel) else "fully_shard"
    kind = _kind_before_sharding(module) if _is_sharded(module) else type(module)
    return RuntimeError(
        f"{kind.__name__} has no weights yet, but was given to {by} already, alone or as a part of a module, and {by} "
        "would not know of them: build it before, by its argument input_size, by build(input_size), or by running the "
        "loop once"
    )


# -- how it is run ----------------------------------------------------------------------------------------------------


def _through(
    wrapped: Sequence[nn.Module], body: Callable[..., tuple[Any, ...]], leaves: Sequence[Any], outermost: bool = True
) -> tuple[Any, ...]:
    """Calls `body` within the forwards of all that is wrapped, each of which may replace what goes in and comes out."""
    if not wrapped:
        return body(*leaves)
    module, *rest = wrapped

    def inner(*now: Any) -> tuple[Any, ...]:
        if not outermost and _dtypes(now) != _dtypes(leaves):
            raise ValueError(
                f"{type(module).__name__} was sharded with a mixed precision policy (mp_policy) that casts its inputs, "
                "but what is around it in the cell was not: give fully_shard of the whole cell the same mp_policy"
            )
        return _through(rest, body, now, outermost=False)

    forward = _parallel_forward if isinstance(module, DistributedDataParallel) else _sharded_forward
    return forward(module, inner, leaves)


def _dtypes(leaves: Sequence[Any]) -> list[Any]:
    return [getattr(each, "dtype", None) for each in leaves]


def _sharded_forward(module: nn.Module, inner: Callable[..., Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Calls `inner` as a forward of a module that is sharded: between what gathers its weights and what frees them."""
    own, fsdp = vars(module), sys.modules["torch.distributed.fsdp"]
    own[METHOD] = inner
    try:
        fsdp.register_fsdp_forward_method(module, METHOD)
    finally:
        method = own.pop(METHOD)  # the cell has nothing that it did not have
    return method(*leaves)


class _Inner(nn.Module):
    """A function in the place of the module that `DistributedDataParallel` wraps; the module is back when it runs."""

    def __init__(self, children: dict[str, Any], function: Callable[..., Any]) -> None:
        super().__init__()
        self._back, self._function = (children, children["module"]), function

    def forward(self, *leaves: Any) -> Any:
        """What the function returns."""
        children, module = self._back
        children["module"] = module
        return self._function(*leaves)


def _parallel_forward(module: nn.Module, inner: Callable[..., Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Calls `inner` as the forward of a module that is kept the same in all processes."""
    children = vars(module)["_modules"]
    own = children["module"]
    children["module"] = _Inner(children, inner)
    try:
        return module(*leaves)
    finally:
        children["module"] = own


def _as_before_sharding(stack: ExitStack, module: nn.Module) -> None:
    own = vars(module)
    stack.callback(setattr, module, "__class__", module.__class__)
    module.__class__ = _kind_before_sharding(module)
    for part in module.modules():
        noted = vars(part)
        for name in [each for each in noted if each.startswith(RECORDS)]:
            stack.callback(noted.__setitem__, name, noted.pop(name))
    for name in HOOKS:
        others = [(key, each) for key, each in own[name].items() if not _is_of_sharding(each)]
        _put(stack, own, name, OrderedDict(others))


def _kind_before_sharding(module: nn.Module) -> type[nn.Module]:
    return next(each for each in module.__class__.__bases__ if issubclass(each, nn.Module))


def _is_of_sharding(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed.")


def _put(stack: ExitStack, where: dict[str, Any], name: str, value: Any) -> None:
    """Puts a value in the place of another until the stack is unwound."""
    stack.callback(where.__setitem__, name, where[name])
    where[name] = value
