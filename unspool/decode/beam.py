"""Beam search: for each row, the K sequences that look best, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool.cells.rows_first import as_decoded_cell
from unspool.decode.beam_arguments import as_initial_state, as_weight, check_end_token, check_logits, check_start_tokens
from unspool.decode.beam_step import BeamSearchDecoderOutput, BeamSearchDecoderState, beam_search_step
from unspool.decode.decoder import Decoder
from unspool.decode.n_best import NBest, n_best
from unspool.decode.penalties import Penalties, attention_probs
from unspool.decode.tiling import as_count, merge_beams, split_beams
from unspool.decode.tokens import Embedding, as_token, as_tokens
from unspool.decode.trees import gather_tree, paths, reorder
from unspool.flags import checks_flags
from unspool.loops.arguments import begin
from unspool.step import checked_like, select_rows, step
from unspool.structure import Structure, describe, flatten, map_structure
from unspool.tensor_array import TensorArray


class FinalBeamSearchDecoderOutput(NamedTuple):
    """What a beam search has found.

    >>> ids, steps = torch.tensor([[[4], [1]]]), BeamSearchDecoderOutput(*[torch.zeros(1, 2, 1)] * 3)
    >>> FinalBeamSearchDecoderOutput(ids, steps).predicted_ids.shape
    torch.Size([1, 2, 1])
    """

    predicted_ids: Tensor
    """The tokens of each sequence, `[batch, time, beam]`, best first; past the end of a sequence, the end token."""
    beam_search_decoder_output: BeamSearchDecoderOutput
    """What the steps put out: scores, tokens and parents, each `[batch, time, beam]`."""


class BeamSearchDecoder(Decoder):
    """Searches, for each row of a batch, for the K most probable sequences.

    At each step every sequence of a row is continued by every token of the vocabulary, and the K continuations with the
    best scores are kept. A sequence that has ended stays as it is. The score of a sequence is

        log_prob / ((5 + length) / 6) ** length_penalty_weight + coverage_penalty_weight * coverage

    `n_best` gives the sequences with their scores. Which are kept is decided by TensorFlow's rule: at its own step an
    end token does not count in the length yet, and coverage counts once a sequence has ended.

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call.
        embedding: what turns tokens into inputs: a matrix `[tokens, depth]`, an `nn.Embedding`, or a function of token
            ids `[batch, beam]` that returns `[batch, beam, ...]`.
        start_tokens: the token each row starts from, `[batch]`.
        end_token: the token that ends a sequence.
        initial_state: the state the cell starts from, with a row for each beam: `tile_batch(state, beam_width)`.
        beam_width: how many sequences are kept for each row, K.
        output_layer: makes logits of the cell's output, such as an `nn.Linear`; without it the output is the logits.
        length_penalty_weight: 0.0 for plain log-probabilities; more favours longer sequences.
        coverage_penalty_weight: more favours sequences that have attended to all of the memory; the cell must be an
            `AttentionWrapper`.
        reorder_tensor_arrays: whether what `TensorArray`s in the final state hold, such as the alignment history, is
            put in the order of the sequences and stacked, `[time, batch * beam, ...]`.

    Raises:
        TypeError: if `cell` is no cell, or an argument is not what it should be.
        ValueError: if `beam_width` is below 1, a token is outside the vocabulary, the initial state is not tiled, or
            there is a coverage penalty without attention.

    >>> from unspool import GRUCell
    >>> from unspool.decode import BeamSearchDecoder, tile_batch
    >>> cell = GRUCell(4)
    >>> decoder = BeamSearchDecoder(
    ...     cell,
    ...     embedding=torch.nn.Embedding(6, 3),
    ...     start_tokens=torch.tensor([0, 0]),
    ...     end_token=1,
    ...     initial_state=tile_batch(cell.zero_state(2, torch.float32), 3),
    ...     beam_width=3,
    ...     output_layer=torch.nn.Linear(4, 6),
    ... )
    >>> finished, inputs, state = decoder.initialize()
    >>> outputs, state, inputs, finished = decoder.step(0, inputs, state)
    >>> outputs.predicted_ids.shape, state.lengths.tolist()
    (torch.Size([2, 3]), [[1, 1, 1], [1, 1, 1]])
    """

    @checks_flags
    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Structure,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        cell = as_decoded_cell("cell", cell)
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a layer, but is {output_layer!r}")
        self.cell, self.output_layer = cell, output_layer
        self.beam_width = as_count(beam_width, "beam_width")
        tokens = as_tokens(start_tokens, "start_tokens").long()
        self.end_token = as_token(end_token, "end_token")
        self.penalties = Penalties(
            as_weight(length_penalty_weight, "length_penalty_weight"),
            as_weight(coverage_penalty_weight, "coverage_penalty_weight"),
        )
        self.reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding = Embedding(embedding)
        check_end_token(self.end_token, output_layer, cell, self._embedding)
        check_logits(output_layer, cell, self._embedding.rows)
        check_start_tokens(tokens, self._embedding)
        self._state = as_initial_state(cell, initial_state, len(tokens), self.beam_width)
        if self.penalties.coverage_weight and attention_probs(self._state) is None:
            raise ValueError(
                f"coverage_penalty_weight is {self.penalties.coverage_weight}, but initial_state is "
                f"{describe(self._state)} without attention: give the state of an AttentionWrapper, or a weight of 0.0"
            )
        leaves = [leaf for leaf in flatten(self._state) if isinstance(leaf, Tensor)]
        self._start_tokens = tokens.to(leaves[0].device if leaves else tokens.device)
        # Sums of many log-probabilities need more digits than half precision has.
        floating = [leaf.dtype for leaf in leaves if leaf.is_floating_point()]
        self._dtype = torch.promote_types(floating[0], torch.float32) if floating else torch.get_default_dtype()

    @property
    def batch_size(self) -> int:
        """How many rows there are, not counting beams."""
        return len(self._start_tokens)

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """Each output has a value for each beam."""
        sizes: Any = [self.beam_width] * 3
        return BeamSearchDecoderOutput(*sizes)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """The dtype of the state, float32 at least, for scores; int32 for tokens and parents."""
        dtypes: Any = (self._dtype, torch.int32, torch.int32)
        return BeamSearchDecoderOutput(*dtypes)

    @property
    def tracks_own_finished(self) -> bool:
        """Beams change places at every step, and `finished` with them."""
        return True

    def initialize(self) -> tuple[Tensor, Structure, BeamSearchDecoderState]:
        """Which beams are finished, the first inputs and the first state.

        All beams of a row are alike at first, so the first alone is searched from: the others are finished, and their
        probability is 0.
        """
        tokens = self._start_tokens.unsqueeze(1).expand(-1, self.beam_width)
        inputs = self._inputs(tokens)
        begin(self.cell, map_structure(merge_beams, inputs), self._state)
        finished = torch.arange(self.beam_width, device=tokens.device).expand_as(tokens) > 0
        attended: Structure = ()
        if self.penalties.coverage_weight:
            probs: Any = attention_probs(self._state)
            attended = split_beams(probs, self.beam_width).to(self._dtype)
        state = BeamSearchDecoderState(
            cell_state=map_structure(self._split, self._state),
            log_probs=torch.zeros(tokens.shape, dtype=self._dtype, device=tokens.device).masked_fill(
                finished, float("-inf")
            ),
            finished=finished,
            lengths=torch.zeros_like(tokens),
            accumulated_attention_probs=attended,
        )
        return finished, inputs, state

    def step(
        self, time: int, inputs: Structure, state: BeamSearchDecoderState
    ) -> tuple[BeamSearchDecoderOutput, BeamSearchDecoderState, Structure, Tensor]:
        """One step of the search. The state of a beam that is finished stays as it is."""
        before, running = map_structure(merge_beams, state.cell_state), ~state.finished.flatten()
        output, after = step(self.cell, map_structure(merge_beams, inputs), before)
        after = checked_like(before, after, "the cell's new state", "its state")
        after = map_structure(lambda new, old: self._split(select_rows(running, new, old)), after, before)
        logits = self._logits(output)
        outputs, next_state = beam_search_step(logits, after, state, self.end_token, self.penalties)
        return outputs, next_state, self._inputs(outputs.predicted_ids.long()), next_state.finished

    def finalize(
        self, outputs: BeamSearchDecoderOutput, final_state: BeamSearchDecoderState, sequence_lengths: Tensor
    ) -> tuple[FinalBeamSearchDecoderOutput, BeamSearchDecoderState]:
        """The sequences, in the order of the beams of the final state."""
        parents = outputs.parent_ids
        # TensorFlow walks back from the longest length of a row, but its beams may have changed places since: the step
        # after the last of them ended scored its length anew. From the last step, ids and final state agree.
        whole = torch.full(parents.shape[1:2], len(parents), device=parents.device)
        ids = gather_tree(outputs.predicted_ids, parents, whole, self.end_token)
        # A beam that is there only because a row has fewer sequences than beams has no tokens.
        times = torch.arange(len(parents), device=parents.device).reshape(-1, 1, 1)
        ids = ids.masked_fill(times >= final_state.lengths, self.end_token)
        arrays = [leaf for leaf in flatten(final_state.cell_state) if isinstance(leaf, TensorArray)]
        if self.reorder_tensor_arrays and arrays and len(parents):
            # A step writes before its beams are chosen, in the places of their parents. (TensorFlow reads the places of
            # the beams themselves, where another sequence may have written.)
            path = parents.long().gather(2, paths(parents, whole))
            cell_state = map_structure(lambda leaf: _reordered(leaf, path, final_state.lengths), final_state.cell_state)
            final_state = final_state._replace(cell_state=cell_state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def sequence_lengths(self, final_state: BeamSearchDecoderState) -> Tensor:
        """The lengths of the sequences, end tokens included, `[batch, beam]`, int32."""
        return final_state.lengths.int()

    @checks_flags
    def n_best(
        self,
        final_outputs: FinalBeamSearchDecoderOutput,
        final_state: BeamSearchDecoderState,
        count: int | None = None,
        output_time_major: bool = False,
    ) -> NBest:
        """The best sequences of each row with their scores, best first.

        The scores are those of the whole sequences, with end tokens counted in their lengths and coverage for all,
        ended or cut off. They decide the order, which may differ from that of the beams.

        Args:
            final_outputs: the outputs of `dynamic_decode`.
            final_state: its final state.
            count: how many sequences of each row; by default all, `beam_width`.
            output_time_major: whether `dynamic_decode` was told so.
        """
        count = self.beam_width if count is None else as_count(count, "count")
        if count > self.beam_width:
            raise ValueError(f"count is {count}, but only the {self.beam_width} best sequences were kept")
        ids = final_outputs.predicted_ids
        ids = ids if output_time_major else ids.transpose(0, 1)
        if ids.shape[1:] != final_state.lengths.shape:
            have, expected = list(ids.shape[1:]), list(final_state.lengths.shape)
            raise ValueError(
                f"predicted_ids are for {have} rows and beams, but the final state is for {expected}: "
                "output_time_major must be what dynamic_decode was told"
            )
        return n_best(ids, final_state, count, self.end_token, self.penalties)

    def _split(self, leaf: Any) -> Any:
        return split_beams(leaf, self.beam_width)

    def _inputs(self, tokens: Tensor) -> Structure:
        inputs = self._embedding(tokens)
        for leaf in flatten(inputs):
            if not isinstance(leaf, Tensor) or leaf.shape[:2] != tokens.shape:
                have = list(leaf.shape) if isinstance(leaf, Tensor) else repr(leaf)
                raise ValueError(f"embedding returned {have} for ids {list(tokens.shape)}: expected [batch, beam, ...]")
        return inputs

    def _logits(self, output: Structure) -> Tensor:
        """`[batch, beam, vocabulary]` from what the cell put out."""
        logits = output if self.output_layer is None else self.output_layer(output)
        rows = self.batch_size * self.beam_width
        if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != rows:
            source = "the cell" if self.output_layer is None else "output_layer"
            have = f"shape {list(logits.shape)}" if isinstance(logits, Tensor) else describe(logits)
            raise ValueError(f"{source} must put out logits [{rows}, vocabulary], but put out {have}")
        if logits.shape[1] <= self.end_token:
            raise ValueError(f"end_token is {self.end_token}, but the logits are for {logits.shape[1]} tokens")
        self._embedding.check_logits(logits.shape[1])  # which only a step shows of a function in the place of a layer
        return split_beams(logits, self.beam_width)


def _reordered(leaf: Any, path: Tensor, lengths: Tensor) -> Any:
    if not isinstance(leaf, TensorArray):
        return leaf
    try:
        return reorder(leaf.stack(), path, lengths)
    except ValueError as error:
        raise ValueError(
            f"a TensorArray of the final state: {error}; reorder_tensor_arrays=False leaves it be"
        ) from error
