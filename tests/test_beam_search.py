"""Beam search finds what a search of everything finds, and its scores are what they say."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.beams import Attending, Tables, dynamic_decode, penalised
from unspool import GRUCell, LSTMCell, MultiRNNCell
from unspool.decode import BeamSearchDecoder, tile_batch
from unspool.decode.beam_step import best_candidates
from unspool.decode.tokens import Embedding

EXACT = 1e-10
"""Of float64: sums of a few log-probabilities in another order."""

WEIGHTS = st.sampled_from([0.0, 0.6, 1.0, 2.5, -0.5])

models = st.builds(
    Tables.drawn,
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 3),
    vocabulary=st.integers(2, 4),
    steps=st.integers(1, 3),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    ties=st.booleans(),
    end_token=st.integers(0, 1),
)


def found(best, row):
    """The sequences of one row with their scores, best first."""
    ids, lengths, scores = best.predicted_ids[row].tolist(), best.lengths[row].tolist(), best.scores[row].tolist()
    every = zip(ids, lengths, scores, strict=True)
    return [(tuple(tokens[:length]), score) for tokens, length, score in every if score > -math.inf]


# -- against a search of everything ----------------------------------------------------------------------------------


@settings(deadline=None)
@given(models, WEIGHTS, st.integers(0, 3))
def test_a_beam_that_is_wide_enough_finds_all_sequences_in_their_order(model, weight, more):
    everything = [model.sequences(row) for row in range(model.rows)]
    decoder = model.decoder(len(everything[0]) + more, length_penalty_weight=weight)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=model.steps)
    best = decoder.n_best(outputs, state)
    for row, sequences in enumerate(everything):
        scores = {sequence: penalised(total, len(sequence), weight) for sequence, total in sequences.items()}
        have = found(best, row)
        assert dict(have).keys() == scores.keys()
        assert len(have) == len(scores)
        for sequence, score in have:
            assert score == pytest.approx(scores[sequence], abs=EXACT)
        assert [score for _, score in have] == pytest.approx(sorted(scores.values(), reverse=True), abs=EXACT)
        assert best.scores[row, len(scores) :].tolist() == [-math.inf] * more
        assert best.lengths[row, len(scores) :].tolist() == [0] * more


def plain_search(model, row, width, weight):
    """A beam search in plain Python, by the rule of TensorFlow: tokens and parents of each step, and the last beams."""
    least = torch.finfo(torch.float64).min
    beams = [(0.0, (), False)] + [(-math.inf, (), True)] * (width - 1)  # log-probability, tokens, finished
    steps = []
    for _ in range(model.steps):
        if all(finished for _, _, finished in beams):
            break
        candidates = []
        for parent, (total, tokens, finished) in enumerate(beams):
            for token in range(model.vocabulary):
                ends = token == model.end_token
                if finished:
                    sum_, after = total + (0.0 if ends else least), tokens
                else:
                    sum_, after = model.log_prob(row, (*tokens, token)), (*tokens, token)
                counted = len(tokens) + (not ends and not finished)
                score = sum_ / ((5 + counted) / 6) ** weight if weight else sum_
                candidates.append((score, parent, token, (sum_, after, finished or ends)))
        candidates.sort(key=lambda candidate: -candidate[0])  # stable: of equals, those that come first
        chosen = candidates[:width]
        steps.append(([token for _, _, token, _ in chosen], [parent for _, parent, _, _ in chosen]))
        beams = [beam for *_, beam in chosen]
    return steps, beams


@settings(deadline=None)
@given(models, WEIGHTS, st.integers(1, 6))
def test_each_step_keeps_what_a_plain_search_keeps(model, weight, width):
    for row in range(model.rows):
        steps, beams = plain_search(model, row, width, weight)
        decoder = model.decoder(width, rows=[row], length_penalty_weight=weight)
        outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=model.steps)
        assert outputs.beam_search_decoder_output.predicted_ids[0].tolist() == [tokens for tokens, _ in steps]
        assert outputs.beam_search_decoder_output.parent_ids[0].tolist() == [parents for _, parents in steps]
        assert lengths[0].tolist() == [len(tokens) for _, tokens, _ in beams]
        assert state.finished[0].tolist() == [finished for _, _, finished in beams]
        for beam, (total, tokens, _) in enumerate(beams):
            assert float(state.log_probs[0, beam]) == pytest.approx(total, abs=EXACT, rel=EXACT)
            padding = (model.end_token,) * (len(steps) - len(tokens))
            assert tuple(outputs.predicted_ids[0, :, beam].tolist()) == tokens + padding


@settings(deadline=None)
@given(models, WEIGHTS, st.integers(1, 6))
def test_ids_lengths_and_log_probabilities_of_a_batch_belong_together(model, weight, width):
    decoder = model.decoder(width, length_penalty_weight=weight)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=model.steps)
    best = decoder.n_best(outputs, state)
    for row, beam in itertools.product(range(model.rows), range(width)):
        tokens = tuple(outputs.predicted_ids[row, : lengths[row, beam], beam].tolist())
        assert model.end_token not in tokens[:-1]
        if state.log_probs[row, beam] > -1e300:
            assert float(state.log_probs[row, beam]) == pytest.approx(model.log_prob(row, tokens), abs=EXACT)
            assert bool(state.finished[row, beam]) == (tokens[-1] == model.end_token)
    for row in range(model.rows):
        for sequence, score in found(best, row):
            expected = penalised(model.log_prob(row, sequence), len(sequence), weight)
            assert score == pytest.approx(expected, abs=EXACT)


@settings(deadline=None)
@given(models, WEIGHTS, st.integers(1, 6))
def test_rows_do_not_know_of_each_other(model, weight, width):
    together = model.decoder(width, length_penalty_weight=weight)
    outputs, state, _ = dynamic_decode(together, maximum_iterations=model.steps)
    best = together.n_best(outputs, state)
    for row in range(model.rows):
        decoder = model.decoder(width, rows=[row], length_penalty_weight=weight)
        alone, alone_state, _ = dynamic_decode(decoder, maximum_iterations=model.steps)
        assert found(decoder.n_best(alone, alone_state), 0) == found(best, row)


# -- with networks ---------------------------------------------------------------------------------------------------

UNITS, DEPTH, VOCABULARY, END = 5, 4, 6, 2


class Network:
    """A cell with an embedding and an output layer, in float64, that starts from a state of its own."""

    def __init__(self, seed, kind=GRUCell, rows=2):
        torch.manual_seed(seed)
        self.cell = {
            GRUCell: lambda: GRUCell(UNITS, input_size=DEPTH, dtype=torch.float64),
            LSTMCell: lambda: LSTMCell(UNITS, input_size=DEPTH, dtype=torch.float64),
            MultiRNNCell: lambda: MultiRNNCell([GRUCell(UNITS), LSTMCell(UNITS)]),
        }[kind]()
        self.embedding = nn.Embedding(VOCABULARY, DEPTH, dtype=torch.float64)
        self.layer = nn.Linear(UNITS, VOCABULARY, dtype=torch.float64)
        nn.init.normal_(self.layer.weight, std=2.0)
        zeros = self.cell.zero_state(rows, torch.float64)
        self.state = torch.utils._pytree.tree_map(torch.randn_like, zeros)
        self.start = torch.randint(VOCABULARY, (rows,))

    def decoder(self, width, **options):
        return BeamSearchDecoder(
            self.cell, self.embedding, self.start, END, tile_batch(self.state, width), width, self.layer, **options
        )

    def log_prob(self, row, tokens):
        """By teacher forcing: the tokens are the inputs, one step late."""
        state = torch.utils._pytree.tree_map(lambda leaf: leaf[row : row + 1], self.state)
        inputs, total = [int(self.start[row]), *tokens[:-1]], 0.0
        for token, target in zip(inputs, tokens, strict=True):
            output, state = self.cell(self.embedding(torch.tensor([token])), state)
            total += float(torch.log_softmax(self.layer(output), -1)[0, target])
        return total


KINDS = pytest.mark.parametrize("kind", [GRUCell, LSTMCell, MultiRNNCell])


@KINDS
@pytest.mark.parametrize("weight", [0.0, 0.8])
@torch.no_grad()
def test_scores_are_log_probabilities_by_teacher_forcing(kind, weight):
    network = Network(seed=3, kind=kind)
    decoder = network.decoder(4, length_penalty_weight=weight)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=7)
    best = decoder.n_best(outputs, state)
    assert best.scores.dtype == torch.float64
    assert (best.scores.diff(dim=1) <= 0).all()
    assert len(set(lengths.flatten().tolist())) > 1, "sequences of one length say little"
    for row in range(2):
        sequences = found(best, row)
        assert len({sequence for sequence, _ in sequences}) == 4
        for n, (sequence, score) in enumerate(sequences):
            log_prob = network.log_prob(row, sequence)
            assert float(best.log_probs[row, n]) == pytest.approx(log_prob, abs=EXACT)
            assert score == pytest.approx(penalised(log_prob, len(sequence), weight), abs=EXACT)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([GRUCell, LSTMCell, MultiRNNCell]))
@torch.no_grad()
def test_a_beam_of_one_is_greedy(seed, kind):
    network = Network(seed, kind, rows=3)
    outputs, state, lengths = dynamic_decode(network.decoder(1), maximum_iterations=8)
    for row in range(3):
        tokens, cell_state = [], torch.utils._pytree.tree_map(lambda leaf, row=row: leaf[row : row + 1], network.state)
        token = int(network.start[row])
        while token != END or not tokens:
            output, cell_state = network.cell(network.embedding(torch.tensor([token])), cell_state)
            token = int(network.layer(output).argmax())
            tokens.append(token)
            if len(tokens) == 8:
                break
        assert outputs.predicted_ids[row, : lengths[row, 0], 0].tolist() == tokens
        # The state is frozen where the sequence ends.
        for have, expected in zip(
            torch.utils._pytree.tree_leaves(state.cell_state), torch.utils._pytree.tree_leaves(cell_state), strict=True
        ):
            torch.testing.assert_close(have[row], expected, rtol=0, atol=EXACT)


@torch.no_grad()
def test_an_embedding_is_a_matrix_a_module_or_a_function():
    network = Network(seed=4)
    matrix = network.embedding.weight
    apart = matrix.unflatten(1, (2, 2))  # vectors of more than one axis, which a function puts together again
    results = []
    for embedding in [network.embedding, matrix, matrix.numpy(), lambda ids: matrix[ids]]:
        network.embedding = embedding
        results.append(dynamic_decode(network.decoder(3), maximum_iterations=5)[0].predicted_ids)
    assert all(torch.equal(result, results[0]) for result in results)
    assert torch.equal(Embedding(apart)(network.start), apart[network.start])


def test_the_search_is_differentiable():
    network = Network(seed=3)
    decoder = network.decoder(3, length_penalty_weight=0.8)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=4)
    best = decoder.n_best(outputs, state)
    (have,) = torch.autograd.grad(best.log_probs[0, 0], network.layer.bias)
    tokens = [int(network.start[0]), *best.predicted_ids[0, 0, : best.lengths[0, 0]].tolist()]
    total, cell_state = 0.0, network.state[:1]
    for token, target in itertools.pairwise(tokens):
        output, cell_state = network.cell(network.embedding(torch.tensor([token])), cell_state)
        total = total + torch.log_softmax(network.layer(output), -1)[0, target]
    (expected,) = torch.autograd.grad(total, network.layer.bias)
    torch.testing.assert_close(have, expected, rtol=0, atol=EXACT)


# -- odd searches ----------------------------------------------------------------------------------------------------


def test_the_score_of_a_beam_changes_at_the_step_after_its_end():
    # The numbers of TensorFlow, w = 1: log(0.3), then log(0.3) / (7 / 6).
    model = Tables.scripted([{(): [0, 1, 0], (1,): [0.3, 0.7, 0], (1, 1): [0.1, 0.9, 0]}], vocabulary=3, steps=3)
    decoder = model.decoder(2, length_penalty_weight=1.0)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=3)
    steps = outputs.beam_search_decoder_output
    assert steps.predicted_ids[0, 1:].tolist() == [[1, 0], [1, 0]]
    assert float(steps.scores[0, 1, 1]) == pytest.approx(-1.204, abs=5e-4)
    assert float(steps.scores[0, 2, 1]) == pytest.approx(-1.032, abs=5e-4)
    assert found(decoder.n_best(outputs, state), 0)[1] == ((1, 0), pytest.approx(-1.032, abs=5e-4))


def test_beams_that_change_places_after_their_row_has_ended_keep_their_ids():
    # Row 0: (0) has log(1/2); (1, 0) is worse when it ends, at step 2, and better from step 3 on, when its end counts.
    rows = [{(): [0.5, 0.5, 0], (1,): [0.95, 0.05, 0]}, {(): [0, 1, 0], (1,): [0, 1, 0], (1, 1): [0, 1, 0]}]
    decoder = Tables.scripted(rows, vocabulary=3, steps=3).decoder(2, length_penalty_weight=1.0)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=3)
    assert outputs.beam_search_decoder_output.parent_ids[0, 2].tolist() == [1, 0]
    assert lengths[0].tolist() == [2, 1]
    assert outputs.predicted_ids[0].T.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert state.log_probs[0].exp().tolist() == pytest.approx([0.475, 0.5], abs=1e-6)


def test_the_order_of_n_best_is_that_of_the_scores():
    # The same search, stopped at the step at which the beams have not changed places yet.
    rows = [{(): [0.5, 0.5, 0], (1,): [0.95, 0.05, 0]}]
    decoder = Tables.scripted(rows, vocabulary=3, steps=3).decoder(2, length_penalty_weight=1.0)
    outputs, state, lengths = dynamic_decode(decoder)
    assert lengths.tolist() == [[1, 2]]
    best = decoder.n_best(outputs, state)
    assert best.beams.tolist() == [[1, 0]]
    assert best.lengths.tolist() == [[2, 1]]
    assert best.predicted_ids.tolist() == [[[1, 0], [0, 0]]]
    assert best.scores[0].tolist() == pytest.approx([math.log(0.475) * 6 / 7, math.log(0.5)], abs=1e-6)


def test_lengths_are_those_of_the_sequences_however_they_moved():
    model = Tables.drawn(seed=11, rows=8, vocabulary=4, steps=3)
    outputs, _, lengths = dynamic_decode(model.decoder(4), maximum_iterations=3)
    ends = (outputs.predicted_ids == 0).int()
    expected = torch.where(ends.any(1), ends.argmax(1) + 1, 3)
    assert torch.equal(lengths, expected.int())
    assert len(set(lengths.flatten().tolist())) == 3


def test_more_beams_than_tokens():
    model = Tables.scripted([{(): [0.2, 0.5, 0.3]}], vocabulary=3, steps=2)
    decoder = model.decoder(5)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=1)
    assert outputs.predicted_ids[0, 0, :3].tolist() == [1, 2, 0]
    assert state.log_probs[0, 3:].tolist() == [-math.inf] * 2
    assert state.lengths[0].tolist() == [1, 1, 1, 0, 0]
    assert state.finished[0].tolist() == [False, False, True, True, True]
    best = decoder.n_best(outputs, state)
    assert best.scores[0, 3:].tolist() == [-math.inf] * 2
    assert best.predicted_ids[0].tolist() == [[1], [2], [0], [0], [0]]


def test_everything_ends_at_once():
    model = Tables.scripted([{}, {}], vocabulary=3, steps=2)
    decoder = model.decoder(1)
    outputs, state, lengths = dynamic_decode(decoder)
    assert outputs.predicted_ids.tolist() == [[[0]], [[0]]]
    assert lengths.tolist() == [[1], [1]]
    assert state.finished.all()
    assert decoder.n_best(outputs, state).scores.tolist() == [[pytest.approx(0, abs=1e-6)]] * 2


def test_no_steps_at_all():
    decoder = Tables.drawn(seed=0, rows=2).decoder(3)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=0)
    assert outputs.predicted_ids.shape == (2, 0, 3)
    assert lengths.tolist() == [[0] * 3] * 2
    assert decoder.n_best(outputs, state).scores.tolist() == [[0, -math.inf, -math.inf]] * 2


def test_time_major_outputs():
    model = Tables.drawn(seed=5, rows=2)
    decoder = model.decoder(3, length_penalty_weight=1.0)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=3)
    turned, turned_state, _ = dynamic_decode(decoder, output_time_major=True, maximum_iterations=3)
    assert torch.equal(turned.predicted_ids, outputs.predicted_ids.transpose(0, 1))
    one, other = decoder.n_best(outputs, state, 2), decoder.n_best(turned, turned_state, 2, output_time_major=True)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert one.predicted_ids.shape == (2, 2, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@torch.no_grad()
def test_log_probabilities_have_the_dtype_of_the_state_but_at_least_float32(dtype):
    cell, layer = GRUCell(4, input_size=3, dtype=dtype), nn.Linear(4, 5, dtype=dtype)
    state = tile_batch(cell.zero_state(2, dtype), 3)
    decoder = BeamSearchDecoder(cell, torch.randn(5, 3, dtype=dtype), [0, 0], 1, state, 3, layer)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=3)
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert state.log_probs.dtype == outputs.beam_search_decoder_output.scores.dtype == expected
    assert decoder.output_dtype == (expected, torch.int32, torch.int32)
    assert state.cell_state.dtype == dtype


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("ties", [False, True])
def test_a_search_on_a_gpu_finds_the_same(ties):
    model = Tables.drawn(seed=7, rows=3, vocabulary=4, ties=ties)
    on_gpu = Tables(model.logits.cuda(), model.steps, model.end_token)
    one, other = (each.decoder(5, length_penalty_weight=0.6) for each in (model, on_gpu))
    outputs, state, _ = dynamic_decode(one, maximum_iterations=3)
    moved, moved_state, _ = dynamic_decode(other, maximum_iterations=3)
    for expected, have in zip(one.n_best(outputs, state), other.n_best(moved, moved_state), strict=True):
        assert have.is_cuda
        torch.testing.assert_close(have.cpu(), expected, rtol=0, atol=EXACT)


@given(st.lists(st.sampled_from([-math.inf, -1e300, -2.0, -1.0, 0.0]), min_size=1, max_size=12), st.data())
def test_of_equal_candidates_the_first_are_taken(scores, data):
    count = data.draw(st.integers(1, len(scores)))
    expected = sorted(range(len(scores)), key=lambda index: -scores[index])[:count]
    rows = torch.tensor([scores, [0.0] * len(scores)], dtype=torch.float64)
    assert best_candidates(rows, count).tolist() == [expected, list(range(count))]


# -- attention -------------------------------------------------------------------------------------------------------


def attending(model, width, rows, mechanisms=1, history=False, **options):
    """A search of a table whose cell attends to three places, by token; the start token looks at the first."""
    looks = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25], [0.75, 0.0, 0.25]]).double()
    cell = Attending(model, looks, mechanisms=mechanisms)
    table = model.decoder(width).initialize()[2].cell_state.flatten(0, 1)
    return BeamSearchDecoder(
        cell,
        lambda ids: ids.unsqueeze(-1),
        torch.full((rows,), model.vocabulary),
        model.end_token,
        cell.start(table, rows * width, history),
        width,
        **options,
    )


def attended(decoder, tokens):
    """What a sequence has attended to in all."""
    return decoder.cell.looks[torch.tensor([decoder.cell.cell.vocabulary, *tokens[:-1]])].sum(0)


def coverage(looked):
    return sum(math.log(min(look, 1.0)) for look in looked.tolist() if look)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.sampled_from([0.0, 1.0]), st.integers(1, 6))
def test_the_coverage_of_a_sequence_is_in_its_score(seed, mechanisms, weight, width):
    model = Tables.drawn(seed, rows=2, steps=3)
    options = dict(length_penalty_weight=weight, coverage_penalty_weight=0.4)
    decoder = attending(model, width, 2, mechanisms, **options)
    outputs, state, _ = dynamic_decode(decoder, maximum_iterations=3)
    best = decoder.n_best(outputs, state)
    for row in range(2):
        for n, (sequence, score) in enumerate(found(best, row)):
            looked = attended(decoder, sequence)
            have = state.accumulated_attention_probs[row, best.beams[row, n]]
            torch.testing.assert_close(have, looked, rtol=0, atol=EXACT)
            plain = penalised(model.log_prob(row, sequence), len(sequence), weight)
            assert score == pytest.approx(plain + 0.4 * coverage(looked), abs=EXACT)


def test_coverage_counts_for_beams_that_were_finished_before_a_step():
    model = Tables.scripted([{(): [0.5, 0.5, 0], (1,): [0.1, 0.9, 0]}], vocabulary=3, steps=3)
    decoder = attending(model, 2, 1, coverage_penalty_weight=1.0)
    outputs, _, _ = dynamic_decode(decoder, maximum_iterations=2)
    scores = outputs.beam_search_decoder_output.scores[0]
    assert scores[0].exp().tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    # The one that ended has attended to [0.75, 0, 0.25]; what it left out entirely does not count.
    assert scores[1].tolist() == pytest.approx(
        [math.log(0.45), math.log(0.5) + math.log(0.75) + math.log(0.25)], abs=1e-6
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]), st.integers(1, 6))
def test_the_alignment_history_is_that_of_the_sequences(seed, weight, width):
    model = Tables.drawn(seed, rows=2, steps=3)
    decoder = attending(model, width, 2, history=True, length_penalty_weight=weight)
    outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=3)
    history = state.cell_state.alignment_history.unflatten(1, (2, width))
    for row, beam in itertools.product(range(2), range(width)):
        length = int(lengths[row, beam])
        tokens = [model.vocabulary, *outputs.predicted_ids[row, :, beam].tolist()][:length]
        assert torch.equal(history[:length, row, beam], decoder.cell.looks[torch.tensor(tokens, dtype=torch.long)])


def test_tensor_arrays_stay_as_they_are_if_told_so():
    model = Tables.drawn(seed=0, rows=2)
    decoder = attending(model, 2, 2, history=True, reorder_tensor_arrays=False)
    _, state, _ = dynamic_decode(decoder, maximum_iterations=3)
    assert state.cell_state.alignment_history.size() == 3
    assert state.cell_state.alignment_history.read(0).shape == (4, 3)
