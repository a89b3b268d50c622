"""Cells with a memory against their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.gallery.cases import (
    Case,
    Weights,
    arguments_are_checked,
    each_of,
    normal,
    sigmoid,
    sizes_are_checked,
    softmax,
    softplus,
    vectors,
)
from unspool.gallery.memory import BahdanauDecoderCell, DNCCell, FastWeightsCell, NTMCell

SLOTS, WIDTH = 4, 3


def lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    i, j, f, o = np.split(np.concatenate([x, h]) @ w["controller.kernel"] + w["controller.bias"], 4)
    c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), (c, sigmoid(o) * np.tanh(c))


def alike(key: Any, strength: Any, memory: Any) -> Any:
    lengths = np.sqrt(np.square(memory).sum(1) + 1e-8)
    return softmax(strength * (memory @ key) / lengths / np.sqrt(np.square(key).sum() + 1e-8))


def ntm(w: Weights, x: Any, state: Any) -> Any:
    controller, reads, weights, memory = state
    h, controller = lstm(w, np.concatenate([x, reads]), controller)
    interface = w["interface.weight"] @ h + w["interface.bias"]
    new = []
    for head, before in zip(np.split(interface[: 3 * (WIDTH + 6)], 3), weights, strict=True):
        key, strength, gate, shift, sharp = np.split(head, [WIDTH, WIDTH + 1, WIDTH + 2, WIDTH + 5])
        place = sigmoid(gate) * alike(key, softplus(strength), memory) + (1 - sigmoid(gate)) * before
        # what was at slot i + 1 comes to i by the first of the shifts, what was at i - 1 by the last
        place = sum(amount * np.roll(place, by) for amount, by in zip(softmax(shift), (-1, 0, 1), strict=True))
        place = (place + 1e-12) ** (1 + softplus(sharp))
        new.append(place / place.sum())
    erase, add = np.split(interface[3 * (WIDTH + 6) :], 2)
    memory = memory * (1 - np.outer(new[0], sigmoid(erase))) + np.outer(new[0], add)
    reads = np.concatenate([place @ memory for place in new[1:]])
    output = w["readout.weight"] @ np.concatenate([h, reads]) + w["readout.bias"]
    return output, (controller, reads, np.array(new), memory)


def dnc(w: Weights, x: Any, state: Any) -> Any:
    controller, reads, memory, usage, precedence, link, written, read = state
    h, controller = lstm(w, np.concatenate([x, reads]), controller)
    heads = (w["of_reading.weight"] @ h + w["of_reading.bias"]).reshape(2, WIDTH + 5)
    writing = w["of_writing.weight"] @ h + w["of_writing.bias"]
    key, erase, vector, (strength, allocate, write) = np.split(writing, [WIDTH, 2 * WIDTH, 3 * WIDTH])

    usage = usage + written - usage * written
    for head, place in zip(heads, read, strict=True):
        usage = usage * (1 - sigmoid(head[WIDTH + 1]) * place)
    allocation, product, held = np.zeros(SLOTS), 1.0, 1e-6 + (1 - 1e-6) * usage
    for slot in np.argsort(held, kind="stable"):
        allocation[slot] = (1 - held[slot]) * product
        product *= held[slot]
    chosen = sigmoid(allocate)
    found = alike(key, 1 + softplus(strength), memory)
    written = sigmoid(write) * (chosen * allocation + (1 - chosen) * found)
    memory = memory * (1 - np.outer(written, sigmoid(erase))) + np.outer(written, vector)
    new_link = np.zeros((SLOTS, SLOTS))
    for i in range(SLOTS):
        for j in range(SLOTS):
            if i != j:
                new_link[i, j] = (1 - written[i] - written[j]) * link[i, j] + written[i] * precedence[j]
    precedence = (1 - written.sum()) * precedence + written
    places = []
    for head, place in zip(heads, read, strict=True):
        backward, same, onward = softmax(head[WIDTH + 2 :])
        found = alike(head[:WIDTH], 1 + softplus(head[WIDTH]), memory)
        places.append(backward * new_link.T @ place + same * found + onward * new_link @ place)
    reads = np.concatenate([place @ memory for place in places])
    output = w["readout.weight"] @ np.concatenate([h, reads]) + w["readout.bias"]
    return output, (controller, reads, memory, usage, precedence, new_link, written, np.array(places))


def fast_weights(w: Weights, x: Any, state: Any) -> Any:
    h, fast = state
    fast = 0.9 * fast + 0.4 * np.outer(h, h)
    start = w["of_x.weight"] @ x + w["of_x.bias"] + w["of_h.weight"] @ h
    h = np.maximum(start, 0)
    for _ in range(2):
        a = start + fast @ h
        a = (a - a.mean()) / np.sqrt(a.var() + 1e-5)
        h = np.maximum(a * w["norm.weight"] + w["norm.bias"], 0)
    return h, (h, fast)


def bahdanau(w: Weights, inputs: Any, s: Any) -> Any:
    (x, memory), old = inputs, s
    energies = [
        w["energy.weight"][0] @ np.tanh(w["of_query.weight"] @ s + w["of_memory.weight"] @ place) for place in memory
    ]
    seen = np.concatenate([x, softmax(np.array(energies)) @ memory])
    z, r, c = np.split(w["of_x.weight"] @ seen + w["of_x.bias"], 3)
    uz, ur = np.split(w["of_s.weight"] @ s, 2)
    z, r = sigmoid(z + uz), sigmoid(r + ur)
    s = (1 - z) * s + z * np.tanh(c + w["of_reset.weight"] @ (r * s))
    linear = w["readout.weight"] @ np.concatenate([old, seen]) + w["readout.bias"]
    return linear.reshape(2, -1).max(0), s


def sentences(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    return normal(batch, steps, 3), normal(batch, 1, 6, 5).expand(-1, steps, -1, -1)


AT_FIRST = np.eye(SLOTS)[[0, 0, 0]]
START = ((np.zeros(4), np.zeros(4)), np.zeros(2 * WIDTH), AT_FIRST, np.full((SLOTS, WIDTH), 1e-6))
CASES = {
    "ntm": Case(lambda: NTMCell(3, 4, slots=SLOTS, width=WIDTH, read_heads=2, output_size=5), vectors(3), ntm, START),
    "dnc": Case(lambda: DNCCell(3, 4, slots=SLOTS, width=WIDTH, read_heads=2, output_size=5), vectors(3), dnc),
    "fast_weights": Case(lambda: FastWeightsCell(3, 4, steps=2, decay=0.9, rate=0.4), vectors(3), fast_weights),
    "bahdanau": Case(lambda: BahdanauDecoderCell(3, 4, memory_size=5, attention_size=6), sentences, bahdanau),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_weights_of_a_computer_stay_weights() -> None:
    """As the paper says of them: none is negative, and those of a head sum up to one at most."""
    cell = DNCCell(3, 4, slots=SLOTS, width=WIDTH, read_heads=2)
    state: Any = cell.zero_state(2, torch.float32)
    for _ in range(20):
        _, state = cell(3 * torch.randn(2, 3), state)
    for weights in (state.written, state.read, state.precedence, state.link):
        assert weights.min() >= 0
        assert weights.sum(-1).max() <= 1 + 1e-5
    assert 0 <= state.usage.min() <= state.usage.max() <= 1


test_arguments_are_checked = arguments_are_checked(
    [
        *[
            (lambda kind=kind, name=name: kind(3, 4, **{name: 0}), f"{name} must be positive, but is 0")
            for kind in (NTMCell, DNCCell)
            for name in ("slots", "width", "read_heads", "output_size")
        ],
        (lambda: FastWeightsCell(3, 4, steps=0), "steps must be positive, but is 0"),
        (lambda: FastWeightsCell(3, 4, decay=2), "decay must be from 0 to 1, but is 2"),
        (lambda: FastWeightsCell(3, 4, rate=0), "rate must be greater than 0, but is 0"),
        (lambda: BahdanauDecoderCell(3, 4, memory_size=0), "memory_size must be positive, but is 0"),
        (
            lambda: BahdanauDecoderCell(3, 4, memory_size=5, attention_size=0),
            "attention_size must be positive, but is 0",
        ),
        (lambda: BahdanauDecoderCell(0, 4, memory_size=5), "input_size must be positive, but is 0"),
        (lambda: BahdanauDecoderCell(3, 0, memory_size=5), "num_units must be positive, but is 0"),
    ]
)


test_sizes_are_checked = sizes_are_checked([NTMCell, DNCCell, FastWeightsCell])
