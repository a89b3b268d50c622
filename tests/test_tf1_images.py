"""Layers of convolutions and pooling against TensorFlow's names and numbers, and what they say of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests import tf1_images, tf1_recorded
from unspool import tf1 as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("case", tf1_images.ALL, ids=lambda case: case.__name__)
def test_names_and_numbers_are_tensorflow_s(case: Callable[..., Any]) -> None:
    tf1_recorded.check("images", case.__name__, case(tf))


@pytest.mark.parametrize("sides", [1, 2, 3])
def test_channels_first_are_channels_last_turned(sides: int) -> None:
    values = np.random.default_rng(0).normal(size=(2, *(5, 4, 3)[:sides], 2)).astype("float32")
    layer = getattr(tf.layers, f"Conv{sides}D")
    last = layer(3, 2, padding="same", name="last")
    first = layer(3, 2, padding="same", data_format="channels_first", name="first")
    one, other = last(tf.constant(values)), first(tf.constant(np.moveaxis(values, -1, 1)))
    pooling = getattr(tf.layers, f"max_pooling{sides}d")
    pools = pooling(one, 2, 2), pooling(other, 2, 2, data_format="channels_first")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([first.kernel.assign(last.kernel.value())])
        for left, right in (session.run([one, other]), session.run(list(pools))):
            np.testing.assert_allclose(np.moveaxis(left, -1, 1), right, rtol=0, atol=1e-6)


def images(*shape: Any) -> Any:
    return tf.placeholder(tf.float32, shape)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tf.layers.conv2d(images(2, 5, 3), 4, 3), ValueError, "expected ndim=4, found ndim=3"),
        (
            lambda: tf.layers.conv2d(images(2, 5, 5, None), 4, 3),
            ValueError,
            "channel dimension of the inputs",
        ),
        (lambda: tf.layers.conv2d(images(2, 5, 5, 1), 0, 3), ValueError, "filters must be positive, but is 0"),
        (
            lambda: tf.layers.conv2d(images(2, 5, 5, 1), 4, [3]),
            ValueError,
            "`kernel_size` argument must be",
        ),
        (
            lambda: tf.layers.conv2d(images(2, 5, 5, 1), 4, 3, padding="causal"),
            ValueError,
            "one of valid, same",
        ),
        (lambda: tf.layers.conv2d(images(2, 5, 5, 1), 4, 3, data_format="NHWC"), ValueError, "`data_format` argument"),
        (lambda: tf.layers.conv2d(images(2, 2, 2, 1), 4, 3), ValueError, "Negative dimension size"),
        (lambda: tf.layers.conv2d(images(2, 5, 5, 1), 4, 3, colour=1), TypeError, "colour"),
        (lambda: tf.layers.conv2d(images(2, 5, 5, 1), 4, 3, kernel_constraint=abs), NotImplementedError, "constraint"),
        (lambda: tf.layers.max_pooling2d(images(2, 5, 3), 2, 2), ValueError, "expected ndim=4, found ndim=3"),
        (lambda: tf.layers.max_pooling2d(images(2, 5, 5, 3), 2, 0), ValueError, "`strides` argument must be"),
        (
            lambda: tf.nn.conv2d(images(2, 5, 3), images(3, 3, 3, 4), 1, "SAME"),
            ValueError,
            "rank 4 but is rank 3",
        ),
        (lambda: tf.nn.conv2d(images(2, 5, 5, 3), images(3, 3, 3, 4), [2, 1, 1, 1], "SAME"), ValueError, "must be 1"),
        (
            lambda: tf.nn.conv2d(images(2, 5, 5, 3), images(3, 3, 3, 4), None, "SAME"),
            ValueError,
            "must be given",
        ),
        (lambda: tf.nn.max_pool(images(2, 2, 2, 3), 3, 1, "VALID"), ValueError, "Negative dimension size"),
        (lambda: tf.nn.max_pool(images(2, 5, 5, 3), 2, 2, "SAME", "CHWN"), ValueError, "data_format must be one of"),
        (lambda: tf.nn.atrous_conv2d(images(2, 5, 5, 3), images(3, 3, 3, 4), 0, "SAME"), ValueError, "less than one"),
        (lambda: tf.nn.convolution(images(2, 3), images(3, 3)), ValueError, "must have 3 to 5 axes"),
        (lambda: tf.nn.pool(images(2, 5, 3), [2], "MAX", "VALID", [2], [2]), ValueError, "strides > 1 not supported"),
        (lambda: tf.nn.pool(images(2, 5, 3), [2, 2, 2, 2], "MAX", "VALID"), ValueError, "1, 2 or 3 spatial"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
