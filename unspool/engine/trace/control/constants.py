"""Constants of a step: what is asked of tensors that are the same for all rows has one answer, which is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor

from unspool.engine.guards.nodes import MOST_BYTES
from unspool.engine.ops.table import kind_of
from unspool.engine.trace.control.branches import ALL, ANY, ELEMENTWISE, on_values
from unspool.engine.trace.graph import ancestors, aten, calls, is_random, mapped, memory_of, operand
from unspool.engine.trace.recorder import Recorder, mutates


class Constants:
    """Computes what is asked of tensors that are the same for all rows: constants of a step, and buffers.

    One that is expanded over rows, as a scale of 1 beside a mean, is the same for each of them: it is computed for one.

    Args:
        recorder: what the step has computed so far.
        weights: the values of the first of what it was given.
    """

    def __init__(self, recorder: Recorder, weights: Iterable[Tensor]) -> None:
        self._recorder = recorder
        self._values: dict[fx.Node, Any] = {recorder.rows: 1}
        self._expanded: set[fx.Node] = {recorder.rows}
        """What has as many rows as the batch, all alike, of which the value has one."""
        self._given = dict(zip(recorder.given, weights, strict=False))
        self.read: dict[int, Tensor] = {}
        """The tensors whose values have been looked at, by identity."""

    def tell(self, tensor: Tensor, read: Callable[[Tensor], Any]) -> Any:
        """What is read from a tensor; None if rows have a part in it, or gradients."""
        node = self._recorder.node_of(tensor)
        try:
            with on_values():
                if node is None:
                    return None if isinstance(tensor, FakeTensor) else read(self._leaf(tensor))
                found = read(self._value(node))
        except _UnknownError:
            return None
        written = {memory_of(operand(each, 0)) for each in calls(self._recorder.graph) if mutates(each)}
        return None if written & ancestors([node]) else found

    def _value(self, node: fx.Node) -> Any:
        if node not in self._values:
            target: Any = node.target
            if node.op == "get_attr":
                self._values[node] = self._leaf(self._recorder.constants[node])
            elif node in self._given:
                self._values[node] = self._leaf(self._given[node])
            elif node.op == "call_function" and not (mutates(node) or is_random(node)):
                args, kwargs = mapped((node.args, node.kwargs), self._value)
                self._check_rows(node)
                self._values[node] = target(*args, **kwargs)
            else:
                raise _UnknownError
        return self._values[node]

    def _check_rows(self, node: fx.Node) -> None:
        """Raises if it matters to an operation how many rows there are."""
        if self._expanded.isdisjoint(node.all_input_nodes) or node.target in QUANTIFIERS:
            return
        if node.target is not aten.expand.default and kind_of(node.target) not in ELEMENTWISE:
            raise _UnknownError
        self._expanded.add(node)

    def _leaf(self, tensor: Tensor) -> Tensor:
        if tensor.requires_grad or tensor.device.type != "cpu" or tensor.nbytes > MOST_BYTES:
            raise _UnknownError
        self.read[id(tensor)] = tensor
        return tensor


class _UnknownError(Exception):
    """A value that is not the same for all rows, or may change with every call."""


QUANTIFIERS = (*ANY, *ALL, aten._is_all_true.default, aten._is_any_true.default)
"""Whose answer is the same for one row as for all that are like it."""
