"""One step of a cell, and its adjoint, as a graph of tensor operations that holds for every number of rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.nn.attention import SDPBackend, sdpa_kernel

from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.trace.decompositions import DECOMPOSITIONS, OpenCells
from unspool.engine.trace.gradient_hooks import NoHooks
from unspool.engine.trace.gradient_reach import Connections
from unspool.engine.trace.graph import aten
from unspool.engine.trace.symbolic_rows import AnyRows, rows_symbol, without_reports
from unspool.sizes import shape_of
from unspool.step import CheckedCell
from unspool.structure import Structure, flatten, unflatten_as

FEW_ROWS = 3
"""The rows of a rehearsal."""


@dataclass(frozen=True)
class Leaf:
    """One tensor of a step: its shape without the rows, and whether its gradient is wanted."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    wanted: bool = False

    @property
    def differentiable(self) -> bool:
        """Whether gradients can flow through it at all."""
        return self.dtype.is_floating_point or self.dtype.is_complex


@dataclass
class Trace:
    """A step and its adjoint as one graph.

    `outputs` and `new_state` are computed from `weights`, `inputs` and `state`; the gradients `d_weights`, `d_inputs`
    and `d_state` also from `d_outputs` and `d_new_state`. A gradient that is not wanted, or that is zero, is None.
    `rows` is the number of rows. `memory` are the last of the states: buffers with a row for each of the batch, which
    every step hands on as they are. `literals` are tensors that the step makes of numbers, and `constants` those that
    it uses without being given them; both by their nodes. `connections` is how autograd
    connects outputs and new states to weights, inputs and states.
    """

    graph: fx.Graph
    rows: fx.Node
    weights: list[fx.Node]
    inputs: list[fx.Node]
    state: list[fx.Node]
    memory: list[fx.Node]
    d_outputs: list[fx.Node]
    d_new_state: list[fx.Node]
    literals: dict[fx.Node, Tensor]
    constants: dict[fx.Node, Tensor]
    connections: Connections
    _final: tuple[list[Any], ...] | None = None

    def finish(self) -> None:
        """Says that the graph will not change any more."""
        self._final = self._results()

    def _results(self) -> tuple[list[Any], ...]:
        return self._final or self.graph.output_node().args[0]  # pyright: ignore[reportReturnType]

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


def trace(
    cell: Any,
    weights: dict[str, Tensor],
    inputs: Structure,
    state: Structure,
    output_dtype: torch.dtype,
    *,
    same_containers: bool,
    adjoint: bool,
    memory: dict[str, Leaf] | None = None,
    rehearse: Callable[[Callable[[], Any]], None] | None = None,
) -> Trace:
    """Traces one step of `cell`, with its `weights` lifted to inputs of the graph.

    Args:
        cell: the cell.
        weights: its parameters and buffers by name; those that require gradients get them.
        inputs: a structure of `Leaf`s.
        state: another.
        memory: buffers with a row for each of the batch, by name: more state, which every step hands on as it is.
        output_dtype: the dtype of the outputs.
        same_containers: whether outputs must have the containers of `cell.output_size`.
        adjoint: whether gradients are traced at all.
        rehearse: is given the step, to run it without values before it is traced.

    Raises:
        CannotPlanError: if the step cannot be traced for every number of rows.
    """
    sizes = AnyRows()
    mode = FakeTensorMode(shape_env=sizes, allow_non_fake_inputs=True)
    rows = rows_symbol(mode)
    input_leaves: list[Leaf] = flatten(inputs)
    memory = memory or {}
    state_leaves: list[Leaf] = [*flatten(state), *memory.values()]
    device = input_leaves[0].device
    output_leaves = [
        Leaf(shape_of(size, "cell.output_size"), output_dtype, device) for size in flatten(cell.output_size)
    ]
    wanted = [*(weight.requires_grad for weight in weights.values()), *(leaf.wanted for leaf in input_leaves)]
    wanted += [leaf.differentiable for leaf in state_leaves]
    counts = [len(weights), len(input_leaves), len(state_leaves), len(output_leaves), len(state_leaves)]

    connected: list[Connections] = []

    def step(rows: Any, adjoint: bool, *values: Tensor) -> Any:
        lifted, x, s, d_outputs, d_new_state = _cut([value.detach() for value in values], counts)
        sources = [*lifted, *x, *s]
        for value, want in zip(sources, wanted, strict=True):
            value.requires_grad_(adjoint and want)
        own, remembered = s[: len(s) - len(memory)], s[len(s) - len(memory) :]
        with_weights = Lifted(cell, dict(zip([*weights, *memory], [*lifted, *remembered], strict=True)))
        run = CheckedCell(with_weights, rows, output_dtype, same_containers=same_containers)
        versions = [value._version for value in lifted]
        # Attention is computed by its equations, too.
        with torch.set_grad_enabled(adjoint), OpenCells(), NoHooks() as hooks, sdpa_kernel(SDPBackend.MATH):
            output, new_state = run(unflatten_as(inputs, x), unflatten_as(state, own))
        hooks.check()
        mutated = [
            name for name, value, version in zip(weights, lifted, versions, strict=True) if value._version != version
        ]
        if mutated:
            raise CannotPlanError(Code.CHANGES, f"the step changes {', '.join(mutated)} in place")
        results, new = flatten(output), [*flatten(new_state), *remembered]
        ends = [(y, d) for y, d in zip([*results, *new], [*d_outputs, *d_new_state], strict=True) if y.requires_grad]
        with torch.autocast(device.type, enabled=False):  # backward runs outside of the caller's autocast
            connected.append(Connections.of([*results, *new], sources))
            gradients = _gradients(ends, sources) if ends else [None] * len(sources)
        return (results, new, *_cut(gradients, counts[:3]))

    # A graph that was traced in inference mode could not be used outside of it.
    # And what the caller wants to do with saved tensors it does not want to do with the tracer's.
    nothing = torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved)
    with torch.inference_mode(False), torch.no_grad(), _autocast_without_cache(), nothing, without_reports():
        row_leaves = [*input_leaves, *state_leaves, *output_leaves, *state_leaves]
        if rehearse is not None:
            rehearse(lambda: _without_values(step, weights.values(), row_leaves))
        with mode:
            fakes = _arguments(rows, weights.values(), row_leaves)
        module = _make_graph(partial(step, rows, adjoint), fakes)
        if any(_mutates(node) for node in module.graph.nodes):
            module = _make_graph(torch.func.functionalize(fx.Interpreter(module).run), fakes)
    sizes.check()
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    with graph.inserting_before(placeholders[0]):
        count = graph.placeholder("rows")
    count.meta["val"] = rows
    held = {node: getattr(module, str(node.target)) for node in graph.nodes if node.op == "get_attr"}
    literals = {node: tensor for node, tensor in held.items() if _is_literal(node)}
    constants = {node: tensor for node, tensor in held.items() if node not in literals}
    lifted, x, s, d_outputs, d_new_state = _cut(placeholders, counts)
    remembered = s[len(s) - len(memory) :]
    return Trace(graph, count, lifted, x, s, remembered, d_outputs, d_new_state, literals, constants, connected[-1])


def _arguments(rows: Any, weights: Iterable[Tensor], by_row: Iterable[Leaf]) -> list[Tensor]:
    """Tensors like the weights, and with so many rows like the leaves."""
    like_weights = [torch.empty_strided(w.shape, w.stride(), dtype=w.dtype, device=w.device) for w in weights]
    return like_weights + [torch.empty((rows, *leaf.shape), dtype=leaf.dtype, device=leaf.device) for leaf in by_row]


def _without_values(step: Callable[..., Any], weights: Iterable[Tensor], by_row: Iterable[Leaf]) -> None:
    """Runs a step forward on a few rows without values, which is much quicker than on any number of them."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        step(FEW_ROWS, False, *_arguments(FEW_ROWS, weights, by_row))


def _make_graph(function: Any, fakes: list[Tensor]) -> fx.GraphModule:
    with preserve_node_meta():
        return make_fx(
            function,
            decomposition_table=DECOMPOSITIONS,
            tracing_mode="symbolic",
            _allow_non_fake_inputs=True,
            record_stack_traces=True,
        )(*fakes)


class Lifted:
    """A cell that reads the weights it is given."""

    def __init__(self, cell: Any, weights: dict[str, Tensor]) -> None:
        self._cell, self._weights, self.output_size = cell, weights, cell.output_size

    def __call__(self, inputs: Structure, state: Structure) -> Any:
        """One step."""
        if not isinstance(self._cell, nn.Module):
            return self._cell(inputs, state)
        return torch.func.functional_call(self._cell, self._weights, (inputs, state), tie_weights=False)


def _gradients(ends: list[tuple[Tensor, Tensor]], sources: list[Tensor]) -> list[Tensor | None]:
    starts = [source for source in sources if source.requires_grad]
    found = torch.autograd.grad([y for y, _ in ends], starts, [d for _, d in ends], allow_unused=True)
    by_source = dict(zip(map(id, starts), found, strict=True))
    return [by_source.get(id(source)) for source in sources]


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable  # pyright: ignore[reportPrivateUsage]


def _is_literal(node: fx.Node) -> bool:
    """Whether a tensor was made of numbers in the step: torch marks its first use."""
    return all(user.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default) for user in node.users)


@contextmanager
def _autocast_without_cache() -> Generator[None, None, None]:
    """The autocast of the caller, but without its cache, which would keep the tracer's stand-ins for the weights."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


def _cut(values: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    ends = list(accumulate(counts))
    return [list(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]
