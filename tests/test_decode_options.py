"""What `dynamic_decode` is told about how to run is checked, and reaches the loop that can do it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from unspool import BasicDecoder, BeamSearchDecoder, GRUCell, TrainingHelper, dynamic_decode, tile_batch
from unspool import tf1 as tf
from unspool.engine import Request, entry


def decoder() -> BasicDecoder:
    cell = GRUCell(4, input_size=3)
    helper = TrainingHelper(torch.randn(2, 5, 3), [5, 2])
    return BasicDecoder(cell, helper, cell.zero_state(2, torch.float32), nn.Linear(4, 6))


def test_a_decode_of_known_inputs_runs_as_it_is_told(monkeypatch: pytest.MonkeyPatch):
    told: list[Any] = []
    run = entry.run

    def spy(request: Request) -> Any:
        told.append(request.options)
        return run(request)

    monkeypatch.setattr(entry, "run", spy)
    made = decoder()
    outputs = [
        dynamic_decode(made, parallel_iterations=iterations, swap_memory=swaps)[0].rnn_output
        for iterations, swaps in ((None, False), (2, True))
    ]
    assert [(each.parallel_iterations, each.swap_memory) for each in told] == [(None, False), (2, True)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-6, atol=1e-6)  # other chunks, other last bits


@pytest.mark.parametrize("decode", [dynamic_decode, tf.contrib.seq2seq.dynamic_decode], ids=["unspool", "tf1"])
def test_bad_options_are_refused(decode: Any):
    made: Any = decoder()
    if decode is not dynamic_decode:
        cell = tf.nn.rnn_cell.GRUCell(4)
        helper = tf.contrib.seq2seq.TrainingHelper(tf.zeros([2, 5, 3]), [5, 2])
        made = tf.contrib.seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
    with pytest.raises(AssertionError, match=r"parallel_iterations must be an int, but is 2\.5"):
        decode(made, parallel_iterations=2.5)
    with pytest.raises(TypeError, match="parallel_iterations must be positive, but is -1"):
        decode(made, parallel_iterations=-1)
    with pytest.raises(TypeError, match="swap_memory must be True or False, but is 32"):
        decode(made, swap_memory=32)


def test_a_beam_search_without_a_layer_has_the_cells_outputs_as_logits():
    cell = GRUCell(6)
    made = BeamSearchDecoder(cell, nn.Embedding(6, 3), [0, 0], 1, tile_batch(cell.zero_state(2, torch.float32), 3), 3)
    outputs, _, _ = dynamic_decode(made, maximum_iterations=4)
    assert int(outputs.predicted_ids.max()) < 6


@pytest.mark.parametrize("layer", [None, nn.Linear(8, 9), lambda x: x], ids=["none", "linear", "function"])
def test_a_beam_search_with_more_logits_than_the_embedding_has_rows_says_so(layer: Any):
    cell = GRUCell(8)
    state = tile_batch(cell.zero_state(2, torch.float32), 3)
    words = {
        None: "without output_layer, the cell's 8 outputs are the logits, but embedding is for 6 tokens: give an",
        nn.Linear: "output_layer puts out 9 logits, but embedding is for 6 tokens",
    }.get(layer if layer is None else type(layer), "the output has 8 logits, but the embedding has only 6 rows")
    with pytest.raises(ValueError, match=words):
        dynamic_decode(BeamSearchDecoder(cell, nn.Embedding(6, 3), [0, 0], 1, state, 3, layer), maximum_iterations=4)


def test_a_beam_search_of_the_graph_says_it_when_it_is_made():
    cell = tf.nn.rnn_cell.GRUCell(8)
    state = tf.contrib.seq2seq.tile_batch(cell.zero_state(2, tf.float32), 3)
    with pytest.raises(ValueError, match="without output_layer, the cell's 8 outputs are the logits"):
        tf.contrib.seq2seq.BeamSearchDecoder(cell, tf.get_variable("table", [6, 3]), [0, 0], 1, state, 3)
