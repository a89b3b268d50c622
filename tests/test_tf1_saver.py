"""Saving and restoring: what is kept, what is written, and errors that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf
from unspool.tf1 import train
from unspool.tf1.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, NotFoundError

WRITTEN = Path(__file__).parent / "data" / "checkpoints"


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph: Any) -> Iterator[Any]:
    with tf.Session(graph=graph) as session:
        yield session


def variable(name: str, *values: float) -> Any:
    return tf.get_variable(name, initializer=np.array(values, "float32"))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_restored_without_initializing(session: Any, tmp_path: Path) -> None:
    weight, count = variable("weight", 1, 2), tf.Variable(3, name="count", trainable=False)
    session.run(tf.global_variables_initializer())
    saver = train.Saver()
    prefix = saver.save(session, str(tmp_path / "model.ckpt"))
    assert prefix == str(tmp_path / "model.ckpt")
    with tf.Session() as other:
        saver.restore(other, prefix)
        assert other.run(weight).tolist() == [1, 2]
        assert other.run(count) == 3


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(session: Any, tmp_path: Path) -> None:
    weight = variable("weight", 1, 2)
    step = train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(weight)), train.get_or_create_global_step())
    saver = train.Saver()
    session.run(tf.global_variables_initializer())
    session.run(step)
    prefix = saver.save(session, str(tmp_path / "model"))
    session.run(step)
    with tf.Session() as other:
        saver.restore(other, prefix)
        other.run(step)
        for each in tf.global_variables():
            np.testing.assert_array_equal(other.run(each), session.run(each))


@pytest.mark.parametrize("relative", [False, True])
def test_a_prefix_that_ends_in_a_slash_names_files_that_begin_with_a_dot(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    given = "model/" if relative else f"{tmp_path}/model/"
    weight = variable("weight", 1, 2)
    session.run(tf.global_variables_initializer())
    saver = train.Saver(max_to_keep=1)
    assert saver.save(session, given) == given
    assert files(tmp_path / "model") == [".data-00000-of-00001", ".index", ".meta", "checkpoint"]
    assert train.checkpoint_exists(given)
    assert train.latest_checkpoint(given) == given
    assert train.list_variables(given) == [("weight", [2])]
    with tf.Session() as other:
        saver.restore(other, train.latest_checkpoint(given))
        assert other.run(weight).tolist() == [1, 2]
    assert saver.save(session, given, global_step=3) == f"{given}-3"
    assert files(tmp_path / "model") == ["-3.data-00000-of-00001", "-3.index", "-3.meta", "checkpoint"]
    with pytest.raises(ValueError, match="path must be the prefix of files"):
        saver.save(session, "")


def test_every_dtype_comes_back_as_it_was(session: Any, tmp_path: Path) -> None:
    kinds = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64"]
    made = {kind: tf.get_variable(kind, initializer=np.array([[1, 0]], kind)) for kind in kinds}
    half = tf.get_variable("bfloat16", [2], tf.bfloat16, tf.constant_initializer(1.5))
    session.run(tf.global_variables_initializer())
    saver = train.Saver()
    prefix = saver.save(session, str(tmp_path / "model"))
    with tf.Session() as other:
        saver.restore(other, prefix)
        for kind, each in made.items():
            value = other.run(each)
            assert value.dtype == kind
            assert value.tolist() == np.array([[1, 0]], kind).tolist()
        assert other.run(half).tolist() == [1.5, 1.5]


def test_step_is_the_end_of_the_prefix(session: Any, tmp_path: Path) -> None:
    variable("weight", 1)
    count = tf.Variable(7, name="count")
    session.run(tf.global_variables_initializer())
    saver = train.Saver()
    assert saver.save(session, str(tmp_path / "model"), global_step=3).endswith("model-3")
    assert saver.save(session, str(tmp_path / "model"), global_step=count).endswith("model-7")
    padded = train.Saver(pad_step_number=True)
    assert padded.save(session, str(tmp_path / "model"), global_step=3).endswith("model-00000003")


def test_the_last_checkpoints_are_kept(session: Any, tmp_path: Path) -> None:
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    saver = train.Saver(max_to_keep=2)
    for step in range(4):
        saver.save(session, str(tmp_path / "model"), global_step=step)
    assert saver.last_checkpoints == [str(tmp_path / "model-2"), str(tmp_path / "model-3")]
    parts = ["data-00000-of-00001", "index", "meta"]
    assert files(tmp_path) == ["checkpoint", *(f"model-{step}.{part}" for step in (2, 3) for part in parts)]
    state = train.get_checkpoint_state(str(tmp_path))
    assert state.all_model_checkpoint_paths == saver.last_checkpoints
    assert state.model_checkpoint_path == saver.last_checkpoints[-1] == train.latest_checkpoint(str(tmp_path))


@pytest.mark.parametrize("most", [0, None])
def test_all_are_kept_without_a_limit(session: Any, tmp_path: Path, most: int | None) -> None:
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    saver = train.Saver(max_to_keep=most)
    for step in range(7):
        saver.save(session, str(tmp_path / "model"), global_step=step)
    assert len([name for name in files(tmp_path) if name.endswith(".index")]) == 7


def test_one_of_so_many_hours_stays(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("unspool.tf1.train.saver.time.time", lambda: now[0])
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    saver = train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=2)
    for hour in range(7):
        now[0] = hour * 3600.0 + 1
        saver.save(session, str(tmp_path / "model"), global_step=hour)
    assert [name for name in files(tmp_path) if name.endswith(".index")] == [
        "model-2.index",
        "model-4.index",
        "model-6.index",
    ]


def test_saving_one_again_moves_it_to_the_end(session: Any, tmp_path: Path) -> None:
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    saver = train.Saver(max_to_keep=2)
    for step in (1, 2, 1, 3):
        saver.save(session, str(tmp_path / "model"), global_step=step)
    assert saver.last_checkpoints == [str(tmp_path / "model-1"), str(tmp_path / "model-3")]


def test_a_folder_with_relative_paths_can_be_moved(session: Any, tmp_path: Path) -> None:
    weight = variable("weight", 1)
    session.run(tf.global_variables_initializer())
    train.Saver(save_relative_paths=True).save(session, str(tmp_path / "a" / "model"), global_step=1)
    (tmp_path / "a").rename(tmp_path / "b")
    assert (tmp_path / "b" / "checkpoint").read_text().splitlines() == [
        'model_checkpoint_path: "model-1"',
        'all_model_checkpoint_paths: "model-1"',
    ]
    train.Saver().restore(session, train.latest_checkpoint(str(tmp_path / "b")))
    assert session.run(weight) == 1


def test_relative_prefixes_are_relative_to_their_folder(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    assert train.Saver().save(session, "logs/model", global_step=1) == "logs/model-1"
    assert train.latest_checkpoint("logs") == "logs/model-1"
    assert train.Saver().save(session, "model") == "model"
    assert train.latest_checkpoint(".") == "./model"


def test_paths_may_have_quotes_and_other_letters(session: Any, tmp_path: Path) -> None:
    variable("weight", 1)
    session.run(tf.global_variables_initializer())
    folder = tmp_path / 'it\'s "größer"'
    prefix = train.Saver().save(session, str(folder / "model"))
    assert train.latest_checkpoint(str(folder)) == prefix


def test_variables_are_saved_by_other_names(session: Any, tmp_path: Path) -> None:
    one, other = variable("one", 1), variable("other", 2)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver({"first": one, "second": other}).save(session, str(tmp_path / "model"))
    assert train.list_variables(prefix) == [("first", [1]), ("second", [1])]
    train.Saver({"first": other}).restore(session, prefix)
    assert session.run(other) == 1


def test_averages_are_restored_into_their_variables(session: Any, tmp_path: Path) -> None:
    weight = variable("weight", 1)
    averages = train.ExponentialMovingAverage(0.5)
    update = averages.apply()
    session.run(tf.global_variables_initializer())
    session.run(weight.assign([3.0]))
    session.run(update)
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    train.Saver(averages.variables_to_restore()).restore(session, prefix)
    assert session.run(weight) == 2


def test_missing_variables_are_listed_and_nothing_changes(session: Any, tmp_path: Path) -> None:
    one = variable("one", 1)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    session.run(one.assign([5.0]))
    variable("two", 1)
    variable("three", 1)
    with pytest.raises(NotFoundError, match="two, three"):
        train.Saver().restore(session, prefix)
    assert session.run(one) == 5


def test_misshaped_variables_are_listed_and_nothing_changes(session: Any, tmp_path: Path) -> None:
    one, two = variable("one", 1), variable("two", 1, 2)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as other:
        one, two = variable("one", 7), variable("two", 1, 2, 3)
        other.run(tf.global_variables_initializer())
        with pytest.raises(InvalidArgumentError, match=r"two has shape \[2\] in the checkpoint, but \[3\]"):
            train.Saver([one, two]).restore(other, prefix)
        assert other.run(one) == 7


def test_another_dtype_is_an_error(session: Any, tmp_path: Path) -> None:
    variable("one", 1)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as other:
        tf.get_variable("one", initializer=np.ones(1))
        with pytest.raises(InvalidArgumentError, match="one is float32 in the checkpoint, but float64"):
            train.Saver().restore(other, prefix)


def test_as_many_elements_in_another_shape_are_taken_if_asked(session: Any, tmp_path: Path) -> None:
    variable("one", 1, 2, 3, 4)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as other:
        square = tf.get_variable("one", [2, 2])
        train.Saver(reshape=True).restore(other, prefix)
        assert other.run(square).tolist() == [[1, 2], [3, 4]]


def test_a_broken_checkpoint_is_an_error_and_nothing_changes(session: Any, tmp_path: Path) -> None:
    one = variable("one", 1)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    session.run(one.assign([5.0]))
    data = Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    with pytest.raises(DataLossError, match="one is damaged"):
        train.Saver().restore(session, prefix)
    assert session.run(one) == 5


def test_a_variable_without_a_value_is_an_error_and_nothing_is_written(session: Any, tmp_path: Path) -> None:
    variable("one", 1)
    with pytest.raises(FailedPreconditionError, match="uninitialized value one"):
        train.Saver().save(session, str(tmp_path / "model"))
    assert files(tmp_path) == []


def test_where_there_is_no_checkpoint_it_says_so(session: Any, tmp_path: Path) -> None:
    variable("one", 1)
    saver = train.Saver()
    with pytest.raises(ValueError, match=r"not a valid checkpoint: .*model"):
        saver.restore(session, str(tmp_path / "model"))
    with pytest.raises(ValueError, match="Can't load save_path when it is None"):
        saver.restore(session, None)
    assert train.latest_checkpoint(str(tmp_path)) is None
    assert not train.checkpoint_exists(str(tmp_path / "model"))
    with pytest.raises(NotFoundError, match="Failed to find any matching files"):
        train.NewCheckpointReader(str(tmp_path / "model"))


def test_nothing_to_save_is_an_error() -> None:
    with pytest.raises(ValueError, match="No variables to save"):
        train.Saver()


def test_two_variables_of_one_name_are_an_error() -> None:
    one = variable("one", 1)
    with pytest.raises(ValueError, match="At least two variables have the same name: one"):
        train.Saver([one, one])


def test_what_is_no_variable_or_no_session_is_an_error(tmp_path: Path) -> None:
    variable("one", 1)
    with pytest.raises(TypeError, match="var_list must hold variables"):
        train.Saver([tf.constant(1.0)])
    with pytest.raises(TypeError, match="'sess' must be a Session"):
        train.Saver().save(None, str(tmp_path / "model"))


def test_a_reader_tells_what_is_there(session: Any, tmp_path: Path) -> None:
    variable("one", 1, 2)
    session.run(tf.global_variables_initializer())
    prefix = train.Saver().save(session, str(tmp_path / "model"))
    reader = train.NewCheckpointReader(prefix)
    assert reader.get_variable_to_shape_map() == {"one": [2]}
    assert reader.get_variable_to_dtype_map() == {"one": tf.float32}
    assert reader.has_tensor("one")
    assert reader.get_tensor("one").tolist() == [1, 2]
    assert train.load_variable(str(tmp_path), "one").tolist() == [1, 2]
    with pytest.raises(NotFoundError, match="Key two not found"):
        reader.get_tensor("two")


@pytest.mark.skipif(not WRITTEN.is_dir(), reason="there are no checkpoints of TensorFlow's")
def test_checkpoints_that_tensorflow_wrote_are_restored(session: Any) -> None:
    folder = next(path for path in sorted(WRITTEN.iterdir()) if list(path.glob("*.index")))
    prefix = str(next(folder.glob("*.index")))[: -len(".index")]
    reader = train.NewCheckpointReader(prefix)
    shapes = {name: shape for name, shape in train.list_variables(prefix) if reader.get_tensor(name).dtype == "float32"}
    made = {name: tf.get_variable(name, shape) for name, shape in shapes.items()}
    train.Saver(made).restore(session, prefix)
    for name, each in made.items():
        np.testing.assert_array_equal(session.run(each), reader.get_tensor(name))
