"""Cells, loops and losses in NumPy, as a textbook writes them.

A cell is a function `step(x, state) -> (output, state)`; a state is an array, or a tuple of states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .program import Arrays

Step = Callable[[np.ndarray, Any], tuple[np.ndarray, Any]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log softmax at the labels, which are integers."""
    return -np.log(np.take_along_axis(softmax(logits), labels[..., None], -1)[..., 0])


def one_hot(labels: np.ndarray, depth: int) -> np.ndarray:
    return np.eye(depth)[labels]


def accuracy(logits: np.ndarray, labels: np.ndarray) -> np.floating[Any]:
    return np.mean(logits.argmax(-1) == labels)


def dense(variables: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    return x @ variables[f"{name}/kernel"] + variables[f"{name}/bias"]


# -- cells -----------------------------------------------------------------------------------------------------------


def basic_rnn(variables: Arrays, name: str, activation: Callable[[np.ndarray], np.ndarray] = np.tanh) -> Step:
    def step(x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = activation(dense(variables, name, np.concatenate([x, h], 1)))
        return h, h

    return step


def lstm(variables: Arrays, name: str, forget_bias: float = 1.0) -> Step:
    def step(x: np.ndarray, state: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, Any]:
        c, h = state
        i, j, f, o = np.split(dense(variables, name, np.concatenate([x, h], 1)), 4, 1)
        c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(o) * np.tanh(c)
        return h, (c, h)

    return step


def gru(variables: Arrays, name: str) -> Step:
    def step(x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r, u = np.split(sigmoid(dense(variables, f"{name}/gates", np.concatenate([x, h], 1))), 2, 1)
        candidate = np.tanh(dense(variables, f"{name}/candidate", np.concatenate([x, r * h], 1)))
        h = u * h + (1 - u) * candidate
        return h, h

    return step


def stacked(*steps: Step) -> Step:
    def step(x: np.ndarray, states: tuple[Any, ...]) -> tuple[np.ndarray, tuple[Any, ...]]:
        finals = []
        for layer, state in zip(steps, states, strict=True):
            x, state = layer(x, state)
            finals.append(state)
        return x, tuple(finals)

    return step


# -- loops -----------------------------------------------------------------------------------------------------------


def unroll(step: Step, inputs: np.ndarray, state: Any, lengths: np.ndarray | None = None) -> tuple[np.ndarray, Any]:
    """Runs a cell over `inputs[batch, time, ...]`; past its length a row gives zeros and keeps its state."""
    outputs = []
    for t in range(inputs.shape[1]):
        output, new_state = step(inputs[:, t], state)
        if lengths is not None:
            running = (t < lengths)[:, None]
            output, new_state = np.where(running, output, 0), keep(running, new_state, state)
        outputs.append(output)
        state = new_state
    return np.stack(outputs, 1), state


def keep(running: np.ndarray, new: Any, old: Any) -> Any:
    """The new state of the rows that are running, the old one of the others."""
    if isinstance(new, tuple):
        return tuple(keep(running, *pair) for pair in zip(new, old, strict=True))
    return np.where(running, new, old)


def reverse(inputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Each row's first `length` steps in reverse, the others where they are."""
    reversed_inputs = inputs.copy()
    for row, length in enumerate(lengths):
        reversed_inputs[row, :length] = inputs[row, :length][::-1]
    return reversed_inputs


def zeros(batch: int, *sizes: int) -> Any:
    """Zero states: one array for one size, a tuple for several."""
    states = tuple(np.zeros((batch, size)) for size in sizes)
    return states if len(sizes) > 1 else states[0]
