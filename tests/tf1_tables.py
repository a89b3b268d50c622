"""Tables whose rows are read inside branches, loops and cells, each trained by every optimiser.

Written for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_training import OPTIMIZERS

ROWS, WIDTH, STEPS = 6, 2, 5
"""Of the table, and how many steps of training."""

IDS = np.array([[[0, 1, 1], [3, 0, 1]], [[3, 4, 3], [3, 3, 4]], [[1, 1, 2], [4, 1, 1]]], "int32")
"""What is read, one batch after the other: row 0 only in the first, row 5 never.

What stands in the padding is read elsewhere too: TensorFlow looks up what is only there, with gradients of zero, and
an optimiser moves it; unspool does not compute padded steps."""

LENGTHS = np.array([3, 2], "int32")


class Reading:
    """A mixin of a cell that looks its inputs up in a table."""

    def __init__(self, table: Any, lookup: Callable[..., Any]) -> None:
        super().__init__()
        self.table, self.lookup = table, lookup

    state_size = output_size = property(lambda self: WIDTH)

    def call(self, inputs: Any, state: Any) -> Any:
        read = self.lookup(self.table, inputs)
        state = 0.5 * state + read * read
        return state, state


def reading_cell(tf: Any, table: Any) -> Any:
    lookup = lambda table, x: tf.nn.embedding_lookup(table, tf.cast(x[:, 0], tf.int32))  # noqa: E731
    return type("ReadingCell", (Reading, tf.nn.rnn_cell.RNNCell), {})(table, lookup)


def plain(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """Outside of everything, two scalars among the numbers."""
    lookup = tf.nn.embedding_lookup
    return tf.reduce_sum(lookup(table, ids[0, 1]) ** 2) + tf.reduce_sum(lookup(table, ids[0, 2]) ** 3)


def one_branch(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a branch that is not always taken."""
    return tf.reduce_sum(tf.cond(chosen, lambda: tf.nn.embedding_lookup(table, ids) ** 2, lambda: tf.zeros([2, 3, 2])))


def both_branches(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In both branches, other rows in each."""
    lookup = tf.nn.embedding_lookup
    return tf.reduce_sum(tf.cond(chosen, lambda: lookup(table, ids[0]) ** 2, lambda: lookup(table, ids[1]) ** 3))


def rows_or_all(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """Rows in one branch, the whole table in the other."""
    lookup = tf.nn.embedding_lookup
    return tf.cond(chosen, lambda: tf.reduce_sum(lookup(table, ids[0]) ** 2), lambda: tf.reduce_sum(table**2))


def while_loop(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a loop, whose numbers it shares with a lookup outside."""

    def turn(k: Any, total: Any) -> Any:
        return k + 1, 0.9 * total + tf.nn.embedding_lookup(table, ids[:, k]) ** 2

    _, total = tf.while_loop(lambda k, total: k < 3, turn, (tf.constant(0), tf.zeros([2, WIDTH])))
    return tf.reduce_sum(total) + tf.reduce_sum(tf.gather(table, ids[:, 0]))


def cond_in_loop(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a branch in a loop."""

    def turn(k: Any, total: Any) -> Any:
        read = tf.cond(k < 2, lambda: tf.nn.embedding_lookup(table, ids[:, k]) ** 2, lambda: tf.zeros([2, WIDTH]))
        return k + 1, 0.9 * total + read

    _, total = tf.while_loop(lambda k, total: k < 3, turn, (tf.constant(0), tf.zeros([2, WIDTH])))
    return tf.reduce_sum(total)


def loop_with_all(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a loop that also multiplies by the table."""

    def turn(k: Any, total: Any) -> Any:
        scores = tf.matmul(total, table, transpose_b=True)
        return k + 1, 0.5 * tf.nn.embedding_lookup(table, ids[:, k]) + tf.matmul(tf.tanh(scores), table)

    _, total = tf.while_loop(lambda k, total: k < 3, turn, (tf.constant(0), tf.ones([2, WIDTH])))
    return tf.reduce_sum(total)


def said_by_the_table(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """The table says which of its rows is read next, and no gradient goes that way."""

    def turn(k: Any, total: Any) -> Any:
        best = tf.argmax(tf.matmul(total, table, transpose_b=True), 1, output_type=tf.int32)
        return k + 1, 0.5 * total + tf.nn.embedding_lookup(table, best)

    start = tf.nn.embedding_lookup(table, ids[:, 0])
    _, total = tf.while_loop(lambda k, total: k < 3, turn, (tf.constant(0), start))
    return tf.reduce_mean(total**2) + tf.reduce_sum(tf.stop_gradient(table))


def scan(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a scan over the steps."""
    step = lambda total, now: 0.9 * total + tf.nn.embedding_lookup(table, now) ** 2  # noqa: E731
    return tf.reduce_sum(tf.scan(step, tf.transpose(ids), tf.zeros([2, WIDTH])))


def map_fn(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a function of each row."""
    return tf.reduce_sum(tf.map_fn(lambda row: tf.nn.embedding_lookup(table, row) ** 2, ids, dtype=tf.float32))


def raw_rnn(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In the function that says what is read next."""
    cell = tf.nn.rnn_cell.BasicRNNCell(WIDTH)

    def loop_fn(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        state = cell.zero_state(2, tf.float32) if output is None else state
        read = tf.nn.embedding_lookup(table, ids[:, tf.minimum(time, 2)])
        return time >= LENGTHS, read, state, output, None

    emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    return tf.reduce_sum(state**2) + tf.reduce_sum(emitted.stack())


def own_cell(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a cell that a loop runs."""
    cell = reading_cell(tf, table)
    outputs, state = tf.nn.dynamic_rnn(cell, ids[:, :, None], sequence_length=LENGTHS, dtype=tf.float32)
    return tf.reduce_sum(outputs) + tf.reduce_sum(state**2)


def wrapped_cell(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a cell below another, which a loop runs."""
    cell = tf.nn.rnn_cell.MultiRNNCell([reading_cell(tf, table), tf.nn.rnn_cell.BasicRNNCell(WIDTH)])
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.cast(ids[:, :, None], tf.float32), dtype=tf.float32)
    return tf.reduce_sum(outputs)


def static_rnn(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a cell that is run over a list."""
    outputs, _ = tf.nn.static_rnn(reading_cell(tf, table), tf.unstack(ids[:, :, None], axis=1), dtype=tf.float32)
    return tf.reduce_sum(outputs[-1])


def called_cell(tf: Any, table: Any, ids: Any, chosen: Any) -> Any:
    """In a cell that is called, once by itself and once below another."""
    cell = tf.nn.rnn_cell.MultiRNNCell([reading_cell(tf, table)])
    output, (state,) = cell(tf.cast(ids[:, :1], tf.float32), cell.zero_state(2, tf.float32))
    return tf.reduce_sum(output * reading_cell(tf, table)(ids[:, 1:2], state)[0])


PLACES = [plain, one_branch, both_branches, rows_or_all, while_loop, cond_in_loop, loop_with_all, said_by_the_table]
PLACES += [scan, map_fn, raw_rnn, own_cell, wrapped_cell, static_rnn, called_cell]


def trained(tf: Any, place: Callable[..., Any], optimizer: str) -> dict[str, Any]:
    """All that is left of some steps of training, with clipped gradients, and what the gradient of the table was."""
    rng = np.random.RandomState(7)
    values: Any = lambda shape: rng.uniform(-0.8, 0.8, shape).astype("float32")  # noqa: E731
    ids, chosen = tf.placeholder(tf.int32, [2, 3]), tf.placeholder(tf.bool, [])
    table = tf.get_variable("table", initializer=values((ROWS, WIDTH)))
    loss = place(tf, table, ids, chosen)
    starts = [(each, values(each.shape.as_list())) for each in tf.trainable_variables() if each is not table]
    chosen_optimizer = OPTIMIZERS[optimizer](tf)
    pairs = chosen_optimizer.compute_gradients(loss)
    gradients = [gradient for gradient, _ in pairs]
    clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
    train = chosen_optimizer.apply_gradients(list(zip(clipped, [each for _, each in pairs], strict=True)))
    assert pairs[0][1] is table
    bounded = [tf.clip_by_value(gradients[0], -0.1, 0.1), tf.clip_by_norm(gradients[0], 0.3)]
    seen = [tf.convert_to_tensor(each) for each in [gradients[0], *bounded]]
    norms, last = [], None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable, start in starts:
            session.run(variable.assign(start))
        for turn in range(STEPS):
            feeds = {ids: IDS[turn % 3], chosen: turn % 2 == 0}
            last = session.run(seen, feeds)
            norms.append(session.run([norm, train], feeds)[0])
        variables = {each.op.name: session.run(each) for each in tf.global_variables()}
    details = dict(slices=np.array(isinstance(gradients[0], tf.IndexedSlices)), norms=np.array(norms))
    return {**details, "gradient": last[0], "by_value": last[1], "by_norm": last[2], **variables}


def by_all(tf: Any, place: Callable[..., Any]) -> dict[str, Any]:
    """The same with every optimiser, each in a graph of its own."""
    found: dict[str, Any] = {}
    for optimizer in OPTIMIZERS:
        with tf.Graph().as_default():
            found.update((f"{optimizer}:{key}", value) for key, value in trained(tf, place, optimizer).items())
    return found
