"""Attention by its equations, row by row and place by place: what the vectorised mechanisms are compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.decode import BahdanauAttention
from unspool.decode.attention.monotonic import MonotonicAttention
from unspool.structure import flatten, map_structure


def look(mechanism: Any, query: Tensor, memory: Tensor, length: int, previous: Tensor) -> Tensor:
    """The alignments of one row: `query [depth]`, `memory [places, depth]`, `previous [places]`."""
    scores = [score(mechanism, query, memory[place]) for place in range(length)]
    if isinstance(mechanism, MonotonicAttention):
        found = _move(mechanism, [each + mechanism.attention_score_bias for each in scores], previous)
    else:
        exponentials = [each.exp() for each in scores]
        found = [each / sum(exponentials) for each in exponentials]
    return torch.stack([*found, *[memory.new_zeros(())] * (len(memory) - length)])


def score(mechanism: Any, query: Tensor, place: Tensor) -> Tensor:
    """How well one place of the memory fits."""
    key = mechanism.memory_layer.kernel.T @ place
    if not isinstance(mechanism, BahdanauAttention):
        product = torch.dot(key, query)
        return mechanism.attention_g * product if mechanism.scale else product
    asked = key + mechanism.query_layer.kernel.T @ query
    direction = mechanism.attention_v
    if mechanism.normalize:
        asked = asked + mechanism.attention_b
        direction = mechanism.attention_g * direction / torch.linalg.vector_norm(direction)
    return torch.dot(direction, torch.tanh(asked))


def _move(mechanism: Any, scores: list[Tensor], previous: Tensor) -> list[Tensor]:
    """Where a monotonic attention stops, by walking on from each place that it may have been at."""
    if mechanism.mode == "hard":
        return _jump([(each > 0).to(each.dtype) for each in scores], previous)
    chosen = [torch.sigmoid(each) for each in scores]
    found = [previous.new_zeros(()) for _ in chosen]
    for start in range(len(chosen)):
        walking = previous[start]
        for place in range(start, len(chosen)):
            found[place] = found[place] + walking * chosen[place]
            walking = walking * (1 - chosen[place])
    return found


def _jump(chosen: list[Tensor], previous: Tensor) -> list[Tensor]:
    """The first place that is chosen, of those from where the attention was; its gradients are those of products."""
    reached, free = previous.new_zeros(()), previous.new_ones(())
    found: list[Tensor] = []
    for place, choice in enumerate(chosen):
        reached = reached + previous[place]
        found.append(choice * reached * free)
        free = free * (1 - choice * reached)
    return found


def run(wrapper: Any, inputs: Tensor, steps: list[int], memories: list[tuple[Tensor, list[int]]]) -> tuple[Any, Any]:
    """Runs an `AttentionWrapper` over batch-major `inputs`, one row and one step at a time.

    Returns the outputs, zero past each row's end, and for every row the cell state, attention and alignments at its
    end.
    """
    mechanisms = list(wrapper.attention_mechanisms)
    layers = list(wrapper.attention_layers) or [None] * len(mechanisms)
    start = wrapper.zero_state(len(inputs), inputs.dtype)
    alignments0 = start.alignments if isinstance(start.alignments, tuple) else (start.alignments,)
    outputs: list[Tensor] = []
    ends: list[Any] = []
    for row in range(len(inputs)):
        cell_state = map_structure(lambda leaf, row=row: leaf[row : row + 1], start.cell_state)
        attention = start.attention[row]
        alignments = [each[row] for each in alignments0]
        emitted: list[Tensor] = []
        for time in range(steps[row]):
            output, cell_state = wrapper.cell(torch.cat([inputs[row, time], attention])[None], cell_state)
            output = output[0]
            found: list[Tensor] = []
            for k, (mechanism, layer) in enumerate(zip(mechanisms, layers, strict=True)):
                memory, lengths = memories[k]
                alignments[k] = look(mechanism, output, memory[row], lengths[row], alignments[k])
                context = sum(alignments[k][place] * memory[row, place] for place in range(lengths[row]))
                found.append(context if layer is None else layer(torch.cat([output, context])))
            attention = torch.cat(found)
            emitted.append(attention if wrapper.output_attention else output)
        nothing = inputs.new_zeros(wrapper.output_size)
        outputs.append(torch.stack([*emitted, *[nothing] * (inputs.shape[1] - steps[row])]))
        ends.append((*flatten(cell_state), attention[None], *(each[None] for each in alignments)))
    return torch.stack(outputs), [torch.cat(column) for column in zip(*ends, strict=True)]
