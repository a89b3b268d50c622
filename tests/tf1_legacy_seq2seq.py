"""The models of `tf.contrib.legacy_seq2seq` in float64, and again in NumPy by the names of TensorFlow 1.15.

A variable that has another name, or stands elsewhere, is not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unspool import tf1 as tf

Arrays = dict[str, np.ndarray]
legacy = tf.contrib.legacy_seq2seq

ROWS, READ, WRITTEN, UNITS, SYMBOLS, ANSWERS, SIZE = 3, 4, 3, 5, 7, 6, 4


@dataclass(frozen=True)
class Model:
    """`build()` makes the outputs of a list of steps and a state, `by_hand(variables)` the same with NumPy."""

    build: Callable[[], tuple[list[Any], Any]]
    by_hand: Callable[[Arrays], tuple[list[np.ndarray], np.ndarray]]


def vectors(count: int, seed: int) -> list[np.ndarray]:
    """Steps of numbers."""
    return list(np.random.default_rng(seed).normal(size=(count, ROWS, SIZE)))


def symbols(count: int, below: int, seed: int) -> list[np.ndarray]:
    """Steps of symbols."""
    return list(np.random.default_rng(seed).integers(0, below, (count, ROWS)))


def cell() -> Any:
    """The cell of every model."""
    return tf.nn.rnn_cell.BasicRNNCell(UNITS)


def step(variables: Arrays, scope: str, inputs: np.ndarray, state: np.ndarray) -> np.ndarray:
    """One step of it."""
    kernel, bias = (variables[f"{scope}/basic_rnn_cell/{each}"] for each in ("kernel", "bias"))
    return np.tanh(np.concatenate([inputs, state], 1) @ kernel + bias)


def linear(variables: Arrays, scope: str, *parts: np.ndarray) -> np.ndarray:
    """A dense layer."""
    return np.concatenate(parts, 1) @ variables[f"{scope}/kernel"] + variables[f"{scope}/bias"]


def encode(variables: Arrays, scope: str, steps: list[np.ndarray]) -> list[np.ndarray]:
    """The states after each step."""
    state, states = np.zeros([ROWS, UNITS]), []
    for inputs in steps:
        state = step(variables, scope, inputs, state)
        states.append(state)
    return states


def decode(
    steps: list[np.ndarray], state: np.ndarray, turn: Callable[..., Any], following: Any = None
) -> tuple[list[np.ndarray], np.ndarray]:
    """`turn(inputs, state)` makes an output and a state; `following(output)` the next inputs."""
    outputs: list[np.ndarray] = []
    for number, given in enumerate(steps):
        inputs = following(outputs[-1]) if number and following else given
        output, state = turn(inputs, state)
        outputs.append(output)
    return outputs, state


X, Y = vectors(READ, 1), vectors(WRITTEN, 2)
IDS, ANSWER_IDS = symbols(READ, SYMBOLS, 3), symbols(WRITTEN, ANSWERS, 4)
START = np.random.default_rng(5).normal(size=(ROWS, UNITS))
MEMORY = np.random.default_rng(6).normal(size=(ROWS, READ, 2))
BACK = np.random.default_rng(7).normal(size=(UNITS, SIZE))
PROJECTION = np.random.default_rng(8).normal(size=(UNITS, ANSWERS)), np.random.default_rng(9).normal(size=ANSWERS)

MODELS: dict[str, Model] = {}


def _plain(variables: Arrays, scope: str) -> Callable[..., Any]:
    def turn(inputs: np.ndarray, state: np.ndarray) -> Any:
        state = step(variables, scope, inputs, state)
        return state, state

    return turn


def _projected(variables: Arrays, scope: str) -> Callable[..., Any]:
    def turn(inputs: np.ndarray, state: np.ndarray) -> Any:
        state = step(variables, f"{scope}/output_projection_wrapper", inputs, state)
        return linear(variables, f"{scope}/output_projection_wrapper", state), state

    return turn


# -- vectors ---------------------------------------------------------------------------------------------------------

MODELS["rnn_decoder"] = Model(
    lambda: legacy.rnn_decoder(Y, tf.constant(START), cell()),
    lambda v: decode(Y, START, _plain(v, "rnn_decoder")),
)
MODELS["rnn_decoder with a loop_function"] = Model(
    lambda: legacy.rnn_decoder(Y, tf.constant(START), cell(), lambda output, i: tf.matmul(output, BACK) / i, "mine"),
    lambda v: _counted(Y, START, _plain(v, "mine")),
)
MODELS["basic_rnn_seq2seq"] = Model(
    lambda: legacy.basic_rnn_seq2seq(X, Y, cell(), tf.float64),
    lambda v: decode(Y, encode(v, "basic_rnn_seq2seq/rnn", X)[-1], _plain(v, "basic_rnn_seq2seq/rnn_decoder")),
)
TIED = "combined_tied_rnn_seq2seq/tied_rnn_seq2seq"
MODELS["tied_rnn_seq2seq"] = Model(
    lambda: legacy.tied_rnn_seq2seq(X, Y, cell(), dtype=tf.float64),
    lambda v: decode(Y, encode(v, TIED, X)[-1], _plain(v, TIED)),
)
MODELS["tied_rnn_seq2seq with a loop_function"] = Model(
    lambda: legacy.tied_rnn_seq2seq(X, Y, cell(), lambda output, i: tf.matmul(output, BACK), tf.float64, "mine"),
    lambda v: decode(
        Y,
        encode(v, "combined_tied_rnn_seq2seq/mine", X)[-1],
        _plain(v, "combined_tied_rnn_seq2seq/mine"),
        lambda output: output @ BACK,
    ),
)


def _counted(steps: list[np.ndarray], state: np.ndarray, turn: Callable[..., Any]) -> Any:
    count = iter(range(1, len(steps)))
    return decode(steps, state, turn, lambda output: output @ BACK / next(count))


# -- symbols ---------------------------------------------------------------------------------------------------------


def _embedded(variables: Arrays, scope: str, ids: list[np.ndarray]) -> list[np.ndarray]:
    return [variables[f"{scope}/embedding"][each] for each in ids]


def _best(variables: Arrays, scope: str, projection: Any = None) -> Callable[[np.ndarray], np.ndarray]:
    def following(output: np.ndarray) -> np.ndarray:
        logits = output if projection is None else output @ projection[0] + projection[1]
        return variables[f"{scope}/embedding"][logits.argmax(1)]

    return following


def _embedding_rnn(variables: Arrays, fed: bool, scope: str, projection: Any, count: int = WRITTEN) -> Any:
    wrapper, below = f"{scope}/rnn/embedding_wrapper", f"{scope}/embedding_rnn_decoder"
    state = encode(variables, wrapper, _embedded(variables, wrapper, IDS))[-1]
    turn = (_plain if projection else _projected)(variables, f"{below}/rnn_decoder")
    steps = _embedded(variables, below, ANSWER_IDS[:count])
    return decode(steps, state, turn, _best(variables, below, projection) if fed else None)


def _as_tensor(fed: bool, sort: str) -> Any:
    return fed if sort == "bool" else tf.placeholder_with_default(tf.constant(fed), [])


for _fed in (False, True):
    for _sort in ("bool", "tensor"):
        for _output_projection in (None, PROJECTION):
            _how = f"feed_previous={_fed} {_sort}" + (" projected" if _output_projection else "")
            _sides = (IDS, ANSWER_IDS)
            MODELS[f"embedding_rnn_seq2seq {_how}"] = Model(
                lambda f=_fed, s=_sort, p=_output_projection: legacy.embedding_rnn_seq2seq(
                    IDS, ANSWER_IDS, cell(), SYMBOLS, ANSWERS, SIZE, p, _as_tensor(f, s), tf.float64
                ),
                lambda v, f=_fed, p=_output_projection: _embedding_rnn(v, f, "embedding_rnn_seq2seq", p),
            )
            MODELS[f"embedding_attention_seq2seq {_how}"] = Model(
                lambda f=_fed, s=_sort, p=_output_projection: legacy.embedding_attention_seq2seq(
                    IDS, ANSWER_IDS, cell(), SYMBOLS, ANSWERS, SIZE, 2, p, _as_tensor(f, s), tf.float64
                ),
                lambda v, f=_fed, p=_output_projection: _attention_seq2seq(v, f, p),
            )
        MODELS[f"embedding_tied_rnn_seq2seq feed_previous={_fed} {_sort}"] = Model(
            lambda f=_fed, s=_sort: legacy.embedding_tied_rnn_seq2seq(
                IDS, ANSWER_IDS, cell(), SYMBOLS, SIZE, feed_previous=_as_tensor(f, s), dtype=tf.float64
            ),
            lambda v, f=_fed: _embedding_tied(v, f),
        )


def _embedding_tied(variables: Arrays, fed: bool) -> Any:
    scope = "embedding_tied_rnn_seq2seq"
    below = f"{scope}/{TIED}"
    wrapper = f"{below}/output_projection_wrapper"
    state = encode(variables, wrapper, _embedded(variables, scope, IDS))[-1]
    steps = _embedded(variables, scope, ANSWER_IDS)
    return decode(steps, state, _projected(variables, below), _best(variables, scope) if fed else None)


# -- attention -------------------------------------------------------------------------------------------------------


def _attending(variables: Arrays, scope: str, memory: np.ndarray, heads: int, inner: Any) -> Any:
    """What attends for a state, and a turn that carries both."""

    def attend(state: np.ndarray) -> list[np.ndarray]:
        found = []
        for head in range(heads):
            asked = linear(variables, f"{scope}/Attention_{head}", state)
            hidden = np.tanh(memory @ variables[f"{scope}/AttnW_{head}"][0, 0] + asked[:, None])
            scores = np.exp(hidden @ variables[f"{scope}/AttnV_{head}"])
            found.append(np.einsum("bt,btd->bd", scores / scores.sum(1, keepdims=True), memory))
        return found

    def turn(inputs: np.ndarray, carried: Any) -> Any:
        state, attended = carried
        output, state = inner(linear(variables, scope, inputs, *attended), state)
        attended = attend(state)
        return linear(variables, f"{scope}/AttnOutputProjection", output, *attended), (state, attended)

    return attend, turn


def _attention_decoder(variables: Arrays, heads: int, first: bool, count: int = WRITTEN) -> Any:
    scope = "attention_decoder"
    attend, turn = _attending(variables, scope, MEMORY, heads, _plain(variables, scope))
    attended = attend(START) if first else [np.zeros([ROWS, 2])] * heads
    outputs, (state, _) = decode(Y[:count], (START, attended), turn)
    return outputs, state


def _attention_seq2seq(variables: Arrays, fed: bool, projection: Any) -> Any:
    scope = "embedding_attention_seq2seq"
    wrapper, below = f"{scope}/rnn/embedding_wrapper", f"{scope}/embedding_attention_decoder"
    states = encode(variables, wrapper, _embedded(variables, wrapper, IDS))
    memory, inside = np.stack(states, 1), f"{below}/attention_decoder"
    inner = (_plain if projection else _projected)(variables, inside)
    _, turn = _attending(variables, inside, memory, 2, inner)
    start = states[-1], [np.zeros([ROWS, UNITS])] * 2
    steps = _embedded(variables, below, ANSWER_IDS)
    outputs, (state, _) = decode(steps, start, turn, _best(variables, below, projection) if fed else None)
    return outputs, state


for _heads in (1, 3):
    for _first in (False, True):
        MODELS[f"attention_decoder heads={_heads} initial_state_attention={_first}"] = Model(
            lambda h=_heads, f=_first: legacy.attention_decoder(
                Y, tf.constant(START), tf.constant(MEMORY), cell(), 2, h, dtype=tf.float64, initial_state_attention=f
            ),
            lambda v, h=_heads, f=_first: _attention_decoder(v, h, f),
        )

MODELS["attention_decoder of one step"] = Model(
    lambda: legacy.attention_decoder(Y[:1], tf.constant(START), tf.constant(MEMORY), cell(), dtype=tf.float64),
    lambda v: _attention_decoder(v, 1, False, 1),
)


# -- several decoders ------------------------------------------------------------------------------------------------


def _one2many() -> tuple[list[Any], Any]:
    inputs = {"a": ANSWER_IDS, "b": ANSWER_IDS[:2]}
    cells, counts = {"a": cell(), "b": cell()}, {"a": ANSWERS, "b": SYMBOLS}
    outputs, states = legacy.one2many_rnn_seq2seq(
        IDS, inputs, cell(), cells, SYMBOLS, counts, SIZE, feed_previous=True, dtype=tf.float64
    )
    return [*outputs["a"], *outputs["b"]], tf.concat([states["a"], states["b"]], 0)


def _one2many_by_hand(variables: Arrays) -> Any:
    wrapper = "one2many_rnn_seq2seq/rnn/embedding_wrapper"
    start = encode(variables, wrapper, _embedded(variables, wrapper, IDS))[-1]
    every, states = [], []
    for name, ids in (("a", ANSWER_IDS), ("b", ANSWER_IDS[:2])):
        below = f"one2many_rnn_seq2seq/one2many_decoder_{name}/embedding_rnn_decoder"
        turn = _projected(variables, f"{below}/rnn_decoder")
        outputs, state = decode(_embedded(variables, below, ids), start, turn, _best(variables, below))
        every += outputs
        states.append(state)
    return every, np.concatenate(states)


MODELS["one2many_rnn_seq2seq"] = Model(_one2many, _one2many_by_hand)
