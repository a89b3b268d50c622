"""Saved models: what is written is loaded into other graphs, by signatures, predictors and estimators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf
from unspool import load_tf1_checkpoint

VALUES = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def tagger() -> tuple[Any, Any, Any]:
    x = tf.placeholder(tf.float32, [None, 5, 3], name="x")
    lengths = tf.placeholder(tf.int32, [None], name="lengths")
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), x, lengths, dtype=tf.float32)
    return x, lengths, tf.identity(tf.layers.dense(outputs, 2), name="scores")


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    x, lengths, scores = tagger()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, tmp_path / "model", {"x": x, "lengths": lengths}, {"scores": scores})
        return tmp_path / "model", session.run(scores, {x: VALUES, lengths: [5, 2]})


@pytest.mark.parametrize("scope", [None, "model"])
def test_a_saved_model_is_loaded_into_another_graph(saved: Any, scope: str | None) -> None:
    folder, expected = saved
    with tf.Session(graph=tf.Graph()) as session:
        loaded = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder, import_scope=scope)
        key = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        signature = loaded.signature_def[key]
        assert signature.method_name == tf.saved_model.signature_constants.PREDICT_METHOD_NAME
        info = signature.inputs["x"]
        assert (info.dtype, info.tensor_shape.as_list()) == (tf.float32, [None, 5, 3])
        x = tf.saved_model.utils.get_tensor_from_tensor_info(info, session.graph)
        feeds = {x: VALUES, signature.inputs["lengths"].name: [5, 2]}
        np.testing.assert_array_equal(session.run(signature.outputs["scores"].name, feeds), expected)


def test_its_variables_are_a_checkpoint(saved: Any) -> None:
    folder, _ = saved
    names = ["dense/bias", "dense/kernel", "rnn/lstm_cell/bias", "rnn/lstm_cell/kernel"]
    assert sorted(load_tf1_checkpoint(folder / "variables" / "variables")) == names


def test_a_predictor_runs_it(saved: Any) -> None:
    folder, expected = saved
    predict = tf.contrib.predictor.from_saved_model(folder)
    np.testing.assert_array_equal(predict({"x": VALUES, "lengths": [5, 2]})["scores"], expected)
    named = tf.contrib.predictor.from_saved_model(
        folder, input_names={"a": "x:0", "b": "lengths:0"}, output_names={"c": "scores:0"}
    )
    np.testing.assert_array_equal(named({"a": VALUES, "b": [5, 2]})["c"], expected)
    with pytest.raises(ValueError, match=r"Got unexpected keys in input_dict: \['y'\]"):
        predict({"y": VALUES})
    with pytest.raises(ValueError, match=r"signature_def_key 'other'. Available signatures are \['serving_default'\]"):
        tf.contrib.predictor.from_saved_model(folder, "other")


def test_several_graphs_share_variables_and_begin_with_an_operation(tmp_path: Path) -> None:
    weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(2.0))
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
    begin = tf.group(count.assign(7.0), name="begin")
    builder = tf.saved_model.builder.SavedModelBuilder(tmp_path / "model")
    with pytest.raises(AssertionError, match="has not been saved yet"):
        builder.add_meta_graph(["serve"])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, ["train"], main_op=begin)
        with pytest.raises(AssertionError, match="has already been saved"):
            builder.add_meta_graph_and_variables(session, ["other"])
        tf.identity(weight + 1, name="more")
        info = {"more": tf.saved_model.utils.build_tensor_info(weight)}
        signature = tf.saved_model.signature_def_utils.build_signature_def(outputs=info)
        builder.add_meta_graph(["serve", "gpu"], {"more": signature})
        with pytest.raises(NotImplementedError, match="files that go with a graph are not kept"):
            builder.add_meta_graph(["assets"], assets_collection=["file"])
    builder.save()
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["train"], tmp_path / "model")
        assert session.run(["weight:0", "count:0"]) == [2.0, 7.0]
        with pytest.raises(KeyError):
            session.graph.get_tensor_by_name("more:0")
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["gpu", "serve"], tmp_path / "model")
        assert session.run(["more:0", "count:0"]) == [3.0, 0.0]


def test_what_is_wrong_is_said(saved: Any, tmp_path: Path) -> None:
    folder, _ = saved
    assert tf.saved_model.maybe_saved_model_directory(folder)
    with pytest.raises(AssertionError, match="Export directory already exists, and isn't empty"):
        tf.saved_model.Builder(folder)
    with tf.Session(graph=tf.Graph()) as session:
        with pytest.raises(RuntimeError, match=r"tags \['train'\] could not be found"):
            tf.saved_model.load(session, ["train"], folder)
        with pytest.raises(OSError, match="SavedModel file does not exist at"):
            tf.saved_model.load(session, ["serve"], tmp_path)
        (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
        with pytest.raises(
            ValueError, match=r"load the variables: tf.train.Saver\(\).restore\(session, '.*variables'\)"
        ):
            tf.saved_model.load(session, ["serve"], tmp_path)
    for inputs, outputs, name in (({}, {"y": 1}, "inputs"), ({"x": 1}, None, "outputs")):
        with pytest.raises(ValueError, match=f"Prediction {name} cannot be None or empty"):
            tf.saved_model.predict_signature_def(inputs, outputs)


def model(features: Any, labels: Any, mode: Any) -> Any:
    y = features["x"] * tf.get_variable("w", [], initializer=tf.ones_initializer())
    step = tf.train.get_global_step()
    loss = None if labels is None else tf.reduce_mean((labels - y) ** 2)
    train = None if loss is None else tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    outputs = {"scaled": tf.estimator.export.PredictOutput({"y": y})}
    return tf.estimator.EstimatorSpec(mode, {"y": y}, loss, train, export_outputs=outputs)


def test_an_estimator_is_exported(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model, str(tmp_path / "trained"))
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([1])})
    with pytest.raises(ValueError, match="Couldn't find trained model"):
        estimator.export_savedmodel(tmp_path / "exported", receiver)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [3.0])).repeat(), steps=3)
    expected = 2.0 * estimator.get_variable_value("w")
    folders = [estimator.export_savedmodel(tmp_path / "exported", receiver).decode() for _ in range(2)]
    assert folders[0] != folders[1]
    for predict in (
        tf.contrib.predictor.from_saved_model(folders[1]),
        tf.contrib.predictor.from_saved_model(folders[1], "scaled"),
        tf.contrib.predictor.from_estimator(estimator, receiver),
    ):
        np.testing.assert_allclose(predict({"x": [2.0]})["y"], [expected])
    with pytest.raises(ValueError, match="output_key 'other'"):
        tf.contrib.predictor.from_estimator(estimator, receiver, "other")
