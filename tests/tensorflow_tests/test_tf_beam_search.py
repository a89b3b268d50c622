"""TensorFlow's `beam_search_decoder_test.py`: trees, masks, one step, and whole searches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.beams import Attending, AttendingState, dynamic_decode
from tests.tensorflow_tests.beam_steps import END, PENALTIES, logits_of, state_of
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import LSTMCell, LSTMStateTuple
from unspool.decode import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
    gather_tree,
    gather_tree_from_array,
    tile_batch,
)
from unspool.decode.beam_step import beam_search_step, mask_finished
from unspool.decode.trees import check_has_beams

# -- trees -----------------------------------------------------------------------------------------------------------


def time_major(rows):
    return torch.tensor(rows).transpose(0, 1)


def test_gather_tree():
    step_ids = time_major([[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[2, 3, 4], [5, 6, 7], [8, 9, 10]]])
    parent_ids = time_major([[[0, 0, 0], [0, 1, 1], [2, 1, 2]], [[0, 0, 0], [1, 2, 0], [2, 1, 1]]])
    expected = time_major([[[2, 2, 2], [6, 5, 6], [7, 8, 9]], [[2, 4, 4], [7, 6, 6], [8, 9, 10]]])
    assert torch.equal(gather_tree(step_ids, parent_ids, [3, 3], end_token=11), expected)


ARRAY = [[[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 0, 0]], [[2, 3, 4], [5, 6, 7], [8, 9, 10], [11, 12, 0]]]
PARENTS = [[[0, 0, 0], [0, 1, 1], [2, 1, 2], [-1, -1, -1]], [[0, 0, 0], [1, 1, 0], [2, 0, 1], [0, 1, 0]]]
LENGTHS = [[3, 3, 3], [4, 4, 3]]
ORDERED = [[[2, 2, 2], [6, 5, 6], [7, 8, 9], [0, 0, 0]], [[2, 3, 2], [7, 5, 7], [8, 9, 8], [11, 12, 0]]]


def assert_ordered(depth, merged=False):
    """`ARRAY` becomes `ORDERED`, with further axes that tell their elements apart by what is added to each."""

    def deepened(rows):
        array = time_major(rows).float()
        array = array.flatten(1) if merged else array
        for _ in range(depth):
            array = torch.stack([array, array + 1], -1)
        return array

    assert torch.equal(gather_tree_from_array(deepened(ARRAY), time_major(PARENTS), LENGTHS), deepened(ORDERED))


def test_gather_tree_from_array_scalar():
    assert_ordered(depth=0)


def test_gather_tree_from_array_1d():
    assert_ordered(depth=1)


def test_gather_tree_from_array_1d_with_merged_batch_beam():
    assert_ordered(depth=1, merged=True)


def test_gather_tree_from_array_2d():
    assert_ordered(depth=2)


def test_gather_tree_from_array_complex_trajectory():
    array = [
        [25, 12, 114, 89, 97],
        [9, 91, 64, 11, 162],
        [34, 34, 34, 34, 34],
        [2, 4, 2, 2, 4],
        [2, 3, 6, 2, 2],
        [2, 2, 2, 3, 2],
        [2, 2, 2, 2, 2],
    ]
    parents = [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 2, 3, 4],
        [0, 0, 1, 2, 1],
        [0, 1, 1, 2, 3],
        [0, 1, 3, 1, 2],
        [0, 1, 2, 3, 4],
    ]
    expected = [
        [25, 25, 25, 25, 25],
        [9, 9, 91, 9, 9],
        [34, 34, 34, 34, 34],
        [2, 4, 2, 4, 4],
        [2, 3, 6, 3, 6],
        [2, 2, 2, 3, 2],
        [2, 2, 2, 2, 2],
    ]
    array, parents, expected = (torch.tensor(steps).unsqueeze(1) for steps in (array, parents, expected))
    ordered = gather_tree_from_array(array.unsqueeze(-1).float(), parents, [[4, 6, 4, 7, 6]])
    assert torch.equal(ordered, expected.unsqueeze(-1).float())


@pytest.mark.parametrize("shape", [(8, 4, 5, 10), (8, 20, 10)])
def test_array_shape_dynamic_checks(shape):
    check_has_beams(torch.randn(shape), (8, 4, 5))


@pytest.mark.parametrize("shape", [(8, 21, 10), (8, 4, 6, 10), (8, 4)])
def test_array_shape_dynamic_checks_refuse_others(shape):
    with pytest.raises(ValueError, match=r"expected \[8, 4, 5, ...\] or \[8, 20, ...\]"):
        check_has_beams(torch.randn(shape), (8, 4, 5))


# -- one step --------------------------------------------------------------------------------------------------------


def test_eos_masking():
    log_probs = torch.tensor(
        [
            [[-0.2, -0.2, -0.2, -0.2, -0.2], [-0.3, -0.3, -0.3, 3, 0], [5, 6, 0, 0, 0]],
            [[-0.2, -0.2, -0.2, -0.2, 0], [-0.3, -0.3, -0.1, 3, 0], [5, 6, 3, 0, 0]],
        ]
    )
    finished = torch.tensor([[False, True, False], [False, True, True]])
    masked = mask_finished(log_probs, finished, end_token=0)
    assert torch.equal(masked[~finished], log_probs[~finished])
    assert (masked[finished][:, 0] == 0).all()
    assert (masked[finished][:, 1:] == torch.finfo(torch.float32).min).all()


LIKELY = {(0, 0, 2): 1.9, (0, 0, 3): 2.1, (0, 1, 3): 3.1, (0, 1, 4): 0.9, (1, 0, 1): 0.5}


def test_step():
    logits = logits_of(3, {**LIKELY, (1, 1, 2): 2.7, (1, 2, 2): 10.0, (1, 2, 3): 0.2})
    state = state_of(lengths=[[2, 2, 2], [2, 2, 2]], finished=[[False] * 3] * 2)
    outputs, after = beam_search_step(logits, state.cell_state, state, END, PENALTIES)
    assert outputs.predicted_ids.tolist() == [[3, 3, 2], [2, 2, 1]]
    assert outputs.parent_ids.tolist() == [[1, 0, 0], [2, 1, 0]]
    assert after.lengths.tolist() == [[3, 3, 3], [3, 3, 3]]
    assert after.lengths.dtype == torch.int64
    assert not after.finished.any()
    step = torch.log_softmax(logits, -1)
    chosen = [[step[0, 1, 3], step[0, 0, 3], step[0, 0, 2]], [step[1, 2, 2], step[1, 1, 2], step[1, 0, 1]]]
    assert torch.equal(after.log_probs, state.log_probs + torch.tensor(chosen))  # the beams had equal log-probabilities


def test_step_with_eos():
    logits = logits_of(3, {**LIKELY, (1, 1, 2): 5.7, (1, 2, 2): 1.0, (1, 2, 3): 0.2})
    state = state_of(lengths=[[2, 1, 2], [2, 2, 1]], finished=[[False, True, False], [False, False, True]])
    outputs, after = beam_search_step(logits, state.cell_state, state, END, PENALTIES)
    assert outputs.predicted_ids.tolist() == [[0, 3, 2], [2, 0, 1]]
    assert outputs.parent_ids.tolist() == [[1, 0, 0], [1, 2, 0]]
    assert after.lengths.tolist() == [[1, 3, 3], [3, 1, 3]]
    assert after.finished.tolist() == [[True, False, False], [False, True, False]]
    step = torch.log_softmax(logits, -1)
    chosen = [[0, step[0, 0, 3], step[0, 0, 2]], [step[1, 1, 2], 0, step[1, 0, 1]]]
    assert torch.equal(after.log_probs, state.log_probs + torch.tensor(chosen))


# -- whole searches --------------------------------------------------------------------------------------------------

BATCH, WIDTH, STEPS, MEMORY, UNITS, VOCABULARY = 5, 3, 3, 4, 9, 20


def search(attention=False, history=False):
    """Five rows for three steps, of an LSTM with or without attention: the decoder and what it finds."""
    cell, embedding = fill_all(LSTMCell(UNITS, input_size=50), seed=1), torch.randn(VOCABULARY, 50)
    zeros = tile_batch(cell.zero_state(BATCH, torch.float32), WIDTH)
    if attention:
        wrapper = Attending(cell, torch.rand(VOCABULARY, MEMORY), embedding)
        cell, zeros, embedding = wrapper, wrapper.start(zeros, BATCH * WIDTH, history), lambda ids: ids.unsqueeze(-1)
    decoder = BeamSearchDecoder(
        cell,
        embedding,
        torch.zeros(BATCH, dtype=torch.int64),
        VOCABULARY - 1,
        zeros,
        WIDTH,
        output_layer=nn.Linear(UNITS, VOCABULARY),
        coverage_penalty_weight=0.2 if attention else 0.0,
    )
    return decoder, dynamic_decode(decoder, maximum_iterations=STEPS)


def assert_searched(outputs, state, lengths):
    assert isinstance(outputs, FinalBeamSearchDecoderOutput)
    assert isinstance(outputs.beam_search_decoder_output, BeamSearchDecoderOutput)
    assert isinstance(state, BeamSearchDecoderState)
    assert outputs.predicted_ids.shape == (BATCH, STEPS, WIDTH)
    assert all(leaf.shape == (BATCH, STEPS, WIDTH) for leaf in outputs.beam_search_decoder_output)
    assert outputs.predicted_ids.dtype == outputs.beam_search_decoder_output.parent_ids.dtype == torch.int32
    assert lengths.shape == (BATCH, WIDTH)
    assert lengths.max() == STEPS
    assert torch.equal(lengths, state.lengths.int())


def test_dynamic_decode_rnn_batch_major_no_attention():
    _, (outputs, state, lengths) = search()
    assert_searched(outputs, state, lengths)
    assert isinstance(state.cell_state, LSTMStateTuple)
    assert state.cell_state.h.shape == (BATCH, WIDTH, UNITS)
    assert state.accumulated_attention_probs == ()


def test_dynamic_decode_rnn_batch_major_yes_attention():
    _, (outputs, state, lengths) = search(attention=True)
    assert_searched(outputs, state, lengths)
    assert isinstance(state.cell_state, AttendingState)
    assert state.cell_state.alignments.shape == (BATCH, WIDTH, MEMORY)
    assert state.cell_state.time == STEPS
    assert state.accumulated_attention_probs.shape == (BATCH, WIDTH, MEMORY)
    assert state.accumulated_attention_probs.any()


def test_dynamic_decode_rnn_batch_major_yes_attention_with_alignment_history():
    decoder, (outputs, state, lengths) = search(attention=True, history=True)
    assert_searched(outputs, state, lengths)
    history = state.cell_state.alignment_history
    assert history.shape == (STEPS, BATCH * WIDTH, MEMORY)
    # The alignments of a step are known by its token, which is the start token or the one before.
    tokens = torch.cat([torch.zeros(BATCH, 1, WIDTH, dtype=torch.int32), outputs.predicted_ids[:, :-1]], 1)
    expected = decoder.cell.looks[tokens.transpose(0, 1).flatten(1)]
    within = torch.arange(STEPS).unsqueeze(1) < lengths.flatten()
    assert torch.equal(history[within], expected[within])
