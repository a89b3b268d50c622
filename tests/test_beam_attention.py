"""Beam search of a model with attention: what a sequence attended to is what it attends to when it is forced."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from unspool import LSTMCell
from unspool.decode import (
    AttentionWrapper,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    LuongAttention,
    dynamic_decode,
    tile_batch,
)

BATCH, WIDTH, UNITS, DEPTH, PLACES, VOCABULARY, END, STEPS = 3, 4, 5, 6, 7, 8, 2, 6
LENGTHS = torch.tensor([7, 3, 1])
EXACT = 1e-10

MECHANISMS = {
    "bahdanau": lambda: BahdanauAttention(UNITS),
    "luong": lambda: LuongAttention(UNITS),
    "monotonic": lambda: BahdanauMonotonicAttention(UNITS),
    "several": lambda: [BahdanauAttention(UNITS), LuongAttention(UNITS)],
}


def forced(cell, network, row, tokens):
    """The log-probability of a sequence, and the alignments of its steps, by one row of teacher forcing."""
    embedding, layer, memory, encoded = network
    for mechanism in cell.attention_mechanisms:
        mechanism.setup_memory(memory[row : row + 1], LENGTHS[row : row + 1])
    first = type(encoded)(*(leaf[row : row + 1] for leaf in encoded))
    state = cell.zero_state(1, torch.float64).clone(cell_state=first)
    total, alignments = 0.0, []
    for token, target in itertools.pairwise([0, *tokens]):
        output, state = cell(embedding(torch.tensor([token])), state)
        total += float(torch.log_softmax(layer(output), -1)[0, target])
        several = state.alignments if isinstance(state.alignments, tuple) else (state.alignments,)
        alignments.append(torch.stack(several).mean(0)[0])
    return total, torch.stack(alignments)


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("weight", [0.0, 0.7])
@torch.no_grad()
def test_scores_and_alignments_are_those_of_teacher_forcing(kind, weight):
    torch.manual_seed(2)
    mechanism = MECHANISMS[kind]()
    several = isinstance(mechanism, list)
    cell = AttentionWrapper(
        LSTMCell(UNITS), mechanism, [3, 4] if several else 3, alignment_history=True, dtype=torch.float64
    )
    embedding = nn.Embedding(VOCABULARY, 4, dtype=torch.float64)
    layer = nn.Linear(7 if several else 3, VOCABULARY, dtype=torch.float64)
    nn.init.normal_(layer.weight, std=2.0)
    layer.bias[END] += 3.0  # some sequences end early
    memory = torch.randn(BATCH, PLACES, DEPTH, dtype=torch.float64)
    encoded = type(LSTMCell(UNITS).zero_state(1, torch.float64))(*torch.randn(2, BATCH, UNITS, dtype=torch.float64))
    for each in cell.attention_mechanisms:
        each.setup_memory(tile_batch(memory, WIDTH), tile_batch(LENGTHS, WIDTH))
    state = cell.zero_state(BATCH * WIDTH, torch.float64).clone(cell_state=tile_batch(encoded, WIDTH))
    decoder = BeamSearchDecoder(
        cell, embedding, [0] * BATCH, END, state, WIDTH, layer, weight, coverage_penalty_weight=0.3
    )
    outputs, final_state, lengths = dynamic_decode(decoder, maximum_iterations=STEPS)
    best = decoder.n_best(outputs, final_state)
    assert len(set(lengths.flatten().tolist())) > 1
    history = final_state.cell_state.alignment_history
    history = torch.stack(history).mean(0) if several else history
    history = history.unflatten(1, (BATCH, WIDTH))
    initial = state.alignments[0] if several else state.alignments
    for row, n in itertools.product(range(BATCH), range(WIDTH)):
        beam, length = int(best.beams[row, n]), int(best.lengths[row, n])
        tokens = best.predicted_ids[row, n, :length].tolist()
        log_prob, alignments = forced(cell, (embedding, layer, memory, encoded), row, tokens)
        assert float(best.log_probs[row, n]) == pytest.approx(log_prob, abs=EXACT)
        torch.testing.assert_close(history[:length, row, beam], alignments, rtol=0, atol=EXACT)
        attended = (alignments.sum(0) + initial[row * WIDTH]).tolist()
        coverage = sum(math.log(min(each, 1.0)) for each in attended if each)
        expected = log_prob / ((5 + length) / 6) ** weight + 0.3 * coverage
        assert float(best.scores[row, n]) == pytest.approx(expected, abs=EXACT)
