"""`dynamic_decode`: what it computes, what becomes of finished rows, and when it stops."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.cells import Nested, Pair, Plus1
from unspool import (
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    MultiRNNCell,
    PerformanceWarning,
    RNNCell,
    TensorArray,
    dynamic_rnn,
)
from unspool.decode import (
    BasicDecoder,
    BasicDecoderOutput,
    CustomHelper,
    Decoder,
    GreedyEmbeddingHelper,
    TrainingHelper,
    dynamic_decode,
    sequence_loss,
    sequence_mask,
)
from unspool.structure import flatten, map_structure

dynamic_decode_module = importlib.import_module("unspool.decode.dynamic_decode")

B, T, D, N, V = 4, 6, 3, 5, 7
TOLERANCE = dict(rtol=1e-10, atol=1e-10)
"""Of float64: the same sums, in another order."""


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def total(*structures: Any) -> Tensor:
    """A number that every element of every floating tensor has a part of its own in."""
    leaves = [leaf for leaf in flatten(structures) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    terms = [
        (leaf * torch.linspace(-1, 2, leaf.numel(), dtype=leaf.dtype).reshape(leaf.shape)).sum() for leaf in leaves
    ]
    return torch.stack(terms).sum()


def gradients(result: Tensor, sources: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(result, sources, materialize_grads=True))


# -- it is dynamic_rnn -------------------------------------------------------------------------------------------------

CELLS = {
    "lstm": lambda: LSTMCell(N, use_peepholes=True, num_proj=V, input_size=D, dtype=torch.float64),
    "gru": lambda: GRUCell(N, input_size=D, dtype=torch.float64),
    "stack": lambda: MultiRNNCell([GRUCell(V, input_size=D), LSTMCell(N, input_size=V)]).double(),
}


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("layered", [False, True], ids=["bare", "layered"])
@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(0, T), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_teacher_forcing_is_dynamic_rnn(
    name: str, layered: bool, time_major: bool, lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    cell, batch = CELLS[name](), len(lengths)
    layer = nn.Linear(cell.output_size, V, dtype=torch.float64) if layered else None
    inputs = random(T, batch, D) if time_major else random(batch, T, D)
    inputs.requires_grad_()
    state = map_structure(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.zero_state(batch, torch.float64))
    decoder = BasicDecoder(cell, TrainingHelper(inputs, lengths, time_major), state, layer)
    outputs, final, decoded = dynamic_decode(decoder, output_time_major=time_major)

    expected, expected_final = dynamic_rnn(cell, inputs, lengths, state, time_major=time_major)
    if layer is not None:
        mask = sequence_mask(lengths, T)
        expected = layer(expected) * (mask.T if time_major else mask)[..., None]
    longest, time = max(lengths), 0 if time_major else 1
    assert decoded.tolist() == lengths
    expected = expected.narrow(time, 0, longest)
    torch.testing.assert_close(outputs.rnn_output, expected, **TOLERANCE)
    for one, other in zip(flatten(final), flatten(expected_final), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)
    assert outputs.sample_id.equal(outputs.rnn_output.argmax(-1).int())
    sources = [inputs, *flatten(state), *cell.parameters(), *(layer.parameters() if layer else [])]
    found = gradients(total(outputs, final), sources)
    for one, other in zip(found, gradients(total(expected, expected_final), sources), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)


def test_without_a_step_gradients_are_zero() -> None:
    cell, layer, inputs = GRUCell(N), nn.Linear(N, V), torch.randn(2, T, D, requires_grad=True)
    decoder = BasicDecoder(cell, TrainingHelper(inputs, [0, 0]), cell.zero_state(2, torch.float32), layer)
    outputs, state, lengths = dynamic_decode(decoder)
    assert outputs.rnn_output.shape == (2, 0, V)
    assert lengths.tolist() == [0, 0]
    assert cell.built
    (outputs.rnn_output.sum() + state.sum()).backward()
    for source in [inputs, *cell.parameters(), *layer.parameters()]:
        assert source.grad is not None
        assert not source.grad.any()


def test_inputs_may_be_nested() -> None:
    cell = Nested(D).double()
    inputs = {"x": random(B, T, D), "image": random(B, T, 2, D)}
    state = cell.zero_state(B, torch.float64)
    decoder = BasicDecoder(cell, TrainingHelper(inputs, [6, 0, 2, 3]), state, lambda output: output.left)
    outputs, final, _ = dynamic_decode(decoder)
    expected, expected_final = dynamic_rnn(cell, inputs, [6, 0, 2, 3], state)
    torch.testing.assert_close(outputs.rnn_output, expected.left, **TOLERANCE)
    for one, other in zip(flatten(final), flatten(expected_final), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)


# -- finished rows -----------------------------------------------------------------------------------------------------


def greedy_model() -> tuple[RNNCell, nn.Linear, nn.Parameter]:
    """A cell, an output layer and an embedding under which four rows end after different numbers of steps."""
    torch.manual_seed(268)
    cell = GRUCell(N, input_size=D, dtype=torch.float64)
    layer = nn.Linear(N, V, dtype=torch.float64)
    return cell, layer, nn.Parameter(3 * random(V, D))


def greedy(
    cell: RNNCell, layer: nn.Linear, embedding: Tensor, state: Tensor, **kwargs: Any
) -> tuple[Any, Any, list[int]]:
    helper = GreedyEmbeddingHelper(embedding, [0] * len(state), end_token=1)
    outputs, final, lengths = dynamic_decode(BasicDecoder(cell, helper, state, layer), maximum_iterations=12, **kwargs)
    return outputs, final, lengths.tolist()


STATE = 2 * torch.randn(B, N, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def test_a_batch_is_its_rows() -> None:
    cell, layer, embedding = greedy_model()
    outputs, final, lengths = greedy(cell, layer, embedding, STATE)
    assert lengths == [3, 9, 1, 2]
    sources = [embedding, *cell.parameters(), *layer.parameters()]
    together = gradients(total(outputs.rnn_output[:, :, :2].sum(1)) + total(final), sources)
    rows: list[Any] = []
    for row in range(B):
        one, state, [length] = greedy(cell, layer, embedding, STATE[row : row + 1])
        assert length == lengths[row]
        assert one.sample_id[0].tolist() == outputs.sample_id[row, :length].tolist()
        assert set(outputs.sample_id[row, length:].tolist()) <= {1}
        torch.testing.assert_close(outputs.rnn_output[row, :length], one.rnn_output[0], **TOLERANCE)
        assert not outputs.rnn_output[row, length:].any()
        torch.testing.assert_close(final[row], state[0], **TOLERANCE)
        rows.append((one.rnn_output[:, :, :2].sum(1), state))
    summed = [torch.cat([row[k] for row in rows]) for k in range(2)]
    alone = gradients(total(summed[0]) + total(summed[1]), sources)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)


def test_what_a_finished_row_would_read_harms_nobody() -> None:
    cell, layer, embedding = greedy_model()
    sources = [embedding, *cell.parameters(), *layer.parameters()]
    outputs, final, lengths = greedy(cell, layer, embedding, STATE)
    expected = gradients(total(outputs, final), sources)
    with torch.no_grad():
        embedding[1] = torch.nan  # read after the end token alone
    poisoned, poisoned_final, poisoned_lengths = greedy(cell, layer, embedding, STATE)
    assert poisoned_lengths == lengths
    assert poisoned.rnn_output.equal(outputs.rnn_output)
    assert poisoned_final.equal(final)
    for one, other in zip(gradients(total(poisoned, poisoned_final), sources), expected, strict=True):
        assert one.equal(other)


def test_nan_in_padding_and_in_the_state_of_an_empty_row_harms_nobody() -> None:
    torch.manual_seed(0)
    cell, layer, lengths = (
        GRUCell(N, input_size=D, dtype=torch.float64),
        nn.Linear(N, V, dtype=torch.float64),
        [4, 0, 2],
    )
    clean, clean_state = random(3, T, D), random(3, N)
    dirty, dirty_state = clean.masked_fill(~sequence_mask(lengths, T)[..., None], torch.nan), clean_state.clone()
    dirty_state[1] = torch.nan
    found: list[list[Tensor]] = []
    for inputs, state in [(clean, clean_state), (dirty, dirty_state)]:
        inputs.requires_grad_()
        outputs, final, _ = dynamic_decode(BasicDecoder(cell, TrainingHelper(inputs, lengths), state, layer))
        loss = total(outputs.rnn_output, final[0], final[2])
        found.append([outputs.rnn_output, *gradients(loss, [inputs, *cell.parameters(), *layer.parameters()])])
    for one, other in zip(*found, strict=True):
        assert one.equal(other)


def test_not_imputed_rows_run_on() -> None:
    cell, layer, embedding = greedy_model()
    imputed, _, lengths = greedy(cell, layer, embedding, STATE)
    outputs, final, also = greedy(cell, layer, embedding, STATE, impute_finished=False)
    assert also == lengths
    shortest = lengths.index(min(lengths))
    assert outputs.rnn_output[shortest, lengths[shortest] :].any(-1).all()
    for row, length in enumerate(lengths):
        torch.testing.assert_close(outputs.rnn_output[row, :length], imputed.rnn_output[row, :length], **TOLERANCE)
    assert not final[shortest].equal(imputed.rnn_output[shortest, -1])


def test_a_start_token_that_is_the_end_token_ends_nothing() -> None:
    helper = GreedyEmbeddingHelper(torch.eye(3), [1, 1], end_token=1)
    decoder = BasicDecoder(Plus1(3), helper, torch.zeros(2, 3))
    outputs, _, lengths = dynamic_decode(decoder)  # the argmax of eye[1] + 1 is 1 again
    assert lengths.tolist() == [1, 1]
    assert outputs.sample_id.tolist() == [[1], [1]]


class Counting(Decoder):
    """Rows that end after given numbers of steps; its state has a row each, a scalar and a `TensorArray`."""

    output_size: Any = {"time": torch.Size([]), "pair": Pair(2, torch.Size([]))}
    output_dtype: Any = {"time": torch.int64, "pair": Pair(torch.float32, torch.bool)}

    def __init__(self, *lengths: int) -> None:
        self.lengths = torch.tensor(lengths)
        self.steps: list[int] = []

    @property
    def batch_size(self) -> int:
        return len(self.lengths)

    def initialize(self) -> Any:
        state = {"row": torch.zeros(self.batch_size, 2), "steps": torch.tensor(0), "seen": TensorArray(torch.int64)}
        return self.lengths == 0, torch.zeros(self.batch_size), state

    def step(self, time: int, inputs: Tensor, state: Any) -> Any:
        self.steps.append(time)
        ones = torch.ones(self.batch_size, 2)
        output = {"time": torch.full((self.batch_size,), time), "pair": Pair(ones, ones[:, 0].bool())}
        seen = state["seen"].write(time, torch.tensor(time))
        state = {"row": state["row"] + 1, "steps": state["steps"] + 1, "seen": seen}
        return output, state, inputs + 1, self.lengths <= time + 1


def test_scalars_and_tensor_arrays_in_a_state_are_left_alone() -> None:
    outputs, state, lengths = dynamic_decode(Counting(2, 0, 3))
    assert lengths.tolist() == [2, 0, 3]
    assert state["row"][:, 0].tolist() == [2, 0, 3]
    assert int(state["steps"]) == 3
    assert state["seen"].stack().tolist() == [0, 1, 2]
    assert outputs["time"].tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 2]]
    assert outputs["pair"].left.sum(-1).tolist() == [[2, 2, 0], [0, 0, 0], [2, 2, 2]]
    assert outputs["pair"].right.tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_padding_is_what_the_decoder_says() -> None:
    class Padded(Counting):
        output_padding = {"time": -7, "pair": Pair(0.5, True)}

    outputs, _, _ = dynamic_decode(Padded(2, 3))
    assert outputs["time"].tolist() == [[0, 1, -7], [0, 1, 2]]
    assert outputs["pair"].left[0, 2].tolist() == [0.5, 0.5]
    assert outputs["pair"].right.all()


def test_a_row_that_was_finished_once_stays_finished() -> None:
    class Wavering(Counting):
        def step(self, time: int, inputs: Tensor, state: Any) -> Any:
            *rest, _ = super().step(time, inputs, state)
            return *rest, torch.tensor([time == 0, time == 3])

    _, state, lengths = dynamic_decode(Wavering(9, 9))
    assert lengths.tolist() == [1, 4]
    assert state["row"][:, 0].tolist() == [1, 4]


class Beams(Decoder):
    """Two rows of three beams that trade places: they track their own ends and know their own lengths."""

    batch_size, output_size, output_dtype, tracks_own_finished = 2, 3, torch.int64, True

    def initialize(self) -> Any:
        return torch.zeros(2, 3, dtype=torch.bool), torch.zeros(6, 1), torch.zeros(2, 3, dtype=torch.int64)

    def step(self, time: int, inputs: Any, state: Any) -> Any:
        finished = torch.tensor([[time > 1, True, time > 1]] * 2) if time != 1 else torch.zeros(2, 3, dtype=torch.bool)
        return torch.full((2, 3), time), state + 2, inputs, finished

    def sequence_lengths(self, final_state: Any) -> Tensor:
        return final_state

    def finalize(self, outputs: Tensor, final_state: Any, sequence_lengths: Tensor) -> Any:
        assert outputs.shape == (3, 2, 3)  # time-major, whatever the caller wants
        assert sequence_lengths.dtype == torch.int32
        return outputs + 10, "final"


def test_a_decoder_may_track_its_own_finished_rows_and_lengths() -> None:
    outputs, state, lengths = dynamic_decode(Beams())  # what is imputed elsewhere is its own business
    assert outputs.shape == (2, 3, 3)
    assert outputs[0].tolist() == [[10] * 3, [11] * 3, [12] * 3]
    assert state == "final"
    assert lengths.tolist() == [[6] * 3] * 2
    assert lengths.dtype == torch.int32


# -- when it stops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [3, np.int64(3), torch.tensor(3)], ids=["int", "numpy", "tensor"])
def test_maximum_iterations_is_a_number_of_any_kind(limit: Any) -> None:
    decoder = Counting(5, 1)
    outputs, _, lengths = dynamic_decode(decoder, maximum_iterations=limit)
    assert decoder.steps == [0, 1, 2]
    assert outputs["time"].shape == (2, 3)
    assert lengths.tolist() == [3, 1]


def test_no_iterations_take_no_step() -> None:
    decoder = Counting(5, 1)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=0)
    assert decoder.steps == []
    assert outputs["pair"].left.shape == (2, 0, 2)
    assert outputs["pair"].right.dtype == torch.bool
    assert lengths.tolist() == [0, 0]
    assert not state["row"].any()


def test_no_step_is_taken_once_all_rows_are_finished() -> None:
    decoder = Counting(2, 1)
    dynamic_decode(decoder, maximum_iterations=100)
    assert decoder.steps == [0, 1]


def test_a_decode_that_does_not_end_stops_at_the_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dynamic_decode_module.DEFAULT_BOUND == 10_000
    monkeypatch.setattr(dynamic_decode_module, "DEFAULT_BOUND", 20)
    with pytest.warns(RuntimeWarning, match="stopped after 20 steps, its default bound, with 2 of 3 rows unfinished"):
        _, _, lengths = dynamic_decode(Counting(10**6, 3, 21))
    assert lengths.tolist() == [20, 3, 20]


def test_the_bound_does_not_touch_what_ends_in_time_or_was_told_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_decode_module, "DEFAULT_BOUND", 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PerformanceWarning)
        assert dynamic_decode(Counting(4, 2))[2].tolist() == [4, 2]
        assert dynamic_decode(Counting(9, 2), maximum_iterations=7)[2].tolist() == [7, 2]
        helper = TrainingHelper(torch.zeros(2, T, D), [6, 5])  # it knows its own end
        assert dynamic_decode(BasicDecoder(Plus1(D), helper, torch.zeros(2, D)))[2].tolist() == [6, 5]


# -- cells and layers --------------------------------------------------------------------------------------------------


def test_the_output_layer_is_asked_for_its_size_without_a_trace() -> None:
    layer = nn.Sequential(nn.LazyLinear(V), nn.BatchNorm1d(V), nn.Dropout(0.5))
    layer[2].eval()
    decoder = BasicDecoder(Plus1(D), TrainingHelper(torch.zeros(2, T, D), [1, 0]), torch.zeros(2, D), layer)
    assert decoder.output_size == BasicDecoderOutput(V, torch.Size([]))
    assert decoder.output_dtype == BasicDecoderOutput(torch.float32, torch.int32)
    assert int(layer[1].num_batches_tracked) == 0
    assert [module.training for module in layer] == [True, True, False]


def test_the_output_layer_may_be_a_function_that_changes_the_dtype() -> None:
    helper = TrainingHelper(torch.zeros(2, T, D), [1, 0])
    decoder = BasicDecoder(Plus1(D), helper, torch.zeros(2, D), lambda output: output.double())
    assert dynamic_decode(decoder)[0].rnn_output.dtype == torch.float64


def test_the_cell_is_built_by_the_first_inputs_and_told_of_a_new_sequence() -> None:
    cell = DropoutWrapper(
        GRUCell(N), input_keep_prob=0.5, variational_recurrent=True, input_size=D, dtype=torch.float32
    )
    torch.manual_seed(0)
    helper = TrainingHelper(torch.ones(2, T, D), [T, T])
    decoder = BasicDecoder(cell, helper, cell.zero_state(2, torch.float32))
    masks: set[tuple[bool, ...]] = set()
    for _ in range(10):
        dynamic_decode(decoder)
        (mask,) = cell._masks.values()
        masks.add(tuple(mask.bool().flatten().tolist()))
    assert len(masks) > 1


def test_decoding_works_under_autocast() -> None:
    cell = GRUCell(N)
    helper = TrainingHelper(torch.randn(2, T, D), [T, 2])
    decoder = BasicDecoder(cell, helper, cell.zero_state(2, torch.float32), nn.Linear(N, V))
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state, _ = dynamic_decode(decoder)
    assert outputs.rnn_output.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert dynamic_decode(decoder)[0].rnn_output.dtype == torch.float32  # the same decoder, without


def test_a_model_learns_by_teacher_forcing_and_then_decodes() -> None:
    """To say 2, 3, ..., and 1 at the end, for as many steps as its state says."""
    torch.manual_seed(0)
    counts = torch.arange(1, 5)
    targets = torch.tensor([[1, 0, 0, 0], [2, 1, 0, 0], [2, 3, 1, 0], [2, 3, 4, 1]])
    cell, layer, embedding = GRUCell(16), nn.Linear(16, V), nn.Embedding(V, 8)
    start = nn.functional.one_hot(counts, 16).float()
    said = nn.functional.pad(targets[:, :-1], (1, 0))
    optimizer = None
    for _ in range(60):
        decoder = BasicDecoder(cell, TrainingHelper(embedding(said), counts), start, layer)
        outputs, _, lengths = dynamic_decode(decoder)
        loss = sequence_loss(outputs.rnn_output, targets, sequence_mask(lengths))
        weights = [*cell.parameters(), *layer.parameters(), *embedding.parameters()]
        optimizer = optimizer or torch.optim.Adam(weights, 0.03)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    helper = GreedyEmbeddingHelper(embedding, [0] * 4, end_token=1)
    outputs, _, lengths = dynamic_decode(BasicDecoder(cell, helper, start, layer), maximum_iterations=10)
    assert lengths.tolist() == [1, 2, 3, 4]
    assert outputs.sample_id.tolist() == torch.where(sequence_mask(counts), targets, 1).tolist()


def test_a_custom_helper_may_change_the_state() -> None:
    helper = CustomHelper(
        initialize_fn=lambda: ([False, False], torch.zeros(2, D)),
        sample_fn=lambda time, outputs, state: outputs.argmax(-1).int(),
        next_inputs_fn=lambda time, outputs, state, sample_ids: (time == 2, outputs, state * 2),
    )
    _, state, lengths = dynamic_decode(BasicDecoder(Plus1(D), helper, torch.zeros(2, D)))
    assert lengths.tolist() == [3, 3]
    assert state[:, 0].tolist() == [14, 14]  # ((0 + 1) * 2 + 1) * 2 ...
