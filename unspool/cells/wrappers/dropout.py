"""Dropout on a cell's inputs, state and output."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unspool.cells.lstm import LSTMStateTuple
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.dtypes import as_dtype
from unspool.flags import checks_flags
from unspool.sizes import shape_of
from unspool.structure import Structure, check_same_structure, children, describe, flatten, is_leaf, unflatten_as
from unspool.tensor_array import TensorArray
from unspool.tracers import static_shape


class DropoutWrapper(RNNCellWrapper):
    """Drops elements of the inputs, of the new state and of the output, in this order, and scales up what is kept.

    A kept element is divided by its keep probability. Dropout on the output leaves the state alone. Like torch's own
    dropout, the wrapper does nothing in `eval()` mode.

    Args:
        cell: the cell to wrap.
        input_keep_prob, output_keep_prob, state_keep_prob: the probability to keep an element. A number must be in
            [0, 1]; 1 does nothing. A scalar tensor may change between steps and is not checked.
        variational_recurrent: whether the masks are drawn once a sequence, the same for every step and row (Gal and
            Ghahramani, 2016), instead of anew for every element. A loop draws them when it begins; between direct
            calls of the cell they stay until `start_sequence()`.
        input_size: the size of one row of the inputs, which variational input masks need.
        dtype: needed with `variational_recurrent`, as in TensorFlow; a mask has the dtype of what it is applied to.
        seed: makes the masks repeatable: wrappers with equal seeds draw equal masks, call by call.
        dropout_state_filter_visitor: says which parts of the state may be dropped: called with the state, then with
            its parts, it returns a bool for all below it or a structure of bools, one level deep. By default, all but
            the memory `c` of an `LSTMStateTuple`, and no `TensorArray`.

    >>> from unspool import LSTMCell
    >>> cell = DropoutWrapper(LSTMCell(3), output_keep_prob=0.5, seed=1)
    >>> output, state = cell(torch.ones(2, 4), cell.zero_state(2, torch.float32))
    >>> bool(((output == 0) | (output == 2 * state.h)).all())
    True
    """

    @checks_flags
    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError(f"dropout_state_filter_visitor must be callable, but got {dropout_state_filter_visitor!r}")
        self.dropout_state_filter_visitor = dropout_state_filter_visitor
        self.input_keep_prob = _probability("input_keep_prob", input_keep_prob)
        self.output_keep_prob = _probability("output_keep_prob", output_keep_prob)
        self.state_keep_prob = _probability("state_keep_prob", state_keep_prob)
        self.variational_recurrent = variational_recurrent
        self.input_size = input_size
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.seed = seed
        if variational_recurrent:
            if dtype is None:
                raise ValueError("dtype is required with variational_recurrent=True: it is the dtype of the masks")
            if input_size is None and _drops(self.input_keep_prob):
                raise ValueError("input_size is required with variational_recurrent=True and input_keep_prob below 1")
        self._generators: dict[tuple[str, torch.device], torch.Generator] = {}
        self._masks: dict[tuple[str, torch.device], Tensor] = {}

    def start_sequence(self) -> None:
        """Forgets the variational masks: the next step draws new ones."""
        super().start_sequence()
        self._masks.clear()

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell between dropouts."""
        inputs = self._dropout(inputs, "input", self.input_keep_prob, self.input_size)
        output, new_state = self.cell(inputs, state)
        new_state = self._dropout(new_state, "state", self.state_keep_prob, self.cell.state_size)
        output = self._dropout(output, "output", self.output_keep_prob, self.cell.output_size)
        return output, new_state

    def _dropout(self, values: Structure, place: str, keep: Any, sizes: Structure) -> Structure:
        if not (self.training and _drops(keep)):
            return values
        leaves = flatten(values)
        if place == "state":
            may_drop = state_filter(self.dropout_state_filter_visitor or default_state_filter, values)
        else:
            may_drop = [True] * len(leaves)
        if self.variational_recurrent:
            check_same_structure(sizes, values, name=f"the {place}", like=f"{place}_size", opaque=True)
        shapes = sizes_beside(sizes, values) if self.variational_recurrent else [None] * len(leaves)
        for k in range(len(leaves)):
            if may_drop[k]:
                leaves[k] = self._drop(leaves[k], f"{place}_{k}", keep, shapes[k])
        return unflatten_as(values, leaves)

    def _drop(self, value: Tensor, place: str, keep: Any, size: Any) -> Tensor:
        if self.variational_recurrent:
            key = (place, value.device)
            if key not in self._masks:
                shape = (1, *shape_of(size, place))
                if shape[1:] != static_shape(value)[1:]:
                    have, expected = list(value.shape[1:]), list(shape[1:])
                    raise ValueError(f"{place} has rows of shape {have}, but the wrapper was told {expected}")
                with torch.inference_mode(False):  # a mask may outlive the mode it was drawn in
                    self._masks[key] = torch.floor(keep + self._uniform(shape, value, place)).detach()
            return value / keep * self._masks[key].to(value.dtype)
        if isinstance(keep, float) and keep == 0.0:
            raise ValueError(f"{place}: a keep probability of 0 would drop everything and scale it by infinity")
        kept = self._uniform(value.shape, value, place) >= 1 - keep
        return torch.where(kept, value / keep, value.new_zeros(()))

    def _uniform(self, shape: Any, like: Tensor, place: str) -> Tensor:
        """Uniform draws in [0, 1) for one place of the cell, from its own seeded stream if there is a seed."""
        # Half precision cannot hold enough values of [0, 1) to compare with a probability.
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        if self.seed is None:
            return torch.rand(shape, dtype=dtype, device=like.device)
        key = (place, like.device)
        if key not in self._generators:
            self._generators[key] = torch.Generator(like.device).manual_seed(derive_seed(self.seed, place))
        return torch.rand(shape, dtype=dtype, device=like.device, generator=self._generators[key])


def default_state_filter(state: Structure) -> Any:
    """Which parts of a state may be dropped: all but an LSTM's memory and TensorArrays."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, TensorArray)


def state_filter(visitor: Callable[[Any], Any], state: Structure) -> list[bool]:
    """Whether each leaf of `state` may be dropped, by asking `visitor` from the top down.

    A False closes everything below it; below a True the visitor is asked again, so that a tuple of LSTM states
    keeps every `c`.
    """
    verdict = visitor(state)
    if is_leaf(state):
        if not isinstance(verdict, bool):
            raise TypeError(f"dropout_state_filter_visitor must return a bool for a tensor, but returned {verdict!r}")
        return [verdict]
    parts = list(children(state).values())
    if isinstance(verdict, bool):
        verdicts = [verdict] * len(parts)
    else:
        verdicts = list(children(verdict).values()) if not is_leaf(verdict) else []
        if len(verdicts) != len(parts) or not all(isinstance(each, bool) for each in verdicts):
            raise TypeError(
                "dropout_state_filter_visitor must return a bool or a bool for each part of the state, but returned "
                f"{verdict!r} for {describe(state)}"
            )
    below: list[bool] = []
    for part, may_drop in zip(parts, verdicts, strict=True):
        below += state_filter(visitor, part) if may_drop else [False] * len(flatten(part))
    return below


def sizes_beside(sizes: Structure, values: Structure) -> list[Any]:
    """The size of each leaf of `values`; None for those that `sizes` calls `()`, which have none."""
    if is_leaf(sizes):
        return [sizes]
    if not flatten(sizes):
        return [None] * len(flatten(values))
    parts = children(values)
    return [size for key, below in children(sizes).items() for size in sizes_beside(below, parts[key])]


def derive_seed(seed: int, place: str) -> int:
    """TensorFlow's seed for one place of the wrapper (`input_0`, `state_1`, ...).

    >>> derive_seed(10, "input_0")
    1768698351
    """
    return int(hashlib.md5(f"{seed}{place}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF


def _probability(name: str, keep: Any) -> Any:
    if isinstance(keep, Tensor):
        return keep
    try:
        keep = float(keep)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or a scalar tensor, but got {keep!r}") from None
    if not 0.0 <= keep <= 1.0:
        raise ValueError(f"{name} must be between 0 and 1, but is {keep}")
    return keep


def _drops(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1.0
