"""What TensorFlow's tests of attention run: a decoder over a memory, with the sizes of theirs."""

from __future__ import annotations

import torch

from unspool import LSTMCell, TensorArray, dynamic_rnn
from unspool.decode import AttentionWrapper, AttentionWrapperState

BATCH, ENCODER_TIME, DECODER_TIME = 5, 8, 3
INPUT_DEPTH, MEMORY_DEPTH, CELL_DEPTH, ATTENTION_DEPTH = 7, 10, 9, 6
ENCODER_LENGTHS, DECODER_LENGTHS = [8, 3, 1, 7, 4], [3, 1, 0, 2, 3]


def memory(dtype=torch.float32):
    return torch.randn(BATCH, ENCODER_TIME, MEMORY_DEPTH, dtype=dtype)


def decode(mechanism, attention_layer_size=ATTENTION_DEPTH, dtype=torch.float32, **options):
    """Runs a wrapped LSTM over `DECODER_LENGTHS`; returns the wrapper, the outputs and the final state."""
    wrapper = AttentionWrapper(LSTMCell(CELL_DEPTH), mechanism, attention_layer_size, **options)
    inputs = torch.randn(BATCH, DECODER_TIME, INPUT_DEPTH, dtype=dtype)
    return wrapper, *dynamic_rnn(wrapper, inputs, DECODER_LENGTHS, dtype=dtype)


def check(mechanism, width=ATTENTION_DEPTH, attention_layer_size=ATTENTION_DEPTH, dtype=torch.float32):
    """One mechanism, with the history of its alignments: shapes, dtypes and structure. Returns the history."""
    wrapper, outputs, state = decode(mechanism, attention_layer_size, dtype, alignment_history=True)
    assert outputs.shape == (BATCH, DECODER_TIME, width)
    assert wrapper.output_size == width
    assert outputs.dtype == dtype
    for row, length in enumerate(DECODER_LENGTHS):
        assert not outputs[row, length:].any()
        assert outputs[row, :length].any() == (length > 0)
    assert isinstance(state, AttentionWrapperState)
    assert state.cell_state.c.shape == state.cell_state.h.shape == (BATCH, CELL_DEPTH)
    assert state.attention.shape == (BATCH, width)
    assert state.alignments.shape == (BATCH, ENCODER_TIME)
    assert state.alignments.dtype == state.attention.dtype == dtype
    assert torch.equal(state.time, torch.tensor(DECODER_LENGTHS))
    assert isinstance(state.alignment_history, TensorArray)
    history = state.alignment_history.stack()
    assert history.shape == (DECODER_TIME, BATCH, ENCODER_TIME)
    assert history.dtype == dtype
    past = torch.arange(ENCODER_TIME) >= torch.tensor(ENCODER_LENGTHS)[:, None]
    assert not history[:, past].any()
    return history


def check_sums_to_one(history):
    """Every look is at all of the memory: the mean over its 8 places is 0.125."""
    torch.testing.assert_close(history.mean(2), torch.full((DECODER_TIME, BATCH), 0.125).to(history.dtype))


def check_at_most_one(history):
    """Every look is a chance to be somewhere in the memory."""
    assert (history >= 0).all()
    assert (history.sum(2) <= 1 + 1e-6).all()
    assert history.any()


def check_hard(history):
    """Every look is at one place or none."""
    assert ((history == 0) | (history == 1)).all()
    assert ((history.sum(2) == 0) | (history.sum(2) == 1)).all()
    assert history.any()
