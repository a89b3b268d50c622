"""Python functions of tensors, as small graphs of their own: the bodies of loops, the branches of conditions, steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from unspool.structure import Structure, flatten, unflatten_as
from unspool.tf1.dtypes import DType
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import as_tensor
from unspool.tf1.program import Program, needed
from unspool.tf1.shapes import Dims
from unspool.tf1.step_sizes import settle_sizes
from unspool.tf1.tables import VARIABLE, Reads, reads
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


CLOSED = {"Const", "RNN", "dropout", "random_normal", "random_uniform", "truncated_normal"}
"""Operations that are given a run, but ask it for nothing that others of the session share, besides variables."""


class Body(Graph):
    """A graph inside another: tensors from around it become its inputs when something inside reads them."""

    def __init__(self, outer: Graph) -> None:
        super().__init__()
        self.outer = outer
        self.captured: dict[Tensor, Tensor] = {}
        """What stands inside for each tensor from around."""

    def adopt(self, tensor: Tensor) -> Tensor:
        """The tensor, or what stands for it in here."""
        if tensor.graph is self:
            return tensor
        if tensor not in self.captured:
            assert self.outer is not None
            outside = self.outer.adopt(tensor)
            inside = self.entry(outside.dtype, outside.dims)
            inside.known = outside.known
            self.captured[tensor] = inside
        return self.captured[tensor]

    def as_graph_element(self, element: Any) -> Any:
        """As of any graph, but what is from around may be meant too."""
        found = element._as_graph_element() if hasattr(element, "_as_graph_element") else element
        if isinstance(found, Tensor):
            return self.adopt(found)
        return found if isinstance(found, Operation) else super().as_graph_element(element)

    def current_control_inputs(self) -> tuple[Operation, ...]:
        """What has to run first, of what is in here; what is around has run."""
        return tuple(each for each in super().current_control_inputs() if each.graph is self)

    def entry(self, dtype: DType, dims: Dims) -> Tensor:
        """A new input."""
        return self.add("Arg", None, _unreachable, (), [(dtype, dims)]).outputs[0]


def _unreachable() -> Any:
    raise AssertionError("an input of a function has no value of its own")


@dataclass(frozen=True)
class Like:
    """What an argument of a function is like, where there is no tensor to show."""

    dtype: DType
    dims: Dims


class Function:
    """A Python function that was called once, with symbolic tensors, and can now run on values.

    Args:
        function: takes tensors, in the structures of `arguments`.
        arguments: what it is called with: only dtypes and shapes of the tensors matter.
        lifts_constants: whether constants are given with every call, after what is captured.
    """

    def __init__(
        self, function: Callable[..., Structure], *arguments: Structure, lifts_constants: bool = False
    ) -> None:
        from unspool.tf1.tensor_array import TensorArray

        body = Body(get_default_graph())
        with body.as_default():
            entries: list[Tensor] = []

            def entered(leaf: Any) -> Any:
                if isinstance(leaf, TensorArray):
                    entries.append(body.entry(leaf.flow.dtype, leaf.flow.dims))
                    return leaf.with_flow(entries[-1])
                entries.append(body.entry(leaf.dtype, leaf.dims))
                return entries[-1]

            given = [unflatten_as(each, [entered(leaf) for leaf in flatten(each)]) for each in arguments]
            self.result: Structure = function(*given)
            self.outputs = [body.adopt(_flow(leaf)) for leaf in flatten(self.result)]
            effects = [each for each in body.get_operations() if each.effect]
        if lifts_constants:
            settle_sizes(body.get_operations())
        self.has_effects = bool(effects)
        """Whether it changes variables."""
        self.changes: tuple[Any, ...] = tuple(dict.fromkeys(v for each in effects for v in each.changes))
        """Which, as far as they are known."""
        self.captured = list(body.captured)
        """The tensors from around that it reads, which follow the arguments."""
        self._count = len(self.outputs)
        used = needed([*self.outputs, *effects], ()) if lifts_constants else []
        constants = [each for each in used if each.constant is not None]
        self.constants: list[torch.Tensor] = [each.constant for each in constants]
        """What follows what is captured, if constants are lifted."""
        self._entries = [*entries, *body.captured.values(), *(each.outputs[0] for each in constants)]
        self._program = Program([*self.outputs, *effects], self._entries)
        self.is_closed = all(each.type in CLOSED for each in body.get_operations() if each.takes_run or each.watches)
        """Whether it needs nothing of a session but the values of variables, and generators of its own."""
        self.draws = [each.attributes["draw"] for each in body.get_operations() if "draw" in each.attributes]
        """The generators of its random operations."""
        self.modules: tuple[Any, ...] = tuple(dict.fromkeys(m for each in body.get_operations() for m in each.modules))
        """The modules that it runs itself, not in a loop or a branch."""
        self.variables: tuple[Any, ...] = tuple(
            dict.fromkeys(v for each in body.get_operations() for v in each.variables)
        )
        tables = {inner: outer for outer, inner in body.captured.items() if outer.op.type == VARIABLE}
        self.reads: Reads = reads(self.outputs, tables)
        """How a gradient of the outputs meets variables."""

    def __call__(self, run: Run, values: Sequence[Any]) -> list[Any]:
        """The values of the outputs for those of the arguments and of what is captured."""
        given = dict(zip(self._entries, values, strict=True))
        if not self._program.gradients or torch.is_grad_enabled():
            return self._program(run, given)[: self._count]
        with torch.enable_grad():  # it differentiates, but nobody differentiates it
            made = self._program(run, given)[: self._count]
        return [each.detach() if isinstance(each, torch.Tensor) else each for each in made]


def _flow(leaf: Any) -> Tensor:
    return as_tensor(getattr(leaf, "flow", leaf))
