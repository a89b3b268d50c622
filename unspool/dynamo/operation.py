"""The loop as an operation of torch's, `unspool::loop`, with its gradients as another, `unspool::loop_backward`.

    results, and a token if gradients are wanted = loop(operands, key of the site, which operands want gradients)

What runs in it is the loop as it is called without `torch.compile`: by its plan, whose guard is checked at every call,
or in the plain loop, with the reason said.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch._guards import detect_fake_mode

from unspool.dynamo import by_plan
from unspool.dynamo.layouts import laid_out, separate, space, time_first
from unspool.dynamo.residuals import TOKEN, Recorded, Recording, Residuals, check_sources
from unspool.dynamo.site import Site
from unspool.dynamo.skipping import called_as_it_is
from unspool.engine.execute.recorded.recordings import unrecorded
from unspool.engine.guards.fingerprint import CannotGuardError, Fingerprint
from unspool.engine.guards.restoring import restored


@called_as_it_is
def _loop(like: Tensor, operands: list[Tensor], site: str, wanted: list[bool]) -> list[Tensor]:
    """Runs a loop: its results, and a token if gradients are wanted. `like` says to torch on which device."""
    at = Site.at(site)
    planned = by_plan.plan(at, operands)
    if planned is not None:
        try:
            results, residuals = by_plan.run(at, *planned, operands)
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, ValueError):
            pass  # the loop says why
        else:
            return [*results, residuals.token()] if any(wanted) else results
    if not any(wanted):
        with torch.no_grad(), unrecorded():  # memory may be that of torch's own graphs
            return laid_out(at.results(at.run(operands)), at.turned, operands)
    return _recorded(at, operands)


def _recorded(at: Site, operands: Sequence[Tensor]) -> list[Tensor]:
    """Results and a token of a loop that autograd records."""
    wanted = at.asked
    with Recording():
        given = [each.detach().requires_grad_() if want else each for each, want in zip(operands, wanted, strict=True)]
        for number, own in enumerate(at.own_weights()):
            if operands[number] is own:  # as the guard of its plan knows it
                given[number] = operands[number]
        residuals = Recorded(operands)
        with residuals.keeping():
            results = at.results(at.run(given))
        sources = {number: each for number, each in enumerate(given) if wanted[number]}
        if not at.checked:
            check_sources(at.loop.__name__, results, list(sources.values()))
            at.checked = True
        residuals.finish(sources, results, at.lends_results)
    return [*laid_out([each.detach() for each in results], at.turned, operands), residuals.token()]


@called_as_it_is
def _loop_backward(
    token: Tensor,
    operands: list[Tensor],
    results: list[Tensor],
    gradients: list[Tensor | None],
    wanted: list[bool],
    turned: list[int],
) -> list[Tensor]:
    """Gradients of the operands that want them, zeros where none arrives; those `turned` have time first in memory."""
    found = iter(Residuals.of(token).gradients(operands, results, gradients, wanted))
    made = list[Tensor]()
    for number, (operand, want) in enumerate(zip(operands, wanted, strict=True)):
        if want:
            d, by_time = next(found), number in turned
            if d is None:
                made.append(space(operand, by_time).zero_())
            else:
                made.append(time_first(d.to(operand.dtype)) if by_time else d.to(operand.dtype).contiguous())
    return separate(made, [*operands, *results, *(d for d in gradients if d is not None)])


def fake_loop(like: Tensor, operands: list[Tensor], site: str, wanted: list[bool]) -> list[Tensor]:
    """What `loop` returns, without values: the cells run no step."""
    at = Site.at(site)
    mode: Any = detect_fake_mode(operands)
    with ExitStack() as stack:
        stack.enter_context(_as_they_were([reference() for reference in at.cells]))
        if mode is not None:  # cells may read tensors that are none of their weights
            before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
            stack.callback(setattr, mode, "allow_non_fake_inputs", before)
        with torch.no_grad():
            found = at.run(operands, no_steps=True)
    steps, results = at.steps(operands), at.results(found)
    made = [
        space(each, number < at.turned, steps) if number < at.outputs else space(each, False)
        for number, each in enumerate(results)
    ]
    return [*made, torch.empty(1, dtype=TOKEN, device="cpu")] if any(wanted) else made


def _fake_loop_backward(
    token: Tensor,
    operands: list[Tensor],
    results: list[Tensor],
    gradients: list[Tensor | None],
    wanted: list[bool],
    turned: list[int],
) -> list[Tensor]:
    each = enumerate(zip(operands, wanted, strict=True))
    return [space(operand, number in turned) for number, (operand, want) in each if want]


class _Loop(torch.autograd.Function):
    """The operation with its gradients, which are operations of a graph too."""

    @staticmethod
    def forward(ctx: Any, site: str, wanted: list[bool], like: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
        results = torch.ops.unspool.loop_forward(like, list(operands), site, wanted)
        at = Site.at(site)
        ctx.given, ctx.wanted, ctx.turned = len(operands), wanted, at.inputs if at.time_axis else []
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands, *results[len(results) - 1 if not at.lends_results else 0 :])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved: Sequence[Tensor] = ctx.saved_tensors
        operands, results, token = list(saved[: ctx.given]), list(saved[ctx.given : -1]), saved[-1]
        found = torch.ops.unspool.loop_backward(token, operands, results, gradients[:-1], ctx.wanted, ctx.turned)
        each = iter(found)
        return None, None, None, *(next(each) if want else None for want in ctx.wanted)


def _differentiated(like: Tensor, operands: list[Tensor], site: str, wanted: list[bool]) -> list[Tensor]:
    if torch.is_grad_enabled() and any(wanted):
        return list(cast(Any, _Loop).apply(site, wanted, like, *operands))
    return torch.ops.unspool.loop_forward(like, operands, site, wanted)


# What Dynamo records is `loop`. AOTAutograd looks into its autograd kernel and records `loop_forward`, which has none:
# one made by `torch.library.register_autograd` would be called, in Python, by every call of a compiled graph, only to
# find that there is nothing to differentiate. Not by `custom_op` either, whose checks take a tenth of a millisecond.
_library = torch.library.Library("unspool", "DEF")
_FORWARD = "(Tensor like, Tensor[] operands, str site, bool[] wanted) -> Tensor[]"
_BACKWARD = (
    "(Tensor token, Tensor[] operands, Tensor[] results, Tensor?[] gradients, bool[] wanted, int[] turned) -> Tensor[]"
)
# A cell may draw random numbers: whoever runs a loop again, to have its activations a second time, restores them.
_DRAWS = (torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag)
for _name, _schema, _run, _fake, _tags in (
    ("loop", _FORWARD, _loop, fake_loop, _DRAWS),
    ("loop_forward", _FORWARD, _loop, fake_loop, _DRAWS),
    ("loop_backward", _BACKWARD, _loop_backward, _fake_loop_backward, (torch.Tag.pt2_compliant_tag,)),
):
    _library.define(f"{_name}{_schema}", tags=_tags)
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"unspool::{_name}", _fake, lib=_library)
_library.impl("loop", _differentiated, "Autograd")
_library.impl("loop_forward", torch.library.fallthrough_kernel, "Autograd")


@contextmanager
def _as_they_were(cells: Sequence[Any]) -> Generator[None, None, None]:
    """Puts back what cells keep for a sequence: tensors without values would stay there."""
    with ExitStack() as stack:
        for cell in cells:
            try:
                stack.enter_context(restored(Fingerprint(cell)))
            except CannotGuardError:
                continue
        yield
