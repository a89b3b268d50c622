"""The recorder: a dispatch mode that writes down, as an fx graph, what a step and its adjoint call."""

from __future__ import annotations

import operator
from collections.abc import Collection, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.function import BackwardCFunction
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode

from unspool.engine.trace.decompose.operations import DECOMPOSITIONS, torchs_decomposition
from unspool.engine.trace.graph import aten, calls, is_several, is_size, value
from unspool.engine.trace.shapes.by_hand import SHAPES
from unspool.engine.trace.shapes.memo import is_mutable
from unspool.engine.trace.shapes.symbolic_rows import size_of_rows
from unspool.engine.trace.user_lines import Place, place_now

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]  # no public name
functions_alone: Any = _C.DisableTorchFunction
"""A block in which no mode sees which functions of torch are called."""
_sequence_number, _differentiated = _C._autograd._get_sequence_nr, _C._current_autograd_node


class Recorder(TorchDispatchMode):
    """Records what is called in its context, on tensors of a `FakeTensorMode` below it, and lets it run.

    It does what `make_fx` does, for the little that a step needs: one symbol, no subclasses of tensors, no graphs in
    graphs. That makes it three times as fast, and every node has the line of the user's code that it came from, those
    of the adjoint too.

    Args:
        mode: whose tensors they are.
        rows: the symbol for the number of rows. Sizes that are computed from it become nodes where they are used.
        given: the tensors that the step is given, by the names of their placeholders.
        apart: operations that are taken apart by torch's own decompositions.
    """

    def __init__(
        self, mode: FakeTensorMode, rows: SymInt | int, given: dict[str, Tensor], apart: Collection[Any] = ()
    ) -> None:
        super().__init__()
        self.mode = mode
        self.apart, self._open = apart, set[Any]()
        self.graph = fx.Graph()
        self.constants: dict[fx.Node, Tensor] = {}
        """Tensors that the step uses without being given them, by their nodes."""
        self.place: Place | None = None
        """Where operations come from, when it is not the user's code that is running."""
        self._nodes: dict[int, fx.Node] = {}
        self._alive: list[Tensor] = []  # so that identities are not used again
        self._places: dict[int, Place | None] = {}
        self._recording = True
        self.rows = self._placeholder("rows", rows)
        self.given = [self._placeholder(name, tensor) for name, tensor in given.items()]

    def finish(self, results: Any) -> None:
        """Says what the graph computes: tensors that were recorded, in lists."""
        self.graph.output(self._told(results))
        with self.paused():
            for node in calls(self.graph):
                node.meta["val"] = map_aggregate(value(node), _detached)

    @property
    def results(self) -> Any:
        """What the graph computes, in the lists that `finish` was given."""
        [end] = self.graph.find_nodes(op="output")
        return end.args[0]

    def node_of(self, tensor: Tensor) -> fx.Node | None:
        """The node that computed a tensor; None if it was not computed here."""
        return self._nodes.get(id(tensor))

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Lets operations run without recording them."""
        before, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options: Any = kwargs or {}
        if not self._recording or not _is_operation(func):
            return _shaped(func)(*args, **options)
        if func in ALIASES and id(args[0]) in self._nodes:
            result = func(*args, **options)
            self._track(result, self._nodes[id(args[0])])
            return result
        result = self._taken_apart(func, args, options)
        if result is not NotImplemented:
            return result
        if func is aten.lift_fresh.default:  # a literal, which nobody else has
            func = aten.lift_fresh_copy.default
        told = self._told(tuple(args)), self._told(options)
        result = _shaped(func)(*args, **options)
        self._name(result, self._call(func, *told))
        return result

    def _taken_apart(self, func: Any, args: Any, options: Any) -> Any:
        """What simpler operations compute in the place of one; NotImplemented if it stays as it is."""
        simpler = DECOMPOSITIONS.get(func)
        if simpler is None and (func in self.apart or func.namespace == "prims"):
            if func in self._open:  # torch's own ways may end in what they began with
                return NotImplemented
            simpler = torchs_decomposition(func)
        if simpler is None and func.has_kernel_for_dispatch_key(COMPOSITE):
            simpler = func.decompose
        if simpler is None:
            return NotImplemented
        opened = func not in self._open
        self._open.add(func)
        try:
            with self:
                return simpler(*args, **options)
        finally:
            if opened:
                self._open.discard(func)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _placeholder(self, name: str, tensor: Any) -> fx.Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = tensor
        if isinstance(tensor, Tensor):
            self._track(tensor, node)
        return node

    def _call(self, func: Any, args: Any, options: Any) -> fx.Node:
        node = self.graph.create_node("call_function", func, args, options, func.__name__.partition(".")[0])
        behind = _differentiated()
        place = self.place or place_now()
        if behind is None:
            self._places.setdefault(_sequence_number() - 1, place)  # which the derivative, if there is one, has got
        else:
            place = place or self._places.get(behind._sequence_nr())
            node.meta["derived"] = not isinstance(behind, BackwardCFunction)
        if place is not None:
            node.meta["place"] = place
        return node

    def _name(self, result: Any, node: fx.Node) -> None:
        """Says what a node computes."""
        node.meta["val"] = result
        if isinstance(result, Tensor):
            self._track(result, node)
        elif is_several(result):
            for number, part in enumerate(result):
                if part is not None:
                    self._name(part, self._call(operator.getitem, (node, number), {}))

    def _track(self, tensor: Tensor, node: fx.Node) -> None:
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)

    def _told(self, given: Any) -> Any:
        """An argument with nodes for what was computed."""
        return map_aggregate(given, self._node_of)

    def _like(self, leaf: Tensor) -> Tensor:
        """A tensor without values like one that has some."""
        if leaf.layout is not torch.strided:
            return self.mode.from_tensor(leaf, static_shapes=True)
        with self.mode:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)

    def _node_of(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return size_of_rows(leaf, self.rows) if isinstance(leaf, SYMBOLS) else leaf
        found = self._nodes.get(id(leaf))
        if found is None:
            found = self.graph.create_node("get_attr", f"constant_{len(self.constants)}")
            self.constants[found] = leaf
            found.meta["val"] = self._like(leaf)
            self._track(leaf, found)
        return found


def functionalized(recorder: Recorder, given: dict[str, Tensor]) -> Recorder:
    """What was recorded from tensors like these, without operations that change any in place."""
    attributes = {str(node.target): tensor for node, tensor in recorder.constants.items()}
    module = fx.GraphModule(attributes, recorder.graph)
    rows = value(recorder.rows)
    again = Recorder(recorder.mode, rows, given, recorder.apart)

    class Rerun(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            again.place = n.meta.get("place")
            return value(n) if n.op == "call_function" and is_size(n) else super().run_node(n)

    with again:
        again.finish(torch.func.functionalize(Rerun(module).run)(rows, *given.values()))
    return again


def _shaped(func: Any) -> Any:
    """What tells the results of an operation: it, or what knows more of symbols than torch does."""
    return SHAPES.get(func, func)


@cache
def _is_operation(func: Any) -> bool:
    """Whether it is an operation of the dispatcher, and not a question about a tensor: on which device it is, say."""
    return _C._dispatch_has_kernel(func.name())


def mutates(node: fx.Node) -> bool:
    """Whether a node changes one of its arguments in place."""
    return is_mutable(node.target)


def _detached(leaf: Any) -> Any:
    """A tensor without autograd's graph, of which it may have become a part since it was recorded."""
    return leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf


COMPOSITE = _C.DispatchKey.CompositeImplicitAutograd
SYMBOLS = (SymInt, SymFloat, SymBool)
ALIASES = (aten.detach.default, aten.alias.default)
"""What gives back what it was given, as autograd does with all that it saves."""
