"""The loop as a scan: an operation of torch's that repeats the graph of one step, for any number of rows and steps.

It is what exporters record, since what they write must not need unspool, nor repeat the step as often as the example is
long. It takes a step as it stands, without a plan.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import stateless

from unspool.engine.plans.checks import named_modules
from unspool.outputs import Outputs
from unspool.step import CheckedCell, Rows, select_rows, take_rows
from unspool.structure import Structure, flatten, map_structure, map_tensors, unflatten_as
from unspool.tracers import static_shape


def run(
    cell: Any, inputs: Structure, lengths: Tensor | None, state: Structure, output_dtype: torch.dtype | None
) -> tuple[Structure, Structure]:
    """What `plain.run` returns, as one scan.

        state, outputs = scan(step, state, (which rows run, inputs), weights)

    Args:
        cell: anything that looks like a cell, with tensors for its state.
        inputs: a structure of `[T, B, ...]` tensors.
        lengths: int64 `[B]`, or None for full length.
        state: the initial state.
        output_dtype: the dtype of the outputs; None for a cell that does not know their size.
    """
    higher_order: Any = import_module("torch._higher_order_ops.scan")  # which loads the compiler

    cell = _itself(cell)
    leaves, first = flatten(inputs), flatten(state)
    rows = [] if lengths is None else _rows(lengths, leaves[0])
    given = leaves if lengths is None else Rows(lengths, static_shape(leaves[0])[0], leaves[0].device).lend(leaves)
    names, weights = _tensors_of(cell)
    shown: list[Outputs] = []

    def step(*operands: Tensor) -> tuple[Tensor, ...]:
        carried, now, shared = _split(operands, len(first), len(rows) + len(leaves))
        before, inputs_now = unflatten_as(state, carried), unflatten_as(inputs, now[len(rows) :])
        # Sizes come from operands: the symbols of the graph around are none of this one's.
        checked = CheckedCell(cell, now[-1].shape[0], output_dtype, same_containers=lengths is not None)
        with _reading(cell, names, shared[: len(names)]):
            if lengths is None:
                output, after = checked(inputs_now, before)
            else:
                alive, lender = now[0], now[1]
                output, after = checked(inputs_now, map_structure(lambda leaf: take_rows(leaf, lender), before))
                output = map_tensors(lambda new: select_rows(alive, new, new.new_zeros(())), output)
                after = map_structure(lambda new, old: select_rows(alive, new, old), after, before)
        assert checked.outputs is not None
        shown.append(checked.outputs)
        # No result may be an operand, or share its memory with another result.
        return tuple(each.clone() for each in [*flatten(after), *checked.outputs.flatten(output)])

    batch_size: Any = static_shape(leaves[0])[1]
    symbols = [batch_size] if isinstance(batch_size, torch.SymInt) else []  # inductor looks for them among operands
    found: Sequence[Tensor] = higher_order.scan_op(
        step, [each.clone() for each in first], [*rows, *given], (*weights, *symbols)
    )
    return shown[-1].unflatten(found[len(first) :]), unflatten_as(state, found[: len(first)])


def _itself(cell: Any) -> Any:
    """The cell behind what an exporter has in place of a module with two names, and knows in its own graph alone."""
    proxies: Any = import_module("torch.fx.experimental.proxy_tensor")
    return cell.get_base() if isinstance(cell, proxies._AttrProxy) else cell


def _rows(lengths: Tensor, leaf: Tensor) -> list[Tensor]:
    """Which rows run at each step, and whose state each has then: as `Rows` means it, for all steps at once."""
    steps, batch_size = static_shape(leaf)[:2]
    lengths = lengths.to(leaf.device)
    alive = torch.arange(steps, device=leaf.device)[:, None] < lengths
    return [alive, torch.where(alive, torch.arange(batch_size, device=leaf.device), lengths.argmax())]


def _split(operands: Sequence[Tensor], *counts: int) -> list[Sequence[Tensor]]:
    parts: list[Sequence[Tensor]] = []
    for count in counts:
        parts.append(operands[:count])
        operands = operands[count:]
    return [*parts, operands]


swapped: Any = stateless


def _tensors_of(cell: Any) -> tuple[list[str], list[Tensor]]:
    """The tensors that a cell has, by name: parameters, buffers, and attributes that were computed."""
    found: dict[str, Tensor] = {}
    if isinstance(cell, nn.Module):
        found = {**dict(cell.named_parameters()), **dict(cell.named_buffers())}
        for path, module in named_modules(cell):
            # Those with values are constants; the others were computed when the sequence began.
            attributes = {name: each for name, each in vars(module).items() if _is_symbolic(each)}
            found |= {f"{path}.{name}" if path else name: each for name, each in attributes.items()}
    return list(found), list(found.values())


def _attributes(cell: nn.Module, path: str) -> dict[str, Any]:
    return vars(cell.get_submodule(path))


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Tensor) and type(value) not in (Tensor, nn.Parameter, nn.Buffer)


@contextmanager
def _reading(cell: Any, names: Sequence[str], tensors: Sequence[Tensor]) -> Generator[None, None, None]:
    """Lets a cell read these tensors under these names."""
    if not names:
        yield
        return
    given = dict(zip(names, tensors, strict=True))
    known = {**dict(cell.named_parameters()), **dict(cell.named_buffers())}
    attributes = {name: each for name, each in given.items() if name not in known}
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, each in attributes.items():
            path, _, own = name.rpartition(".")
            place = _attributes(cell, path)
            before.append((place, own, place[own]))
            place[own] = each
        with swapped._reparametrize_module(cell, {name: given[name] for name in known}, tie_weights=True):
            yield
    finally:
        for place, own, each in before:
            place[own] = each
