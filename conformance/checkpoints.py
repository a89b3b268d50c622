"""Lets TensorFlow train small models for a step, save them, and say what they compute.

    python conformance/checkpoints.py --out build/conformance/checkpoints

Needs the requirements in `conformance/requirements.txt`, and not unspool. Each model is a folder: the checkpoint as
`Saver` writes it, and `expected.npz` with every variable (`var:NAME`), the inputs `x` and lengths, and the outputs
`out_i`. `compare_checkpoints.py` compares these with what unspool reads and computes. With `--fixed`, the models are
those of `tests/data/checkpoints`.

`--restore FOLDER` is the way back: TensorFlow restores the checkpoints that unspool has written there, and compares.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1: Any = tf.compat.v1
rnn: Any = tf1.nn.rnn_cell

BATCH, STEPS, DEPTH = 3, 5, 4
LENGTHS = [5, 2, 4]


def lstm_stack(x: Any) -> Any:
    """Two layers, and Adam's memory of them in the checkpoint."""
    cell = rnn.MultiRNNCell([rnn.LSTMCell(5), rnn.LSTMCell(3)])
    return tf1.nn.dynamic_rnn(cell, x, LENGTHS, dtype=x.dtype)


def lstm_layers(x: Any) -> Any:
    """Two layers of one width, in a scope inside another."""
    with tf1.variable_scope("model"):
        return tf1.nn.dynamic_rnn(rnn.MultiRNNCell([rnn.LSTMCell(4), rnn.LSTMCell(4)]), x, dtype=x.dtype)


def lstm_options(x: Any) -> Any:
    """Peepholes and a projection."""
    return tf1.nn.dynamic_rnn(rnn.LSTMCell(5, use_peepholes=True, num_proj=3), x, LENGTHS, dtype=x.dtype)


def lstm_projection(x: Any) -> Any:
    """A projection, in a scope of its own."""
    return tf1.nn.dynamic_rnn(rnn.LSTMCell(5, num_proj=3, forget_bias=0.5), x, dtype=x.dtype, scope="encoder")


def basic_lstm(x: Any) -> Any:
    """The older cell."""
    return tf1.nn.dynamic_rnn(rnn.BasicLSTMCell(4), x, dtype=x.dtype)


def basic_rnn(x: Any) -> Any:
    """The simplest cell."""
    return tf1.nn.dynamic_rnn(rnn.BasicRNNCell(4), x, dtype=x.dtype)


def gru(x: Any) -> Any:
    """A gated recurrent unit."""
    return tf1.nn.dynamic_rnn(rnn.GRUCell(4), x, LENGTHS, dtype=x.dtype)


def bidirectional(x: Any) -> Any:
    """Both directions."""
    cells = rnn.LSTMCell(3), rnn.LSTMCell(3)
    return tf1.nn.bidirectional_dynamic_rnn(*cells, x, dtype=x.dtype)


def bidirectional_layers(x: Any) -> Any:
    """Two layers of both directions, under the names of `stack_bidirectional_dynamic_rnn`."""
    with tf1.variable_scope("stack_bidirectional_rnn"):
        for layer in range(2):
            with tf1.variable_scope(f"cell_{layer}"):
                cells = rnn.LSTMCell(3), rnn.LSTMCell(3)
                outputs, _ = tf1.nn.bidirectional_dynamic_rnn(*cells, x, dtype=x.dtype)
                x = tf.concat(outputs, 2)
    return x


def two_shards(x: Any) -> Any:
    """Two layers on two devices: two data files."""
    with tf1.device("/cpu:0"):
        x, _ = tf1.nn.dynamic_rnn(rnn.LSTMCell(4), x, dtype=x.dtype, scope="lower")
    with tf1.device("/cpu:1"):
        return tf1.nn.dynamic_rnn(rnn.GRUCell(3), x, dtype=x.dtype, scope="upper")


def partitioned(x: Any) -> Any:
    """A kernel in three slices, a projection in two, on two devices."""
    with tf1.device(lambda op: f"/cpu:{int('part_1' in op.name)}"):
        cell = rnn.LSTMCell(6, num_unit_shards=3, num_proj=4, num_proj_shards=2)
        return tf1.nn.dynamic_rnn(cell, x, dtype=x.dtype)


def dtypes(x: Any) -> Any:
    """A variable of each dtype, beside a cell; and one of strings, which no array can hold."""
    values = np.arange(-3, 3)
    kinds = "float16 bfloat16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
    for kind in kinds.split():
        tf1.get_variable(f"of/{kind}", initializer=tf.cast(values * 3, kind), trainable=False)
    tf1.get_variable("of/nothing", initializer=np.zeros([0, 3], "float32"), trainable=False)
    tf1.get_variable("of/number", initializer=np.float32(7), trainable=False)
    tf1.get_variable("of/string", initializer=tf.constant(["one", "two"]), trainable=False)
    return tf1.nn.dynamic_rnn(rnn.BasicRNNCell(2), x, dtype=x.dtype)


MODELS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lstm_stack": (lstm_stack, "float32"),
    "lstm_stack_float64": (lstm_stack, "float64"),
    "lstm_layers": (lstm_layers, "float32"),
    "lstm_options": (lstm_options, "float32"),
    "lstm_projection": (lstm_projection, "float32"),
    "basic_lstm": (basic_lstm, "float32"),
    "basic_rnn": (basic_rnn, "float64"),
    "gru": (gru, "float32"),
    "bidirectional": (bidirectional, "float32"),
    "bidirectional_layers": (bidirectional_layers, "float32"),
    "two_shards": (two_shards, "float32"),
    "partitioned": (partitioned, "float32"),
    "dtypes": (dtypes, "float32"),
}
"""The models by name, with the dtype that each computes in."""


def save(name: str, folder: Path, seed: int) -> None:
    """Builds a model, gives it random weights, trains it for a step, saves it, and stores what it then computes."""
    build, dtype = MODELS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    x = rng.normal(size=[BATCH, STEPS, DEPTH]).astype(dtype)
    config = tf1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf1.device("/cpu:0"), tf1.Session(config=config) as session:
        outputs = tf.nest.flatten(build(tf.constant(x)))
        loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in outputs])
        train = tf1.train.AdamOptimizer(0.01).minimize(loss, tf1.train.get_or_create_global_step())
        session.run(tf1.global_variables_initializer())
        for variable in tf1.trainable_variables():
            variable.load(0.5 * rng.normal(size=variable.shape).astype(variable.dtype.as_numpy_dtype), session)
        session.run(train)
        saver = tf1.train.Saver(sharded=name in ("two_shards", "partitioned"))
        prefix = saver.save(session, str(folder / "model.ckpt"), tf1.train.get_global_step(), write_meta_graph=False)
        computed = session.run(outputs)
    # What the checkpoint holds is what TensorFlow itself reads from it; bfloat16 is no dtype of NumPy's.
    reader = tf.train.load_checkpoint(prefix)
    arrays = {f"var:{each}": np.asarray(reader.get_tensor(each)) for each in reader.get_variable_to_shape_map()}
    plain = {
        each: value.astype(np.float32) if "bfloat16" in each else value
        for each, value in arrays.items()
        if value.dtype.kind not in "SO"
    }
    computed = {f"out_{k}": each for k, each in enumerate(computed)}
    np.savez_compressed(folder / "expected.npz", x=x, lengths=np.array(LENGTHS), **plain, **computed)


def restore(folder: Path) -> int:
    """Compares what TensorFlow reads from the checkpoints in a folder with what was written; how many differ."""
    wrong = 0
    for path in sorted(folder.glob("*/written.npz")):
        reader = tf.train.load_checkpoint(str(path.parent / "model.ckpt"))
        with np.load(path) as expected, tf.Graph().as_default(), tf1.Session() as session:
            variables = {each: tf1.get_variable(each, initializer=np.zeros_like(expected[each])) for each in expected}
            tf1.train.Saver(variables).restore(session, str(path.parent / "model.ckpt"))
            for name, variable in variables.items():
                found = reader.get_tensor(name), session.run(variable)
                if any(each.tobytes() != expected[name].tobytes() for each in found):
                    print(f"{path.parent.name}: {name} differs")
                    wrong += 1
            if set(reader.get_variable_to_shape_map()) != set(expected):
                print(f"{path.parent.name}: the names differ")
                wrong += 1
            print(f"TensorFlow restores {path.parent.name}: {len(expected.files)} variables")
    return wrong


def main() -> int:
    """Saves all models, or restores what unspool has written; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the folder for the models; what is in it is removed")
    parser.add_argument("--fixed", action="store_true", help="always the same weights and inputs")
    parser.add_argument("--restore", type=Path, help="the folder with what unspool has written")
    arguments = parser.parse_args()
    if arguments.restore:
        return 1 if restore(arguments.restore) else 0
    seed = 0 if arguments.fixed else secrets.randbelow(2**31)
    for name in MODELS:
        folder = arguments.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        save(name, folder, seed)
    print(f"TensorFlow has saved {len(MODELS)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
