"""The loop as one `torch.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from unspool.dynamo import called_as_it_is
from unspool.engine.emit.sharing import loops_at_once, sharing
from unspool.engine.execute.backward import Backward
from unspool.engine.execute.call import Call
from unspool.engine.execute.forward import forward
from unspool.engine.execute.recorded.lease import Needed
from unspool.engine.execute.recorded.recordings import with_room
from unspool.engine.execute.recorded.zeros import Operand, Zeros, made
from unspool.engine.memory.random_state import RandomState
from unspool.engine.memory.residual_store import ResidualStore
from unspool.engine.trace.gradient_reach import bits
from unspool.tracers import differentiator, is_batched, onlooker


def run_call(call: Call, tensors: Sequence[Operand]) -> Sequence[Tensor]:
    """Outputs and final state of a call from its operands, all flat."""
    return with_room(call.layout.device, lambda: _run(call, tensors))


def _run(call: Call, tensors: Sequence[Operand]) -> Sequence[Tensor]:
    if call.memory is None:
        with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
            found = None if call.recordings is None else call.recordings.forward(call, tensors)
            return forward(call, made(tensors), None) if found is None else found[0]
    return _apply(call, *tensors)


class LoopFunction(torch.autograd.Function):
    """Outputs and final state of a call from its operands, flat."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: Operand) -> tuple[Tensor, ...]:
        """Runs the call, and saves its residuals."""
        ctx.random = RandomState(call.layout.device) if call.plan.is_random else None
        found = None if call.recordings is None else call.recordings.forward(call, operands, ctx)
        if found is None:
            tensors = made(operands)
            store = ResidualStore(call.layout.device if call.swap else None)
            results, ctx.lease = _separate(forward(call, tensors, store), tensors), None
            ctx.lengths, residuals, ctx.zeros = store.lengths, store.saved(), {}
        else:
            results, ctx.lease = found
            ctx.lengths, residuals = ctx.lease.lengths, []
            ctx.zeros = {number: each for number, each in enumerate(operands) if isinstance(each, Zeros)}
            tensors = [None if isinstance(each, Zeros) else each for each in operands]
        ctx.call, ctx.given = call, len(tensors)
        ctx.loops = loops_at_once()
        ctx.from_outputs = call.schedule.used_outputs
        ctx.save_for_backward(*tensors, *(results[number] for number in ctx.from_outputs), *residuals)
        ctx.set_materialize_grads(False)
        if call.ends + 1 != 1 << len(results):
            ctx.mark_non_differentiable(*(each for number, each in enumerate(results) if not call.ends >> number & 1))
        return tuple(results)

    @staticmethod
    @called_as_it_is
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Gradients of the operands that some gradient reaches."""
        saved: Sequence[Any] = ctx.saved_tensors  # once: whoever packed them may unpack them only once
        operands: Sequence[Tensor | None] = saved[: ctx.given]
        reached = ctx.call.plan.reach.sources(ctx.call.layout, bits(each is not None for each in gradients))
        wanted = [need and bool(reached >> number & 1) for number, need in enumerate(ctx.needs_input_grad[1:])]
        if not any(wanted):
            return (None,) * (1 + ctx.given)
        # Somebody wants gradients of these gradients, to see every operation, or many gradients at once.
        again = torch.is_grad_enabled()
        if again or onlooker() is not None or differentiator() is not None or any(map(is_batched, gradients)):
            return (None, *_plain_backward(ctx, _with_zeros(ctx, operands), gradients, wanted, again))
        kept = ctx.given + len(ctx.from_outputs)
        outputs = dict(zip(ctx.from_outputs, saved[ctx.given : kept], strict=True))
        swap = ctx.call.layout.device if ctx.call.swap else None
        with nullcontext() if ctx.loops == loops_at_once() else sharing(ctx.loops):  # as forward, on the same streams
            if ctx.lease is not None:
                weights = ctx.call.operands(operands).weights
                found = ctx.lease.backward(ctx.call, weights, gradients, wanted)
                if found is not None:
                    return (None, *found)
            known = Needed([*saved[kept:]], ctx.call.layout)
            with nullcontext(known) if ctx.lease is None else ctx.lease.needed() as (residuals, layout):
                call, tensors = ctx.call._replace(layout=layout), _with_zeros(ctx, operands)

                def run() -> list[Tensor | None]:
                    store = ResidualStore.reading(ctx.lengths, residuals, swap)
                    return Backward(call, tensors, outputs, store, gradients, wanted).run()

                return (None, *with_room(layout.device, run))


_apply: Callable[..., tuple[Tensor, ...]] = cast(Any, LoopFunction).apply


def _with_zeros(ctx: Any, operands: Sequence[Tensor | None]) -> Sequence[Tensor]:
    """The operands that were saved, with zeros where a recording had its own."""
    return [ctx.zeros[number].make() if each is None else each for number, each in enumerate(operands)]


def _separate(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """`results`, none of which is an input, another result, or a part of something larger: autograd marks each."""
    seen, separate = set(map(id, inputs)), list[Tensor]()
    for each in results:
        separate.append(each.clone() if id(each) in seen or each._base is not None else each)
        seen.add(id(each))
    return separate


def _plain_backward(
    ctx: Any,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
    create_graph: bool,
) -> list[Tensor | None]:
    """The same gradients by ordinary autograd through the plain loop, so that they can have gradients themselves."""
    sources = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
    with ctx.random.again() if ctx.random else torch.enable_grad():
        assert ctx.call.replay is not None
        results = ctx.call.replay(tensors)
    ends = [(y, d) for y, d in zip(results, gradients, strict=True) if d is not None and y.requires_grad]
    found = torch.autograd.grad(
        [y for y, _ in ends], sources, [d for _, d in ends], create_graph=create_graph, allow_unused=True
    )
    each = iter(found)
    return [next(each) if want else None for want in wanted]
