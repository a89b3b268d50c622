"""A training step of an LSTM classifier: fetched from a `tf1` session, against the same model written on unspool.

Both run the same loop of the engine; what a session adds is feeding, the order of operations and the optimiser's slots.
Tiny classifiers in both directions, of three steps, are run beside TensorFlow's session: there is little else to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

import unspool
from benchmarks.harness import Case, Contender, Options, main
from benchmarks.problem import QUICK, Shape
from benchmarks.tf1_models import Bidirectional
from benchmarks.unrolled import beside_tensorflow
from unspool import tf1 as tf

CLASSES = 10
TINY = [Bidirectional(4, 3, 8, 5), Bidirectional(10, 3, 26, 128)]


class Task:
    """Inputs, labels and the weights that both start from."""

    def __init__(self, shape: Shape, options: Options) -> None:
        torch.manual_seed(0)
        self.shape, self.device = shape, torch.device(options.device)
        self.inputs = torch.randn(shape.batch, shape.steps, shape.depth)
        self.labels = torch.randint(CLASSES, (shape.batch,))
        self.kernel = torch.randn(shape.depth + shape.units, 4 * shape.units) / 10
        self.projection = torch.randn(shape.units, CLASSES) / 10


def by_session(task: Task) -> Contender:
    """A graph of TensorFlow 1's kind."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, task.shape.steps, task.shape.depth])
        y = tf.placeholder(tf.int64, [None])
        cell = tf.nn.rnn_cell.LSTMCell(task.shape.units)
        _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        weights = tf.get_variable("weights", [task.shape.units, CLASSES])
        logits = tf.matmul(state.h, weights)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
        initialize = tf.global_variables_initializer()
    with torch.device(task.device):
        session = tf.Session(graph=graph)
    session.run(initialize)
    cell.variables[0].load(task.kernel.numpy(), session)
    weights.load(task.projection.numpy(), session)
    feed = {x: task.inputs.numpy(), y: task.labels.numpy()}

    def run() -> Sequence[Tensor]:
        value, _ = session.run([loss, train], feed)
        return (torch.as_tensor(value),)

    return Contender("tf1, a session", run, "unspool")


def directly(task: Task) -> Contender:
    """The same with `dynamic_rnn` and torch's optimiser."""
    cell = unspool.LSTMCell(task.shape.units, input_size=task.shape.depth).to(task.device)
    layer = nn.Linear(task.shape.units, CLASSES, bias=False).to(task.device)
    with torch.no_grad():
        cell.kernel.copy_(task.kernel)
        layer.weight.copy_(task.projection.T)
    optimizer = torch.optim.Adam([*cell.parameters(), *layer.parameters()], 1e-3)
    inputs, labels = task.inputs.to(task.device), task.labels.to(task.device)

    def run() -> Sequence[Tensor]:
        optimizer.zero_grad()
        _, state = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
        loss = nn.functional.cross_entropy(layer(state.h), labels)
        loss.backward()
        optimizer.step()
        return (loss.detach(),)

    return Contender("unspool, directly", run, "unspool")


def cases(options: Options) -> Iterator[Case]:
    """Small to large, so that what a session adds to each step shows."""
    for shape in [QUICK] if options.quick else [Shape(32, 100, 64, 128), Shape(4, 20, 8, 16)]:
        task = Task(shape, options)
        yield Case(str(shape), shape.steps, [directly(task), by_session(task)])
    if options.device == "cpu":
        for model in TINY[:1] if options.quick else TINY:
            yield beside_tensorflow(f"both directions, B{model.rows} T{model.steps} H{model.units}", model.steps, model)


if __name__ == "__main__":
    main(__doc__, cases)
