"""`dynamic_rnn` is `static_rnn`, for shapes, lengths, structures and majors that nobody chose."""

from __future__ import annotations

import collections
import math
from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.cells import Pair
from tests.profiles import cases
from unspool import RNNCell, bidirectional_dynamic_rnn, dynamic_rnn, raw_rnn, static_bidirectional_rnn, static_rnn
from unspool.structure import Structure, flatten, map_structure, unflatten_as

Triple = collections.namedtuple("Triple", ["a", "b", "c"])

sizes = st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2).map(torch.Size)


def structures(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nested tuples, lists, dicts and namedtuples of `leaves`, with at least one leaf."""
    nested = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=2)
            | st.lists(inner, min_size=1, max_size=2).map(tuple)
            | st.dictionaries(st.sampled_from("zyx"), inner, min_size=1, max_size=2)
            | st.builds(Pair, inner, inner)
            | st.builds(Triple, inner, inner, inner)
        ),
        max_leaves=4,
    )
    return nested.filter(lambda structure: bool(flatten(structure)))


class AnySizes(RNNCell):
    """A cell for any sizes: every state and output leaf sees a mean of every input and state leaf, row by row."""

    def __init__(self, state_size: Structure, output_size: Structure) -> None:
        super().__init__()
        self.state_size, self.output_size = state_size, output_size
        self.scale = torch.nn.Parameter(torch.rand(len(flatten(state_size)) + len(flatten(output_size))).double())

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        seen = torch.stack([_row_sums(leaf) for leaf in [*flatten(inputs), *flatten(state)]]).sum(0)
        scales = list(self.scale)
        new = [torch.tanh(leaf + scales.pop() * _rows(seen, leaf)) for leaf in flatten(state)]
        sized = [torch.zeros(len(seen), *_shape(size), dtype=seen.dtype) for size in flatten(self.output_size)]
        outputs = [torch.cos(leaf + scales.pop() * _rows(seen, leaf)) for leaf in sized]
        return unflatten_as(self.output_size, outputs), unflatten_as(state, new)


def _shape(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, torch.Size) else (size,)


def _row_sums(values: Tensor) -> Tensor:
    return torch.sin(values).reshape(len(values), math.prod(values.shape[1:])).sum(1)


def _rows(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """A cell of drawn sizes, inputs for it of drawn structure, and how to call a loop on them."""
    batch_size, steps = draw(st.integers(0, 4)), draw(st.integers(1, 5))
    torch.manual_seed(draw(st.integers(0, 2**16)))
    trailing = st.lists(st.integers(0, 3), min_size=1, max_size=2)
    inputs = map_structure(
        lambda shape: torch.randn(batch_size, steps, *shape, dtype=torch.float64).requires_grad_(),
        draw(structures(trailing.map(tuple).map(torch.Size))),
    )
    cell = AnySizes(draw(structures(sizes)), draw(structures(sizes)))
    lengths = draw(st.none() | st.lists(st.integers(0, steps), min_size=batch_size, max_size=batch_size))
    state = None
    if draw(st.booleans()):
        state = map_structure(
            lambda z: torch.randn_like(z).requires_grad_(), cell.zero_state(batch_size, torch.float64)
        )
    return dict(cell=cell, inputs=inputs, lengths=lengths, state=state, time_major=draw(st.booleans()), steps=steps)


def gradients(call: dict[str, Any], outputs: Structure, state: Structure) -> list[Tensor]:
    start = [] if call["state"] is None else flatten(call["state"])
    sources = [*flatten(call["inputs"]), *start, *call["cell"].parameters()]
    weighted = [leaf * torch.arange(leaf.numel()).reshape(leaf.shape).cos() for leaf in flatten((outputs, state))]
    loss = torch.stack([leaf.sum() for leaf in weighted]).sum()
    found = torch.autograd.grad(loss, sources, allow_unused=True)
    return [torch.zeros_like(s) if g is None else g for s, g in zip(sources, found, strict=True)]


def unstacked(call: dict[str, Any]) -> list[Structure]:
    return [map_structure(lambda leaf, t=t: leaf[:, t], call["inputs"]) for t in range(call["steps"])]


def stacked(outputs: list[Structure]) -> Structure:
    return unflatten_as(outputs[0], [torch.stack(leaves, 1) for leaves in zip(*map(flatten, outputs), strict=True)])


def assert_equal(one: Any, other: Any) -> None:
    """To 1e-12 in float64: the same operations on the same rows, up to the order of sums."""
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@settings(max_examples=cases(40, 600), deadline=None)
@given(calls())
def test_dynamic_rnn_equals_static_rnn(call: dict[str, Any]) -> None:
    cell, lengths, state, time_major = call["cell"], call["lengths"], call["state"], call["time_major"]
    inputs = map_structure(lambda leaf: leaf.transpose(0, 1), call["inputs"]) if time_major else call["inputs"]
    outputs, final = dynamic_rnn(cell, inputs, lengths, state, torch.float64, time_major=time_major)
    if time_major:
        outputs = map_structure(lambda leaf: leaf.transpose(0, 1), outputs)
    listed, static_final = static_rnn(cell, unstacked(call), state, torch.float64, lengths)
    reference = stacked(listed)
    assert_equal(outputs, reference)
    assert_equal(final, static_final)
    assert_equal(gradients(call, outputs, final), gradients(call, reference, static_final))


@settings(max_examples=cases(15, 240), deadline=None)
@given(calls())
def test_bidirectional_loops_equal_each_other(call: dict[str, Any]) -> None:
    cell, lengths, state = call["cell"], call["lengths"], call["state"]
    # Outputs are concatenated along axis 1, so a size must have one.
    assume(all(len(_shape(size)) for size in flatten(cell.output_size)))
    other = AnySizes(cell.state_size, cell.output_size)
    (fw, bw), (state_fw, state_bw) = bidirectional_dynamic_rnn(
        cell, other, call["inputs"], lengths, state, None, torch.float64
    )
    listed, static_fw, static_bw = static_bidirectional_rnn(
        cell, other, unstacked(call), state, None, torch.float64, lengths
    )
    both = map_structure(lambda f, b: torch.cat([f, b], 2), fw, bw)
    assert_equal((both, state_fw, state_bw), (stacked(listed), static_fw, static_bw))
    assert_equal(gradients(call, both, state_bw), gradients(call, stacked(listed), static_bw))


@settings(max_examples=cases(15, 240), deadline=None)
@given(calls())
def test_raw_rnn_equals_dynamic_rnn(call: dict[str, Any]) -> None:
    cell, steps = call["cell"], unstacked(call)
    batch_size = len(flatten(steps[0])[0])
    lengths = torch.tensor(call["lengths"] if call["lengths"] is not None else [call["steps"]] * batch_size).long()
    start = cell.zero_state(batch_size, torch.float64) if call["state"] is None else call["state"]

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        return time >= lengths, steps[min(time, len(steps) - 1)], start if output is None else state, output, None

    emits, final, _ = raw_rnn(cell, loop_fn)
    outputs, dynamic_final = dynamic_rnn(cell, call["inputs"], lengths, start, torch.float64)
    longest = int(lengths.max()) if len(lengths) else 0
    raw = map_structure(lambda array: array.stack().transpose(0, 1), emits)
    dynamic = map_structure(lambda leaf: leaf[:, :longest], outputs)
    assert_equal((raw, final), (dynamic, dynamic_final))
    if longest:
        assert_equal(gradients(call, raw, final), gradients(call, dynamic, dynamic_final))
