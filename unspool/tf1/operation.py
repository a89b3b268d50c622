"""One operation of a graph: what it reads, what it does in a session, what it puts out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unspool.tf1.dtypes import DType
from unspool.tf1.shapes import Dims

if TYPE_CHECKING:
    from unspool.tf1.graph import Graph
    from unspool.tf1.tables import Reads
    from unspool.tf1.tensor import Tensor
    from unspool.tf1.variables import Variable

NUMBERS = itertools.count()
"""Of all operations, in the order in which they were made."""


class Operation:
    """One operation of a graph.

    Args:
        graph: the graph that it is added to.
        kind: TensorFlow's name for what it does, such as "MatMul".
        name: its own name, unique in the graph.
        function: takes the values of the inputs to that of the output, or to a sequence of several.
        inputs: what it reads.
        outputs: the dtype and the shape of each output.
        takes_run: whether the function wants the `Run` before the inputs, for the values of variables.
        effect: whether it changes something that others read: it runs after all that does not depend on it.
        variables: those that it reads inside, besides its inputs.
        watches: the inputs that it differentiates by.
        changes: the variables that it assigns to, as far as they are known.
        reads: how it reads variables, among its inputs and inside; as a whole those that are not among them.
    """

    def __init__(
        self,
        graph: Graph,
        kind: str,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, Dims]],
        *,
        takes_run: bool = False,
        effect: bool = False,
        variables: Sequence[Variable] = (),
        watches: Sequence[Tensor] = (),
        changes: Sequence[Variable] = (),
        reads: Reads | None = None,
    ) -> None:
        from unspool.tf1.tensor import Tensor

        self.graph, self.type, self.name, self.function = graph, kind, name, function
        self.inputs = tuple(inputs)
        self.outputs = tuple(Tensor(self, k, dtype, dims) for k, (dtype, dims) in enumerate(outputs))
        self.takes_run, self.effect = takes_run, effect
        self.variables, self.watches, self.changes = tuple(variables), tuple(watches), tuple(changes)
        self.reads: Reads = reads or {}
        self.control_inputs: tuple[Operation, ...] = graph.current_control_inputs()
        self.device = ""
        self.unnamed = False
        """Whether its name is still to come, from what reads it."""
        self.modules: tuple[Any, ...] = ()
        """What it runs of unspool's, each `Bound` to variables."""
        self.call: Any = None
        """The call of a cell that it is, if a loop could do what it does."""
        self.constant: Any = None
        """The value that it always has, if it has."""
        self.attributes: Mapping[str, Any] = {}
        """What else it was made with, where somebody asks for it."""
        # Inputs are older than what reads them: in the order of their numbers operations can run.
        self.number = next(NUMBERS)

    def copied(self, inputs: Sequence[Tensor]) -> Operation:
        """The same operation on other inputs."""
        return self.graph.add(
            self.type,
            self.name.split("/")[-1],
            self.function,
            inputs,
            [(each.dtype, each.dims) for each in self.outputs],
            takes_run=self.takes_run,
            effect=self.effect,
            variables=self.variables,
            reads=self.reads,
        )

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs the operation in the default session, or in the one given."""
        from unspool.tf1.session import session_for

        session_for(session, self.graph).run(self, feed_dict)

    @property
    def values(self) -> Callable[[], tuple[Tensor, ...]]:
        """Called, its outputs."""
        return lambda: self.outputs

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"
