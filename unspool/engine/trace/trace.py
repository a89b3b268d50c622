"""A trace: one step of a cell, and its adjoint, as a graph of tensor operations that holds for every number of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, fx

from unspool.engine.execute.operands import Operands
from unspool.engine.reasons import Reason
from unspool.engine.trace.gradient_reach import Connections
from unspool.engine.trace.graph import argument
from unspool.outputs import Outputs


@dataclass
class Trace:
    """A step and its adjoint as one graph.

    `outputs` and `new_state` are computed from `weights`, `inputs` and `state`; the gradients `d_weights`, `d_inputs`
    and `d_state` also from `d_outputs` and `d_new_state`. A gradient that is not wanted, or that is zero, is None.
    `rows` is the number of rows. `row_buffers` are the last of the states: buffers with a row for each of the batch,
    which every step hands on as they are. `literals` are tensors that the step makes of numbers, on the device of its
    inputs, and `constants` those that it uses without being given them; both by their nodes. `connections` is how
    autograd connects outputs and new states to weights, inputs and states. `output_kind` is what the outputs are.
    `other_containers` says what is wrong with the containers of the output, if they are not those of
    `cell.output_size`: with lengths, the cell cannot run. `has_checks` says that the step checks values, which the
    graph does not. `decided_by` are tensors whose values decide what the graph is.
    """

    graph: fx.Graph
    rows: fx.Node
    weights: list[fx.Node]
    inputs: list[fx.Node]
    state: list[fx.Node]
    row_buffers: list[fx.Node]
    d_outputs: list[fx.Node]
    d_new_state: list[fx.Node]
    literals: dict[fx.Node, Tensor]
    constants: dict[fx.Node, Tensor]
    connections: Connections
    output_kind: Outputs
    other_containers: Reason | None = None
    has_checks: bool = False
    decided_by: list[Tensor] = field(default_factory=list[Tensor])
    _final: tuple[list[Any], ...] | None = None

    @cached_property
    def operands(self) -> Operands[fx.Node]:
        """What a step is given besides gradients, by name."""
        own = self.state[: len(self.state) - len(self.row_buffers)]
        return Operands(self.weights, self.inputs, own, self.row_buffers)

    def finish(self) -> None:
        """Says that the graph will not change any more."""
        self._final = self._results()

    def _results(self) -> tuple[list[Any], ...]:
        return self._final or argument(self.graph.output_node(), 0)

    @property
    def outputs(self) -> list[fx.Node]:
        """What the step puts out."""
        return self._results()[0]

    @property
    def new_state(self) -> list[fx.Node]:
        """What the next step starts from."""
        return self._results()[1]

    @property
    def d_weights(self) -> list[fx.Node | None]:
        """The gradient of each weight, summed over the rows."""
        return self._results()[2]

    @property
    def d_inputs(self) -> list[fx.Node | None]:
        """The gradient of each input."""
        return self._results()[3]

    @property
    def d_state(self) -> list[fx.Node | None]:
        """The gradient of each state."""
        return self._results()[4]
