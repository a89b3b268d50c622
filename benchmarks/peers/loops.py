"""The Python loop everybody writes first: the step on `inputs.unbind(0)`, outputs stacked, ordinary autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Contender
from benchmarks.peers.registry import peer
from benchmarks.problem import Problem
from unspool.structure import flatten, unflatten_as

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


@peer
def plain(problem: Problem) -> Contender:
    """The plain loop; with lengths, finished rows are masked."""
    return Contender("Python loop", problem.on_torch(loop_of(problem), list(problem.cell.parameters())))


@peer
def hoisted(problem: Problem) -> Contender | None:
    """The loop of somebody who knows: the inputs' product for all steps at once, before it."""
    if problem.kind != "LSTM" or problem.lengths is not None:
        return None
    cell = problem.cell

    def forward() -> Tensor:
        from_inputs, from_state = cell.kernel.split([problem.shape.depth, problem.shape.units])
        c, h = problem.zero_state()
        outputs: list[Tensor] = []
        for x in (problem.inputs @ from_inputs + cell.bias).unbind(0):
            c, h = gates(torch.addmm(x, h, from_state), c, cell.forget_bias)
            outputs.append(h)
        return torch.stack(outputs)

    return Contender("Python loop, x @ W hoisted", problem.on_torch(forward, list(cell.parameters())))


@peer
def captured(problem: Problem) -> Contender | None:
    """The plain loop as one CUDA graph: what is left of it once Python is out of the way. Shapes are frozen."""
    if problem.device.type != "cuda" or problem.lengths is not None:
        return None
    run = problem.on_torch(loop_of(problem), list(problem.cell.parameters()))
    graph: torch.cuda.CUDAGraph | None = None
    returned: Sequence[Tensor] = ()

    def replay() -> Sequence[Tensor]:
        nonlocal graph, returned
        if graph is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # capture wants libraries that have run before
                run()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                returned = run()
        graph.replay()
        return returned

    return Contender("Python loop, CUDA graph", replay, allocates=False)


def loop_of(problem: Problem) -> Callable[[], Any]:
    """The loop for a problem, as a function of nothing."""
    make = STEPS.get(problem.kind, lambda cell: cell)
    alive: Sequence[Tensor] | None = None
    if problem.lengths is not None:
        alive = (
            (torch.arange(problem.shape.steps)[:, None, None] < problem.lengths[:, None]).to(problem.device).unbind(0)
        )

    def forward() -> Any:
        step, state = make(problem.cell), problem.zero_state()
        outputs: list[Any] = []
        for t, x in enumerate(steps_of(problem.inputs)):
            output, new_state = step(x, state)
            if alive is not None:
                output, new_state = output * alive[t], where(alive[t], new_state, state)
            state = new_state
            outputs.append(output)
        return stacked(outputs)

    return forward


def steps_of(inputs: Any) -> Iterable[Any]:
    """What each step reads."""
    if isinstance(inputs, Tensor):
        return inputs.unbind(0)
    return (unflatten_as(inputs, step) for step in zip(*(leaf.unbind(0) for leaf in flatten(inputs)), strict=True))


def stacked(outputs: Sequence[Any]) -> Any:
    """The outputs of all steps as one."""
    if isinstance(outputs[0], Tensor):
        return torch.stack(outputs)
    leaves = zip(*map(flatten, outputs), strict=True)
    return unflatten_as(outputs[0], [torch.stack(leaf) for leaf in leaves])


def where(alive: Tensor, new: Any, old: Any) -> Any:
    """The new state for the rows that are alive."""
    if isinstance(new, Tensor):
        return torch.where(alive, new, old)
    return tuple(where(alive, one, other) for one, other in zip(new, old, strict=True))


# The steps by hand, without the checks of unspool's own cells: a rival must not pay for those.


def lstm(cell: Any) -> Step:
    """One step of an LSTM in TensorFlow's layout."""
    kernel, bias, forget_bias = cell.kernel, cell.bias, cell.forget_bias

    def step(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        c, h = gates(torch.addmm(bias, torch.cat([x, state[1]], 1), kernel), state[0], forget_bias)
        return h, (c, h)

    return step


def gates(sums: Tensor, c: Tensor, forget_bias: float) -> tuple[Tensor, Tensor]:
    """An LSTM's new memory and output."""
    i, j, f, o = sums.chunk(4, 1)
    c = torch.sigmoid(f + forget_bias) * c + torch.sigmoid(i) * torch.tanh(j)
    return c, torch.sigmoid(o) * torch.tanh(c)


def stack(cell: Any) -> Step:
    """One step of LSTMs on top of one another."""
    steps = [lstm(each) for each in cell.cells]

    def step(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        states: list[Any] = []
        for each, old in zip(steps, state, strict=True):
            x, new = each(x, old)
            states.append(new)
        return x, tuple(states)

    return step


def gru(cell: Any) -> Step:
    """One step of a GRU that resets before its product."""
    gates_kernel, gates_bias = cell.gates_kernel, cell.gates_bias
    candidate_kernel, candidate_bias = cell.candidate_kernel, cell.candidate_bias

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        r, u = torch.sigmoid(torch.addmm(gates_bias, torch.cat([x, h], 1), gates_kernel)).chunk(2, 1)
        h = u * h + (1 - u) * torch.tanh(torch.addmm(candidate_bias, torch.cat([x, r * h], 1), candidate_kernel))
        return h, h

    return step


def basic(cell: Any) -> Step:
    """One step of the simplest network."""
    kernel, bias = cell.kernel, cell.bias

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(torch.addmm(bias, torch.cat([x, h], 1), kernel))
        return h, h

    return step


STEPS: dict[str, Callable[[Any], Step]] = {"LSTM": lstm, "three LSTMs": stack, "GRU": gru, "RNN": basic}
"""For any other kind the step is the cell itself."""
