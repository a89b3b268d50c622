"""Branches by values that every row may take for itself: whether one side of an `if` serves both.

    if first.any():
        h = torch.where(first, start, h)

asks all rows at once, and rows would meet. But where no row is first, the `where` changes nothing: the body may as well
run always, and each row is computed alone. In general, `if p.any(): A else: B` is A if A with p replaced by False is B,
and `if p.all(): A else: B` is B if B with p replaced by True is A. Both are recorded, and compared by value numbering
with constants propagated. Derivatives agree where values do, since those of p are zero; but what is computed in vain
must be finite, or zero times it, backward, is not zero.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import (
    _disable_current_modes,  # pyright: ignore[reportPrivateUsage]  # no public name
)

from unspool.engine.ops.table import OpKind, kind_of
from unspool.engine.trace.graph import argument, aten, calls, is_call, is_random, mapped, operand, value
from unspool.engine.trace.recorder import Recorder, functions_alone, mutates


class Quantifier(NamedTuple):
    """A question about all elements of a tensor: whether any of them is true, or all.

    Args:
        serving: the answer whose side of a branch may serve both sides.
        elements: the node of the tensor.
        otherwise: what all of its elements are if the answer is the other one.
    """

    serving: bool
    elements: fx.Node
    otherwise: bool


def quantifier(predicate: fx.Node | None) -> Quantifier | None:
    """What is asked, if it is such a question."""
    if is_call(predicate, *ANY):
        return Quantifier(True, operand(predicate, 0), False)
    if is_call(predicate, *ALL):
        return Quantifier(False, operand(predicate, 0), True)
    if is_call(predicate, *NOT):
        inner = quantifier(operand(predicate, 0))
        return inner and inner._replace(serving=not inner.serving)
    if is_call(predicate, *COUNTS) and predicate.args[1] == 0:
        count = operand(predicate, 0)
        if is_call(count, *SUMS) and _is_truth(operand(count, 0)):
            return Quantifier(predicate.target is not aten.eq.Scalar, operand(count, 0), False)
    return None


def serves(taken: Recorder, asked: Quantifier, other: Recorder) -> bool:
    """Whether the way through a step that was `taken` at the serving answer computes what the `other` one does.

    Args:
        taken: one way, recorded without symbols; its first two results are outputs and new states.
        asked: what was asked where the two part, of a node of `taken`.
        other: the way with the other answer, from the same arguments.
    """
    if any(mutates(node) or is_random(node) for each in (taken, other) for node in calls(each.graph)):
        return False
    numbers = _ValueNumbers()
    unknown, computed = numbers.of(taken), {*numbers.of(other).values()}
    if not all(unknown[node] in computed or _is_total(node) for node in calls(taken.graph)):
        return False
    for node, number in _facts(asked.elements, asked.otherwise):
        if not numbers.know(unknown[node], number, node):
            return True
    return numbers.results(taken) == numbers.results(other)


def _facts(node: fx.Node, truth: bool) -> Iterable[tuple[fx.Node, Any]]:
    """Tensors of which all elements are one number, if those of a node are all true, or all false.

    None that has a derivative: `h` and `h + x` are the same where x is 0, but not to who asks for the gradient of x.
    """
    boolean = value(node).dtype is torch.bool
    if boolean or (not truth and (_is_truth(node) or _is_whole(node))):
        yield node, truth if boolean else 0
    if is_call(node, *NOT):
        yield from _facts(operand(node, 0), not truth)
    elif is_call(node, *(AND if truth else OR)):
        for each in node.all_input_nodes:
            yield from _facts(each, truth)
    elif is_call(node, *SAME_ELEMENTS) or (is_call(node, aten._to_copy.default) and (boolean or _is_truth(node))):
        yield from _facts(operand(node, 0), truth)
    elif is_call(node, aten.eq.Scalar if truth else aten.ne.Scalar) and _is_whole(operand(node, 0)):
        yield operand(node, 0), node.args[1]


def _is_total(node: fx.Node) -> bool:
    """Whether an operation and its derivative are finite for all finite arguments."""
    divides = node.target in DIVIDE and not isinstance(argument(node, 1), fx.Node)
    return divides or node.target in TOTAL or kind_of(node.target) in TOTAL_KINDS


def _is_truth(node: fx.Node) -> bool:
    """Whether elements are true or false, in whatever dtype."""
    if is_call(node, aten._to_copy.default, *SAME_ELEMENTS):
        return _is_truth(operand(node, 0))
    return value(node).dtype is torch.bool


def _is_whole(node: fx.Node) -> bool:
    return not (value(node).is_floating_point() or value(node).is_complex())


@contextmanager
def on_values() -> Generator[None, None, None]:
    """Computes with tensors as they are, whatever traces or records around."""
    with _disable_current_modes(), functions_alone(), torch.no_grad():
        yield


class _ValueNumbers:
    """Gives equal numbers to nodes of any graph that compute the same from the same arguments."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._constants: dict[int, Any] = {}
        self._known: dict[int, int] = {}

    def know(self, number: int, constant: Any, like: fx.Node) -> bool:
        """From now on, what has this number is a constant; False if it is another one, so that this cannot be."""
        if number in self._constants:
            return self._constants[number] == constant
        self._known[number] = self._constant(constant, value(like))
        return True

    def results(self, recorder: Recorder) -> Any:
        """The numbers of outputs and new states."""
        found = self.of(recorder)
        return mapped(recorder.results[:2], found.__getitem__)

    def of(self, recorder: Recorder) -> dict[fx.Node, int]:
        """The numbers of the nodes of a graph."""
        found: dict[fx.Node, int] = {}
        for node in recorder.graph.nodes:
            if node.op == "placeholder":
                found[node] = self._number(("given", node.target))
            elif node.op == "get_attr":
                found[node] = self._number(("kept", id(recorder.constants[node])))
            elif node.op == "call_function":
                found[node] = self._of_call(node, found)
        return found

    def _of_call(self, node: fx.Node, found: dict[fx.Node, int]) -> int:
        simpler = self._simplified(node, found) if isinstance(value(node), Tensor) else None
        if simpler is not None:
            return simpler
        told = mapped((node.args, node.kwargs), lambda each: ("node", found[each]))
        return self._number((node.target, repr(told)))

    def _number(self, key: Any) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        return self._known.get(number, number)

    def _constant(self, constant: Any, like: Tensor) -> int:
        number = self._numbers.setdefault(("constant", constant, like.dtype, like.shape), len(self._numbers))
        self._constants[number] = constant
        return number

    # -- what constants do --------------------------------------------------------------------------------------------

    def _simplified(self, node: fx.Node, found: dict[fx.Node, int]) -> int | None:
        """The number of a node that is a constant, or one of its arguments."""
        result = value(node)
        if node.target in FILLS:
            return self._constant(FILLS[node.target], result)
        if node.target in FILLED_WITH:
            return self._constant(argument(node, FILLED_WITH[node.target]), result)
        constants = {
            each: self._constants[found[each]] for each in node.all_input_nodes if found[each] in self._constants
        }
        if node.target in (*SAME_ELEMENTS, *SOME_ELEMENTS) and operand(node, 0) in constants:
            return self._constant(constants[operand(node, 0)], result)
        if kind_of(node.target) in ELEMENTWISE and len(constants) == len(node.all_input_nodes) > 0:
            return self._constant(_computed(node, constants), result)
        behind = self._behind_views(node, found)
        if behind in self._constants:
            return self._constant(self._constants[behind], result)
        kept = _kept(node, constants)
        kept = constants.get(kept, kept) if isinstance(kept, fx.Node) else kept
        if isinstance(kept, fx.Node):
            same = value(kept).shape == result.shape and value(kept).dtype == result.dtype
            return found[kept] if same else None
        return None if kept is None else self._constant(kept, result)

    def _behind_views(self, node: fx.Node, found: dict[fx.Node, int]) -> int:
        """The number of what an elementwise operation computes of all elements of its argument, in whatever view.

        `first[:, None] > 0` has the elements of `first > 0`; -1 if nothing has computed these.
        """
        if kind_of(node.target) not in ELEMENTWISE or len(node.all_input_nodes) != 1:
            return -1
        elements = node.all_input_nodes[0]
        while is_call(elements, *SAME_ELEMENTS):
            elements = operand(elements, 0)
        told = mapped((node.args, node.kwargs), lambda _: ("node", found[elements]))
        number = self._numbers.get((node.target, repr(told)), -1)
        return self._known.get(number, number)


def _computed(node: fx.Node, constants: dict[fx.Node, Any]) -> Any:
    """What an elementwise operation makes of constants."""
    with on_values():
        given = {each: torch.full((), number, dtype=value(each).dtype) for each, number in constants.items()}
        args, kwargs = mapped((node.args, node.kwargs), given.__getitem__)
        target: Any = node.target
        return target(*args, **kwargs).item()


def _kept(node: fx.Node, constants: dict[fx.Node, Any]) -> Any:
    """The argument that a node hands on, or the number that it is, because others are constants; None if neither."""

    def number(k: int) -> Any:
        given = argument(node, k)
        return constants.get(given) if isinstance(given, fx.Node) else given

    def neutral(*pairs: tuple[int, int], at: Any) -> Any:
        return next((argument(node, kept) for kept, k in pairs if number(k) is not None and number(k) == at), None)

    target = node.target
    if target in WHERE and number(0) is not None:
        return argument(node, 1 if number(0) else 2)
    if target in MASKED_FILL and number(1) is not None:
        return number(2) if number(1) else argument(node, 0)
    if target in MULTIPLY and not node.kwargs:
        # As `x * 0` is taken for 0: it is not if x is infinite, but neither is it for the rows that take the branch.
        zero = any(number(k) is not None and number(k) == 0 for k in (0, 1))
        return 0 if zero else neutral((0, 1), (1, 0), at=1)
    if target in ADD and not node.kwargs:
        return neutral((0, 1), (1, 0), at=0)
    if target in SUBTRACT and not node.kwargs:
        return neutral((0, 1), at=0)
    if target in DIVIDE:
        return neutral((0, 1), at=1)
    if target in (*AND, *OR):
        decides = target in OR
        if any(number(k) is not None and bool(number(k)) is decides for k in (0, 1)):
            return decides if value(node).dtype is torch.bool else None
        return neutral((0, 1), (1, 0), at=not decides)
    if target in (aten.clone.default, aten.copy.default):
        return node.args[-1]
    return None


ANY = (aten.any.default, aten.any.dim, aten.any.dims)
ALL = (aten.all.default, aten.all.dim, aten.all.dims)
NOT = (aten.logical_not.default, aten.bitwise_not.default)
AND = (aten.logical_and.default, aten.bitwise_and.Tensor, aten.bitwise_and.Scalar)
OR = (aten.logical_or.default, aten.bitwise_or.Tensor, aten.bitwise_or.Scalar)
COUNTS = (aten.gt.Scalar, aten.ne.Scalar, aten.eq.Scalar)
SUMS = (aten.sum.default, aten.sum.dim_IntList)
WHERE = (aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther)
MASKED_FILL = (aten.masked_fill.Scalar, aten.masked_fill.Tensor)
MULTIPLY = (aten.mul.Tensor, aten.mul.Scalar)
ADD = (aten.add.Tensor, aten.add.Scalar)
SUBTRACT = (aten.sub.Tensor, aten.sub.Scalar)
DIVIDE = (aten.div.Tensor, aten.div.Scalar)
TOTAL_KINDS = (OpKind.PRODUCT, OpKind.COMPARISON, OpKind.CAST, OpKind.VIEW, OpKind.MAKER)
TOTAL = frozenset(
    {
        *(*ANY, *ALL, *NOT, *AND, *OR, *WHERE, *MASKED_FILL, *MULTIPLY, *ADD, *SUBTRACT, *SUMS, operator.getitem),
        *(aten.rsub.Scalar, aten.neg.default, aten.abs.default, aten.addcmul.default, aten.lerp.Tensor),
        *(aten.lerp.Scalar, aten.tanh.default, aten.sigmoid.default, aten.relu.default, aten.silu.default),
        *(aten.gelu.default, aten.elu.default, aten.leaky_relu.default, aten.softplus.default, aten.hardtanh.default),
        *(aten.hardsigmoid.default, aten.hardswish.default, aten.sin.default, aten.cos.default, aten.erf.default),
        *(aten.maximum.default, aten.minimum.default, aten.clamp.default, aten.clamp_min.default),
        *(aten.clamp_max.default, aten.square.default, aten.mean.dim, aten.amax.default, aten.amin.default),
        *(aten._softmax.default, aten._log_softmax.default, aten.argmax.default, aten.copy.default),
        *(aten.clone.default, aten.lift_fresh_copy.default),
    }
)
ELEMENTWISE = (OpKind.POINTWISE, OpKind.COMPARISON, OpKind.CAST)
SAME_ELEMENTS = (
    *(aten.expand.default, aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default),
    *(aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.permute.default),
    *(aten.transpose.int, aten.t.default, aten.alias.default),
)
"""What hands on all elements, each of them as it is."""
SOME_ELEMENTS = (aten.slice.Tensor, aten.select.int)
FILLS: dict[Any, Any] = {
    **dict.fromkeys((aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default), 0),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), 1),
}
"""What makes a tensor of one number, with that number."""
FILLED_WITH: dict[Any, int] = {
    aten.scalar_tensor.default: 0,
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
}
"""The same, with the argument that is the number."""
