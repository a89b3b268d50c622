"""What the operation of a loop keeps for its backward pass, behind one small tensor.

How many residuals there are, and how large, depends on lengths and on the numbers of rows and steps, so no graph can
have them as tensors of known shapes. It has a token: a tensor whose memory belongs to a `Residuals`, which lives as
long as something in the graph, or autograd, holds the token.

Operands and results are not kept: a compiler may reuse their memory as soon as it thinks that nobody reads it. The
backward pass gets them again, from the graph, and views of them are taken anew.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge, saved_tensors_hooks

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]

TOKEN = torch.int64
"""The dtype of a token: one number, on the CPU."""


class Residuals(bytearray):
    """What a backward pass needs besides operands and results."""

    _alive: weakref.WeakValueDictionary[int, Residuals] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        super().__init__(struct.pack("q", id(self)))
        self._alive[id(self)] = self

    @classmethod
    def of(cls, token: Tensor) -> Residuals:
        """Those behind a token."""
        return cls._alive[int(token)]

    def token(self) -> Tensor:
        """The tensor that keeps them alive."""
        return torch.frombuffer(self, dtype=TOKEN)

    def gradients(
        self,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        wanted: Sequence[bool],
    ) -> list[Tensor | None]:
        """Gradients of the operands that want them, which are given again, as the results are."""
        raise NotImplementedError


class Recorded(Residuals):
    """The autograd graph of a call of a loop, less its operands and results."""

    def __init__(self, operands: Sequence[Tensor]) -> None:
        super().__init__()
        self._lent = _Lent(operands)
        self._edges: list[Any] = []
        self._sources: dict[int, Tensor] = {}

    def keeping(self) -> saved_tensors_hooks:
        """Where the loop has to run."""
        # Autograd's graph holds these hooks, and this object holds the graph: they must not hold it.
        return saved_tensors_hooks(self._lent.pack, self._lent.unpack)

    def finish(self, sources: dict[int, Tensor], results: Sequence[Tensor], lent: bool) -> None:
        """Takes what has gradients, by the number of the operand, and results, and lets go of the operands.

        `lent` says that the backward pass gets the results again.
        """
        self._sources = dict(sources)
        self._edges = [get_gradient_edge(each) if each.requires_grad else None for each in results]
        self._lent.finish(results, lent)

    def gradients(
        self,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        wanted: Sequence[bool],
    ) -> list[Tensor | None]:
        """Gradients of the sources of the loop: the operands that want them."""
        numbers, sources = list(self._sources), list(self._sources.values())
        first = {id(each): number for number, each in reversed(list(enumerate(sources)))}
        ends = [(e, d) for e, d in zip(self._edges, gradients, strict=True) if e is not None and d is not None]
        found: Sequence[Tensor | None] = [None] * len(sources)
        if ends:
            with Recording(), self._lent.again([*operands, *results]):
                found = torch.autograd.grad(
                    [edge for edge, _ in ends], sources, [d for _, d in ends], retain_graph=True, allow_unused=True
                )
        # A weight that stands among them twice has its gradient once.
        each = {numbers[k]: d if first[id(sources[k])] == k else None for k, d in enumerate(found)}
        if any(d is not None and not wanted[number] for number, d in each.items()):
            raise gradient_lost()
        return [each.get(number) for number, want in enumerate(wanted) if want]


def gradient_lost() -> RuntimeError:
    """What to raise where a gradient arrives that the graph has no place for."""
    return RuntimeError(
        "a weight gets a gradient that no gradient reached when torch.compile recorded the loop: call "
        "torch.compiler.reset() after changing a cell"
    )


@dataclass
class _Saved:
    """A tensor that autograd saved: itself, or a view of the operand or result with that number."""

    tensor: Tensor | None
    place: tuple[int, tuple[int, ...], tuple[int, ...], int] | None = None


class _Lent:
    """Operands, then results: there while the loop runs, and while its gradients are computed."""

    def __init__(self, operands: Sequence[Tensor]) -> None:
        self._tensors = [each.detach() for each in operands]
        self._strides = [each.stride() for each in operands]
        self._saved: list[_Saved] = []
        self._numbers: dict[int, list[int]] = {}
        """The tensors that are in each piece of memory, by its address."""
        self._note(0)

    def finish(self, results: Sequence[Tensor], lent: bool) -> None:
        """Takes the results, if these are lent too, and lets go of all."""
        given = len(self._tensors)
        self._tensors += [each.detach() for each in results]
        self._strides += [each.stride() for each in results if lent]
        self._note(given)
        for each in self._saved:
            if each.tensor is not None and (place := self._place(each.tensor)) is not None:
                each.tensor, each.place = (None, place) if lent else (each.tensor.clone(), None)
        self._tensors, self._saved, self._numbers = [], [], {}

    @contextmanager
    def again(self, tensors: Sequence[Tensor]) -> Generator[None, None, None]:
        """Has the same tensors for a while, wherever they are now."""
        self._tensors = [_strided(each, stride) for each, stride in zip(tensors, self._strides, strict=True)]
        try:
            yield
        finally:
            self._tensors = []

    def pack(self, tensor: Tensor) -> _Saved:
        """What autograd keeps for a tensor."""
        place = self._place(tensor)
        saved = _Saved(tensor) if place is None else _Saved(None, place)
        self._saved.append(saved)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        """The tensor again."""
        if saved.place is None:
            assert saved.tensor is not None
            return saved.tensor
        number, size, stride, offset = saved.place
        given = self._tensors[number]
        return given.as_strided(size, stride, given.storage_offset() + offset)

    def _note(self, first: int) -> None:
        """Notes where the tensors from that number on are in memory."""
        for number, each in enumerate(self._tensors[first:], first):
            if memory := each.untyped_storage().data_ptr():
                self._numbers.setdefault(memory, []).append(number)

    def _place(self, tensor: Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...], int] | None:
        """Where a tensor is in an operand or a result, if it is in one."""
        for number in self._numbers.get(tensor.untyped_storage().data_ptr(), ()):
            whole = self._tensors[number]
            if whole.dtype != tensor.dtype:
                continue
            offset: Any = tensor.storage_offset() - whole.storage_offset()
            if offset >= 0 and offset + _extent(tensor) <= _extent(whole):
                return number, tuple(tensor.shape), tensor.stride(), offset
        return None


def check_sources(loop: str, results: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Raises `RuntimeError` if gradients of results reach weights that are not among the sources."""
    known = {id(each) for each in sources}
    waiting = [each.grad_fn for each in results if each.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node: Any = waiting.pop()
        reached = getattr(node, "variable", None)
        if reached is not None and id(reached) not in known:
            raise RuntimeError(
                f"the cell of {loop} reads a weight of shape {list(reached.shape)} that is none of its parameters, so "
                "that torch.compile would lose its gradient: register it in the cell"
            )
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _extent(tensor: Tensor) -> int:
    """The elements of memory from the first to the last one of a tensor."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _strided(tensor: Tensor, stride: tuple[int, ...]) -> Tensor:
    """`tensor` with these strides, as it had them when views of it were saved."""
    tensor = tensor.detach()
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


class Recording:
    """Lets autograd record, or, if there is nothing to record, not.

    >>> with Recording(False):
    ...     torch.is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        excluded = _C._dispatch_tls_local_exclude_set()
        for key in _AUTOGRAD:
            excluded = excluded.remove(key)
        self._keys = _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded)
        self._keys.__enter__()
        self._before = torch.is_grad_enabled()
        _C._set_grad_enabled(self._enabled)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self._before)
        self._keys.__exit__(None, None, None)


_AUTOGRAD = [
    getattr(_C.DispatchKey, name)
    for name in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")
]
