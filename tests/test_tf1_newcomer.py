"""What stands around old recurrent programs: cells in cells, states in variables, checks, options, lost names."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf


@pytest.fixture(autouse=True)
def fresh():
    tf.reset_default_graph()


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches, feed)


# -- cells -----------------------------------------------------------------------------------------------------------


class Inside(tf.nn.rnn_cell.RNNCell):
    """An LSTM, in a cell of one's own."""

    def __init__(self, units: int, keep: Any) -> None:
        super().__init__()
        self._cell, self._keep = tf.nn.rnn_cell.LSTMCell(units), keep

    state_size = property(lambda self: self._cell.state_size)
    output_size = property(lambda self: self._cell.output_size)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        _, new = self._cell(inputs, state, scope)
        h = tf.cond(self._keep, lambda: 0.5 * new.h + 0.5 * state.h, lambda: new.h)
        return h, tf.nn.rnn_cell.LSTMStateTuple(new.c, h)


@pytest.mark.parametrize("wrap", [lambda cell: cell, lambda cell: tf.nn.rnn_cell.MultiRNNCell([cell])])
def test_a_cell_inside_a_cell_has_gradients(wrap: Any):
    keep = tf.placeholder_with_default(False, [])
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 5, 2)), tf.float32)
    with tf.variable_scope("a", initializer=tf.constant_initializer(0.1)):
        outputs, _ = tf.nn.dynamic_rnn(wrap(Inside(4, keep)), x, [5, 2, 0], dtype=tf.float32)
    with tf.variable_scope("b", initializer=tf.constant_initializer(0.1)):
        plain, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), x, [5, 2, 0], dtype=tf.float32)
    ours = tf.gradients(tf.reduce_sum(outputs**2), tf.trainable_variables("a"))
    theirs = tf.gradients(tf.reduce_sum(plain**2), tf.trainable_variables("b"))
    assert len(ours) == 2
    one, other = run([ours, theirs])
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert not np.allclose(one[0], run(ours, {keep: True})[0])


def test_a_state_in_variables_is_assigned_before_the_gradient():
    x = tf.placeholder(tf.float32, [2, 3, 2])
    cell = tf.nn.rnn_cell.LSTMCell(4, initializer=tf.constant_initializer(0.1))
    zeros = cell.zero_state(2, tf.float32)
    kept = [tf.Variable(each + 1.0, trainable=False) for each in zeros]
    outputs, state = tf.nn.dynamic_rnn(cell, x, initial_state=tf.nn.rnn_cell.LSTMStateTuple(*kept))
    before = tf.gradients(tf.reduce_sum(outputs**2), tf.trainable_variables())
    with tf.control_dependencies([old.assign(new) for old, new in zip(kept, state, strict=True)]):
        after = tf.gradients(tf.reduce_sum(tf.identity(outputs) ** 2), tf.trainable_variables())
        now = tf.identity(kept[0])
    feed = {x: np.random.default_rng(0).normal(size=(2, 3, 2))}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wanted, last = session.run([before, state], feed)
        found, value = session.run([after, now], feed)
        np.testing.assert_array_equal(value, last.c)
        np.testing.assert_array_equal(session.run(kept[1]), last.h)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_clipped_rows_stay_rows():
    table = tf.get_variable("table", [9, 2], initializer=tf.ones_initializer())
    (gradient,) = tf.gradients(tf.reduce_sum(tf.gather(table, [3, 3, 5]) ** 2), table)
    by_norm, by_value = tf.clip_by_norm(gradient, 1.0), tf.clip_by_value(gradient, -0.5, 0.5)
    assert isinstance(by_norm, tf.IndexedSlices)
    assert isinstance(by_value, tf.IndexedSlices)
    one, other = run([by_norm, by_value])
    np.testing.assert_allclose(np.linalg.norm(one.values), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(other.values, np.full((3, 2), 0.5))
    np.testing.assert_array_equal(one.indices, [3, 3, 5])


# -- checks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("equal", (1, 1), (1, 2)),
        ("none_equal", (1, 2), (1, 1)),
        ("less", (1, 2), (1, 1)),
        ("less_equal", (1, 1), (2, 1)),
        ("greater", (2, 1), (1, 1)),
        ("greater_equal", (1, 1), (1, 2)),
        ("positive", (1,), (0,)),
        ("negative", (-1,), (0,)),
        ("non_negative", (0,), (-1,)),
        ("non_positive", (0,), (1,)),
    ],
)
def test_assertions(name: str, good: Any, bad: Any):
    entries = [tf.placeholder(tf.int32, [None]) for _ in good]
    check = getattr(tf, f"assert_{name}")(*entries, message="lengths")
    with tf.control_dependencies([check]):
        value = tf.identity(7)
    assert run(value, dict(zip(entries, ([each] for each in good), strict=True))) == 7
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: lengths Condition x .* did not hold"):
        run(value, dict(zip(entries, ([each] for each in bad), strict=True)))


def test_assert_rank():
    x = tf.placeholder(tf.float32)
    check = tf.assert_rank(x, 2)
    run(check, {x: [[1.0]]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank"):
        run(check, {x: [1.0]})
    with pytest.raises(ValueError, match="must have rank 3"):
        tf.assert_rank(tf.zeros([2, 2]), 3)


def test_numbers_that_are_not_finite():
    x = tf.placeholder(tf.float32, [None])
    checked = tf.check_numerics(tf.log(x), "the loss")
    (slope,) = tf.gradients(checked, x)
    assert run(slope, {x: [2.0]}) == 0.5
    with pytest.raises(tf.errors.InvalidArgumentError, match="the loss : Tensor had Inf values"):
        run(checked, {x: [0.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
        run(tf.verify_tensor_all_finite(x, "x"), {x: [np.nan]})


def test_all_numbers_are_checked_and_no_variable_changes():
    x = tf.placeholder(tf.float32, [2])
    weight = tf.get_variable("weight", [2], initializer=tf.ones_initializer())
    loss = tf.reduce_sum(tf.sqrt(x, name="root") * weight)
    tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    check = tf.add_check_numerics_ops()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(check, {x: [1.0, 4.0]})
        np.testing.assert_array_equal(session.run(weight), [1.0, 1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="root:0"):
            session.run(check, {x: [1.0, -4.0]})


def test_print(capsys: pytest.CaptureFixture[str]):
    x = tf.placeholder(tf.float32, [None])
    shown = tf.Print(x * x, [tf.shape(x), x], "x: ", first_n=2)
    (slope,) = tf.gradients(shown, x)
    with tf.Session() as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run(slope, {x: [1.0, 2.5, 3.0, 4.0]}), [2.0, 5.0, 6.0, 8.0])
    assert capsys.readouterr().err == "x: [4][1 2.5 3...]\n" * 2


def test_py_func():
    x = tf.placeholder(tf.float32, [None])
    assert tf.gradients(tf.py_func(np.square, [x], tf.float32), x) == [None]
    total, (low, high) = run(
        [tf.py_func(np.sum, [x], tf.float32), tf.py_func(lambda v: (v.min(), v.max()), [x], [tf.float32] * 2)],
        {x: [3.0, 1.0]},
    )
    assert (total, low, high) == (4.0, 1.0, 3.0)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"0-th value returned by .* is float64, but expects float32"
    ):
        run(tf.py_func(lambda v: v.astype("float64"), [x], tf.float32), {x: [1.0]})


# -- around a program ------------------------------------------------------------------------------------------------


def test_flags(monkeypatch: pytest.MonkeyPatch):
    flags = tf.app.flags
    flags.DEFINE_string("data", None, "where")
    flags.DEFINE_integer("units", 8, "how many")
    flags.DEFINE_float("rate", 1, "how fast")
    flags.DEFINE_boolean("train", True, "whether")
    flags.DEFINE_bool("test", False, "whether")
    flags.DEFINE_enum("cell", "gru", ["gru", "lstm"], "which")
    flags.DEFINE_list("sizes", "1,2", "several")
    monkeypatch.setattr(sys, "argv", ["me", "--data=x", "--units", "3", "--notrain", "--test", "rest", "--other"])
    seen: list[Any] = []
    with pytest.raises(SystemExit) as ended:
        tf.app.run(lambda argv: seen.append((argv, tf.flags.FLAGS.flag_values_dict())))
    assert ended.value.code is None
    assert seen[0][0] == ["me", "rest", "--other"]
    values = {"data": "x", "units": 3, "rate": 1.0, "train": False, "test": True, "cell": "gru", "sizes": ["1", "2"]}
    assert seen[0][1].items() >= values.items()
    flags.FLAGS.units = 5
    assert flags.FLAGS.units == 5
    with pytest.raises(AttributeError, match="no flag 'unit'"):
        _ = flags.FLAGS.unit
    with pytest.raises(ValueError, match="--cell=rnn: it must be one of"):
        flags.FLAGS(["me", "--cell=rnn"])
    with pytest.raises(ValueError, match="--units=many"):
        flags.FLAGS(["me", "--units=many"])


def test_logging(caplog: pytest.LogCaptureFixture):
    tf.logging.set_verbosity(tf.logging.INFO)
    assert tf.logging.get_verbosity() == tf.logging.INFO
    tf.logging.info("step %d", 3)
    tf.logging.set_verbosity(tf.logging.WARN)
    tf.logging.info("not written")
    with pytest.raises(AttributeError, match=r"tf\.logging\.infos; did you mean"):
        _ = tf.logging.infos


def test_old_and_new_names():
    assert tf.compat.v1 is tf
    tf.compat.v1.disable_eager_execution()
    tf.disable_v2_behavior()
    assert tf.compat.as_bytes("a") == b"a"
    assert tf.compat.as_str(b"a") == "a"
    assert isinstance(tf.test.is_gpu_available(), bool)
    assert isinstance(tf.test.gpu_device_name(), str)


def test_gfile(tmp_path: Any):
    folder = tmp_path / "a" / "b"
    tf.gfile.MakeDirs(folder)
    tf.gfile.MakeDirs(folder)
    with tf.gfile.GFile(folder / "words.txt", "w") as file:
        file.write("für")
    with tf.gfile.Open(folder / "words.txt") as file:
        assert file.read() == "für"
    tf.gfile.Copy(folder / "words.txt", folder / "more.txt")
    with pytest.raises(FileExistsError):
        tf.gfile.Rename(folder / "words.txt", folder / "more.txt")
    assert sorted(tf.gfile.ListDirectory(folder)) == ["more.txt", "words.txt"]
    tf.gfile.DeleteRecursively(folder)
    assert not tf.gfile.Exists(folder)


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda: tf.keras.Sequential, "models that are fitted are for Keras 3"),
        (lambda: tf.keras.layers.Bidirectional, "there are layers for graphs"),
        (lambda: tf.enable_eager_execution, "torch and plain unspool"),
        (lambda: tf.GradientTape, "use tf.gradients"),
        (lambda: tf.nn.seq2seq.rnn_decoder, "legacy_seq2seq"),
        (lambda: tf.pack, "it is tf.stack"),
    ],
)
def test_what_is_not_there_says_what_to_use(use: Any, advice: str):
    with pytest.raises(AttributeError, match=advice):
        use()
