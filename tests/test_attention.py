"""Attention mechanisms and their wrapper against their equations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests import attention_reference as reference
from tests.attention_problems import (
    DEPTH,
    INPUTS,
    LENGTHS,
    MECHANISMS,
    MEMORY_LENGTHS,
    PLACES,
    ROWS,
    UNITS,
    assert_close,
    draw,
    every_mechanism,
    fill,
    gradients,
    looked,
    memory_of,
    set_memory,
    wrapped,
)
from unspool import DropoutWrapper, GRUCell, LSTMCell, MultiRNNCell, TensorArray, dynamic_rnn, static_rnn, tf_variables
from unspool.decode import (
    AttentionWrapper,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
    monotonic_attention,
    safe_cumprod,
)
from unspool.structure import flatten


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


# -- against the equations ---------------------------------------------------------------------------------------------


@every_mechanism
@pytest.mark.parametrize("lengths", [None, MEMORY_LENGTHS], ids=["full", "lengths"])
def test_a_look_is_what_the_equations_say(name: str, lengths: Any) -> None:
    mechanism, memory = MECHANISMS[name](UNITS), memory_of()
    mechanism.setup_memory(memory)
    mechanism.build(UNITS, dtype=torch.float64)
    fill(mechanism)
    mechanism.setup_memory(memory, lengths)
    query, previous = looked(mechanism)
    alignments, state = mechanism(query, previous)
    assert state is alignments
    expected = torch.stack(
        [
            reference.look(mechanism, query[row], memory[row], (lengths or [PLACES] * ROWS)[row], previous[row])
            for row in range(ROWS)
        ]
    )
    assert_close(alignments, expected)
    sources = [memory, query, previous, *mechanism.parameters()]
    assert_close(gradients(alignments, sources), gradients(expected, sources))


@every_mechanism
def test_gradients_of_a_look_are_those_of_finite_differences(name: str) -> None:
    mechanism, memory = MECHANISMS[name](UNITS), memory_of()
    mechanism.setup_memory(memory, MEMORY_LENGTHS)
    mechanism.build(UNITS, dtype=torch.float64)
    fill(mechanism)
    query, previous = looked(mechanism)

    def look(*_: Tensor) -> Tensor:
        mechanism.setup_memory(memory, MEMORY_LENGTHS)
        return mechanism(query, previous)[0]

    assert torch.autograd.gradcheck(look, (memory, query, previous, *mechanism.parameters()))


@every_mechanism
@pytest.mark.parametrize(
    "options",
    [{}, dict(attention_layer_size=2), dict(attention_layer_size=2, output_attention=False)],
    ids=["context", "layer", "cell_output"],
)
def test_a_run_is_what_the_equations_say(name: str, options: Any) -> None:
    wrapper, memory, inputs = wrapped(name, **options), memory_of(), draw(ROWS, 4, INPUTS)
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    outputs, state = dynamic_rnn(wrapper, inputs, LENGTHS, dtype=torch.float64)
    expected, ends = reference.run(wrapper, inputs, LENGTHS, [(memory, MEMORY_LENGTHS)])
    found = [*state.cell_state, state.attention, state.alignments]
    assert_close([outputs, *found], [expected, *ends])
    assert torch.equal(state.time, torch.tensor(LENGTHS))
    assert state.alignment_history == ()
    sources = [inputs, memory, *wrapper.parameters()]
    assert_close(gradients([outputs, *found], sources), gradients([expected, *ends], sources))


def test_several_mechanisms_stand_side_by_side() -> None:
    wrapper = AttentionWrapper(
        GRUCell(UNITS), [BahdanauAttention(7), LuongMonotonicAttention(UNITS)], attention_layer_size=[2, 4]
    )
    memories = [(memory_of(), MEMORY_LENGTHS), (memory_of(places=6), [3, 6, 1])]
    for mechanism, (memory, lengths) in zip(wrapper.mechanisms, memories, strict=True):
        mechanism.setup_memory(memory, lengths)
    inputs = draw(ROWS, 4, INPUTS)
    outputs, state = dynamic_rnn(wrapper, inputs, LENGTHS, dtype=torch.float64)
    expected, ends = reference.run(wrapper, inputs, LENGTHS, memories)
    assert outputs.shape == (ROWS, 4, 6)
    found = [state.cell_state, state.attention, *state.alignments]
    assert_close([outputs, *found], [expected, *ends])
    sources = [inputs, *(memory for memory, _ in memories), *wrapper.parameters()]
    assert_close(gradients([outputs, *found], sources), gradients([expected, *ends], sources))


@every_mechanism
def test_dynamic_rnn_equals_static_rnn(name: str) -> None:
    wrapper, memory, inputs = wrapped(name, attention_layer_size=2), memory_of(), draw(ROWS, 4, INPUTS)
    sources = [inputs, memory, *wrapper.parameters()]
    results: list[Any] = []
    for loop in ("dynamic", "static"):
        set_memory(wrapper, memory, MEMORY_LENGTHS)
        if loop == "dynamic":
            outputs, state = dynamic_rnn(wrapper, inputs, LENGTHS, dtype=torch.float64)
        else:
            steps, state = static_rnn(wrapper, list(inputs.unbind(1)), None, torch.float64, LENGTHS)
            outputs = torch.stack(steps, 1)
        results.append((flatten((outputs, state)), gradients((outputs, state), sources)))
    assert_close(*results)


# -- lengths of the memory ---------------------------------------------------------------------------------------------


@every_mechanism
def test_what_stands_past_the_end_of_a_memory_does_not_matter(name: str) -> None:
    wrapper, inputs, memory = wrapped(name, attention_layer_size=2), draw(ROWS, 4, INPUTS), memory_of()
    past = torch.arange(PLACES) >= torch.tensor(MEMORY_LENGTHS)[:, None]
    results: list[Any] = []
    for rubbish in (0.0, torch.nan, torch.inf):
        spoilt = memory.detach().masked_fill(past[:, :, None], rubbish).requires_grad_()
        set_memory(wrapper, spoilt, MEMORY_LENGTHS)
        outputs, state = dynamic_rnn(wrapper, inputs, LENGTHS, dtype=torch.float64)
        assert not state.alignments[past].any()
        found = gradients((outputs, state), [spoilt, inputs, *wrapper.parameters()])
        assert not found[0][past].any()
        results.append([outputs, state.alignments, *found])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=0)
    assert all(each.isfinite().all() for each in results[0])


@every_mechanism
def test_a_longer_padding_does_not_matter(name: str) -> None:
    wrapper, inputs, memory = wrapped(name), draw(ROWS, 4, INPUTS), memory_of()
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    expected, state = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
    set_memory(wrapper, torch.cat([memory, memory_of(places=4)], 1), MEMORY_LENGTHS)
    outputs, longer = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
    assert_close(outputs, expected)
    assert_close(longer.alignments[:, :PLACES], state.alignments)


def test_a_score_mask_value_is_the_score_of_the_padding() -> None:
    mechanism = LuongAttention(UNITS, memory_of(1), [2], score_mask_value=0.0)
    alignments, _ = mechanism(torch.zeros(1, UNITS, dtype=torch.float64), mechanism.initial_state(1, torch.float64))
    assert_close(alignments, torch.full_like(alignments, 1 / PLACES))


def test_a_probability_fn_takes_the_place_of_softmax() -> None:
    mechanism = LuongAttention(UNITS, memory_of(), MEMORY_LENGTHS, probability_fn=torch.sigmoid)
    alignments, _ = mechanism(torch.zeros(ROWS, UNITS, dtype=torch.float64), mechanism.initial_state(3, torch.float64))
    expected = [[0.5] * length + [0.0] * (PLACES - length) for length in MEMORY_LENGTHS]
    assert_close(alignments, torch.tensor(expected, dtype=torch.float64))


# -- monotonic attention -----------------------------------------------------------------------------------------------


def test_the_recurrence_and_the_closed_form_agree() -> None:
    for places in (1, 2, 3, 8, 13):
        chosen, previous = torch.rand(4, places).double(), torch.softmax(torch.randn(4, places).double(), 1)
        recursive = monotonic_attention(chosen, previous, "recursive")
        torch.testing.assert_close(monotonic_attention(chosen, previous, "parallel"), recursive, rtol=1e-6, atol=1e-6)


def test_the_recurrence_is_exact_where_a_place_is_surely_chosen() -> None:
    chosen, previous = torch.tensor([[0.0, 1.0, 0.5, 1.0]]), torch.tensor([[0.5, 0.0, 0.5, 0.0]])
    chosen.requires_grad_()
    recursive = monotonic_attention(chosen, previous, "recursive")
    torch.testing.assert_close(recursive, torch.tensor([[0.0, 0.5, 0.25, 0.25]]), rtol=0, atol=0)
    recursive.sum().backward()
    assert chosen.grad is not None
    assert chosen.grad.isfinite().all()


def test_a_safe_product_has_a_gradient_at_zero() -> None:
    x = torch.tensor([0.5, 0.0, 0.5], requires_grad=True)
    safe_cumprod(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_hard_attention_never_goes_back() -> None:
    wrapper = wrapped("bahdanau-monotonic-hard", alignment_history=True)
    set_memory(wrapper, memory_of())
    _, state = dynamic_rnn(wrapper, draw(ROWS, 20, INPUTS), dtype=torch.float64)
    history = state.alignment_history.stack()
    assert ((history == 0) | (history == 1)).all()
    places = torch.where(history.sum(2) > 0, history.argmax(2), PLACES)  # past the end, where nothing is chosen
    assert (places.diff(dim=0) >= 0).all()
    assert places.float().std() > 0


def noisy(seed: Any) -> BahdanauMonotonicAttention:
    torch.manual_seed(5)
    memory = torch.randn(ROWS, PLACES, DEPTH)
    return BahdanauMonotonicAttention(UNITS, memory, sigmoid_noise=1.0, sigmoid_noise_seed=seed)


def two_looks(mechanism: Any) -> list[Tensor]:
    query, before = torch.linspace(-1, 1, ROWS * UNITS).view(ROWS, UNITS), mechanism.initial_state(ROWS, torch.float32)
    torch.manual_seed(6)
    mechanism(query, before)  # builds it
    return [mechanism(query, before)[0].detach() for _ in range(2)]


@pytest.mark.parametrize("seed", [11, torch.Generator], ids=["seed", "generator"])
def test_seeded_noise_is_repeatable(seed: Any) -> None:
    def fresh() -> Any:
        return seed if isinstance(seed, int) else seed().manual_seed(11)

    first, second = two_looks(noisy(fresh())), two_looks(noisy(fresh()))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], two_looks(noisy(12))[0])


def test_noise_is_for_training_only() -> None:
    assert not torch.equal(*two_looks(noisy(None)))
    torch.testing.assert_close(*two_looks(noisy(None).eval()), rtol=0, atol=0)


def test_a_model_trained_with_soft_choices_decodes_with_hard_ones() -> None:
    mechanism = LuongMonotonicAttention(UNITS, memory_of(), MEMORY_LENGTHS, score_bias_init=-1.0)
    query, previous = looked(mechanism)
    assert ((soft := mechanism(query, previous)[0]) > 0).any()
    assert mechanism.attention_score_bias == -1
    mechanism.mode = "hard"
    hard = mechanism(query, mechanism.initial_state(ROWS, torch.float64))[0]
    assert ((hard == 0) | (hard == 1)).all()
    assert not torch.equal(hard, soft)


# -- the wrapper -------------------------------------------------------------------------------------------------------


def test_the_history_holds_the_alignments_of_every_step() -> None:
    wrapper, inputs = wrapped("luong", alignment_history=True), draw(ROWS, 4, INPUTS)
    _, state = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
    by_hand, expected = wrapper.zero_state(ROWS, torch.float64), list[Tensor]()
    for time in range(4):
        _, by_hand = wrapper(inputs[:, time], by_hand)
        expected.append(by_hand.alignments)
    assert isinstance(state.alignment_history, TensorArray)
    assert_close(state.alignment_history.stack(), torch.stack(expected))


def test_the_history_goes_on_where_rows_have_ended() -> None:
    wrapper, inputs = wrapped("bahdanau", alignment_history=True), draw(ROWS, 4, INPUTS)
    _, state = dynamic_rnn(wrapper, inputs, [1, 4, 2], dtype=torch.float64)
    _, full = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
    history, expected = state.alignment_history.stack(), full.alignment_history.stack()
    assert history.shape == (4, ROWS, PLACES)
    for row, steps in enumerate([1, 4, 2]):
        assert_close(history[:steps, row], expected[:steps, row])
        assert_close(state.alignments[row], expected[steps - 1, row])


def test_the_history_does_not_go_by_the_time_of_a_row() -> None:
    """A decoder may keep the state of a row that has ended, its time too."""
    wrapper, inputs = wrapped("bahdanau", alignment_history=True), draw(ROWS, INPUTS)
    state = wrapper.zero_state(ROWS, torch.float64)
    for _ in range(3):
        _, new_state = wrapper(inputs, state)
        state = new_state._replace(time=torch.where(torch.tensor([False, True, True]), new_state.time, state.time))
    assert torch.equal(state.time, torch.tensor([0, 3, 3]))
    assert state.alignment_history.stack().shape == (3, ROWS, PLACES)


def test_functions_and_modules_take_the_place_of_parts() -> None:
    layer = nn.Sequential(nn.Linear(UNITS + DEPTH, 6), nn.Tanh()).double()
    wrapper = AttentionWrapper(
        GRUCell(UNITS),
        LuongAttention(UNITS, memory_of()),
        cell_input_fn=lambda inputs, attention: inputs["x"] * attention[:, :1],
        attention_layer=layer,
    )
    output, state = wrapper({"x": draw(ROWS, INPUTS)}, wrapper.zero_state(ROWS, torch.float64))
    assert wrapper.cell.input_size == INPUTS
    context = torch.einsum("bs,bsd->bd", state.alignments, wrapper.mechanisms[0].values)
    assert_close(output, torch.tanh(layer[0](torch.cat([state.cell_state, context], 1))))
    assert list(tf_variables(wrapper))[-2:] == [
        "rnn/attention_wrapper/attention_layer/0/weight",
        "rnn/attention_wrapper/attention_layer/0/bias",
    ]


def test_an_attention_fn_takes_the_place_of_the_look() -> None:
    def mean(mechanism: Any, cell_output: Tensor, state: Any, layer: Any) -> Any:
        alignments, state = mechanism(cell_output, state)
        return mechanism.values.mean(1), alignments, state

    wrapper = AttentionWrapper(GRUCell(UNITS), LuongAttention(UNITS, memory_of()), attention_fn=mean)
    outputs, _ = dynamic_rnn(wrapper, draw(ROWS, 2, INPUTS), dtype=torch.float64)
    assert_close(outputs, wrapper.mechanisms[0].values.mean(1)[:, None].expand(-1, 2, -1))


def test_an_initial_cell_state_begins_the_zero_state() -> None:
    start = LSTMCell(UNITS).zero_state(ROWS, torch.float64)._replace(h=draw(ROWS, UNITS).tanh())  # with a history
    wrapper = AttentionWrapper(LSTMCell(UNITS), BahdanauAttention(UNITS, memory_of()), initial_cell_state=start)
    outputs, _ = dynamic_rnn(wrapper, draw(ROWS, 2, INPUTS), dtype=torch.float64)
    assert wrapper.zero_state(ROWS, torch.float64).cell_state.h is start.h
    assert gradients(outputs, [start.h])[0].any()
    assert torch.equal(copy.deepcopy(wrapper).initial_cell_state.h, start.h)


def test_a_state_begins_from_an_encoders() -> None:
    wrapper, encoded = wrapped("bahdanau"), draw(ROWS, UNITS)
    state = wrapper.zero_state(ROWS, torch.float64)
    state = state.clone(cell_state=state.cell_state._replace(h=encoded))
    outputs, _ = dynamic_rnn(wrapper, draw(ROWS, 2, INPUTS), initial_state=state, dtype=torch.float64)
    assert gradients(outputs, [encoded])[0].any()


def test_other_wrappers_go_around_it_before_there_is_a_memory() -> None:
    for around in (DropoutWrapper, lambda cell: MultiRNNCell([GRUCell(4), cell])):
        mechanism = BahdanauAttention(UNITS)
        cell = around(AttentionWrapper(LSTMCell(UNITS), mechanism, attention_layer_size=6))
        for places in (5, 7):
            mechanism.setup_memory(torch.randn(ROWS, places, DEPTH))
            outputs, _ = dynamic_rnn(cell, torch.randn(ROWS, 4, INPUTS), LENGTHS, dtype=torch.float32)
            assert outputs.shape == (ROWS, 4, 6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@every_mechanism
def test_every_dtype_is_kept(name: str, dtype: torch.dtype) -> None:
    wrapper = AttentionWrapper(GRUCell(UNITS), MECHANISMS[name](UNITS), attention_layer_size=2)
    set_memory(wrapper, torch.randn(ROWS, PLACES, DEPTH, dtype=dtype), MEMORY_LENGTHS)
    outputs, state = dynamic_rnn(wrapper, torch.randn(ROWS, 4, INPUTS, dtype=dtype), dtype=dtype)
    assert {leaf.dtype for leaf in (outputs, state.cell_state, state.attention, state.alignments)} == {dtype}
    assert {weight.dtype for weight in wrapper.parameters()} == {dtype}
    assert outputs.isfinite().all()


def test_autocast_computes_in_another_dtype_than_it_carries() -> None:
    wrapper = AttentionWrapper(GRUCell(UNITS), BahdanauAttention(UNITS), attention_layer_size=2)
    memory, inputs = torch.randn(ROWS, PLACES, DEPTH), torch.randn(ROWS, 4, INPUTS)
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    expected, _ = dynamic_rnn(wrapper, inputs, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        set_memory(wrapper, memory, MEMORY_LENGTHS)
        outputs, _ = dynamic_rnn(wrapper, inputs, dtype=torch.float32)
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, expected, rtol=0.05, atol=0.02)  # bfloat16 has 8 bits, and four steps add up
