"""The loop as an operation of torch's, `unspool::loop`, with its gradients as another, `unspool::loop_backward`.

    results, and a token if gradients are wanted = loop(operands, key of the site, which operands want gradients)

What runs in it is the loop as it is called without `torch.compile`: by its plan, whose guard is checked at every call,
or in the plain loop, with the reason said.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode

from unspool.dynamo.residuals import TOKEN, Residuals, check_sources
from unspool.dynamo.site import Site
from unspool.dynamo.skipping import called_as_it_is
from unspool.engine.guards.fingerprint import CannotGuardError, Fingerprint
from unspool.engine.guards.restoring import restored

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]


@called_as_it_is
def _loop(like: Tensor, operands: list[Tensor], site: str, wanted: list[bool]) -> list[Tensor]:
    """Runs a loop: its results, and a token if gradients are wanted. `like` says to torch on which device."""
    at = Site.at(site)
    if not any(wanted):
        with torch.no_grad():
            return _promised(at, operands, at.results(at.run(operands)))
    with _Autograd():
        given = [each.detach().requires_grad_() if want else each for each, want in zip(operands, wanted, strict=True)]
        for number, own in enumerate(at.own_weights()):
            if operands[number] is own:  # as the guard of its plan knows it
                given[number] = operands[number]
        residuals = Residuals(operands)
        with residuals.keeping():
            results = at.results(at.run(given))
        sources = _wanted(given, wanted)
        if not at.checked:
            check_sources(at.loop.__name__, results, sources)
            at.checked = True
        residuals.finish(sources, results)
    return [*_promised(at, operands, results), residuals.token()]


@called_as_it_is
def _loop_backward(
    token: Tensor,
    operands: list[Tensor],
    results: list[Tensor],
    gradients: list[Tensor | None],
    wanted: list[bool],
) -> list[Tensor]:
    """Gradients of the operands that want them, zeros where none arrives."""
    with _Autograd():
        found = Residuals.of(token).gradients(operands, results, gradients)
    each = zip(found, _wanted(operands, wanted), strict=True)
    made = [torch.zeros_like(operand, memory_format=DENSE) if d is None else d.contiguous() for d, operand in each]
    return _separate(made, [*operands, *results, *(d for d in gradients if d is not None)])


DENSE = torch.contiguous_format


def _fake_loop(like: Tensor, operands: list[Tensor], site: str, wanted: list[bool]) -> list[Tensor]:
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
        _space(each, steps, at.time_axis) if number < at.outputs else each.new_empty(each.shape)
        for number, each in enumerate(results)
    ]
    return [*made, torch.empty(1, dtype=TOKEN, device="cpu")] if any(wanted) else made


def _fake_loop_backward(
    token: Tensor,
    operands: list[Tensor],
    results: list[Tensor],
    gradients: list[Tensor | None],
    wanted: list[bool],
) -> list[Tensor]:
    return [operand.new_empty(operand.shape) for operand in _wanted(operands, wanted)]


def _keep(ctx: Any, inputs: tuple[Tensor, list[Tensor], str, list[bool]], output: list[Tensor]) -> None:
    _, operands, _, ctx.wanted = inputs
    ctx.given = len(operands)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, *output)


def _gradients(ctx: Any, gradients: list[Tensor | None]) -> tuple[None, list[Tensor | None], None, None]:
    saved: Sequence[Tensor] = ctx.saved_tensors
    operands, results, token = list(saved[: ctx.given]), list(saved[ctx.given : -1]), saved[-1]
    found = iter(torch.ops.unspool.loop_backward(token, operands, results, gradients[:-1], ctx.wanted))
    return None, [next(found) if want else None for want in ctx.wanted], None, None


# Not by custom_op, whose checks at every call take a tenth of a millisecond.
_library = torch.library.Library("unspool", "DEF")
# A cell may draw random numbers: whoever runs a loop again, to have its activations a second time, restores them.
_library.define(
    "loop(Tensor like, Tensor[] operands, str site, bool[] wanted) -> Tensor[]",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)
_library.define(
    "loop_backward(Tensor token, Tensor[] operands, Tensor[] results, Tensor?[] gradients, bool[] wanted) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.impl("loop", _loop, "CompositeExplicitAutograd")
_library.impl("loop_backward", _loop_backward, "CompositeExplicitAutograd")
torch.library.register_fake("unspool::loop", _fake_loop, lib=_library)
torch.library.register_fake("unspool::loop_backward", _fake_loop_backward, lib=_library)
torch.library.register_autograd("unspool::loop", _gradients, setup_context=_keep, lib=_library)


class _Autograd:
    """Records for autograd inside of an operation, where torch has turned that off."""

    def __enter__(self) -> None:
        excluded = _C._dispatch_tls_local_exclude_set()
        for key in _AUTOGRAD:
            excluded = excluded.remove(key)
        self._keys = _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded)
        self._keys.__enter__()
        self._before = torch.is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self._before)
        self._keys.__exit__(None, None, None)


_AUTOGRAD = [
    getattr(_C.DispatchKey, name)
    for name in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")
]


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


def _promised(at: Site, operands: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
    """Results laid out as the fakes are: outputs with time first in memory, states dense; none shares memory."""
    made = list[Tensor]()
    for number, each in enumerate(results):
        if number < at.outputs and at.time_axis:
            by_time = each.detach().transpose(0, 1)
            made.append(each.detach() if by_time.is_contiguous() else by_time.contiguous().transpose(0, 1))
        else:
            made.append(each.detach().contiguous())
    return _separate(made, operands)


def _separate(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """`tensors`, copied where one shares memory with another, or with one before it."""
    seen, made = {each.untyped_storage().data_ptr() for each in others} - {0}, list[Tensor]()
    for each in tensors:
        memory = each.untyped_storage().data_ptr()
        made.append(each.clone() if memory in seen else each)
        seen.add(memory)
    return made


def _space(like: Tensor, steps: Any, time_axis: int) -> Tensor:
    if not time_axis:
        return like.new_empty((steps, *like.shape[1:]))
    return like.new_empty((steps, like.shape[0], *like.shape[2:])).transpose(0, 1)


def _wanted(operands: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor]:
    return [operand for operand, want in zip(operands, wanted, strict=True) if want]
