"""A call of a loop in a graph of Dynamo's: the part that Dynamo traces.

Dynamo sees which tensors the loop is given, its cells' weights among them, and one operation on these. Everything else
about the call, its cells, its options and the containers of its arguments, is kept at its `Site`, by a key that is a
constant of the graph.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from unspool.dynamo.skipping import called_as_it_is
from unspool.dynamo.structures import decode
from unspool.structure import Structure

P = ParamSpec("P")
R = TypeVar("R")

SUPPORTED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)
"""Whether Dynamo hands objects to functions that it takes as constant, and guards their identity."""


# What stands in the arguments of a loop for something: a pair of one of these words and a number. Dynamo guards
# everything about a class whose instances it makes, at every call, so these are plain tuples.
TENSOR, CELL, STEP_INDEX = "unspool's tensor", "unspool's cell", "unspool's step index"


def captures(loop: Callable[P, R]) -> Callable[P, R]:
    """`loop` itself, which Dynamo traces until it calls `as_one_operation`; with an older torch, it calls the loop."""
    return loop if SUPPORTED else called_as_it_is(loop)


def loop_options(
    dtype: Any, parallel_iterations: Any, swap_memory: Any, time_major: Any, scope: Any, memory: Any
) -> dict[str, Any]:
    """The options that all loops have which can be one operation, by name."""
    return {
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
        "scope": scope,
        "memory": memory,
    }


def as_one_operation(
    loop: Callable[..., Any], cells: dict[str, Any], given: dict[str, Structure], options: dict[str, Any]
) -> Any:
    """The results of `loop(**cells, **given, **options)`, as one operation of the graph that Dynamo records.

    Where that cannot be, the graph breaks, and the loop is called as it is.

    Args:
        loop: a loop that returns its outputs, and then states.
        cells: its arguments that are cells, or lists of cells.
        given: its arguments that are structures of tensors.
        options: its `loop_options`, constants.
    """
    each_cell: list[Any] = []
    tensors: list[Tensor] = []
    arguments = {name: _cells_placed(value, each_cell) for name, value in cells.items()}
    if not "" + can_be_captured(torch.compiler.is_exporting(), *each_cell):
        return _called(loop, {**cells, **given, **options})
    names = tuple([_weights(cell, tensors) for cell in each_cell])
    rows: list[Any] = []
    for name, value in given.items():
        before = len(tensors)
        arguments[name] = _placed(_as_lengths(name, value), tensors)
        rows += [_row(each, 2 if name == "inputs" else 1) for each in tensors[before:]]
    if not tensors:  # the loop says what it lacks
        return _called(loop, {**cells, **given, **options})
    device = tensors[-1].device.type
    autocast = (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
    gradients, memory, rest = torch.is_grad_enabled(), options["memory"], _constants(options)
    asked = tuple([gradients and each.requires_grad for each in tensors])
    key = "" + site_key(loop.__name__, arguments, names, memory, rest, autocast, asked, tuple(rows), *each_cell)
    wanted = [flag == "1" for flag in "" + wanted_gradients(key)]
    found: Any = torch.ops.unspool.loop(tensors[-1], tensors, key, wanted)
    return decode("" + result_program(key), found)


@called_as_it_is
def _called(loop: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    return loop(**arguments)


def can_be_captured(exporting: bool, *cells: Any) -> str:
    """Something if loops over these cells can be operations, else nothing. Dynamo calls it, once a trace."""
    from unspool.dynamo.obstacles import EXPORT, obstacle

    reasons = (EXPORT if exporting else obstacle(cell) for cell in cells)
    reason = next((reason for reason in reasons if reason is not None), None)
    cast(Any, _called)._torchdynamo_disable_msg = reason  # which Dynamo says, if it breaks the graph there
    return "" if reason is not None else "yes"


def site_key(
    loop: str,
    arguments: dict[str, Any],
    names: tuple[tuple[str, ...], ...],
    memory: Any,
    options: dict[str, Any],
    autocast: tuple[str, bool, torch.dtype],
    asked: tuple[bool, ...],
    rows: tuple[tuple[torch.dtype, torch.device, tuple[int, ...]], ...],
    *cells: Any,
) -> str:
    """The key of a new site. Dynamo calls it, once a trace."""
    import unspool
    from unspool.dynamo.opening import opened
    from unspool.dynamo.site import Site

    site = Site(getattr(unspool, loop), arguments, names, {**options, "memory": memory}, autocast, asked)
    return opened(site, cells, rows)


def wanted_gradients(key: str) -> str:
    """1 for each of a site's operands whose gradient is wanted, and 0 for the others. Dynamo calls it, once a trace."""
    from unspool.dynamo.site import Site

    return "".join(map(str, map(int, Site.at(key).wanted)))


def result_program(key: str) -> str:
    """How the results of a site's loop are made of tensors. Dynamo calls it, after the operation was run on fakes."""
    from unspool.dynamo.site import Site

    return Site.at(key).program


for constant in (can_be_captured, site_key, wanted_gradients, result_program):
    # `torch._dynamo.assume_constant_result`, without importing the compiler, which takes a second.
    cast(Any, constant)._dynamo_marked_constant = True


def _constants(options: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in options.items() if name != "memory"}
    found["scope"] = getattr(found["scope"], "name", found["scope"])
    return found


def _cells_placed(value: Any, cells: list[Any]) -> Any:
    several: Any = value
    if isinstance(value, list | tuple | nn.ModuleList):
        return [_cells_placed(each, cells) for each in several]
    cells.append(several)
    return CELL, len(cells) - 1


def _weights(cell: Any, tensors: list[Tensor]) -> tuple[str, ...]:
    """The names of a cell's weights, which are put with the tensors."""
    if not isinstance(cell, nn.Module):
        return ()
    names: list[str] = []
    _collect(cell, "", names, tensors)
    return tuple(names)


def _collect(module: nn.Module, path: str, names: list[str], tensors: list[Tensor]) -> None:
    """Puts the weights of a module, and of all in it, with the tensors, each once.

    As `named_parameters` and `named_buffers` do, of which Dynamo would guard the code, class by class, at every call.
    """
    own: Any = module
    own.__dict__.get("built")  # so that Dynamo traces anew when it is
    for kept in (own._parameters, own._buffers):
        for name, weight in kept.items():
            if weight is not None and not any(weight is each for each in tensors):
                names.append(path + name)
                tensors.append(weight)
    for name, child in own._modules.items():
        if child is not None:
            _collect(child, f"{path}{name}.", names, tensors)


def _row(tensor: Tensor, axes: int) -> tuple[torch.dtype, torch.device, tuple[int, ...]]:
    """What a row of a tensor looks like, in numbers; those of rows and steps, the first axes, stay symbols."""
    return tensor.dtype, tensor.device, tuple([operator.index(size) for size in tensor.shape[axes:]])


def _as_lengths(name: str, value: Any) -> Any:
    """A list of lengths as a tensor: its numbers may be other ones at the next call."""
    lengths: Any = value
    if name != "sequence_length" or not isinstance(value, list | tuple) or not lengths:
        return lengths
    whole = [isinstance(each, int) and not isinstance(each, bool) for each in lengths]
    return torch.tensor(lengths) if all(whole) else lengths


def _placed(part: Structure, tensors: list[Tensor]) -> Structure:
    """A structure with numbers in the places of its tensors, which are put with the others."""
    from unspool.loops.step_index import StepIndex

    inner: Any = torch.as_tensor(part) if isinstance(part, np.ndarray) else part
    if isinstance(inner, Tensor):
        tensors.append(inner)
        return TENSOR, len(tensors) - 1
    if isinstance(part, StepIndex):
        return STEP_INDEX, 0
    kind: Any = inner.__class__
    if kind is dict:
        return {key: _placed(each, tensors) for key, each in inner.items()}
    if kind is OrderedDict:
        return OrderedDict([(key, _placed(each, tensors)) for key, each in inner.items()])
    if isinstance(inner, tuple) and hasattr(cast(Any, inner), "_fields"):
        return kind(*[_placed(each, tensors) for each in cast(Any, inner)])
    if kind is tuple or kind is list:
        parts = [_placed(each, tensors) for each in cast(Any, inner)]
        return tuple(parts) if kind is tuple else parts
    return cast(Any, inner)
