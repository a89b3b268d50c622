"""A plan: a cell's step and its adjoint, traced, rewritten, proved and split, for any number of rows and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, fx

from unspool.engine.emit.python import as_python
from unspool.engine.execute.parts import Values
from unspool.engine.execute.phase import Phase
from unspool.engine.ir.program import lower_part
from unspool.engine.memory.copying import brought
from unspool.engine.partition.interleaved import copy_views, make_whole
from unspool.engine.partition.outer_products import OuterSum, outer_sums
from unspool.engine.partition.residuals import row_bytes, values_to_keep
from unspool.engine.partition.split import Part, split
from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.rows.labels import SHARED, Axis, Label
from unspool.engine.rows.proof import check_result_rows, follow_rows
from unspool.engine.trace.gradient_reach import Reach
from unspool.engine.trace.graph import ancestors, is_random
from unspool.engine.trace.rewrites import simplify
from unspool.engine.trace.trace import Trace


@dataclass(frozen=True)
class Schedule:
    """How a plan runs under one policy: the forward phase, the adjoint, and what goes from one to the other.

    Args:
        forward, adjoint: the phases; there is no adjoint without gradients.
        kept: what the forward phase keeps for every row and step, drawn numbers and states among it.
        from_outputs: states that need not be kept, because an output has them: its number, for each state's node.
        in_place: outputs that may be written where the caller gets them, each with its number.
        carried: the states, by number, whose gradients the adjoint carries.
        outer: those whose gradients it need not carry, since they are sums of outer products.
        constant: the row buffers that the adjoint needs, which it carries too.
    """

    forward: Phase
    adjoint: Phase | None
    kept: tuple[fx.Node, ...]
    from_outputs: dict[fx.Node, int]
    in_place: dict[fx.Node, int]
    carried: tuple[int, ...] = ()
    outer: tuple[OuterSum, ...] = ()
    constant: tuple[fx.Node, ...] = ()

    @cached_property
    def used_outputs(self) -> list[int]:
        """The outputs, by number, that backward takes states from."""
        return list(dict.fromkeys(self.from_outputs.values()))


class Plan:
    """What the engine knows of a cell: everything but the number of rows and steps, and the weights' values.

    Args:
        traced: the step, as it was traced; the plan rewrites it.

    Raises:
        CannotPlanError: if the step mixes rows, or draws random numbers in a way that cannot be repeated.
    """

    def __init__(self, traced: Trace) -> None:
        self.trace = traced
        simplify(traced)
        traced.finish()
        self.labels = follow_rows(traced.graph, traced.rows)
        per_row = [*traced.outputs, *traced.new_state, *traced.d_inputs, *traced.d_state]
        check_result_rows(self.labels, per_row, traced.d_weights)
        make_whole(traced.graph, self.labels, traced.rows)
        copy_views(traced.graph, self.labels)
        self.draws = _draws(traced, self.labels)
        fixed = len(traced.weights) + len(traced.inputs)
        self.reach = Reach(traced.connections, len(traced.outputs), fixed, len(traced.row_buffers))
        self.unchecked = traced.has_checks
        """Whether values that the step checks have not been looked at yet."""
        self.constants: dict[fx.Node, int] = {}
        """Which of the tensors that the step can reach each constant is."""
        self.device: torch.device = traced.inputs[0].meta["val"].device
        self.elsewhere = [node for node, tensor in traced.constants.items() if tensor.device != self.device]
        """Constants that are on another device, as torch allows for numbers and indices on the host."""
        self.decided_by: tuple[int, ...] = ()
        """Which of them have values that the trace depends on."""
        self._watching: dict[tuple[int, ...], Phase] = {}
        self._draw, _ = as_python(lower_part(self.draws, self.labels), "draw", self.device)

    def find_constants(self, tensors: Sequence[Tensor]) -> None:
        """Finds the tensors that the step uses without being given them among those that it can reach.

        Raises:
            CannotPlanError: if one is not there, or needs a gradient.
        """
        places = {id(tensor): k for k, tensor in enumerate(tensors)}
        for node, constant in self.trace.constants.items():
            if constant.requires_grad:
                message = "the step uses a tensor that needs a gradient but is no parameter of the cell"
                raise CannotPlanError(Code.FOREIGN_WEIGHT, message)
            if id(constant) not in places:
                raise CannotPlanError(Code.FOREIGN_TENSOR, "the step uses a tensor that does not hang on the cell")
            self.constants[node] = places[id(constant)]
        # Others are made of numbers in the step.
        self.decided_by = tuple(places[id(each)] for each in self.trace.decided_by if id(each) in places)

    def brought(self, constants: dict[fx.Node, Tensor]) -> dict[fx.Node, Tensor]:
        """The same constants, all of them on the device of the loop, whose kernels read no other memory."""
        if not self.elsewhere:
            return constants
        return {**constants, **{node: brought(constants[node], self.device) for node in self.elsewhere}}

    def row_bytes(self, nodes: Sequence[fx.Node]) -> int:
        """Bytes of one row of these values."""
        return sum(row_bytes(node, self.labels) for node in nodes)

    @property
    def is_random(self) -> bool:
        """Whether a step draws random numbers."""
        return bool(self.draws.outputs)

    @property
    def asks_for_values(self) -> bool:
        """Whether values decide how a call runs: of draws, of what a step checks or branches on, of buffers by row."""
        return bool(self.is_random or self.unchecked or self.decided_by or self.trace.row_buffers)

    @cached_property
    def inference(self) -> Schedule:
        """Forward alone; nothing is kept."""
        return Schedule(self._forward([]), None, (), {}, self._numbers)

    def watching(self, states: tuple[int, ...]) -> Phase:
        """Forward alone, by which those of the new states, given by their numbers, are known for every step."""
        if not states:
            return self.inference.forward
        if states not in self._watching:
            self._watching[states] = self._forward([self.trace.new_state[k] for k in states])
        return self._watching[states]

    @cached_property
    def keep(self) -> Schedule:
        """States and the results of products are kept."""
        known = {*self.trace.inputs, *self.trace.state, *self.draws.outputs}
        return self._schedule(values_to_keep(self.trace, self.labels, known), states_in_outputs=False)

    @cached_property
    def recompute(self) -> Schedule:
        """States are kept, where the outputs do not have them."""
        return self._schedule([], states_in_outputs=True)

    @property
    def _numbers(self) -> dict[fx.Node, int]:
        """The outputs by number; the same may be put out twice, and has the first one."""
        return {node: k for k, node in reversed(list(enumerate(self.trace.outputs)))}

    def _schedule(self, products: Sequence[fx.Node], *, states_in_outputs: bool) -> Schedule:
        traced = self.trace
        wanted = [node for node in [*traced.d_weights, *traced.d_inputs] if node is not None]
        given = {*traced.inputs, *traced.state, *self.draws.outputs, *products}
        needed = ancestors([*wanted, *traced.d_state], stop=given)
        outputs = self._numbers
        from_outputs: dict[fx.Node, int] = {}
        if states_in_outputs:
            for old, new in zip(traced.state, traced.new_state, strict=True):
                if old in needed and new in outputs and old not in traced.row_buffers:
                    from_outputs[old] = outputs[new]
        constant = [node for node in traced.row_buffers if node in needed]
        states = [node for node in traced.state if node in needed and node not in {*from_outputs, *constant}]
        kept = [*(node for node in self.draws.outputs if node in needed), *states, *products]
        moving = [node for node in traced.state if node not in constant]
        known = [*traced.inputs, *moving, *self.draws.outputs, *products, *traced.d_outputs]
        outer = outer_sums(traced, self.labels)
        summed = {each.state for each in outer}
        through = [k for k, node in enumerate(traced.state) if differentiable(node) and k not in summed]
        carried = [*(traced.d_new_state[k] for k in through), *constant]
        new_carried = [*(traced.d_state[k] for k in through), *constant]
        wanted += [factor for each in outer for pair in each.factors for factor in pair]
        parts = split(traced, self.labels, known, carried, new_carried, wanted)
        adjoint = Phase(parts, traced, self.labels)
        # Backward must not depend on what the caller may change.
        in_place = {node: k for node, k in outputs.items() if node not in kept}
        return Schedule(
            self._forward(kept),
            adjoint,
            tuple(kept),
            from_outputs,
            in_place,
            tuple(through),
            tuple(outer),
            tuple(constant),
        )

    def _forward(self, kept: Sequence[fx.Node]) -> Phase:
        traced = self.trace
        known = [*traced.inputs, *self.draws.outputs]
        wanted = [*traced.outputs, *kept]
        return Phase(split(traced, self.labels, known, traced.state, traced.new_state, wanted), traced, self.labels)

    def draw(self, counts: Sequence[int]) -> Values:
        """The random numbers of some steps, drawn step by step, as the plain loop would."""
        if not self.draws.outputs:
            return {}
        drawn = [self._draw(count) for count in counts]
        return {node: torch.cat([each[k] for each in drawn]) for k, node in enumerate(self.draws.outputs)}


def differentiable(node: fx.Node) -> bool:
    """Whether gradients flow through a node."""
    _, dtype = row_of(node)
    return dtype.is_floating_point or dtype.is_complex


def row_of(node: fx.Node) -> tuple[tuple[int, ...], torch.dtype]:
    """The shape and dtype of one row of a node; kept, since the stand-ins of a trace are slow to ask."""
    found = node.meta.get("row")
    if found is None:
        value: Tensor = node.meta["val"]
        found = node.meta["row"] = (tuple(value.shape[1:]), value.dtype)
    return found


def _draws(traced: Trace, labels: dict[fx.Node, Label]) -> Part:
    """The random numbers of a step: drawn before anything else, since they depend on nothing."""
    random = [node for node in traced.graph.nodes if is_random(node)]
    results: list[fx.Node] = []
    for node in random:
        if labels[node] == SHARED:
            raise CannotPlanError(
                Code.DRAWS, f"{node.target} draws the same numbers for all rows, which differ from step to step"
            )
        several = [user for user in node.users if isinstance(user.args[1], int)] if _is_tuple(node) else [node]
        results += several
        if any(labels[each] != Axis(0) for each in results):
            raise CannotPlanError(Code.DRAWS, f"{node.target} draws numbers whose rows are not in front")
    needed = ancestors(results)
    if needed & {*traced.inputs, *traced.state, *traced.weights, *traced.d_outputs, *traced.d_new_state}:
        raise CannotPlanError(
            Code.DRAWS, "the step draws random numbers that depend on its inputs, its state or its weights"
        )
    nodes = [node for node in traced.graph.nodes if node in needed and node.op == "call_function"]
    nodes = [node for node in nodes if isinstance(node.meta["val"], Tensor | tuple)]
    return Part(tuple(nodes), (), tuple(results))


def _is_tuple(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], tuple | list)
