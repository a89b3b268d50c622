"""Models as TensorFlow 1's users write them, which either library trains: each takes the module that it calls `tf`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

CHARACTERS = 65
CLASSES = 10


@dataclass(frozen=True)
class Model:
    """A model whose weights and data are drawn from one seed, whoever computes it."""

    def graph(self, tf: Any, rng: np.random.RandomState) -> tuple[Any, Any, dict[Any, Any]]:
        """The loss, what trains, and what is fed."""
        raise NotImplementedError

    def trained(self, tf: Any, session: Callable[..., Any] | None = None) -> Callable[[], float]:
        """One step of training, which returns the loss; `session` makes the session of a graph."""
        rng, graph = np.random.RandomState(0), tf.Graph()
        with graph.as_default():
            loss, train, feeds = self.graph(tf, rng)
            initialize, weights = tf.global_variables_initializer(), tf.trainable_variables()
        own = (session or tf.Session)(graph=graph)
        own.run(initialize)
        for each in weights:
            each.load(rng.uniform(-0.1, 0.1, each.shape.as_list()).astype(np.float32), own)
        return lambda: float(own.run([loss, train], feeds)[0])

    def described(self) -> dict[str, Any]:
        """Its name and arguments, for another process."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Unrolled(Model):
    """A character model whose LSTM is called step by step, in a Python loop over `tf.unstack`.

    Args:
        rows, steps, units: its sizes.
        layers: how many LSTMs are stacked.
        reads_back: whether every step but the first reads the last output too.
        feeds_back: whether every step but the first reads the most probable character of the last, and nothing else.
    """

    rows: int
    steps: int
    units: int
    layers: int = 1
    reads_back: bool = False
    feeds_back: bool = False

    def graph(self, tf: Any, rng: np.random.RandomState) -> tuple[Any, Any, dict[Any, Any]]:
        """Gradients are clipped, as these programs do."""
        read, said = (tf.placeholder(tf.int32, [self.rows, self.steps]) for _ in range(2))
        table = tf.get_variable("embedding", [CHARACTERS, self.units])
        cells = [tf.nn.rnn_cell.BasicLSTMCell(self.units) for _ in range(self.layers)]
        cell = cells[0] if self.layers == 1 else tf.nn.rnn_cell.MultiRNNCell(cells)
        weights, bias = tf.get_variable("weights", [self.units, CHARACTERS]), tf.get_variable("bias", [CHARACTERS])
        state = cell.zero_state(self.rows, tf.float32)
        outputs: list[Any] = []
        with tf.variable_scope("rnn"):
            for number, step in enumerate(tf.unstack(tf.nn.embedding_lookup(table, read), axis=1)):
                if number:
                    tf.get_variable_scope().reuse_variables()
                given = step + outputs[-1] if self.reads_back and outputs else step
                if self.feeds_back and outputs:
                    given = tf.nn.embedding_lookup(table, tf.argmax(tf.matmul(outputs[-1], weights) + bias, 1))
                output, state = cell(given, state)
                outputs.append(output)
        hidden = tf.reshape(tf.concat(outputs, 1), [-1, self.units])
        logits = tf.matmul(hidden, weights) + bias
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(said, [-1]), logits=logits)
        loss, variables = tf.reduce_mean(entropy), tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
        train = tf.train.AdamOptimizer(1e-3).apply_gradients(zip(gradients, variables, strict=True))
        return loss, train, {each: rng.randint(CHARACTERS, size=(self.rows, self.steps)) for each in (read, said)}


@dataclass(frozen=True)
class Attending(Model):
    """A decoder that attends to a memory and reads what it attended to, step by step in Python.

    Args:
        rows, steps, units: its sizes.
        length: of the memory.
    """

    rows: int
    steps: int
    units: int
    length: int

    def graph(self, tf: Any, rng: np.random.RandomState) -> tuple[Any, Any, dict[Any, Any]]:
        """Attention is additive, as in `attention_decoder` of TensorFlow's `legacy_seq2seq`."""
        size = self.units
        x = tf.placeholder(tf.float32, [self.rows, self.steps, size])
        memory = tf.placeholder(tf.float32, [self.rows, self.length, size])
        mix, ask = tf.get_variable("mix", [2 * size, size]), tf.get_variable("ask", [2 * size, size])
        features = tf.reshape(
            tf.matmul(tf.reshape(memory, [-1, size]), tf.get_variable("keys", [size, size])), [self.rows, -1, size]
        )
        score, cell = tf.get_variable("score", [size]), tf.nn.rnn_cell.BasicLSTMCell(size)
        state, attended = cell.zero_state(self.rows, tf.float32), tf.zeros([self.rows, size])
        outputs: list[Any] = []
        with tf.variable_scope("rnn"):
            for number, step in enumerate(tf.unstack(x, axis=1)):
                if number:
                    tf.get_variable_scope().reuse_variables()
                output, state = cell(tf.matmul(tf.concat([step, attended], 1), mix), state)
                asked = tf.expand_dims(tf.matmul(tf.concat(state, 1), ask), 1)
                chances = tf.nn.softmax(tf.reduce_sum(score * tf.tanh(features + asked), 2))
                attended = tf.reduce_sum(tf.expand_dims(chances, 2) * memory, 1)
                outputs.append(tf.concat([output, attended], 1))
        loss = tf.reduce_mean(tf.square(tf.stack(outputs)))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
        sizes = {x: (self.rows, self.steps, size), memory: (self.rows, self.length, size)}
        return loss, train, {each: rng.randn(*shape).astype(np.float32) for each, shape in sizes.items()}


@dataclass(frozen=True)
class Bidirectional(Model):
    """A classifier of short sequences by an LSTM in both directions."""

    rows: int
    steps: int
    depth: int
    units: int

    def graph(self, tf: Any, rng: np.random.RandomState) -> tuple[Any, Any, dict[Any, Any]]:
        """It classifies by the outputs of the last step."""
        x = tf.placeholder(tf.float32, [None, self.steps, self.depth])
        y = tf.placeholder(tf.float32, [None, CLASSES])
        cells = [tf.nn.rnn_cell.LSTMCell(self.units) for _ in range(2)]
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32)
        last = tf.transpose(tf.concat(outputs, 2), [1, 0, 2])[-1]
        weights = tf.get_variable("weights", [2 * self.units, CLASSES])
        logits = tf.matmul(last, weights) + tf.get_variable("bias", [CLASSES])
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
        labels = np.eye(CLASSES, dtype=np.float32)[rng.randint(CLASSES, size=self.rows)]
        return loss, train, {x: rng.randn(self.rows, self.steps, self.depth).astype(np.float32), y: labels}


MODELS: dict[str, type[Any]] = {each.__name__: each for each in (Unrolled, Attending, Bidirectional)}
