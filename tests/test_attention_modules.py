"""Attention mechanisms and their wrapper as modules: batch after batch, copied, saved, traced and named."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

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
    memory_of,
    set_memory,
    wrapped,
)
from unspool import GRUCell, LSTMCell, dynamic_rnn, tf_variables
from unspool.decode import (
    AttentionMechanism,
    AttentionWrapper,
    AttentionWrapperState,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
)
from unspool.structure import flatten


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


# -- the life of a module ----------------------------------------------------------------------------------------------


def test_the_memory_is_replaced_between_batches() -> None:
    wrapper = wrapped("bahdanau", attention_layer_size=2)
    optimiser = torch.optim.SGD(wrapper.parameters(), lr=0.1)
    losses: list[float] = []
    for rows, places in [(3, 5), (2, 9), (4, 1), (3, 5)]:
        memory, inputs = memory_of(rows, places), draw(rows, 3, INPUTS)
        set_memory(wrapper, memory)
        outputs, state = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
        assert state.alignments.shape == (rows, places)
        loss = outputs.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert memory.grad is not None
        losses.append(loss.item())
    assert len(set(losses)) == 4


def test_the_constructors_memory_is_that_of_setup_memory() -> None:
    memory = memory_of()
    mechanism = BahdanauAttention(UNITS, memory, MEMORY_LENGTHS)
    before = [mechanism.values, mechanism.keys, mechanism.mask]
    mechanism.setup_memory(memory.detach().numpy(), torch.tensor(MEMORY_LENGTHS, dtype=torch.int32))
    torch.testing.assert_close([mechanism.values, mechanism.keys, mechanism.mask], before, rtol=0, atol=0)


def test_a_learned_memory_stays_its_owners() -> None:
    learned = nn.Parameter(torch.randn(2, PLACES, DEPTH))
    mechanism = LuongAttention(UNITS, learned)
    assert [name for name, _ in mechanism.named_parameters()] == ["memory_layer.kernel"]
    mechanism(torch.randn(2, UNITS), mechanism.initial_state(2, torch.float32))[0][:, 0].sum().backward()
    assert learned.grad is not None


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["copy", "pickle"]
)
@every_mechanism
def test_copies_have_the_weights_and_not_the_memory(name: str, how: Any) -> None:
    wrapper, memory, inputs = wrapped(name, attention_layer_size=2), memory_of(), draw(ROWS, 4, INPUTS)
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    expected, _ = dynamic_rnn(wrapper, inputs, LENGTHS, dtype=torch.float64)
    other = how(wrapper)
    assert wrapper.mechanisms[0].has_memory()
    with pytest.raises(ValueError, match="has no memory: call setup_memory"):
        dynamic_rnn(other, inputs, LENGTHS, dtype=torch.float64)
    set_memory(other, memory, MEMORY_LENGTHS)
    outputs, _ = dynamic_rnn(other, inputs, LENGTHS, dtype=torch.float64)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
    assert not {id(weight) for weight in wrapper.parameters()} & {id(weight) for weight in other.parameters()}


def test_a_copy_that_is_told_what_stands_for_the_memory_has_it() -> None:
    wrapper = wrapped("bahdanau")
    tensors = [*wrapper.parameters(), *wrapper.buffers()]
    other = copy.deepcopy(wrapper, {id(tensor): tensor for tensor in tensors})
    assert all(one is other for one, other in zip(tensors, [*other.parameters(), *other.buffers()], strict=True))
    assert other is not wrapper


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))], ids=["copy", "file"]
)
def test_copies_draw_the_noise_that_is_next(how: Any) -> None:
    memory, query = torch.randn(ROWS, PLACES, DEPTH), torch.randn(ROWS, UNITS)
    mechanism = BahdanauMonotonicAttention(UNITS, memory, sigmoid_noise=1.0, sigmoid_noise_seed=3)
    before = mechanism.initial_state(ROWS, torch.float32)
    first, _ = mechanism(query, before)
    other = how(mechanism)
    other.setup_memory(memory)
    second, _ = mechanism(query, before)
    assert torch.equal(other(query, before)[0], second)
    assert not torch.equal(first, second)


@every_mechanism
def test_a_state_dict_has_the_weights_and_not_the_memory(name: str) -> None:
    wrapper, inputs = wrapped(name, attention_layer_size=2), draw(ROWS, 4, INPUTS)
    expected, _ = dynamic_rnn(wrapper, inputs, dtype=torch.float64)
    assert wrapper.state_dict().keys() == dict(wrapper.named_parameters()).keys()
    file = io.BytesIO()
    torch.save(wrapper.state_dict(), file)
    file.seek(0)
    fresh = AttentionWrapper(LSTMCell(UNITS), MECHANISMS[name](UNITS), attention_layer_size=2)
    fresh.load_state_dict(torch.load(file))  # gives an unbuilt wrapper its shapes
    memory = wrapper.mechanisms[0].values.detach()
    set_memory(fresh, memory, MEMORY_LENGTHS)
    torch.testing.assert_close(dynamic_rnn(fresh, inputs, dtype=torch.float64)[0], expected, rtol=0, atol=0)


def test_the_memory_goes_where_the_module_goes() -> None:
    wrapper = AttentionWrapper(GRUCell(UNITS), BahdanauAttention(UNITS, torch.randn(2, PLACES, DEPTH), [5, 2]))
    dynamic_rnn(wrapper, torch.randn(2, 3, INPUTS), dtype=torch.float32)
    wrapper.to(torch.float64)
    assert wrapper.mechanisms[0].keys.dtype == wrapper.mechanisms[0].values.dtype == torch.float64
    outputs, _ = dynamic_rnn(wrapper, draw(2, 3, INPUTS), dtype=torch.float64)
    assert outputs.dtype == torch.float64


@every_mechanism
def test_a_step_reads_its_batch_from_the_row_buffers_alone(name: str) -> None:
    """With the buffers of some rows in their place, a step is the step of those rows."""
    wrapper = wrapped(name, attention_layer_size=2)
    buffers = wrapper.row_buffers
    assert buffers == [f"attention_mechanisms.0.{each}" for each in ("values", "keys", "mask")]
    assert set(buffers) == dict(wrapper.named_buffers()).keys()
    inputs, state = draw(ROWS, INPUTS), wrapper.zero_state(ROWS, torch.float64)
    _, state = wrapper(inputs, state)
    output, new_state = wrapper(inputs, state)
    for rows in (torch.tensor([2, 0]), torch.tensor([1])):
        some = {each: wrapper.get_buffer(each)[rows] for each in buffers}
        state_of_rows = AttentionWrapperState(*map_rows(state, rows))
        found = torch.func.functional_call(wrapper, some, (inputs[rows], state_of_rows))
        assert_close(flatten(found), flatten((output[rows], map_rows(new_state, rows))))


def map_rows(state: Any, rows: Tensor) -> Any:
    return torch.utils._pytree.tree_map(lambda leaf: leaf[rows], state)  # pyright: ignore[reportPrivateUsage]


@every_mechanism
def test_a_step_can_be_traced_for_any_number_of_rows(name: str) -> None:
    wrapper = wrapped(name, attention_layer_size=2)

    def step(inputs: Tensor, state: Any, *buffers: Tensor) -> Any:
        lifted = dict(zip(wrapper.row_buffers, buffers, strict=True))
        return torch.func.functional_call(wrapper, lifted, (inputs, state))

    def arguments(rows: int) -> Any:
        set_memory(wrapper, memory_of(rows).detach(), torch.randint(1, PLACES + 1, (rows,)))
        state = wrapper.zero_state(rows, torch.float64)
        return torch.randn(rows, INPUTS, dtype=torch.float64), state, *map(wrapper.get_buffer, wrapper.row_buffers)

    with torch.no_grad():
        traced = make_fx(step, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*arguments(11))
        for rows in (11, 4):
            fresh = arguments(rows)
            assert_close(flatten(traced(*fresh)), flatten(step(*fresh)))


def test_row_buffers_are_found_at_every_depth() -> None:
    inner = AttentionWrapper(GRUCell(UNITS), LuongAttention(UNITS, memory_of()))
    outer = AttentionWrapper(inner, [BahdanauAttention(2, memory_of(), MEMORY_LENGTHS)], attention_layer_size=[UNITS])
    assert inner.row_buffers == ["attention_mechanisms.0.values", "attention_mechanisms.0.keys"]
    assert sorted(outer.row_buffers) == sorted(
        [f"cell.attention_mechanisms.0.{each}" for each in ("values", "keys")]
        + [f"attention_mechanisms.0.{each}" for each in ("values", "keys", "mask")]
    )
    assert AttentionWrapper(GRUCell(UNITS), LuongAttention(UNITS)).row_buffers == []


# -- names and configurations ------------------------------------------------------------------------------------------


def test_weights_have_tensorflows_names() -> None:
    wrapper = wrapped("bahdanau-monotonic-parallel", attention_layer_size=2)
    below = "decoder/attention_wrapper"
    mechanism = f"{below}/bahdanau_monotonic_attention"
    assert list(tf_variables(wrapper, "decoder")) == [
        "decoder/memory_layer/kernel",
        f"{below}/lstm_cell/kernel",
        f"{below}/lstm_cell/bias",
        f"{mechanism}/query_layer/kernel",
        f"{mechanism}/attention_v",
        f"{mechanism}/attention_g",
        f"{mechanism}/attention_b",
        f"{mechanism}/attention_score_bias",
        f"{below}/attention_layer/kernel",
    ]


def test_a_second_of_the_same_name_is_numbered() -> None:
    mechanisms = [LuongAttention(UNITS, memory_of(), scale=True) for _ in range(2)]
    wrapper = AttentionWrapper(GRUCell(UNITS), mechanisms, attention_layer_size=[2, 2], name="looks")
    wrapper.build(INPUTS, dtype=torch.float64)
    names = list(tf_variables(wrapper, ""))
    assert names[:2] == ["memory_layer/kernel", "memory_layer_1/kernel"]
    assert names[6:] == [
        "looks/luong_attention/attention_g",
        "looks/luong_attention_1/attention_g",
        "looks/attention_layer/kernel",
        "looks/attention_layer_1/kernel",
    ]


def test_an_unbuilt_wrapper_has_no_variables_to_show() -> None:
    with pytest.raises(ValueError, match="memory_layer/kernel has no shape yet"):
        tf_variables(AttentionWrapper(GRUCell(UNITS), LuongAttention(UNITS)))


def test_initial_weights_are_tensorflows() -> None:
    mechanism = BahdanauMonotonicAttention(100, torch.randn(2, 3, 4), normalize=True, score_bias_init=-2.5)
    mechanism(torch.randn(2, 5), mechanism.initial_state(2, torch.float32))
    assert mechanism.attention_g.item() == pytest.approx(0.1)
    assert not mechanism.attention_b.any()
    assert mechanism.attention_score_bias == -2.5
    assert 0.1 < mechanism.attention_v.abs().max() <= (3 / 100) ** 0.5
    scaled = LuongAttention(4, torch.randn(2, 3, 4), scale=True)
    scaled(torch.randn(2, 4), scaled.initial_state(2, torch.float32))
    assert scaled.attention_g == 1


@every_mechanism
def test_a_mechanism_comes_back_from_its_configuration(name: str) -> None:
    mechanism = MECHANISMS[name](UNITS, memory_of())
    config = mechanism.get_config()
    again = type(mechanism).from_config(config)
    assert again.get_config() == config
    assert not again.has_memory()


def test_a_wrapper_comes_back_from_its_configuration() -> None:
    wrapper = wrapped("luong-scale", attention_layer_size=2, output_attention=False)
    config = wrapper.get_config()
    assert config["attention_mechanism"]["class_name"] == "LuongAttention"
    config["cell"] = LSTMCell.from_config(config["cell"]["config"])
    config["attention_mechanism"] = LuongAttention.from_config(config["attention_mechanism"]["config"])
    again = AttentionWrapper.from_config(config)
    again.load_state_dict(wrapper.state_dict())
    assert isinstance(again, AttentionWrapper)
    assert again.output_size == UNITS


def test_a_mechanism_of_ones_own_needs_only_scores() -> None:
    class Recent(AttentionMechanism):
        def score(self, query: Tensor) -> Tensor:
            places = torch.arange(self.keys.shape[1], dtype=query.dtype)
            return places * query.abs().sum(1, keepdim=True)

    wrapper = AttentionWrapper(GRUCell(UNITS), Recent(1, memory_of(), MEMORY_LENGTHS))
    _, state = dynamic_rnn(wrapper, draw(ROWS, 4, INPUTS), dtype=torch.float64)
    assert [int(row.argmax()) for row in state.alignments] == [length - 1 for length in MEMORY_LENGTHS]
