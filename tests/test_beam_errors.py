"""What a beam search says when it is given what it cannot use."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.beams import Attending, Tables, dynamic_decode
from unspool import GRUCell, LSTMCell, RNNCell, TensorArray
from unspool.decode import BeamSearchDecoder, tile_batch

BATCH, WIDTH, UNITS, VOCABULARY = 2, 3, 4, 6


def decoder(cell=None, **changes):
    """A good search, but for `changes`."""
    cell = GRUCell(UNITS, input_size=5) if cell is None else cell
    arguments = dict(
        embedding=torch.zeros(VOCABULARY, 5),
        start_tokens=torch.zeros(BATCH, dtype=torch.int64),
        end_token=1,
        initial_state=torch.zeros(BATCH * WIDTH, UNITS),
        beam_width=WIDTH,
        output_layer=nn.Linear(UNITS, VOCABULARY),
    )
    return BeamSearchDecoder(cell, **{**arguments, **changes})


def test_what_is_changed_below_is_good():
    outputs, _, _ = dynamic_decode(decoder(), maximum_iterations=2)
    assert outputs.predicted_ids.shape == (BATCH, 2, WIDTH)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(beam_width=0), ValueError, "beam_width must be at least 1, but is 0"),
        (dict(beam_width=-1), ValueError, "beam_width must be at least 1, but is -1"),
        (dict(beam_width=2.0), TypeError, "beam_width must be an int, but is 2.0"),
        (dict(beam_width=True), TypeError, "beam_width must be an int, but is True"),
        (dict(beam_width=torch.tensor([3])), TypeError, "beam_width must be an int, but is tensor"),
        (dict(beam_width=None), TypeError, "beam_width must be an int, but is None"),
        (dict(end_token=6), ValueError, "end_token is 6, but output_layer is for 6 tokens, 0 to 5"),
        (dict(end_token=-1), ValueError, "end_token must not be negative, but is -1"),
        (dict(end_token=[1]), ValueError, r"end_token must be a scalar, but has shape \[1\]"),
        (dict(end_token=torch.tensor([1, 2])), ValueError, r"end_token must be a scalar, but has shape \[2\]"),
        (dict(end_token=1.0), TypeError, "end_token must hold ints, but is torch.float32"),
        (dict(end_token=None), ValueError, "end_token: None values not supported"),
        (
            dict(end_token=5, embedding=torch.zeros(5, 5)),
            ValueError,
            "end_token is 5, but embedding is for 5 tokens, 0 to 4",
        ),
        (
            dict(end_token=5, embedding=nn.Embedding(4, 5)),
            ValueError,
            "end_token is 5, but embedding is for 4 tokens, 0 to 3",
        ),
        (
            dict(end_token=4, output_layer=None),
            ValueError,
            "end_token is 4, but cell.output_size is for 4 tokens, 0 to 3",
        ),
        (dict(start_tokens=0), ValueError, r"start_tokens must be a vector \[batch\], but has shape \[\]"),
        (dict(start_tokens=torch.zeros(2, 3, dtype=torch.int64)), ValueError, r"but has shape \[2, 3\]"),
        (dict(start_tokens=torch.zeros(2)), TypeError, "start_tokens must hold ints, but is torch.float32"),
        (dict(start_tokens=[0, 6]), ValueError, r"start_tokens\[1\] is 6, but embedding is for 6 tokens"),
        (dict(embedding=torch.zeros(6)), ValueError, r"embedding must be a matrix or a function"),
        (dict(embedding=None), ValueError, "embedding: None values not supported"),
        (dict(output_layer=3), TypeError, "output_layer must be a layer, but is 3"),
        (
            dict(initial_state=torch.zeros(BATCH, UNITS)),
            ValueError,
            r"initial_state has shape \[2, 4\], but expected 6 rows, 2 start tokens with 3 beams each: "
            r"use tile_batch\(initial_state, 3\)",
        ),
        (dict(initial_state=None), ValueError, "initial_state: None values not supported"),
        (dict(initial_state=(torch.zeros(6, 4),)), ValueError, "initial_state is a tuple of 1, but cell.state_size is"),
        (dict(length_penalty_weight=[1.0]), TypeError, "length_penalty_weight must be made of .* but has a list"),
        (dict(length_penalty_weight="1"), TypeError, "length_penalty_weight must be made of .* but has a str"),
        (dict(length_penalty_weight=torch.ones(2)), ValueError, "length_penalty_weight must be a scalar"),
        (dict(coverage_penalty_weight=torch.ones(2)), ValueError, "coverage_penalty_weight must be a scalar"),
        (
            dict(coverage_penalty_weight=0.2),
            ValueError,
            "coverage_penalty_weight is 0.2, but initial_state is a Tensor without attention",
        ),
    ],
)
def test_arguments(changes, error, message):
    with pytest.raises(error, match=message):
        decoder(**changes)


def test_the_cell_is_no_cell():
    with pytest.raises(TypeError, match=r"The argument 'cell' .* is not an RNNCell"):
        decoder(cell=nn.Linear(2, 3))


def test_a_tuple_for_the_state_of_an_lstm():
    state = (torch.zeros(BATCH * WIDTH, UNITS), torch.zeros(BATCH * WIDTH, UNITS))
    with pytest.raises(TypeError, match=r"initial_state is a tuple, but cell.state_size is an LSTMStateTuple\(c, h\)"):
        decoder(cell=LSTMCell(UNITS), initial_state=state)


def test_a_vocabulary_that_shows_itself_in_the_first_step():
    search = decoder(end_token=6, embedding=lambda ids: torch.zeros(*ids.shape, 5), output_layer=lambda rows: rows)
    with pytest.raises(ValueError, match="end_token is 6, but the logits are for 4 tokens"):
        dynamic_decode(search)


def test_an_embedding_that_loses_the_beams():
    search = decoder(embedding=lambda ids: torch.zeros(ids.numel(), 5))
    with pytest.raises(
        ValueError, match=r"embedding returned \[6, 5\] for ids \[2, 3\]: expected \[batch, beam, ...\]"
    ):
        dynamic_decode(search)


def test_logits_of_the_wrong_rank():
    search = decoder(output_layer=lambda rows: rows.unsqueeze(1))
    with pytest.raises(ValueError, match=r"output_layer must put out logits \[6, vocabulary\], but put out shape"):
        dynamic_decode(search)


def test_a_cell_that_puts_out_several_tensors():
    class Two(RNNCell):
        state_size, output_size = UNITS, (UNITS, UNITS)

        def forward(self, inputs, state):
            return (state, state), state

    with pytest.raises(ValueError, match=r"the cell must put out logits .* but put out a tuple of 2"):
        dynamic_decode(decoder(cell=Two(), output_layer=None))


def test_a_cell_whose_state_changes_its_shape():
    class Growing(RNNCell):
        state_size = output_size = UNITS

        def forward(self, inputs, state):
            return state, torch.cat([state, state], 1)

    with pytest.raises(ValueError, match=r"the cell's new state has shape \[6, 8\]"):
        dynamic_decode(decoder(cell=Growing()))


def test_a_tensor_array_without_beams():
    class Noting(Attending):
        def forward(self, inputs, state):
            output, after = super().forward(inputs, state._replace(alignment_history=()))
            return output, after._replace(alignment_history=state.alignment_history.write(state.time, torch.zeros(5)))

    model = Tables.drawn(seed=0, rows=2)
    cell = Noting(model, torch.rand(4, 3).double())
    state = cell.start(tile_batch(torch.zeros(2, 2).double(), 2), 4)._replace(alignment_history=TensorArray())
    search = BeamSearchDecoder(cell, lambda ids: ids.unsqueeze(-1), [3, 3], 0, state, 2)
    with pytest.raises(ValueError, match=r"\[3, 5\], but expected .*; reorder_tensor_arrays=False leaves it be"):
        dynamic_decode(search, maximum_iterations=3)


def test_n_best_of_more_than_was_kept():
    search = decoder()
    outputs, state, _ = dynamic_decode(search, maximum_iterations=2)
    with pytest.raises(ValueError, match="count is 4, but only the 3 best sequences were kept"):
        search.n_best(outputs, state, 4)
    with pytest.raises(ValueError, match="count must be at least 1, but is 0"):
        search.n_best(outputs, state, 0)


def test_n_best_of_outputs_in_the_other_order():
    layer = nn.Linear(UNITS, VOCABULARY)
    nn.init.constant_(layer.bias[1], -100.0)  # nothing ends
    search = decoder(output_layer=layer)
    outputs, state, _ = dynamic_decode(search, output_time_major=True, maximum_iterations=4)
    with pytest.raises(ValueError, match=r"for \[4, 3\] rows and beams, but the final state is for \[2, 3\]"):
        search.n_best(outputs, state)
