"""Records passes over calls on a CPU as a CUDA graph would: the same operations and launches, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from tests.emulator import Emulated

Made = TypeVar("Made")
POISON = 0x7F
"""Every byte of memory that nothing has been written to: a float32 of 3e38, or a number that is no index."""


class _Tape(TorchDispatchMode):
    """Writes down operations: what each repeats writes to the memory that it wrote to the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], object]] = []
        self.made: list[Tensor] = []
        """What was made here, which is held so that its memory is nobody else's."""
        self._given: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        given = {_place(each) for each in tree_leaves((args, named)) if isinstance(each, Tensor)}
        results = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        fresh = [_place(each) not in given for each in results]
        self._given.append((args, named))
        self.made += [each for each, new in zip(results, fresh, strict=True) if new]

        def again() -> None:
            for own, found, new in zip(results, tree_leaves(func(*args, **named)), fresh, strict=True):
                if new:
                    own.copy_(found)

        if "empty" not in func.__name__ and (any(fresh) or func._schema.is_mutable):
            self.steps.append(again)
        return result


def _poison(tensors: Sequence[Tensor]) -> None:
    for each in tensors:
        each.untyped_storage().fill_(POISON)


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class EmulatedRecorder:
    """Records functions.

    Args:
        machine: what runs kernels, and shows its launches.
        after: what is to be done after every repetition.
    """

    def __init__(self, machine: Emulated, after: Callable[[], None]) -> None:
        self._machine, self._after = machine, after
        self._made: list[list[Tensor]] = []
        """The memory of each recording, as far as nobody had it before."""

    def apart(self) -> EmulatedRecorder:
        """Another one, which shares no memory with this."""
        return EmulatedRecorder(self._machine, self._after)

    def place(self) -> Hashable | None:
        """Where recordings would run."""
        return self._machine.place

    def record(self, function: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """What repeats a function, and what it returned, with nothing in it yet."""
        machine, tape = self._machine, _Tape()
        if machine.refuses:
            raise RuntimeError(machine.refuses)
        machine.tape = tape.steps
        try:
            with tape:
                made = function()
        finally:
            machine.tape = None
        machine.recorded += 1
        _poison(tape.made)  # a graph that is captured computes nothing
        self._made.append(tape.made)
        place = len(self._made)

        def replay() -> None:
            machine.repeated += 1
            if not machine.silent:
                for each in self._made[place:]:  # these may have taken what this one has done with
                    _poison(each)
                with torch.no_grad():
                    for step in tape.steps:
                        step()
            self._after()

        return replay, made
