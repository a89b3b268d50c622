"""What loops and wrappers ask of anything that looks like a cell, whether or not it is an `RNNCell`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _device as device_context

from unspool.cells.building import Buildable
from unspool.structure import Structure, shown


def assert_like_rnncell(name: str, cell: Any, *, starts: bool = True) -> None:
    """Raises `TypeError` unless `cell` (the argument `name`) has what a cell has: sizes, an initial state, a call.

    `starts` says that its initial state is needed, since the caller has none.

    >>> assert_like_rnncell("cell", torch.nn.Linear(2, 3))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: The argument 'cell' (Linear...) is not an RNNCell: 'output_size' is missing, 'state_size' is missing, ...
    """
    missing = [f"{size!r} is missing" for size in ("output_size", "state_size") if not hasattr(cell, size)]
    if starts and not (hasattr(cell, "get_initial_state") or hasattr(cell, "zero_state")):
        missing.append("'zero_state' or 'get_initial_state' is required")
    if not callable(cell):
        missing.append("it is not callable")
    if isinstance(cell, type):
        missing = [f"it is the class {cell.__name__}, not a cell made from it"]
    if missing:
        if isinstance(cell, Tensor):
            missing = ["it is a tensor; a loop is given the cell first, then its inputs"]
        raise TypeError(f"The argument {name!r} ({shown(cell)}) is not an RNNCell: {', '.join(missing)}")


def buildable_part(cell: Any) -> Buildable | None:
    """The part of `cell` that is built at first use, if there is one; `torch.compile` wraps it."""
    inner = getattr(cell, "_orig_mod", cell)
    return inner if isinstance(inner, Buildable) else None


def is_built(cell: Any) -> bool:
    """Whether there is nothing left to be built."""
    buildable = buildable_part(cell)
    return buildable is None or buildable.built


def ensure_built_for(cell: Any, input_size: Any, **where: Any) -> None:
    """Builds a cell inside another for inputs of `input_size`, if it can be built and is not yet."""
    buildable = buildable_part(cell)
    if buildable is not None and not buildable.built:
        buildable.build(input_size, **where)


def check_inputs_of(cell: Any, inputs: Structure, state: Structure) -> None:
    """The check that a cell inside another makes before it is built."""
    buildable: Any = buildable_part(cell)
    if buildable is not None:
        buildable.check_inputs(inputs, state)


def initial_state_of(cell: Any, batch_size: Any, dtype: torch.dtype, device: Any) -> Structure:
    """The initial state of anything that looks like a cell; `get_initial_state` is preferred, as in TensorFlow."""
    if not hasattr(cell, "get_initial_state") or _is_ours(cell, "get_initial_state"):
        return zero_state_of(cell, batch_size, dtype, device)
    with _device(device):
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)


def zero_state_of(cell: Any, batch_size: Any, dtype: torch.dtype, device: Any) -> Structure:
    """`zero_state` of anything that looks like a cell."""
    if _is_ours(cell, "zero_state"):
        return cell.zero_state(batch_size, dtype, device)
    with _device(device):
        return cell.zero_state(batch_size, dtype)


def _is_ours(cell: Any, method: str) -> bool:
    """Whether a method is one of this room, which is told its device: to set one costs more than a state of zeros."""
    own = getattr(cell.__class__, method, None)
    of_this_room = str(getattr(own, "__module__", None)).startswith("unspool.cells.")
    return of_this_room and method not in getattr(cell, "__dict__", ())


def _device(device: Any) -> AbstractContextManager[Any]:
    # Cells ported from TensorFlow have no `device` argument, so the device is set around the call.
    if device is None or (device_context.CURRENT_DEVICE is None and torch.device(device).type == "cpu"):
        return nullcontext()
    return torch.device(device)


def start_sequence(cell: Any) -> None:
    """Tells `cell`, and every cell inside it, that a sequence begins."""
    for module in cell.modules() if isinstance(cell, nn.Module) else [cell]:
        # Asked of the class, since what `torch.compile` wraps around a module passes its attributes on.
        start = getattr(module.__class__, "start_sequence", None)
        if start is not None:
            start(module)


def variables_of(cell: Any) -> Iterator[tuple[str, Tensor]]:
    """`variables()` of anything that looks like a cell; a module that does not name its weights has torch's names."""
    if hasattr(cell, "variables"):
        yield from cell.variables()
    elif isinstance(cell, nn.Module):
        for name, weight in cell.named_parameters():
            yield f"{snake_case(type(cell).__name__)}/{name.replace('.', '/')}", weight


def snake_case(name: str) -> str:
    """TensorFlow's layer name of a class.

    >>> snake_case("BasicLSTMCell"), snake_case("GRUCell")
    ('basic_lstm_cell', 'gru_cell')
    """
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()
