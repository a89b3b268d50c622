"""Graphs in files: what unspool wrote can be read, run and trained on, in the same process or another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf
from tests.compiling import run_python
from unspool.tf1.train import meta_graph

rng = np.random.default_rng(0)
FEED = {"x:0": rng.normal(size=(4, 5, 3)).astype(np.float32), "y:0": np.array([0, 1, 1, 0])}


class Own(tf.nn.rnn_cell.RNNCell):
    """A cell of a program's own, with variables of layers and a constant."""

    state_size = output_size = 4

    def call(self, inputs: Any, state: Any) -> Any:
        new = tf.tanh(tf.layers.dense(tf.concat([inputs, state], 1), 4, name="mix")) * tf.constant([1.0, 2.0, 1.0, 2.0])
        return new, new


def build() -> None:
    x = tf.placeholder(tf.float32, [None, 5, 3], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")
    keep = tf.placeholder_with_default(1.0, [], name="keep")
    cells = [
        tf.nn.rnn_cell.LSTMCell(6),
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), output_keep_prob=keep),
    ]
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), x, dtype=tf.float32)
    outputs, _ = tf.nn.dynamic_rnn(Own(), outputs, dtype=tf.float32, scope="own")
    halved = tf.while_loop(lambda k, _: k < 3, lambda k, a: [k + 1, a * 0.5], [0, outputs[:, -1]])[1]
    logits = tf.cond(tf.reduce_sum(halved) > 1e9, lambda: tf.zeros([4, 2]), lambda: tf.layers.dense(halved, 2))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    step = tf.train.get_or_create_global_step()
    tf.add_to_collection("train", tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step))


def go_on(session: Any) -> list[Any]:
    """What the graph makes of three more steps."""
    (train,) = tf.get_collection("train")
    found = [session.run("loss:0", FEED)]
    for _ in range(3):
        session.run(train, FEED)
    return [*found, *session.run(["loss:0", "global_step:0"], FEED)]


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, list[Any]]:
    """A checkpoint beside a graph, and how training went on from it."""
    tf.set_random_seed(1)
    build()
    saver, prefix = tf.train.Saver(), str(tmp_path / "model.ckpt")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.get_collection("train"), FEED)
        saver.save(session, prefix)
        expected = go_on(session)
    tf.reset_default_graph()
    return prefix, expected


def test_a_saved_model_goes_on(saved: tuple[str, list[Any]]) -> None:
    prefix, expected = saved
    saver = tf.train.import_meta_graph(f"{prefix}.meta")
    with tf.Session() as session:
        saver.restore(session, prefix)
        np.testing.assert_allclose(go_on(session), expected, rtol=1e-6)
    names = [each.name for each in tf.trainable_variables()]
    assert "own/own/mix/kernel:0" in names
    assert tf.get_collection("train")[0].graph is tf.get_default_graph()


def test_it_can_be_built_upon(saved: tuple[str, list[Any]]) -> None:
    saver = tf.train.import_meta_graph(f"{saved[0]}.meta")
    twice = 2.0 * tf.get_default_graph().get_tensor_by_name("loss:0")
    with tf.variable_scope("own/own/mix", reuse=True):
        assert tf.get_variable("kernel").name == "own/own/mix/kernel:0"
    more = tf.get_variable("more", [])
    with tf.Session() as session:
        saver.restore(session, saved[0])
        assert session.run(twice, FEED) == pytest.approx(2 * session.run("loss:0", FEED))
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(more)


def test_in_another_process(saved: tuple[str, list[Any]], tmp_path: Path) -> None:
    """Which knows nothing of the program, its cell included."""
    prefix, expected = saved
    np.savez(tmp_path / "feed.npz", x=FEED["x:0"], y=FEED["y:0"])
    code = f"""
import numpy as np
import unspool.tf1 as tf
with np.load({str(tmp_path / "feed.npz")!r}) as kept:
    feed = {{"x:0": kept["x"], "y:0": kept["y"]}}
saver = tf.train.import_meta_graph({prefix + ".meta"!r})
with tf.Session() as session:
    saver.restore(session, {prefix!r})
    print(session.run("loss:0", feed))
    for _ in range(3):
        session.run(tf.get_collection("train"), feed)
    print(session.run("loss:0", feed))
"""
    printed = run_python(code, tmp_path).stdout.split()
    np.testing.assert_allclose([float(each) for each in printed], expected[:2], rtol=1e-5)


def test_what_a_program_writes_itself_is_read_too(tmp_path: Path) -> None:
    """A function of the program's, with what it names and closes over."""
    factor = 3.0

    def scaled(x: Any) -> Any:
        return np.float32(factor) * np.asarray(x)

    tf.py_func(scaled, [tf.placeholder(tf.float32, name="x")], tf.float32, name="scaled")
    made = tf.train.export_meta_graph()
    tf.reset_default_graph()
    assert tf.train.import_meta_graph(made) is None
    assert tf.Session().run("scaled:0", {"x:0": 2.0}) == 6


def test_a_long_chain_of_operations(tmp_path: Path) -> None:
    x = y = tf.placeholder(tf.float32, name="x")
    for _ in range(3000):
        y = y + 1.0
    tf.identity(y, name="y")
    tf.train.export_meta_graph(tmp_path / "chain.meta")
    tf.reset_default_graph()
    tf.train.import_meta_graph(tmp_path / "chain.meta")
    assert tf.Session().run("y:0", {"x:0": 0.0}) == 3000
    assert x.graph is not tf.get_default_graph()


def test_below_a_name(saved: tuple[str, list[Any]]) -> None:
    prefix, expected = saved
    build()  # the graph has all of these names, and cells of its own
    saver = tf.train.import_meta_graph(f"{prefix}.meta", import_scope="old")
    feed = {f"old/{name}": value for name, value in FEED.items()}
    with tf.Session() as session:
        saver.restore(session, prefix)
        assert session.run("old/loss:0", feed) == pytest.approx(expected[0], rel=1e-6)
    names = [each.name for each in tf.trainable_variables()]
    assert {"own/own/mix/kernel:0", "old/own/own/mix/kernel:0"} < set(names)
    assert len(names) == 2 * len({name.removeprefix("old/") for name in names})


class TestGraphDefs:
    @pytest.fixture
    def frozen(self, saved: tuple[str, list[Any]]) -> tuple[bytes, float]:
        """A graph without variables, and its loss."""
        saver = tf.train.import_meta_graph(f"{saved[0]}.meta")
        with tf.Session() as session:
            saver.restore(session, saved[0])
            whole = tf.get_default_graph().as_graph_def()
            made = tf.graph_util.convert_variables_to_constants(session, whole, ["loss"])
            loss = session.run("loss:0", FEED)
        assert len(made.node) < len(whole.node)
        assert {each.name for each in made.node} >= {"x", "y", "loss"}
        tf.reset_default_graph()
        return made.SerializeToString(), loss

    def test_variables_become_constants(self, frozen: tuple[bytes, float]) -> None:
        made = tf.GraphDef()
        made.ParseFromString(frozen[0])
        (loss,) = tf.import_graph_def(made, return_elements=["loss:0"], name="")
        assert tf.global_variables() == []
        with tf.Session() as session:  # nothing is initialised
            assert session.run(loss, FEED) == pytest.approx(frozen[1], rel=1e-6)

    def test_other_tensors_take_the_place_of_some(self, frozen: tuple[bytes, float]) -> None:
        made = tf.GraphDef()
        made.ParseFromString(frozen[0])
        half = tf.constant(FEED["x:0"] / 2)
        (loss,) = tf.import_graph_def(made, {"x:0": half * 2.0}, ["loss:0"], name="model")
        assert loss.name == "model/loss:0"
        with tf.Session() as session:
            assert session.run(loss, {"model/y:0": FEED["y:0"]}) == pytest.approx(frozen[1], rel=1e-6)

    def test_a_variable_may_stay_one(self) -> None:
        kept, fixed = tf.get_variable("kept", []), tf.get_variable("fixed", [])
        tf.add(kept, fixed, name="sum")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            made = tf.graph_util.convert_variables_to_constants(
                session, tf.get_default_graph().as_graph_def(), ["sum"], variable_names_blacklist=["kept"]
            )
        tf.reset_default_graph()
        tf.import_graph_def(made, name="")
        with pytest.raises(tf.errors.FailedPreconditionError, match="kept"):
            tf.Session().run("sum:0")

    def test_a_part_of_a_graph(self) -> None:
        tf.square(tf.placeholder(tf.float32, name="x"), name="y")
        tf.constant(1, name="other")
        part = tf.graph_util.extract_sub_graph(tf.get_default_graph().as_graph_def(), ["y"])
        assert [each.name for each in part.node] == ["x", "y"]
        assert part.node[1].input == ("x",)
        assert tf.graph_util.remove_training_nodes(part) is part
        with pytest.raises(AssertionError, match="z is not in graph"):
            tf.graph_util.extract_sub_graph(part, ["z"])
        with pytest.raises(TypeError, match="dest_nodes must be a list"):
            tf.graph_util.extract_sub_graph(part, "y")

    def test_in_files(self, tmp_path: Path) -> None:
        tf.constant(3.0, name="three")
        graph = tf.get_default_graph()
        assert 'name: "three"' in Path(tf.train.write_graph(graph, str(tmp_path / "a"), "graph.pbtxt")).read_text()
        path = tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "graph.pb", as_text=False)
        tf.reset_default_graph()
        made = tf.GraphDef()
        with tf.gfile.GFile(path, "rb") as file:
            made.ParseFromString(file.read())
        tf.import_graph_def(made, name="")
        assert tf.Session().run("three:0") == 3

    def test_mistakes(self) -> None:
        with pytest.raises(ValueError, match="the GraphDef was not written by unspool"):
            tf.GraphDef().ParseFromString(b"\x0a\x05")
        with pytest.raises(TypeError, match="graph_def must be a GraphDef"):
            tf.import_graph_def(b"x")
        tf.constant(1, name="one")
        made = tf.get_default_graph().as_graph_def()
        with pytest.raises(ValueError, match="return_element is not in the graph_def"):
            tf.import_graph_def(made, return_elements=["two:0"])


class TestMistakes:
    def test_a_file_of_tensorflows_own(self, tmp_path: Path) -> None:
        (tmp_path / "model.meta").write_bytes(b"\n\xd0\x03\n\x01a\x12")
        message = r"not written by unspool.*load the checkpoint: tf\.train\.Saver\(\)\.restore\(session, '.*model'\)"
        with pytest.raises(ValueError, match=message):
            tf.train.import_meta_graph(tmp_path / "model.meta")

    def test_no_file(self) -> None:
        with pytest.raises(OSError, match=r"File lost\.meta does not exist"):
            tf.train.import_meta_graph("lost.meta")

    def test_another_python(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tf.constant(1)
        tf.train.export_meta_graph(tmp_path / "graph.meta")
        tf.reset_default_graph()
        monkeypatch.setattr(meta_graph, "_VERSION", "3.99")
        with pytest.raises(ValueError, match=rf"is for Python {sys.version_info.major}.*but this is 3\.99"):
            tf.train.import_meta_graph(tmp_path / "graph.meta")

    def test_names_that_are_taken(self) -> None:
        tf.constant(1, name="one")
        made = tf.train.export_meta_graph()
        with pytest.raises(ValueError, match="has an operation 'one' already"):
            tf.train.import_meta_graph(made)

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        """An explicit export says so; a checkpoint is written all the same."""
        variable = tf.get_variable("v", [])
        with open(tmp_path / "open.txt", "w") as file:
            tf.py_func(lambda: file.write("x") or np.float32(1), [], tf.float32)
            with pytest.raises(TypeError, match=r"a part of the graph cannot be written: .*TextIOWrapper"):
                tf.train.export_meta_graph(tmp_path / "graph.meta")
            with tf.Session() as session:
                session.run(variable.initializer)
                prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
        assert tf.train.checkpoint_exists(prefix)
        assert not Path(f"{prefix}.meta").exists()


class Reshaping(tf.nn.rnn_cell.RNNCell):
    """A cell whose step computes sizes, and draws."""

    state_size = output_size = 4

    def call(self, inputs: Any, state: Any) -> Any:
        new = tf.tanh(inputs + state * tf.get_variable("gain", [4]))
        new = tf.nn.dropout(tf.reshape(tf.reshape(new, [-1, 2, 2]), [tf.shape(new)[0], 4]), 0.5)
        return new, new


def test_steps_with_sizes_draws_and_functions_of_their_own_go_on(tmp_path: Path) -> None:
    values, fetches = np.ones((2, 5, 4), np.float32), ["rnn/dynamic_rnn:0", "called/dynamic_rnn:0"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 5, 4], name="x")
        tf.nn.dynamic_rnn(Reshaping(), x, dtype=tf.float32)
        inner = tf.nn.rnn_cell.GRUCell(4, activation=lambda y: tf.tanh(y) * tf.ones([tf.shape(y)[0], 1]))
        cell = tf.nn.rnn_cell.ResidualWrapper(inner, residual_fn=lambda a, b: tf.concat([a[:, :2], b[:, 2:]], 1))
        tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, scope="called")
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
        expected = session.run(fetches, {x: values})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{prefix}.meta").restore(session, prefix)
        for found, wanted in zip(session.run(fetches, {"x:0": values}), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
