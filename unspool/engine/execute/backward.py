"""The backward pass of a call: the adjoint, chunk by chunk from the last one, with the residuals of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, fx

from unspool.engine.execute.call import Call
from unspool.engine.execute.forward import beside, first_rows, forward_chunk, no_autocast
from unspool.engine.execute.parts import Steps, Values
from unspool.engine.memory.residual_store import ResidualStore
from unspool.engine.partition.outer_products import add_outer
from unspool.engine.plans.plan import row_of


class Backward:
    """Gradients of the operands of a call.

    Args:
        call: the call.
        tensors: its operands, flat.
        outputs: those of its outputs that have states in them, by number.
        store: the residuals.
        gradients: of the outputs and the final state; None for zeros.
        wanted: which operands' gradients are.
    """

    def __init__(
        self,
        call: Call,
        tensors: Sequence[Tensor],
        outputs: dict[int, Tensor],
        store: ResidualStore,
        gradients: Sequence[Tensor | None],
        wanted: Sequence[bool],
    ) -> None:
        traced, schedule, layout = call.plan.trace, call.schedule, call.layout
        assert call.memory is not None
        assert schedule.adjoint is not None
        self._call, self._schedule, self._adjoint, self._memory = call, schedule, schedule.adjoint, call.memory
        self._operands, self._wanted = call.operands(tensors), traced.operands.regroup(wanted)
        self._outputs, self._store = outputs, store
        self._d_outputs = gradients[: len(traced.outputs)]
        given = gradients[len(traced.outputs) :]
        self._d_final: list[Tensor | None] = [*given, *(None for _ in traced.row_buffers)]
        carried = self._operands.carried
        read = {*schedule.from_outputs, *schedule.constant, *traced.row_buffers}
        first = zip(traced.state, carried, strict=True)
        self._first = {node: layout.sort(leaf) for node, leaf in first if node in read}
        # Where all steps are one chunk, and no row has changed places, what is computed of them is as it is to be.
        one_chunk = call.chunks(0, layout.steps) == [(0, call.steps)] and not (layout.scattered or call.memory.reruns)
        written = self._adjoint.split.core.outputs
        self._d_inputs: dict[fx.Node, Tensor | None] = {
            node: None if one_chunk and node not in written else call.space(node)
            for node in traced.d_inputs
            if node is not None
        }
        self._d_state: list[Tensor | None] = [None] * len(carried)
        self._outer = [each for each in schedule.outer if self._wanted.carried[each.state]]
        for each in self._outer:
            d = self._d_final[each.state]
            self._d_state[each.state] = None if d is None else d.clone()

    def run(self) -> list[Tensor | None]:
        """The gradient of each operand; None where it is not wanted."""
        call, layout = self._call, self._call.layout
        sums: Values = {}
        with no_autocast(layout.device):
            weights = call.weights(self._operands)
            bound = self._adjoint.begin(weights, layout.mean_rows, call.emitter)
            carried = self._last_gradients()
            # Zeros, made a line above; on a GPU leaves that are alike have the same.
            owned = layout.device.type == "cpu" and all(self._d_final[k] is None for k in self._schedule.carried)
            for begin, end, residuals in self._chunks(weights):
                counts = layout.counts_of(begin, end)
                running = first_rows(carried, counts[0]) if layout.sorted else carried
                places = call.places({node: d for node, d in self._d_inputs.items() if d is not None}, begin, end)
                known = self._known(residuals, begin, end)
                rows = layout.running(begin, end)
                steps = Steps(counts, reverse=True, into=places, owned=owned, scope=call.scope, running=rows)
                steps = steps._replace(zeros=self._d_inputs)
                new, values = bound.run(known, running, steps)
                owned = False
                carried = beside(new, carried) if layout.sorted else new
                self._adjoint.add_sums(sums, values, partial(layout.if_any_runs, start=begin))
                zero = {node for node in self._d_inputs if bound.is_zero(node, steps)}
                self._collect(values, places, zero, begin, end)
                del residuals, known, values  # their memory is the next chunk's
            totals = bound.finish(sums)
        return self._results(totals, carried)

    def _last_gradients(self) -> list[Tensor]:
        """What the adjoint carries into the last step: gradients of the final state, and row buffers that it reads."""
        layout, schedule, state = self._call.layout, self._schedule, self._operands.carried
        shared: dict[tuple[torch.Size, torch.dtype], Tensor] = {}

        def zeros(leaf: Tensor) -> Tensor:
            if layout.device.type == "cpu":
                return torch.zeros_like(leaf)
            kind = leaf.shape, leaf.dtype
            if kind not in shared:
                shared[kind] = torch.zeros(leaf.shape, dtype=leaf.dtype, device=leaf.device)
            return shared[kind]

        gradients = ((self._d_final[k], state[k]) for k in schedule.carried)
        carried = [zeros(leaf) if d is None else layout.sort(d) for d, leaf in gradients]
        return carried + [self._first[node] for node in schedule.constant]

    def _known(self, residuals: Values, begin: int, end: int) -> Values:
        """What the adjoint of some steps starts from."""
        layout, traced = self._call.layout, self._call.plan.trace
        known = dict(residuals)  # rows that have ended were lent others' values
        needs = self._call.adjoint_needs
        for node, leaf in zip(traced.inputs, self._operands.inputs, strict=True):
            own = layout.take(leaf, begin, end)
            known[node] = layout.if_any_runs(own, begin) if node in needs.lent else own
        for node, number in self._schedule.from_outputs.items():
            known[node] = layout.previous(self._outputs[number], self._first[node], begin, end)
        rows = layout.counts_of(begin, end).total
        for node, d in zip(traced.d_outputs, self._d_outputs, strict=True):
            take = layout.take_gradient if node in needs.finite else layout.take
            known[node] = _no_rows(node, rows) if d is None else take(d, begin, end)
        return known

    def _collect(self, values: Values, places: Values, zero: Collection[fx.Node], begin: int, end: int) -> None:
        """Takes gradients of inputs, and outer products, from what some steps have computed.

        Args:
            values: that.
            places: what has been written to its place.
            zero: what is zero for rows that do not run.
            begin: the first of the steps.
            end: the one after the last.
        """
        layout, d_state = self._call.layout, self._d_state
        for each in self._outer:
            factors = [(values[column], values[line]) for column, line in each.factors]
            d_state[each.state] = add_outer(d_state[each.state], factors, layout, begin, end)
        for node, d in self._d_inputs.items():
            own = values[node]
            if d is None:
                self._d_inputs[node] = own.reshape(*layout.shape(end), *own.shape[1:]).contiguous()
            elif places.get(node) is not own:
                layout.put(d, begin, end, own, zero=node in zero)

    def _results(self, totals: Values, carried: Sequence[Tensor]) -> list[Tensor | None]:
        traced, schedule, layout = self._call.plan.trace, self._schedule, self._call.layout
        d_weights = [None if node is None else totals[node] for node in traced.d_weights]
        for number, d in zip(schedule.carried, carried[: len(schedule.carried)], strict=True):  # and no row buffers
            if self._wanted.carried[number]:
                self._d_state[number] = layout.unsort(d)
        seen: set[fx.Node | None] = set()
        d_inputs: list[Tensor | None] = []
        for node in traced.d_inputs:
            d = None if node is None else self._d_inputs[node]
            d_inputs.append(d.clone() if d is not None and node in seen else d)
            seen.add(node)
        results = [*d_weights, *d_inputs, *self._d_state]
        return [result if want else None for result, want in zip(results, self._wanted.flat(), strict=True)]

    # -- residuals -----------------------------------------------------------------------------------------------------

    def _chunks(self, weights: Values) -> Iterator[tuple[int, int, Values]]:
        """All chunks, last one first, with what the adjoint needs of the forward pass."""
        call, kept = self._call, self._schedule.kept
        if self._memory.reruns:
            yield from self._run_again(weights)
            return
        for start, stop in reversed(call.segments()):
            for begin, end in reversed(call.chunks(start, stop)):
                yield begin, end, dict(zip(kept, self._store.take(), strict=True))

    def _run_again(self, weights: Values) -> Iterator[tuple[int, int, Values]]:
        """The same where only the states at the start of each segment are kept: the segment runs once more."""
        call, layout, plan = self._call, self._call.layout, self._call.plan
        bound = self._schedule.forward.begin(weights, layout.mean_rows, call.emitter)
        for start, stop in reversed(call.segments()):
            chunks = call.chunks(start, stop)
            drawn = [dict(zip(plan.draws.outputs, self._store.take(), strict=True)) for _ in chunks]  # last one first
            rows = layout.counts[start]
            carried = [*self._store.take(), *(self._first[node][:rows] for node in plan.trace.row_buffers)]
            again: list[Values] = []
            for steps in chunks:
                carried, values = forward_chunk(call, bound, self._operands, drawn.pop(), carried, steps)
                again.append({node: values[node] for node in self._schedule.kept})
            for begin, end in reversed(chunks):
                yield begin, end, again.pop()


def _no_rows(node: fx.Node, rows: int) -> Tensor:
    """The gradient of an output that nobody used: one row of zeros for all."""
    row, dtype = row_of(node)
    return torch.zeros((1, *row), dtype=dtype, device=node.meta["val"].device).expand(rows, *row)
