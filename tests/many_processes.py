"""Cells in many processes against one: a program for each of them, started by `torchrun`, or forked by `start`.

torchrun --nproc-per-node 4 -m tests.many_processes
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import unspool

ROWS, STEPS, DEPTH, UNITS = 12, 9, 3, 5
LENGTHS = [9, 1, 4, 2, 3, 8, 0, 5, 2, 2, 7, 1]
"""Different in all processes, so that each runs another number of steps."""


class Gated(unspool.RNNCell):
    """A cell of the user's, with modules that may be sharded by themselves."""

    state_size = output_size = UNITS

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.candidate = nn.Linear(DEPTH + UNITS, UNITS), nn.Linear(DEPTH, UNITS)
        self.norm = nn.LayerNorm(UNITS)

    def forward(self, inputs: Any, state: Any) -> Any:
        gate = torch.sigmoid(self.gate(torch.cat([inputs, state], 1)))
        state = gate * state + (1 - gate) * torch.tanh(self.candidate(inputs))
        return self.norm(state), state


def stack() -> Any:
    return unspool.MultiRNNCell(
        [unspool.GRUCell(4, input_size=DEPTH), unspool.LSTMCell(UNITS, input_size=4, forget_bias=0.5)]
    )


CELLS: dict[str, Callable[[], Any]] = {
    "GRU": lambda: unspool.GRUCell(UNITS, input_size=DEPTH),
    "stack": stack,
    "torch's": lambda: nn.LSTMCell(DEPTH, UNITS),
    "own": Gated,
}


class Layer(nn.Module):
    """What people have around a cell."""

    def __init__(self, cell: Any, **options: Any) -> None:
        super().__init__()
        self.cell, self.head, self.options = cell, nn.Linear(UNITS, 2), options

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        outputs, _ = unspool.dynamic_rnn(
            self.cell, inputs, lengths, dtype=inputs.dtype, time_major=True, **self.options
        )
        return self.head(outputs).clone()  # torch's linear layer returns a view, of which fully_shard warns


# -- ways to wrap -----------------------------------------------------------------------------------------------------


def parallel_layer(layer: Any) -> Any:
    return DistributedDataParallel(layer)


def parallel_cell(layer: Any) -> Any:
    layer.cell, layer.head = DistributedDataParallel(layer.cell), DistributedDataParallel(layer.head)
    return layer


def parallel_step(layer: Any) -> Any:
    layer.cell = unspool.cell(DistributedDataParallel(layer.cell), state_size=UNITS, output_size=UNITS)
    return parallel_head(layer)


def parallel_head(layer: Any) -> Any:
    layer.head = DistributedDataParallel(layer.head)
    return layer


def sharded_layer(layer: Any) -> Any:
    return fully_shard(layer)


def sharded_cell(layer: Any) -> Any:
    fully_shard(layer.cell)
    return parallel_head(layer)


def sharded_both(layer: Any) -> Any:
    fully_shard(layer.cell, reshard_after_forward=True)
    return fully_shard(layer)


def sharded_kept(layer: Any) -> Any:
    fully_shard(layer.cell, reshard_after_forward=False)
    return fully_shard(layer)


def sharded_within(layer: Any) -> Any:
    for each in layer.cell.children() if isinstance(layer.cell, Gated) else layer.cell.cells:
        fully_shard(each)
    return fully_shard(layer)


def sharded_group(layer: Any) -> Any:
    fully_shard([layer.cell.gate, layer.cell.candidate])
    return fully_shard(layer)


Case = tuple[str, Callable[[Any], Any], dict[str, Any]]
CASES: dict[str, Case] = {
    f"{cell}, {way.__name__}{', '.join(['', *map(str, options.values())])}": (cell, way, options)
    for cell, way, options in [
        *(("GRU", way, {}) for way in (parallel_layer, parallel_cell, parallel_step)),
        *(("GRU", way, {}) for way in (sharded_layer, sharded_cell, sharded_both, sharded_kept)),
        *(("stack", way, {}) for way in (parallel_layer, parallel_cell, sharded_both, sharded_within)),
        *(("torch's", way, {}) for way in (parallel_layer, sharded_both)),
        *(("own", way, {}) for way in (parallel_cell, sharded_both, sharded_within, sharded_group)),
        ("GRU", sharded_both, {"memory": unspool.Recompute()}),
        ("stack", sharded_both, {"memory": unspool.Checkpoint(every=3)}),
    ]
}


AGAIN = ["GRU, parallel_layer", "GRU, parallel_cell", "GRU, sharded_both", "own, sharded_group"]
"""Cases that four processes run too, and float32."""


def cases(world: int) -> dict[str, Callable[[], None]]:
    """What so many processes run, by name."""
    both = [(name, dtype) for dtype in (torch.float64, torch.float32) for name in CASES]
    jobs = {
        f"{name}, {dtype}": partial(agrees, *CASES[name], dtype)
        for name, dtype in both
        if name in AGAIN or (world == 2 and dtype == torch.float64)
    }
    return {**jobs, **({each.__name__: each for each in OTHERS} if world == 2 else {})}


def agrees(cell: str, way: Callable[[Any], Any], options: dict[str, Any], dtype: torch.dtype) -> None:
    """Three steps of descent: gradients, and so weights, are those of one process, and the loop is planned."""
    rank, world = dist.get_rank(), dist.get_world_size()
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13  # sums in another order, of numbers below 1
    torch.manual_seed(0)
    alone, shared = (Layer(CELLS[cell](), **options).to(dtype) for _ in range(2))
    shared.load_state_dict(alone.state_dict())
    inputs, lengths = torch.randn(STEPS, ROWS, DEPTH, dtype=dtype), torch.tensor(LENGTHS)
    shared = way(shared)
    own = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
    with unspool.strict():  # which refuses the plain loop
        for _ in range(3):
            for model, rows, share in ((alone, slice(None), 1.0), (shared, own, float(world))):
                loss = share * model(inputs[:, rows], lengths[rows]).square().sum() / (STEPS * ROWS)
                loss.backward()  # processes' gradients are averaged
            found = {name.replace("module.", ""): each for name, each in shared.named_parameters()}
            for name, weight in alone.named_parameters():
                # `unspool.cell` has its step below another name.
                other = next(each for own, each in found.items() if own.replace("step.", "") == name)
                gradient = whole(other.grad)
                assert weight.grad is not None
                torch.testing.assert_close({name: gradient}, {name: weight.grad}, atol=tolerance, rtol=0)
            for model in (alone, shared):
                torch.optim.SGD(model.parameters(), lr=0.1).step()
                model.zero_grad()
        assert [type(each).__name__ for each in alone.modules()] == kinds(shared)


def kinds(model: nn.Module) -> list[str]:
    """Classes of modules without what was wrapped around them."""
    names = [type(each).__name__.removeprefix("FSDP") for each in model.modules()]
    return [name for name in names if name not in ("DistributedDataParallel", "StepCell")]


def whole(tensor: Any) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


# -- other cases ------------------------------------------------------------------------------------------------------


def sharded_gru(**options: Any) -> Any:
    return fully_shard(unspool.GRUCell(UNITS, input_size=DEPTH), **options)


def an_explanation_gathers_nothing() -> None:
    """One process may ask for it alone."""
    if dist.get_rank() == 0:
        cell = sharded_gru()
        before = dict(vars(cell)), type(cell), [id(each) for each in cell.parameters()]
        explanation = unspool.explain(cell, torch.zeros(2, 4, DEPTH), dtype=torch.float32)
        assert explanation.planned, explanation.reason
        assert str(explanation).startswith("GRUCell runs by plan")
        assert (dict(vars(cell)), type(cell), [id(each) for each in cell.parameters()]) == before


def a_sharded_cell_shares_the_plan_of_a_whole_one() -> None:
    from unspool.engine.plans import cache

    cell, inputs = unspool.GRUCell(UNITS, input_size=DEPTH), torch.randn(2, 4, DEPTH)
    unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    before = cache.traces
    for each in (sharded_gru(), sharded_gru()):
        unspool.dynamic_rnn(each, inputs, dtype=torch.float32)
        assert cache.traces == before, (cache.traces, before)


def mixed_precision_is_that_of_the_policy() -> None:
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float64)
    cell = sharded_gru(mp_policy=policy)
    inputs = torch.randn(2, 4, DEPTH)
    alone = unspool.GRUCell(UNITS, input_size=DEPTH)
    alone.load_state_dict({name: whole(each) for name, each in cell.state_dict().items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unspool.PerformanceWarning)  # compiled loops have no bfloat16
        outputs, state = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
        expected, _ = unspool.dynamic_rnn(alone.bfloat16(), inputs.bfloat16(), dtype=torch.bfloat16)
    assert (outputs.dtype, state.dtype) == (torch.float64, torch.float64)
    assert torch.equal(outputs, expected.double())
    outputs.sum().backward()
    assert all(each.grad.dtype == torch.float32 for each in cell.parameters())


def another_precision_within_a_cell_is_refused() -> None:
    cell = stack()
    fully_shard(cell.cells[1], mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    fully_shard(cell)
    raises(ValueError, "the same mp_policy", cell)


def hooks_of_the_users_still_see_every_step() -> None:
    cell, seen = sharded_gru(), list[int]()
    cell.register_forward_hook(lambda *_: seen.append(1))
    inputs = torch.randn(2, 4 + dist.get_rank(), DEPTH)
    reason = unspool.explain(cell, inputs, dtype=torch.float32).reason
    assert reason is not None
    assert "hooks" in str(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unspool.PerformanceWarning)
        unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    assert len(seen) == 4 + dist.get_rank()


class Unbuilt(unspool.RNNCell):
    """A cell whose weights nobody can see before they are made."""

    state_size = output_size = UNITS

    def build(self, input_size: int) -> None:
        self.mix = nn.Linear(input_size, UNITS)

    def forward(self, inputs: Any, state: Any) -> Any:
        state = torch.tanh(self.mix(inputs) + state)
        return state, state


def what_is_not_built_is_refused() -> None:
    lengths = torch.tensor([2, 1])
    for wrap in (fully_shard, DistributedDataParallel):
        layer = wrap(Layer(Unbuilt()))
        raises(RuntimeError, "Unbuilt has no weights yet, but was given to .*: build it before", layer, lengths)
    raises(RuntimeError, "Unbuilt has no weights yet", fully_shard(Unbuilt()))
    raises(RuntimeError, "Unbuilt has no weights yet", fully_shard(unspool.MultiRNNCell([Unbuilt(), Unbuilt()])))
    for wrap, text in (
        (fully_shard, "the shape of a weight that has none yet: .*materialize"),
        (DistributedDataParallel, "Run a dummy forward pass"),
    ):
        with pytest.raises(RuntimeError, match=text):
            wrap(Layer(unspool.GRUCell(UNITS)))


def raises(kind: type[Exception], text: str, model: Any, lengths: Tensor | None = None) -> None:
    inputs = torch.randn(3, 2, DEPTH)
    loop = partial(unspool.dynamic_rnn, model, dtype=torch.float32, time_major=True) if lengths is None else model
    with pytest.raises(kind, match=text):
        loop(inputs, lengths)


def teacher_forcing_runs_through_a_sharded_cell() -> None:
    cell, inputs = sharded_gru(), torch.randn(2, 3 + dist.get_rank(), DEPTH)
    helper = unspool.TrainingHelper(inputs, [3 + dist.get_rank(), 1])
    decoder = unspool.BasicDecoder(cell, helper, cell.zero_state(2, torch.float32))
    with unspool.strict():
        outputs, _, _ = unspool.dynamic_decode(decoder)
        expected, _ = unspool.dynamic_rnn(cell, inputs, [3 + dist.get_rank(), 1], dtype=torch.float32)
    assert torch.equal(outputs.rnn_output, expected)


def what_a_sharded_layer_returns_may_be_changed_in_place() -> None:
    """It is no view, of which `fully_shard` would warn: shards are gathered for backward all the same."""
    torch.manual_seed(0)
    inputs = torch.randn(2, 4, DEPTH)
    for make in (
        lambda: unspool.RNN(unspool.GRUCell(UNITS, input_size=DEPTH), return_states="all"),
        lambda: unspool.Stack([unspool.GRUCell(UNITS, input_size=DEPTH)]),
        lambda: unspool.nn.GRU(DEPTH, UNITS, batch_first=True),
    ):
        alone, sharded = make(), make()
        sharded.load_state_dict(alone.state_dict())
        fully_shard(sharded)
        for layer in (alone, sharded):
            outputs, *_ = layer(inputs)
            outputs += 1
            outputs.square().sum().backward()
        for one, other in zip(alone.parameters(), sharded.parameters(), strict=True):
            torch.testing.assert_close(whole(other.grad), one.grad)


OTHERS = [
    an_explanation_gathers_nothing,
    a_sharded_cell_shares_the_plan_of_a_whole_one,
    mixed_precision_is_that_of_the_policy,
    another_precision_within_a_cell_is_refused,
    hooks_of_the_users_still_see_every_step,
    what_is_not_built_is_refused,
    teacher_forcing_runs_through_a_sharded_cell,
    what_a_sharded_layer_returns_may_be_changed_in_place,
]


# -- processes --------------------------------------------------------------------------------------------------------


def main() -> None:
    """Runs all cases; the first process prints what went wrong in each, as JSON."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    found: dict[str, list[str]] = {}
    for name, job in cases(dist.get_world_size()).items():
        try:
            job()
            fault = ""
        except Exception:
            fault = traceback.format_exc()
            print(f"{name}, process {dist.get_rank()}:\n{fault}", file=sys.stderr, flush=True)  # others may hang now
        faults: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(faults, fault)
        found[name] = [each for each in faults if each]
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def start(world: int) -> None:
    """Forks processes that run `main`, as `torchrun` would start them, but with plans that they need not make."""
    torch.set_num_threads(1)  # forked processes have no threads of their parent's
    planned = [Layer(make()).double() for make in CELLS.values()]
    planned += [Layer(CELLS[CASES[name][0]]()) for name in AGAIN]
    for layer in planned:
        layer(torch.zeros(STEPS, ROWS, DEPTH, dtype=layer.head.weight.dtype), torch.tensor(LENGTHS)).sum().backward()
    fork(world, main)


def fork(world: int, job: Callable[[], None]) -> None:
    """Runs a job in processes that know of each other as those that `torchrun` starts do."""
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world))
    children: list[int] = []
    for rank in range(world):
        child = os.fork()
        if not child:
            os.environ["RANK"] = str(rank)
            try:
                job()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit("a process failed")


if __name__ == "__main__":
    main()
