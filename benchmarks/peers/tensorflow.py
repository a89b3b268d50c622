"""The original: TensorFlow's own `dynamic_rnn` and cells, compiled into a graph by `tf.function`."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch

from benchmarks.harness import Contender, as_float
from benchmarks.peers.registry import peer
from benchmarks.problem import Problem

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # Keras 3 has none of these cells

CELLS = {"LSTM": "LSTMCell", "GRU": "GRUCell", "RNN": "BasicRNNCell"}


@peer
def tensorflow(problem: Problem) -> Contender | None:
    """The same cell by the same name, with the same weights."""
    if problem.kind not in CELLS or problem.dtype != torch.float32:
        return None
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    warnings.filterwarnings("ignore", ".*will be removed in a future version", UserWarning)  # we know

    gpu = problem.device.type == "cuda"
    if gpu and not tf.config.list_physical_devices("GPU"):
        raise ImportError("tensorflow is installed, but without CUDA")
    for each in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(each, True)  # or it takes all of the GPU from the others
    tf.config.experimental.enable_tensor_float_32_execution(problem.tf32)
    device = tf.device("/GPU:0" if gpu else "/CPU:0")

    with device:
        cell = getattr(tf.compat.v1.nn.rnn_cell, CELLS[problem.kind])(problem.shape.units)
        cell.build([None, problem.shape.depth])
        cell.set_weights([as_float(weight).numpy() for weight in problem.cell.parameters()])
        inputs, gradient = (tf.constant(as_float(value).numpy()) for value in (problem.inputs, problem.gradient))
        lengths = None if problem.lengths is None else tf.constant(problem.lengths.numpy())

    def forward(inputs: Any) -> Any:
        return tf.compat.v1.nn.dynamic_rnn(cell, inputs, lengths, dtype=tf.float32, time_major=True)[0]

    @tf.function
    def train(inputs: Any, gradient: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = forward(inputs)
        return outputs, tape.gradient(outputs, [inputs, *cell.trainable_variables], gradient)

    infer = tf.function(forward)

    def run() -> tuple[Any, ...]:
        with device:
            if problem.training:
                outputs, gradients = train(inputs, gradient)
                results = outputs, gradients[0]
            else:
                results = (infer(inputs),)
            tf.test.experimental.sync_devices()
        return results

    return Contender("TensorFlow, dynamic_rnn", run, "tensorflow")
