"""Every error of the attention mechanisms and their wrapper, by type and by what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from unspool import GRUCell, LSTMCell, dynamic_rnn, static_rnn
from unspool.decode import (
    AttentionMechanism,
    AttentionWrapper,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
    monotonic_attention,
)

MECHANISMS = [BahdanauAttention, LuongAttention, BahdanauMonotonicAttention, LuongMonotonicAttention]
every_mechanism = pytest.mark.parametrize("make", MECHANISMS)
MEMORY = torch.zeros(2, 5, 4)
INPUTS = torch.zeros(2, 3, 6)


def wrapped(**options: Any) -> AttentionWrapper:
    return AttentionWrapper(GRUCell(3), BahdanauAttention(3, MEMORY, [5, 2]), **options)


# -- mechanisms --------------------------------------------------------------------------------------------------------


@every_mechanism
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(num_units=0), ValueError, "num_units must be positive, but is 0"),
        (dict(num_units=2.5), TypeError, r"num_units must be an int, but got 2\.5"),
        (dict(num_units=3, dtype="float33"), TypeError, "torch has no dtype 'float33'"),
        (dict(num_units=3, memory_sequence_length=[1, 2]), ValueError, "is given without a memory"),
        (dict(num_units=3, memory=MEMORY, memory_sequence_length=[5, 0]), ValueError, r"\[1\] is 0, but must be great"),
        (dict(num_units=3, memory=MEMORY.double(), dtype="float32"), TypeError, "memory is torch.float64, but the wei"),
    ],
)
def test_constructors(make: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(**arguments)


@pytest.mark.parametrize("make", [BahdanauAttention, LuongAttention])
def test_a_probability_fn_must_be_callable(make: Any) -> None:
    with pytest.raises(TypeError, match="probability_fn must be callable, but got 'softmax'"):
        make(3, probability_fn="softmax")


@pytest.mark.parametrize("make", [BahdanauMonotonicAttention, LuongMonotonicAttention])
def test_monotonic_arguments(make: Any) -> None:
    with pytest.raises(ValueError, match="mode must be 'recursive', 'parallel', or 'hard', but is 'soft'"):
        make(3, mode="soft")
    with pytest.raises(ValueError, match=r"sigmoid_noise must not be negative, but is -1\.0"):
        make(3, sigmoid_noise=-1.0)


@every_mechanism
@pytest.mark.parametrize(
    ("memory", "lengths", "error", "message"),
    [
        (torch.zeros(2, 5), None, ValueError, r"memory must be \[batch, places, depth\], but has shape \[2, 5\]"),
        (torch.zeros(2, 5, 4, 1), None, ValueError, r"but has shape \[2, 5, 4, 1\]"),
        (torch.zeros(2, 0, 4), None, ValueError, r"memory has shape \[2, 0, 4\]: there is no place to look at"),
        (torch.zeros(2, 5, 4, dtype=torch.int64), None, TypeError, "memory must be floating point, but is torch.int64"),
        (None, None, ValueError, "memory: None values not supported"),
        ("encoded", None, TypeError, "memory must be made of tensors or arrays, but has a str"),
        (MEMORY, [5, 0], ValueError, r"memory_sequence_length\[1\] is 0, but must be greater than zero"),
        (MEMORY, [-1, 5], ValueError, r"memory_sequence_length\[0\] is -1, but must be greater than zero"),
        (MEMORY, [5, 6], ValueError, r"memory_sequence_length\[1\] is 6, but memory has only 5 places"),
        (MEMORY, [5], ValueError, "memory_sequence_length has 1 entries, but memory has a batch of 2"),
        (MEMORY, 5, ValueError, r"memory_sequence_length must be a vector of length batch_size, but has shape \[\]"),
        (MEMORY, [[5, 5]], ValueError, r"memory_sequence_length must be a vector .* but has shape \[1, 2\]"),
        (MEMORY, [5.0, 2.0], TypeError, "memory_sequence_length must hold ints, but is torch.float32"),
        (MEMORY, [True, True], TypeError, "memory_sequence_length must hold ints, but has a bool"),
    ],
)
def test_memories(make: Any, memory: Any, lengths: Any, error: type[Exception], message: str) -> None:
    mechanism = make(3)
    with pytest.raises(error, match=message):
        mechanism.setup_memory(memory, lengths)
    assert not mechanism.has_memory()
    assert not mechanism.memory_layer.built


@every_mechanism
def test_a_memory_that_does_not_fit_leaves_the_one_before(make: Any) -> None:
    mechanism = make(3, MEMORY)
    with pytest.raises(ValueError, match="memory has depth 7, but the mechanism was built for 4"):
        mechanism.setup_memory(torch.zeros(2, 5, 7))
    with pytest.raises(TypeError, match=r"memory is torch.float64, but the weights are torch.float32"):
        mechanism.setup_memory(MEMORY.double())
    assert mechanism.values is MEMORY


@every_mechanism
@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        (torch.zeros(3, 3), ValueError, "Non-matching batch sizes: the memory has 2 rows, but the query has 3"),
        (torch.zeros(2, 1, 3), ValueError, r"query must be \[batch, depth\], but has shape \[2, 1, 3\]"),
        (
            torch.zeros(2, 3, dtype=torch.float64),
            TypeError,
            "query is torch.float64, but the weights are torch.float32",
        ),
        ((torch.zeros(2, 3),), TypeError, "query must be one tensor, but is a tuple of 1"),
    ],
)
def test_queries(make: Any, query: Any, error: type[Exception], message: str) -> None:
    mechanism = make(3, MEMORY)
    with pytest.raises(error, match=message):
        mechanism(query, mechanism.initial_state(2, torch.float32))
    assert not mechanism.built


@pytest.mark.parametrize("make", [LuongAttention, LuongMonotonicAttention])
def test_a_product_needs_a_query_as_wide_as_the_keys(make: Any) -> None:
    mechanism = make(3, MEMORY)
    with pytest.raises(ValueError, match="the query has depth 4, but the keys have 3; num_units must be the width"):
        mechanism(torch.zeros(2, 4), mechanism.initial_state(2, torch.float32))
    wrapper = AttentionWrapper(LSTMCell(4), mechanism)
    with pytest.raises(ValueError, match="the query has depth 4, but the keys have 3"):
        dynamic_rnn(wrapper, INPUTS, dtype=torch.float32)
    assert not wrapper.cell.built


@every_mechanism
def test_a_mechanism_without_a_memory_says_so(make: Any) -> None:
    mechanism = make(3)
    with pytest.raises(ValueError, match=f"{mechanism.name} has no memory: call setup_memory"):
        mechanism(torch.zeros(2, 3), torch.zeros(2, 5))
    with pytest.raises(ValueError, match="has no memory"):
        mechanism.initial_state(2, torch.float32)
    with pytest.raises(ValueError, match="has no memory"):
        mechanism.batch_size  # noqa: B018 (the property raises)


def test_a_mechanism_of_ones_own_must_define_its_scores() -> None:
    mechanism = AttentionMechanism(3, MEMORY)
    with pytest.raises(NotImplementedError, match=r"AttentionMechanism must define score\(query\)"):
        mechanism(torch.zeros(2, 3), mechanism.initial_state(2, torch.float32))


def test_monotonic_attention() -> None:
    with pytest.raises(ValueError, match="mode must be 'recursive', 'parallel', or 'hard', but is None"):
        monotonic_attention(torch.zeros(2, 3), torch.zeros(2, 3), None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"p_choose_i must be \[batch, places\], but has shape \[3\]"):
        monotonic_attention(torch.zeros(3), torch.zeros(2, 3), "hard")
    with pytest.raises(ValueError, match=r"p_choose_i has shape \[2, 3\], but previous_attention has \[1, 3\]"):
        monotonic_attention(torch.zeros(2, 3), torch.zeros(1, 3), "parallel")


# -- the wrapper -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(cell=nn.Linear(2, 3)), TypeError, r"The argument 'cell' .* is not an RNNCell"),
        (dict(attention_mechanism=None), TypeError, "attention_mechanism must be an AttentionMechanism, but is a None"),
        (dict(attention_mechanism=[LuongAttention(3), MEMORY]), TypeError, "AttentionMechanism, but is a Tensor"),
        (dict(attention_mechanism=[]), ValueError, "attention_mechanism is empty"),
        (dict(cell_input_fn="concat"), TypeError, "cell_input_fn must be callable, but got 'concat'"),
        (dict(attention_fn=3), TypeError, "attention_fn must be callable, but got 3"),
        (dict(attention_layer_size=0), ValueError, "attention_layer_size must be positive, but is 0"),
        (dict(attention_layer_size="6"), TypeError, "attention_layer_size must be an int, but got '6'"),
        (dict(attention_layer_size=[6, 6]), ValueError, "attention_layer_size must have one entry .* has 2 for 1"),
        (dict(attention_layer=[nn.Linear(7, 6)] * 2), ValueError, "attention_layer must have one entry .* 2 for 1"),
        (dict(attention_layer=torch.tanh), TypeError, "attention_layer must be a module, but is a builtin"),
        (dict(attention_layer=nn.Tanh()), ValueError, "attention_layer must say its width: give Tanh an attribute"),
        (dict(attention_layer=nn.Linear(7, 6), attention_layer_size=6), ValueError, "only one of"),
        (dict(dtype=3), TypeError, "dtype must be a dtype or its name"),
        (
            dict(initial_cell_state=torch.zeros(3, 3)),
            ValueError,
            r"initial_cell_state has shape \[3, 3\], but the memory has 2 rows; for beams, give tile_batch",
        ),
    ],
)
def test_constructors_of_wrappers(arguments: Any, error: type[Exception], message: str) -> None:
    complete = dict(cell=GRUCell(3), attention_mechanism=BahdanauAttention(3, MEMORY))
    with pytest.raises(error, match=message):
        AttentionWrapper(**{**complete, **arguments})


def test_every_loop_asks_for_a_memory() -> None:
    wrapper = AttentionWrapper(GRUCell(3), BahdanauAttention(3))
    assert wrapper.state_size.alignments == -1
    for run in (
        lambda: dynamic_rnn(wrapper, INPUTS, dtype=torch.float32),
        lambda: static_rnn(wrapper, list(INPUTS.unbind(1)), dtype=torch.float32),
        lambda: wrapper.zero_state(2, torch.float32),
        lambda: wrapper(INPUTS[:, 0], wrapped().zero_state(2, torch.float32)),
        lambda: wrapper.build(6),
    ):
        with pytest.raises(ValueError, match="bahdanau_attention has no memory: call setup_memory"):
            run()
    assert not wrapper.built


def test_the_batch_must_be_the_memorys() -> None:
    wrapper = wrapped()
    with pytest.raises(ValueError, match=r"memory of bahdanau_attention has 2 rows, but batch_size is 4; for beams"):
        wrapper.zero_state(4, torch.float32)
    with pytest.raises(ValueError, match="has 2 rows, but batch_size is 3"):
        dynamic_rnn(wrapper, torch.zeros(3, 3, 6), dtype=torch.float32)
    state = wrapper.zero_state(2, torch.float32)
    with pytest.raises(ValueError, match="attention_wrapper: inputs have 3 rows, but the state has 2"):
        wrapper(torch.zeros(3, 6), state)
    wrapper.mechanisms[0].setup_memory(torch.zeros(6, 5, 4))
    with pytest.raises(ValueError, match=r"the memory has 6 rows, but the query has 2; .* tile_batch\(memory"):
        wrapper(INPUTS[:, 0], state)


def test_an_initial_cell_state_must_fit_the_batch() -> None:
    wrapper = wrapped(initial_cell_state=torch.zeros(2, 3))
    wrapper.mechanisms[0].setup_memory(torch.zeros(4, 5, 4))
    with pytest.raises(ValueError, match=r"initial_cell_state has shape \[2, 3\], but the memory has 4 rows"):
        wrapper.zero_state(4, torch.float32)


@pytest.mark.parametrize("built", [False, True], ids=["unbuilt", "built"])
def test_the_state_must_be_an_attention_wrapper_state(built: bool) -> None:
    wrapper = wrapped()
    if built:
        wrapper.build(6)
    message = r"Expected state to be an AttentionWrapperState, but it is a (Tensor|tuple of 6)"
    for state in (torch.zeros(2, 3), tuple(wrapper.zero_state(2, torch.float32))):
        with pytest.raises(TypeError, match=message):
            wrapper(INPUTS[:, 0], state)


def test_a_loop_refuses_a_plain_tuple_as_state() -> None:
    wrapper = wrapped()
    state = tuple(wrapper.zero_state(2, torch.float32))
    with pytest.raises(TypeError, match=r"write AttentionWrapperState\(cell_state=\.\.\., attention"):
        dynamic_rnn(wrapper, INPUTS, initial_state=state, dtype=torch.float32)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (torch.zeros(2, 6, dtype=torch.int64), ValueError, "attention_wrapper: RNN cell only supports floating point"),
        (torch.zeros(2, 3, 6), ValueError, r"attention_wrapper: inputs have shape \[2, 3, 6\], but expected ndim=2"),
        ((torch.zeros(2, 6),), TypeError, "attention_wrapper: inputs must be one tensor, but are a tuple of 1"),
        (torch.zeros(2, 6, dtype=torch.float64), TypeError, "inputs are torch.float64, but the state is torch.float32"),
    ],
)
def test_inputs(inputs: Any, error: type[Exception], message: str) -> None:
    wrapper = wrapped()
    with pytest.raises(error, match=message):
        wrapper(inputs, wrapper.zero_state(2, torch.float32))
    assert not wrapper.built


def test_a_cell_must_put_out_one_matrix() -> None:
    cell = GRUCell(3)
    cell.output_size = (3, 3)
    with pytest.raises(ValueError, match=r"attention_wrapper: rows of size \(3, 3\) were given"):
        AttentionWrapper(cell, BahdanauAttention(3, MEMORY)).build(6)


def test_states_of_several_mechanisms_are_tuples() -> None:
    mechanisms = [BahdanauAttention(3, MEMORY), LuongAttention(3, MEMORY)]
    wrapper = AttentionWrapper(GRUCell(3), mechanisms)
    state = wrapper.zero_state(2, torch.float32)._replace(attention_state=torch.zeros(2, 5))
    with pytest.raises(ValueError, match="attention_state must be a tuple with one entry for each of 2 mechanisms"):
        wrapper(INPUTS[:, 0], state)


def test_clones() -> None:
    state = AttentionWrapper(LSTMCell(3), BahdanauAttention(3, MEMORY)).zero_state(2, torch.float32)
    with pytest.raises(ValueError, match="has no field 'cell': it has cell_state, attention, time, alignments"):
        state.clone(cell=state.cell_state)
    with pytest.raises(ValueError, match=r"attention has shape \[2, 5\], but the attention of the state has \[2, 4\]"):
        state.clone(attention=torch.zeros(2, 5))
    with pytest.raises(TypeError, match=r"cell_state is a tuple, but the cell_state of the state is an LSTMStateTuple"):
        state.clone(cell_state=(torch.zeros(2, 3), torch.zeros(2, 3)))
    with pytest.raises(ValueError, match="cell_state is a Tensor, but"):
        state.clone(cell_state=torch.zeros(2, 3))


def test_a_configuration_needs_its_mechanism_to_be_made() -> None:
    config = wrapped().get_config()
    with pytest.raises(ValueError, match=r"put an RNNCell at config\['cell'\] first"):
        AttentionWrapper.from_config(config)
    config["cell"] = GRUCell(3)
    with pytest.raises(TypeError, match="attention_mechanism must be an AttentionMechanism, but is a dict"):
        AttentionWrapper.from_config(config)
