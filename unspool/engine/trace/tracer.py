"""The tracer: runs a step and its VJP once on FakeTensors with a symbolic number of rows, and has them recorded."""

from __future__ import annotations

import bdb
import builtins
import io
import sys
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from typing import Any, TextIO

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch.nn.attention import SDPBackend, sdpa_kernel

from unspool.engine.execute.operands import Operands
from unspool.engine.reasons import DATA_DEPENDENT, CannotPlanError, Code, Reason, why
from unspool.engine.trace.control.constants import Constants
from unspool.engine.trace.control.decisions import Decisions, Settled, settle
from unspool.engine.trace.decompose.functions import OpenLayers
from unspool.engine.trace.gradient_hooks import NoHooks, saved, unpacked
from unspool.engine.trace.gradient_reach import Connections
from unspool.engine.trace.graph import aten
from unspool.engine.trace.lifting import Lifted
from unspool.engine.trace.recorder import Recorder, functionalized, mutates
from unspool.engine.trace.scripted import FromGraphs
from unspool.engine.trace.shapes.memo import RememberingMode
from unspool.engine.trace.shapes.symbolic_rows import AnyRows, without_reports
from unspool.engine.trace.spec import Leaf, StepSpec
from unspool.engine.trace.trace import Trace
from unspool.outputs import Outputs
from unspool.step import CheckedCell
from unspool.structure import Structure, flatten, unflatten_as

FEW_ROWS = 3
"""The rows of a rehearsal."""


def trace(
    cell: Any,
    spec: StepSpec,
    rehearse: Callable[[Callable[[], Any]], None] | None = None,
    apart: Collection[Any] = (),
) -> Trace:
    """Traces one step of `cell`, with its weights lifted to inputs of the graph.

    Args:
        cell: the cell.
        spec: what for.
        rehearse: is given the step, to run it without values before it is traced.
        apart: operations that are taken apart by torch's own decompositions.

    Raises:
        CannotPlanError: if the step cannot be traced for every number of rows.
    """
    sizes = AnyRows(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)  # that is for `Decisions`
    mode = RememberingMode(shape_env=sizes, allow_non_fake_inputs=True)
    rows, step = mode.make_rows(), _Step(cell, spec)
    with _apart_from_the_caller(), without_reports():
        if rehearse is not None:
            _rehearse(step, rehearse)
        elif step.outputs is None:
            _without_values(step)
        with mode, enable_python_dispatcher():  # symbols need the forms in Python of some operations
            given = step.arguments(rows, gradients=True)
            step.recorder = recorded = Recorder(mode, rows, given, apart)
            with recorded:
                recorded.finish(step(rows, spec.adjoint, [*given.values()], recorded.paused))
            if any(mutates(node) for node in recorded.graph.nodes):
                recorded = functionalized(recorded, given)
    sizes.check()
    literals = {node: tensor.to(spec.device) for node, tensor in recorded.constants.items() if _is_literal(node)}
    operands, d_outputs, d_new_state = step.grouped(recorded.given)
    assert step.connections is not None
    assert step.outputs is not None
    return Trace(
        graph=recorded.graph,
        rows=recorded.rows,
        weights=list(operands.weights),
        inputs=list(operands.inputs),
        state=operands.carried,
        row_buffers=list(operands.row_buffers),
        d_outputs=d_outputs,
        d_new_state=d_new_state,
        literals=literals,
        constants={node: tensor for node, tensor in recorded.constants.items() if node not in literals},
        connections=step.connections,
        output_kind=step.outputs,
        other_containers=step.other_containers,
        has_checks=step.settled is not None,
        decided_by=[] if step.settled is None else step.settled.read,
    )


class _Step:
    """A step and its adjoint as a function of the operands, flat, and of the gradients of outputs and new states."""

    def __init__(self, cell: Any, spec: StepSpec) -> None:
        self._cell, self._spec = cell, spec
        self._grad_enabled = torch.is_grad_enabled()  # as it is for the caller: a step may ask
        self.outputs = Outputs.declared(cell.output_size, spec.output_dtype)
        """What it puts out; None until it has run, if its cell does not say it."""
        self.settled: Settled | None = None
        """What it is answered where it asks for values; None if it does not."""
        self.recorder: Recorder | None = None
        """Who records it now, if somebody does."""
        self.connections: Connections | None = None
        """How autograd connected results to sources when it last ran."""
        self.other_containers: Reason | None = None
        """What is wrong with the containers of its output, if they are not those of `cell.output_size`."""

    @property
    def weights(self) -> list[Tensor]:
        """The weights themselves."""
        return list(self._spec.weights.values())

    def arguments(self, rows: Any, *, gradients: bool) -> dict[str, Tensor]:
        """Tensors like the weights, and with so many rows like all the rest, by what they are to it."""
        spec = self._spec
        by_row: dict[str, list[Leaf]] = {
            "input": spec.input_leaves,
            "state": spec.state_leaves,
            "row_buffer": [*spec.row_buffers.values()],
        }
        if gradients:
            assert self.outputs is not None
            by_row["d_output"] = [Leaf(*kind, spec.device) for kind in self.outputs.leaves]
            by_row["d_new_state"] = spec.carried_leaves
        found = {
            f"weight_{number}": torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
            for number, like in enumerate(spec.weights.values())
        }
        for name, leaves in by_row.items():
            for number, leaf in enumerate(leaves):
                made = torch.empty((rows, *leaf.shape), dtype=leaf.dtype, device=leaf.device)
                found[f"{name}_{number}"] = made
        return found

    def grouped(self, values: list[Any]) -> tuple[Operands[Any], list[Any], list[Any]]:
        """What it is given: operands, gradients of the outputs, and of the new states, if any."""
        wanted = self._spec.wanted
        given = len(wanted.flat())
        end = len(values) if len(values) == given else len(values) - len(self._spec.carried_leaves)
        return wanted.regroup(values[:given]), values[given:end], values[end:]

    def __call__(
        self,
        rows: Any,
        adjoint: bool,
        values: list[Tensor],
        unrecorded: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Any:
        """Outputs, new states, and gradients of weights, inputs and states."""
        spec = self._spec
        given, d_outputs, d_new_state = self.grouped([value.detach() for value in values])
        sources = given.flat()
        for value, want in zip(sources, spec.wanted.flat(), strict=True):
            value.requires_grad_(adjoint and want)
        output, new_state = self._run(rows, given)
        assert self.outputs is not None
        results, new = self.outputs.flatten(output), [*flatten(new_state), *given.row_buffers]
        pairs = zip([*results, *new], [*d_outputs, *d_new_state], strict=True) if adjoint else ()
        ends = [(y, d) for y, d in pairs if y.requires_grad]
        with torch.autocast(spec.device.type, enabled=False):  # backward runs outside of the caller's autocast
            with unrecorded():
                self.connections = Connections.of([*results, *new], sources)
            gradients = given.regroup(_gradients(ends, sources) if ends else [None] * len(sources))
        return results, new, list(gradients.weights), list(gradients.inputs), gradients.carried

    def _run(self, rows: Any, given: Operands[Tensor]) -> tuple[Structure, Structure]:
        spec = self._spec
        weights = dict(zip(spec.names(), [*given.weights, *given.row_buffers], strict=True))
        lifted = Lifted(self._cell, weights, {**spec.weights, **spec.captured})
        run = CheckedCell(lifted, rows, spec.output_dtype, same_containers=False, watched=True)
        versions = [value._version for value in given.weights]
        checks = nullcontext() if self.settled is None else self._decisions(self.settled)
        hooks = NoHooks()
        # The first to see what the step calls is the last of these modes. Attention is computed by its equations, too.
        with (
            torch.set_grad_enabled(self._grad_enabled),
            sdpa_kernel(SDPBackend.MATH),
            lifted.stand_ins,
            checks,
            OpenLayers(),
            hooks,
            FromGraphs(),
        ):
            results = run(unflatten_as(spec.inputs, given.inputs), unflatten_as(spec.state, given.state))
        hooks.check()
        self.outputs, self.other_containers = run.outputs, None
        try:
            run.check_containers(lifted.output)
        except (TypeError, ValueError) as error:  # which only a loop with lengths minds
            self.other_containers = why(error, Code.NOT_TRACED, "the step cannot be traced")
        each = zip(spec.weights, given.weights, versions, strict=True)
        mutated = [name for name, value, version in each if value._version != version]
        if mutated:
            raise CannotPlanError(Code.CHANGES, f"the step changes {', '.join(mutated)} in place")
        return results

    def _decisions(self, settled: Settled) -> Decisions:
        decisions = Decisions(settled.answers, settled)
        if self.recorder is not None:
            decisions.constants = Constants(self.recorder, self.weights)
        return decisions


def _rehearse(step: _Step, rehearse: Callable[[Callable[[], Any]], None]) -> None:
    """Rehearses a step; one that asks for values once more, if it only checks them."""
    try:
        rehearse(lambda: _without_values(step))
    except Exception as error:
        if type(error).__name__ not in DATA_DEPENDENT:
            raise
        with _unattended(), redirect_stdout(_Unheard(sys.stdout)):  # a check may have something to say when it fails
            step.settled = settle(lambda decisions: _recorded(step, decisions))
        rehearse(lambda: _without_values(step))


@contextmanager
def _unattended() -> Generator[None, None, None]:
    """Opens no debugger and asks nobody in this thread, where no value made a check fail: that is an error instead."""
    thread = threading.get_ident()

    def elsewhere(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread:
                raise RuntimeError("somebody would be asked")
            return ask(*args, **kwargs)

        return asked

    before = sys.breakpointhook, bdb.Bdb.set_trace, builtins.input
    sys.breakpointhook, bdb.Bdb.set_trace, builtins.input = map(elsewhere, before)
    try:
        yield
    finally:
        sys.breakpointhook, bdb.Bdb.set_trace, builtins.input = before


class _Unheard(io.TextIOBase):
    """Drops what this thread prints; what others do goes where it went."""

    def __init__(self, behind: TextIO) -> None:
        self._behind, self._thread = behind, threading.get_ident()

    def write(self, text: str, /) -> int:
        return len(text) if threading.get_ident() == self._thread else self._behind.write(text)

    def flush(self) -> None:
        self._behind.flush()


def _without_values(step: _Step) -> None:
    """Runs a step forward on a few rows without values, which is much quicker than on any number of them."""
    with RememberingMode(allow_non_fake_inputs=True):
        step(FEW_ROWS, False, [*step.arguments(FEW_ROWS, gradients=False).values()])


def _recorded(step: _Step, decisions: Decisions) -> Recorder:
    """Does the same with answers to what it asks, and records it, with what it asked about as its last results."""
    with RememberingMode(allow_non_fake_inputs=True) as mode, decisions:
        given = step.arguments(FEW_ROWS, gradients=False)
        recorded = Recorder(mode, FEW_ROWS, given)
        decisions.constants = Constants(recorded, step.weights)
        with recorded:
            results, new_state, *_ = step(FEW_ROWS, False, [*given.values()], recorded.paused)
            recorded.finish([results, new_state, decisions.predicates])
        return functionalized(recorded, given) if any(map(mutates, recorded.graph.nodes)) else recorded


def _gradients(ends: list[tuple[Tensor, Tensor]], sources: list[Tensor]) -> list[Tensor | None]:
    starts = [source for source in sources if source.requires_grad]
    found = torch.autograd.grad([y for y, _ in ends], starts, [d for _, d in ends], allow_unused=True)
    by_source = dict(zip(map(id, starts), found, strict=True))
    return [by_source.get(id(source)) for source in sources]


def _is_literal(node: fx.Node) -> bool:
    """Whether a tensor was made of numbers in the step: torch marks its first use."""
    return all(user.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default) for user in node.users)


@contextmanager
def _apart_from_the_caller() -> Generator[None, None, None]:
    """Keeps from a trace what the caller has set for its own tensors and graphs."""
    with (
        torch.inference_mode(False),  # a graph that was traced in it could not be used outside of it
        torch.no_grad(),
        _autocast_without_cache(),
        # What the caller wants to do with saved tensors it does not want to do with the tracer's.
        torch.autograd.graph.saved_tensors_hooks(saved, unpacked),
    ):
        yield


@contextmanager
def _autocast_without_cache() -> Generator[None, None, None]:
    """The autocast of the caller, but without its cache, which would keep the tracer's stand-ins for the weights."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)
