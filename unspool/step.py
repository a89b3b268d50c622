"""One step of any cell: the call, the checks of what came back, and what sequence lengths do to it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from unspool.dtypes import may_mix
from unspool.in_place import Writes, changed_in_place
from unspool.outputs import Outputs
from unspool.structure import (
    Structure,
    check_same_structure,
    describe,
    flatten,
    map_structure,
    map_tensors,
    unflatten_as,
)
from unspool.tracers import has_values, onlooker, static_shape


def step(cell: Any, inputs: Structure, state: Structure, *, watched: bool = False) -> tuple[Structure, Structure]:
    """`cell(inputs, state)`, if it returns an output and a state and leaves what it was given as it was.

    If it is `watched`, all that it writes to is seen. Else, where something has another version afterwards, it is run
    once more to see what that was.
    """
    given = [leaf for leaf in flatten((inputs, state)) if isinstance(leaf, Tensor) and not leaf.is_inference()]
    versions = [leaf._version for leaf in given]
    writes = Writes(given) if watched else None
    with writes or nullcontext():
        returned: Any = cell(inputs, state)
    if not issubclass(type(returned), tuple | list) or len(returned) != 2:
        raise TypeError(f"a cell must return (output, new_state), but this one returned {describe(returned)}")
    if versions != [leaf._version for leaf in given]:
        if writes is not None:
            error = writes.error() if writes.found else None
        else:
            error = changed_in_place(cell, inputs, state)
        if error is not None:
            raise error
    return tuple(returned)


class CheckedCell:
    """A cell whose output must be what its `output_size` says, and its new state like the old one.

    As in TensorFlow, the containers of the output must be those of `output_size` only where there are lengths
    (`same_containers`); else the output is put into them. Where the size is not known, all outputs must be like the
    first.
    """

    def __init__(
        self,
        cell: Any,
        batch_size: int,
        output_dtype: torch.dtype | None,
        *,
        same_containers: bool,
        watched: bool = False,
    ) -> None:
        self._cell, self._batch_size, self._same_containers = cell, batch_size, same_containers
        self._watched = watched
        self.outputs = Outputs.declared(cell.output_size, output_dtype)
        """What the outputs are; None until the first one shows it."""
        self._expectation = "its first output was" if self.outputs is None else "cell.output_size says"

    def __call__(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step."""
        output, new_state = step(self._cell, inputs, state, watched=self._watched)
        if self.outputs is None:
            self.outputs = Outputs.of(output, self._batch_size)
        elif self._same_containers:
            self.check_containers(output)
        outputs = self.outputs
        leaves = outputs.flatten(output)
        if len(leaves) != len(outputs.leaves):
            raise ValueError(
                f"the cell's output has {len(leaves)} tensors, but {outputs.name} has {len(outputs.leaves)}"
            )
        leaves = [
            checked(leaf, (self._batch_size, *shape), dtype, "the cell's output", self._expectation)
            for leaf, (shape, dtype) in zip(leaves, outputs.leaves, strict=True)
        ]
        new_state = checked_like(state, new_state, "the cell's new state", "its state")
        return outputs.unflatten(leaves), new_state

    def check_containers(self, output: Structure) -> None:
        """Raises unless an output has the containers of `output_size`."""
        if self.outputs is not None:
            self.outputs.check_containers(output)


def checked_like(old: Structure, new: Structure, name: str, like: str) -> Structure:
    """`new`, if it has the containers of `old` and its tensors the shapes and dtypes."""
    check_same_structure(old, new, name=name, like=like)
    expectation = f"{like} may not change between steps: it was"
    leaves = [
        checked(now, static_shape(before), before.dtype, name, expectation) if isinstance(before, Tensor) else now
        for before, now in zip(flatten(old), flatten(new), strict=True)
    ]
    return unflatten_as(old, leaves)


def checked(value: Any, shape: tuple[int, ...], dtype: torch.dtype, name: str, expectation: str) -> Tensor:
    """`value`, if it is a tensor of that shape and dtype; `expectation` says whose word the shape is."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be made of tensors, but has {describe(value)}")
    found = static_shape(value)
    if found != shape:
        raise ValueError(f"Inconsistent shapes: {name} has shape {list(found)}, but {expectation} {list(shape)}")
    if value.dtype == dtype:
        return value
    # Under autocast a cell computes in another dtype than the one it carries.
    if may_mix(value.device):
        return value.to(dtype)
    raise TypeError(f"{name} is {value.dtype}, but expected {dtype}")


class Rows:
    """Which rows of a batch are still running, by their lengths.

    A finished row is not worth computing, but a cell may hold tensors of its own for the whole batch (the memory of an
    attention), so rows cannot simply be left out. Instead, a finished row borrows the inputs and the state of the
    longest row, which is always alive, and the result is thrown away: what stands in the padding, NaN included, never
    meets the cell, and its gradients are exactly zero.

    Where nobody may look at the lengths, since the loop is recorded to be repeated with others, all steps run, and past
    the end of the longest row, too, its last inputs and its last state are what all rows borrow.
    """

    def __init__(self, lengths: Tensor, steps: int, device: torch.device) -> None:
        lengths = lengths.clamp(0, steps)
        self._steps, (self._batch_size,) = steps, static_shape(lengths)
        self.fixed = self._batch_size == 0 or (has_values(lengths) and onlooker() is None)
        """Whether the lengths are the same whenever these steps are run."""
        self.shortest, self.longest = 0, steps
        if self.fixed:
            # One look at the lengths for the whole loop; on a GPU this waits for it once.
            self.shortest, self.longest = [int(n) for n in torch.aminmax(lengths)] if self._batch_size else (0, 0)
        self._lengths = lengths.to(device)

    def lend(self, inputs: list[Tensor]) -> list[Tensor]:
        """What steps are given of `[time, batch, ...]` tensors: the same, if a step sees to its padding itself."""
        if self.fixed or not self._steps:
            return inputs
        lengths, device = self._lengths, self._lengths.device
        time, own = torch.arange(self._steps, device=device)[:, None], torch.arange(self._batch_size, device=device)
        last = torch.minimum(time, (lengths.amax(0) - 1).clamp(min=0))
        rows = torch.where(time < lengths, time * self._batch_size + own, last * self._batch_size + lengths.argmax())
        return [
            self._unless_all_are_empty(take_rows(leaf.flatten(0, 1), rows.flatten())).reshape(static_shape(leaf))
            for leaf in inputs
        ]

    def step(self, cell: CheckedCell, time: int, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """`cell(inputs, state)` for the rows that run at `time`; zeros and the old state for the others.

        The inputs are those of a step of what was lent.
        """
        if time < self.shortest:
            return cell(inputs, state)
        alive = self._lengths > time
        own = torch.arange(self._batch_size, device=alive.device)
        rows = torch.where(alive, own, self._lengths.argmax())
        given = map_structure(lambda leaf: take_rows(leaf, rows), (inputs, state) if self.fixed else state)
        if not self.fixed:
            given = inputs, map_structure(self._unless_all_are_empty, given)
        output, new_state = cell(*given)
        output = map_tensors(lambda new: select_rows(alive, new, new.new_zeros(())), output)
        return output, map_structure(lambda new, old: select_rows(alive, new, old), new_state, state)

    def _unless_all_are_empty(self, leaf: Any) -> Any:
        """`leaf`, or zeros if no row has a step: there is nobody to borrow from then."""
        if not isinstance(leaf, Tensor) or leaf.dim() == 0:
            return leaf
        return torch.where((self._lengths.amax(0) > 0).to(leaf.device), leaf, leaf.new_zeros(()))


def select_rows(rows: Tensor, new: Any, old: Any) -> Any:
    """`new` where `rows` is true, else `old`. Scalars and TensorArrays have no rows and are always new."""
    if not isinstance(new, Tensor) or new.dim() == 0:
        return new
    if rows.dim():
        rows = rows.reshape(-1, *[1] * (new.dim() - 1))
    return torch.where(rows.to(new.device), new, old)


def take_rows(leaf: Any, rows: Tensor) -> Any:
    """The rows of `leaf` with those indices. Scalars and TensorArrays have no rows and stay as they are."""
    if not isinstance(leaf, Tensor) or leaf.dim() == 0:
        return leaf
    return leaf.index_select(0, rows.to(leaf.device))


def gradient_sources(cell: Any, *structures: Structure) -> list[Tensor]:
    """Everything a step of `cell` on `structures` could send a gradient to."""
    weights = list(cell.parameters()) if isinstance(cell, nn.Module) else []
    leaves = [leaf for leaf in [*weights, *flatten(structures)] if isinstance(leaf, Tensor)]
    return [leaf for leaf in leaves if leaf.requires_grad and not is_lazy(leaf)]


def attach(structure: Structure, sources: list[Tensor]) -> Structure:
    """`structure`, bit for bit, but depending on `sources` with gradients of zero.

    A loop that ran no step must still give zero gradients, not an error in `backward()`. Appending none of the
    elements of each source makes the connection without arithmetic, so that NaN weights stay out of it.
    """

    def with_nothing_of_each(value: Any) -> Any:
        if not sources or not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        nothing = [source.reshape(-1)[:0].to(value.device, value.dtype) for source in sources]
        return torch.cat([value.reshape(-1), *nothing]).reshape(value.shape)

    return map_structure(with_nothing_of_each, structure)
