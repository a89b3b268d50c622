"""Models for beam search whose every probability is known, and what a search of them must find."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool import RNNCell, TensorArray
from unspool.decode import BeamSearchDecoder, dynamic_decode, tile_batch

__all__ = ["Attending", "AttendingState", "Tables", "dynamic_decode", "penalised"]


def penalised(log_prob: float, length: int, weight: float) -> float:
    """The score of a sequence under the length penalty."""
    return log_prob / ((5 + length) / 6) ** weight


class Tables(RNNCell):
    """A model that is a table: `logits[row, prefix]` are those of the token after a prefix of fewer than `steps`.

    Prefixes are numbered as the nodes of a tree: the root is 0, the children of n are n V + 1 to n V + V. The state is
    the row and the prefix.
    """

    def __init__(self, logits: Tensor, steps: int, end_token: int) -> None:
        super().__init__()
        self.logits, self.steps, self.end_token = logits, steps, end_token
        self.rows, _, self.vocabulary = logits.shape
        self.state_size, self.output_size = 2, self.vocabulary
        self.table = torch.log_softmax(logits, -1).tolist()

    @classmethod
    def drawn(cls, seed, rows=1, vocabulary=3, steps=3, scale=1.0, ties=False, end_token=0):
        """Logits of a normal distribution, with `ties` rounded to halves."""
        prefixes = sum(vocabulary**time for time in range(steps))
        generator = torch.Generator().manual_seed(seed)
        logits = scale * torch.randn(rows, prefixes, vocabulary, generator=generator, dtype=torch.float64)
        return cls((2 * logits).round() / 2 if ties else logits, steps, end_token)

    @classmethod
    def scripted(cls, scripts: list[dict[tuple[int, ...], list[float]]], vocabulary, steps, end_token=0):
        """Probabilities after some prefixes of each row; after the others, the end."""
        prefixes = sum(vocabulary**time for time in range(steps))
        probs = torch.full((len(scripts), prefixes, vocabulary), 1e-9, dtype=torch.float64)
        probs[..., end_token] = 1.0
        for row, script in enumerate(scripts):
            for prefix, values in script.items():
                node = 0
                for token in prefix:
                    node = node * vocabulary + token + 1
                probs[row, node] = torch.tensor(values, dtype=torch.float64).clamp(min=1e-9)
        return cls(probs.log(), steps, end_token)

    def forward(self, inputs, state):
        (row, node), token = state.long().unbind(1), inputs[:, 0]
        node = torch.where(token == self.vocabulary, 0, node * self.vocabulary + token + 1)
        return self.logits[row, node], torch.stack([row, node], 1).to(state.dtype)

    def decoder(self, beam_width: int, rows: list[int] | None = None, **options: Any) -> BeamSearchDecoder:
        """A search of `rows`, all by default. The start token is one past the vocabulary."""
        rows = list(range(self.rows)) if rows is None else rows
        state = torch.stack([torch.tensor(rows), torch.zeros(len(rows), dtype=torch.long)], 1).to(self.logits)
        return BeamSearchDecoder(
            self,
            lambda ids: ids.unsqueeze(-1),
            torch.full((len(rows),), self.vocabulary),
            self.end_token,
            tile_batch(state, beam_width),
            beam_width,
            **options,
        )

    def log_prob(self, row: int, sequence: tuple[int, ...]) -> float:
        """The log-probability of a sequence, or of the start of one."""
        total, node = 0.0, 0
        for token in sequence:
            total += self.table[row][node][token]
            node = node * self.vocabulary + token + 1
        return total

    def sequences(self, row: int) -> dict[tuple[int, ...], float]:
        """All sequences that end within `steps`, or are cut off there, with their log-probabilities."""
        open_prefixes: list[tuple[int, ...]] = [()]
        found: dict[tuple[int, ...], float] = {}
        while open_prefixes:
            prefix = open_prefixes.pop()
            for token in range(self.vocabulary):
                sequence = (*prefix, token)
                if token == self.end_token or len(sequence) == self.steps:
                    found[sequence] = self.log_prob(row, sequence)
                else:
                    open_prefixes.append(sequence)
        return found


class AttendingState(NamedTuple):
    """What the state of an attention wrapper has."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any


class Attending(RNNCell):
    """A cell around a cell over tokens, whose attention is known: `looks[token]` are the alignments of a step."""

    def __init__(self, cell: RNNCell, looks: Tensor, embedding: Tensor | None = None, mechanisms: int = 1) -> None:
        super().__init__()
        self.cell, self.looks, self.embedding, self.mechanisms = cell, looks, embedding, mechanisms
        memory, self.output_size = looks.shape[-1], cell.output_size
        alignments = memory if mechanisms == 1 else (memory,) * mechanisms
        self.state_size = AttendingState(cell.state_size, memory, torch.Size([]), alignments, (), memory)

    def start(self, cell_state, rows: int, history: bool = False) -> AttendingState:
        nothing = self.looks.new_zeros(rows, self.looks.shape[-1])
        alignments = nothing if self.mechanisms == 1 else (nothing,) * self.mechanisms
        array = TensorArray(self.looks.dtype) if history else ()
        return AttendingState(cell_state, nothing, torch.zeros((), dtype=torch.int32), alignments, array, nothing)

    def forward(self, inputs, state):
        tokens = inputs[:, 0]
        output, cell_state = self.cell(inputs if self.embedding is None else self.embedding[tokens], state.cell_state)
        looks = self.looks[tokens]
        # Several mechanisms look in as many directions; their mean is `looks`.
        several = tuple(looks * 2 * (n + 1) / (self.mechanisms + 1) for n in range(self.mechanisms))
        alignments = looks if self.mechanisms == 1 else several
        history = state.alignment_history
        if isinstance(history, TensorArray):
            history = history.write(state.time, looks)
        return output, AttendingState(cell_state, looks, state.time + 1, alignments, history, looks)
