"""Estimators, which TensorFlow no longer has, against the same training by hand; and what `contrib` has beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = X @ np.array([1.0, -2.0, 0.5], np.float32)


def loss_of(x: Any, y: Any) -> tuple[Any, Any]:
    weight = tf.get_variable("weight", [3], initializer=tf.zeros_initializer())
    prediction = tf.reduce_sum(x * weight, 1)
    return prediction, tf.reduce_mean((prediction - y) ** 2)


def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
    if mode == tf.estimator.ModeKeys.PREDICT:
        prediction, _ = loss_of(features["x"], 0.0)
        return tf.estimator.EstimatorSpec(mode, predictions={"y": prediction, "x": features["x"]})
    prediction, loss = loss_of(features["x"], labels)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"error": tf.metrics.mean(tf.abs(prediction - labels))}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def batches(epochs: int | None = None, rows: int = 4) -> Any:
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(epochs).batch(rows)


def estimator(folder: Path, **config: Any) -> Any:
    config = tf.estimator.RunConfig(**{"save_checkpoints_steps": 5, **config})
    return tf.estimator.Estimator(model, str(folder), config, params={"rate": 0.1})


def by_hand(steps: int) -> np.ndarray:
    weight = np.zeros(3, np.float32)
    for step in range(steps):
        x, y = (each[4 * step % 12 : 4 * step % 12 + 4] for each in (X, Y))
        weight -= 0.1 * 2 * ((x @ weight - y)[:, None] * x).mean(0)
    return weight


def test_training_is_that_by_hand_and_goes_on_where_it_ended(tmp_path: Path):
    made = estimator(tmp_path)
    assert made.train(batches(), steps=7) is made
    np.testing.assert_allclose(made.get_variable_value("weight"), by_hand(7), rtol=1e-5)
    # Another estimator on the same folder reads from the beginning of the data, with the weights that are there.
    again = estimator(tmp_path).train(batches(), max_steps=9)
    assert again.get_variable_value("global_step") == 9
    assert os.path.basename(again.latest_checkpoint()) == "model.ckpt-9"
    assert sorted(again.get_variable_names()) == ["global_step", "weight"]


def test_training_ends_with_the_data(tmp_path: Path):
    made = estimator(tmp_path).train(batches(epochs=2))
    assert made.get_variable_value("global_step") == 6


def test_nothing_is_trained_beyond_the_last_step(tmp_path: Path):
    made = estimator(tmp_path).train(batches(), max_steps=3)
    before = made.get_variable_value("weight")
    made.train(batches(), max_steps=3)
    np.testing.assert_array_equal(made.get_variable_value("weight"), before)


def test_checkpoints_are_kept_as_the_config_says(tmp_path: Path):
    estimator(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=2).train(batches(), steps=7)
    assert sorted(each.name for each in tmp_path.glob("*.index")) == ["model.ckpt-6.index", "model.ckpt-7.index"]


def test_evaluation_is_the_mean_over_all_batches(tmp_path: Path):
    made = estimator(tmp_path).train(batches(), steps=7)
    weight = by_hand(7)
    errors = X @ weight - Y
    found = made.evaluate(batches(epochs=1))
    assert list(found) == ["error", "global_step", "loss"]
    assert found["global_step"] == 7
    np.testing.assert_allclose(found["error"], np.abs(errors).mean(), rtol=1e-5)
    np.testing.assert_allclose(found["loss"], np.mean(errors**2), rtol=1e-5)
    part = made.evaluate(batches(), steps=1, name="part")
    np.testing.assert_allclose(part["loss"], np.mean(errors[:4] ** 2), rtol=1e-5)
    assert list((tmp_path / "eval_part").iterdir())


def test_an_earlier_checkpoint_can_be_evaluated(tmp_path: Path):
    made = estimator(tmp_path).train(batches(), steps=7)
    found = made.evaluate(batches(epochs=1), checkpoint_path=str(tmp_path / "model.ckpt-5"))
    assert found["global_step"] == 5
    np.testing.assert_allclose(found["loss"], np.mean((X @ by_hand(5) - Y) ** 2), rtol=1e-5)


def test_predictions_come_row_by_row_or_in_batches(tmp_path: Path):
    made = estimator(tmp_path).train(batches(), steps=7)
    wanted = X @ by_hand(7)
    rows = list(made.predict(batches(epochs=1)))
    np.testing.assert_allclose([each["y"] for each in rows], wanted, rtol=1e-4)
    several = list(made.predict(batches(epochs=1, rows=8), predict_keys="y", yield_single_examples=False))
    assert [(list(each), len(each["y"])) for each in several] == [(["y"], 8), (["y"], 4)]


def test_predicting_leaves_the_default_graph_alone(tmp_path: Path):
    made = estimator(tmp_path).train(batches(), steps=1)
    graph = tf.get_default_graph()
    found = made.predict(batches(epochs=1))
    next(found)
    found.close()
    assert tf.get_default_graph() is graph


def test_training_and_evaluating_take_turns(tmp_path: Path):
    evaluated: list[int] = []

    class Note(tf.train.SessionRunHook):
        def end(self, session: Any) -> None:
            evaluated.append(int(session.run("global_step:0")))

    train = tf.estimator.TrainSpec(batches(), max_steps=12)
    evaluate = tf.estimator.EvalSpec(batches(epochs=1), steps=None, hooks=[Note()], throttle_secs=0)
    found, exported = tf.estimator.train_and_evaluate(estimator(tmp_path), train, evaluate)
    assert evaluated == [5, 10, 12]
    assert found["global_step"] == 12
    assert exported == []


def test_arrays_are_an_input_function(tmp_path: Path):
    read = tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=5, num_epochs=2, shuffle=False)
    made = estimator(tmp_path).train(read)
    assert made.get_variable_value("global_step") == 5  # 24 rows
    mixed = tf.estimator.inputs.numpy_input_fn(X, batch_size=12, num_epochs=1, shuffle=True)()
    with tf.Session() as session:
        assert sorted(session.run(mixed)[:, 0]) == sorted(X[:, 0])


def test_functions_are_given_what_they_name(tmp_path: Path):
    seen: dict[str, Any] = {}

    def read(params: Any, mode: str, config: Any) -> Any:
        seen["read"] = (params, mode, config.model_dir)
        return batches()()

    def named(features: Any, labels: Any, mode: str, config: Any) -> Any:
        seen["model"] = (mode, config.save_checkpoints_steps)
        return model(features, labels, mode, {"rate": 0.1})

    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=3)
    tf.estimator.Estimator(named, config=config, params={"rate": 1}).train(read, steps=1)
    assert seen == {"read": ({"rate": 1}, "train", str(tmp_path)), "model": ("train", 3)}


def _spec(mode: str, **parts: Any) -> Any:
    return tf.estimator.EstimatorSpec(mode, **parts)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: _spec("train", loss=tf.constant(1.0)), ValueError, "Missing train_op"),
        (lambda: _spec("eval"), ValueError, "Missing loss"),
        (lambda: _spec("infer"), ValueError, "Missing predictions"),
        (lambda: _spec("eval", loss=tf.zeros([2])), ValueError, "Loss must be scalar"),
        (lambda: _spec("eval", loss=tf.constant(1.0), eval_metric_ops=[1]), TypeError, "must be a dict"),
        (lambda: _spec("eval", loss=tf.constant(1.0), eval_metric_ops={"a": 1}), TypeError, "for key: a"),
        (lambda: tf.estimator.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1), ValueError, "both set"),
        (lambda: tf.estimator.RunConfig(unknown=1), TypeError, "RunConfig has no unknown"),
        (lambda: tf.estimator.RunConfig().replace(is_chief=False), ValueError, "Replacing is_chief"),
        (lambda: tf.estimator.inputs.numpy_input_fn(X), ValueError, "shuffle must be provided"),
        (lambda: tf.estimator.inputs.numpy_input_fn(X, Y[:3], shuffle=False), ValueError, r"\[12, 3\]"),
        (lambda: tf.estimator.Estimator(model).train(batches(), steps=1, max_steps=1), ValueError, "both steps"),
        (lambda: tf.estimator.Estimator(model).train(batches(), steps=0), ValueError, "steps > 0"),
        (lambda: tf.estimator.Estimator(model).evaluate(batches(), steps=0), ValueError, "steps > 0"),
        (lambda: tf.estimator.Estimator(model).get_variable_names(), ValueError, "not been fitted"),
        (lambda: tf.estimator.Estimator(lambda features: 3).train(batches()), ValueError, "does not take labels"),
        (lambda: tf.estimator.Estimator(lambda features, labels: 3).train(batches()), ValueError, "an EstimatorSpec"),
        (lambda: tf.estimator.train_and_evaluate(3, None, None), TypeError, "`estimator` must have type"),
        (lambda: tf.estimator.Estimator(model, warm_start_from="x"), NotImplementedError, "warm_start_from"),
    ],
)
def test_a_mistake_names_what_came(make: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        make()


# -- hyperparameters -------------------------------------------------------------------------------------------------


def test_hyperparameters_keep_their_types():
    made = tf.contrib.training.HParams(rate=0.1, units=[8, 8], cell="lstm", deep=True, seed=None, size=3)
    made.parse("rate=1, units=[4,2], cell=gru, deep=false, size=5")
    assert made.values() == {"rate": 1.0, "units": [4, 2], "cell": "gru", "deep": False, "seed": None, "size": 5}
    assert made.parse("units[1]=7").units == [4, 7]
    assert made.override_from_dict({"size": 6}).size == 6
    assert (
        tf.contrib.training.HParams(rate=0.5, size=1).parse_json('{"size": 9}').to_json() == '{"rate": 0.5, "size": 9}'
    )
    assert made.get("size") == 6
    assert made.get("other", 1) == 1
    assert "other" not in made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.parse("other=1"), "Unknown hyperparameter type for other"),
        (lambda h: h.parse("size=a"), "Could not parse hparam 'size' of type 'int' with value 'a'"),
        (lambda h: h.parse("size=[1,2]"), "Must not pass a list"),
        (lambda h: h.parse("=1"), "Malformed"),
        (lambda h: h.set_hparam("size", 1.5), "Could not cast hparam 'size'"),
        (lambda h: h.set_hparam("size", [1]), "Must not pass a list"),
        (lambda h: h.set_hparam("units", 1), "Must pass a list"),
        (lambda h: h.add_hparam("size", 1), "Hyperparameter name is reserved: size"),
        (lambda h: h.add_hparam("more", []), "cannot be empty"),
    ],
)
def test_a_hyperparameter_of_another_type_is_refused(change: Any, message: str):
    with pytest.raises(ValueError, match=message):
        change(tf.contrib.training.HParams(size=3, units=[1, 2]))


# -- vocabularies ----------------------------------------------------------------------------------------------------


def test_words_are_numbered_in_their_order_and_rows_are_of_one_length(tmp_path: Path):
    processor = tf.contrib.learn.preprocessing.VocabularyProcessor(4)
    rows = np.array(list(processor.fit_transform(["to be or not to be", "it's"])))
    assert rows.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0]]
    assert np.array(list(processor.transform(["not here, be"]))).tolist() == [[4, 0, 2, 0]]
    assert list(processor.reverse([[1, 2, 0]])) == ["to be <UNK>"]
    assert len(processor.vocabulary_) == 6
    processor.save(tmp_path / "vocabulary")
    again = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(tmp_path / "vocabulary")
    assert np.array(list(again.transform(["not here, be"]))).tolist() == [[4, 0, 2, 0]]


def test_rare_words_are_unknown_and_the_others_are_sorted_by_count():
    processor = tf.contrib.learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    processor.fit(["b a b c", "a b d"])
    assert list(processor.reverse([[0, 1, 2]])) == ["<UNK> b a"]
    assert np.array(list(processor.transform(["a c b"]))).tolist() == [[2, 0, 1]]


# -- tables of contrib -----------------------------------------------------------------------------------------------


def looked_up(*tensors: Any) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return [each.tolist() for each in session.run(list(tensors))]


def test_tables_from_lists_and_files(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("to\nbe\nor\n")
    lookup, words = tf.contrib.lookup, tf.constant(["be", "see", "to"])
    numbers = tf.constant([2, 0, 9], tf.int64)
    assert looked_up(
        lookup.index_table_from_file(str(path)).lookup(words),
        lookup.index_table_from_file(str(path), num_oov_buckets=1, vocab_size=2).lookup(words),
        lookup.index_table_from_tensor(["to", "be"], default_value=7).lookup(words),
        lookup.index_table_from_tensor(mapping=tf.constant(["to", "be"])).lookup(words),
        lookup.index_to_string_table_from_file(str(path)).lookup(numbers),
        lookup.index_to_string_table_from_tensor(["to", "be", "or"], "?").lookup(numbers),
        lookup.HashTable(lookup.KeyValueTensorInitializer(["to"], [1.5]), -1.0).lookup(words),
    ) == [
        [1, -1, 0],
        [1, 2, 0],
        [1, 7, 0],
        [1, -1, 0],
        [b"or", b"to", b"UNK"],
        [b"or", b"to", b"?"],
        [-1.0, -1.0, 1.5],
    ]


def test_a_mutable_table_is_filled_by_runs():
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    insert = table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    found = table.lookup(tf.constant(["b", "c"]))
    with tf.Session() as session:
        assert session.run(found).tolist() == [-1, -1]
        session.run(insert)
        assert session.run(found).tolist() == [2, -1]
        keys, values = session.run(table.export())
        assert dict(zip(keys, values, strict=True)) == {b"a": 1, b"b": 2}
        assert session.run(table.size()) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.contrib.lookup.index_table_from_file(), "must be specified"),
        (lambda: tf.contrib.lookup.index_table_from_file("words", vocab_size=0), "greater than 0, got 0"),
        (lambda: tf.contrib.lookup.index_table_from_tensor(["a"], num_oov_buckets=-1), "got -1"),
        (lambda: tf.contrib.lookup.index_to_string_table_from_tensor(), "mapping must be specified"),
    ],
)
def test_a_table_without_what_it_needs_says_so(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()


# -- the projector ---------------------------------------------------------------------------------------------------


def test_the_projector_finds_what_it_shows(tmp_path: Path):
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig()
    first = config.embeddings.add()
    first.tensor_name, first.metadata_path = "words", 'a "quoted" path'
    first.sprite.image_path = "words.png"
    first.sprite.single_image_dim.extend([28, 28])
    config.embeddings.add(tensor_name="more")
    projector.visualize_embeddings(tf.summary.FileWriter(str(tmp_path)), config)
    text = (tmp_path / "projector_config.pbtxt").read_text()
    protos = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    read = text_format.Parse(text, protos.ProjectorConfig())
    assert [each.tensor_name for each in read.embeddings] == ["words", "more"]
    assert read.embeddings[0].metadata_path == 'a "quoted" path'
    assert list(read.embeddings[0].sprite.single_image_dim) == [28, 28]


@pytest.mark.parametrize(
    ("make", "limit", "stops"),
    [
        ("stop_if_no_increase_hook", 20, True),
        ("stop_if_no_increase_hook", 30, False),
        ("stop_if_no_decrease_hook", 10, True),
        ("stop_if_no_decrease_hook", 40, False),
        ("stop_if_higher_hook", 0.8, True),
        ("stop_if_higher_hook", 0.9, False),
        ("stop_if_lower_hook", 0.5, False),
        ("stop_if_lower_hook", 0.65, True),
    ],
)
def test_training_stops_by_what_evaluations_found(tmp_path: Path, make: str, limit: float, stops: bool):
    pytest.importorskip("tensorboard")
    trained = estimator(tmp_path)
    with tf.summary.FileWriter(trained.eval_dir()) as writer:
        for step, value in {0: 1.0, 10: 0.6, 20: 0.9, 30: 0.7, 40: 0.6}.items():
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="f1", simple_value=value)]), step)
    hook = getattr(tf.contrib.estimator, make)(trained, "f1", limit, min_steps=10)
    trained.train(batches(), hooks=[hook], steps=3)
    assert trained.get_variable_value("global_step") == (1 if stops else 3)


def test_a_hook_that_stops_says_what_it_needs(tmp_path: Path):
    with pytest.raises(TypeError, match=r"must have type `tf\.estimator\.Estimator`"):
        tf.contrib.estimator.stop_if_no_increase_hook("estimator", "f1", 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="Only one of `run_every_secs` and `run_every_steps`"):
        tf.estimator.experimental.stop_if_higher_hook(estimator(tmp_path), "f1", 1, run_every_steps=3)
