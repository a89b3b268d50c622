"""`tf.test`, pictures in summaries, and names that programs say without needing what they do."""

from __future__ import annotations

import io
import unittest
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unspool import tf1 as tf
from unspool.tf1.internals import debug, rnn_cell_impl


def failures(body: Any) -> list[Any]:
    """Those of a test with this body."""

    class Case(tf.test.TestCase):
        def test_body(self) -> None:
            body(self)

    result = unittest.TestResult()
    Case("test_body").run(result)
    assert not result.errors, result.errors
    return result.failures


class TestCases:
    @pytest.mark.parametrize(
        "body",
        [
            lambda test: test.assertAllClose([1.0, 2.0], np.array([1.0, 2.0000001])),
            lambda test: test.assertAllClose(
                {"a": [1.0], "b": (np.ones(2), [[3.0]])}, {"a": [1.0], "b": ([1, 1], [[3]])}
            ),
            lambda test: test.assertAllEqual(np.array([1, 2]), [1, 2]),
            lambda test: test.assertAllEqual([float("nan")], [float("nan")]),
            lambda test: test.assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3])),
            lambda test: test.assertNear(1.0, 1.05, 0.1),
            lambda test: test.assertArrayNear([1.0, 2.0], [1.01, 2.0], 0.1),
        ],
    )
    def test_what_holds_passes(self, body: Any) -> None:
        assert not failures(body)

    @pytest.mark.parametrize(
        "body",
        [
            lambda test: test.assertAllClose([1.0, 2.0], [1.0, 2.1]),
            lambda test: test.assertAllClose([1.0], [[1.0]]),
            lambda test: test.assertAllClose({"a": 1.0}, {"b": 1.0}),
            lambda test: test.assertAllClose([np.ones(2), np.ones(3)], [np.ones(2)]),
            lambda test: test.assertAllEqual([1, 2], [1, 3]),
            lambda test: test.assertShapeEqual(np.zeros((3, 2)), tf.zeros([2, 3])),
            lambda test: test.assertNear(1.0, 1.2, 0.1),
            lambda test: test.assertArrayNear([1.0], [1.0, 2.0], 0.1),
        ],
    )
    def test_what_does_not_hold_fails(self, body: Any) -> None:
        assert failures(body)

    def test_tensors_are_evaluated_in_the_session_around(self) -> None:
        def body(test: Any) -> None:
            x = tf.Variable(3.0)
            with test.test_session() as session:
                session.run(tf.global_variables_initializer())
                test.assertAllClose(x * 2, 6.0)
                assert test.evaluate([x]) == [3.0]

        assert not failures(body)

    def test_each_begins_with_an_empty_graph_and_the_same_seeds(self) -> None:
        drawn: list[Any] = []

        def body(test: Any) -> None:
            assert not tf.get_default_graph().get_operations()
            with test.cached_session():
                drawn.append((tf.random_normal([3]).eval().tolist(), np.random.rand(2).tolist()))

        assert not failures(body)
        assert not failures(body)
        assert drawn[0] == drawn[1]

    def test_a_session_of_another_graph(self) -> None:
        def body(test: Any) -> None:
            graph = tf.Graph()
            with test.session(graph=graph):
                assert tf.constant(1).graph is graph

        assert not failures(body)

    def test_a_test_has_one_folder(self) -> None:
        def body(test: Any) -> None:
            assert test.get_temp_dir() == test.get_temp_dir() != tf.test.get_temp_dir()

        assert not failures(body)


def pictures(images: Any, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The pixels of a summary of pictures, by tag."""
    with tf.Session() as session:
        summary = tf.Summary.FromString(session.run(tf.summary.image("frames", images, **options)))
    found = {}
    for value in summary.value:
        pixels = np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))
        shape = value.image.height, value.image.width, value.image.colorspace
        found[value.tag] = pixels.reshape(shape)
    return found


class TestPictures:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_bytes_are_as_they_are(self, channels: int) -> None:
        given = np.random.default_rng(0).integers(0, 256, (2, 3, 5, channels)).astype(np.uint8)
        found = pictures(given)
        assert list(found) == ["frames/image/0", "frames/image/1"]
        for row, each in zip(given, found.values(), strict=True):
            np.testing.assert_array_equal(each, row)

    def test_the_largest_of_positive_numbers_is_white(self) -> None:
        (found,) = pictures(np.array([[[[0.0], [1.0], [4.0]]]], np.float32), max_outputs=1).values()
        np.testing.assert_array_equal(found[0, :, 0], [0, 63, 255])

    def test_zero_is_in_the_middle_of_both_signs(self) -> None:
        (found,) = pictures(np.array([[[[-2.0], [0.0], [1.0]]]], np.float32), max_outputs=1).values()
        np.testing.assert_array_equal(found[0, :, 0], [1, 128, 191])

    def test_what_is_not_finite_is_red(self) -> None:
        given = np.ones((1, 1, 2, 3), np.float32)
        given[0, 0, 1, 0] = np.nan
        (found,) = pictures(given, max_outputs=1).values()
        np.testing.assert_array_equal(found[0], [[255, 255, 255], [255, 0, 0]])

    @pytest.mark.parametrize(
        ("shape", "options", "said"),
        [
            ((2, 3), {}, r"tensor must be \[batch, height, width, 1, 3 or 4 channels\], but has shape \(2, 3\)"),
            ((1, 2, 3, 2), {}, "3 or 4 channels"),
            ((1, 2, 3, 1), {"max_outputs": 0}, "max_outputs must be at least 1, but is 0"),
        ],
    )
    def test_mistakes(self, shape: Any, options: Any, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            tf.summary.image("frames", tf.zeros(shape), **options)


def test_a_session_that_a_debugger_would_wrap_is_the_session() -> None:
    with tf.Session() as session:
        assert debug.LocalCLIDebugWrapperSession(session, ui_type="readline") is session
        assert debug.TensorBoardDebugWrapperSession(session, "localhost:6064") is session
    assert debug.has_inf_or_nan(None, np.array([1.0, np.inf]))
    assert not debug.has_inf_or_nan(None, np.array([1.0]))
    assert isinstance(debug.LocalCLIDebugHook(), tf.train.SessionRunHook)


def test_devices_of_a_cluster_place_nothing() -> None:
    assert tf.train.replica_device_setter() is None
    with tf.device(tf.train.replica_device_setter(cluster={"ps": ["a:1"]})), tf.colocate_with(tf.constant(1)):
        assert tf.constant(2).graph is tf.get_default_graph()
    assert not tf.executing_eagerly()


def test_shapes_are_concatenated() -> None:
    assert rnn_cell_impl._concat(None, 3, static=True) == [None, 3]
    assert rnn_cell_impl._concat(tf.constant(2), [3, 4], static=True) == [2, 3, 4]
    with tf.Session() as session:
        assert session.run(rnn_cell_impl._concat(tf.constant(2), [3, 4])).tolist() == [2, 3, 4]
