"""Convolutions and pooling."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

_IMAGES, _FILTER = floats(1, 5, 6, 2), floats(3, 2, 2, 4)
for _padding in ["SAME", "VALID"]:
    for _stride in [1, 2, 3]:
        add(f"conv2d {_padding} by {_stride}", lambda tf, x, w, p=_padding, s=_stride: tf.nn.conv2d(x, w, [1, s, s, 1], p), _IMAGES, _FILTER)  # fmt: skip  # noqa: E501
        add(f"conv1d {_padding} by {_stride}", lambda tf, x, w, p=_padding, s=_stride: tf.nn.conv1d(x, w, s, p), floats(2, 7, 3), floats(4, 3, 2))  # fmt: skip  # noqa: E501
        add(f"max_pool {_padding} by {_stride}", lambda tf, x, p=_padding, s=_stride: tf.nn.max_pool(x, [1, 3, 2, 1], [1, s, s, 1], p), _IMAGES)  # fmt: skip  # noqa: E501
        add(f"avg_pool {_padding} by {_stride}", lambda tf, x, p=_padding, s=_stride: tf.nn.avg_pool(x, [1, 3, 2, 1], [1, s, s, 1], p), _IMAGES)  # fmt: skip  # noqa: E501
    add(f"conv2d {_padding} dilated", lambda tf, x, w, p=_padding: tf.nn.conv2d(x, w, [1, 1, 1, 1], p, dilations=[1, 2, 2, 1]), _IMAGES, _FILTER)  # fmt: skip  # noqa: E501
    add(f"atrous_conv2d {_padding}", lambda tf, x, w, p=_padding: tf.nn.atrous_conv2d(x, w, 2, p), _IMAGES, _FILTER)
    add(f"conv3d {_padding}", lambda tf, x, w, p=_padding: tf.nn.conv3d(x, w, [1, 2, 1, 1, 1], p), floats(1, 4, 3, 3, 2), floats(2, 3, 2, 2, 2))  # fmt: skip  # noqa: E501
    add(f"depthwise_conv2d {_padding}", lambda tf, x, w, p=_padding: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], p), _IMAGES, floats(3, 2, 2, 2))  # fmt: skip  # noqa: E501
    add(f"depthwise_conv2d {_padding} dilated", lambda tf, x, w, p=_padding: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], p, rate=[2, 2]), _IMAGES, floats(3, 2, 2, 2))  # fmt: skip  # noqa: E501
    add(f"separable_conv2d {_padding}", lambda tf, x, w, v, p=_padding: tf.nn.separable_conv2d(x, w, v, [1, 2, 2, 1], p), _IMAGES, floats(3, 2, 2, 2), floats(1, 1, 4, 3))  # fmt: skip  # noqa: E501
    add(f"convolution {_padding}", lambda tf, x, w, p=_padding: tf.nn.convolution(x, w, p, strides=[2]), floats(2, 7, 3), floats(4, 3, 2))  # fmt: skip  # noqa: E501
    add(f"pool {_padding}", lambda tf, x, p=_padding: [tf.nn.pool(x, [3], kind, p, strides=[2]) for kind in ("MAX", "AVG")], floats(2, 7, 3))  # fmt: skip  # noqa: E501
    add(f"pool {_padding} dilated", lambda tf, x, p=_padding: [tf.nn.pool(x, [2, 2], kind, p, dilation_rate=[2, 1]) for kind in ("MAX", "AVG")], _IMAGES)  # fmt: skip  # noqa: E501
    add(f"pooling of volumes {_padding}", lambda tf, x, p=_padding: [getattr(tf.nn, f"{kind}_pool3d")(x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], p) for kind in ("max", "avg")], floats(1, 4, 3, 5, 2))  # fmt: skip  # noqa: E501
    add(f"pooling of lines {_padding}", lambda tf, x, p=_padding: [getattr(tf.nn, f"{kind}_pool1d")(x, 3, 2, p) for kind in ("max", "avg")], floats(2, 7, 3))  # fmt: skip  # noqa: E501
    add(f"pooling of images {_padding}", lambda tf, x, p=_padding: [getattr(tf.nn, f"{kind}_pool2d")(x, 2, 2, p) for kind in ("max", "avg")], _IMAGES)  # fmt: skip  # noqa: E501
add("convolution of images", lambda tf, x, w: tf.nn.convolution(x, w, "SAME", dilation_rate=[2, 1]), _IMAGES, _FILTER)
add("conv2d of a narrow filter", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), floats(1, 5, 1, 3), floats(3, 1, 3, 1))  # fmt: skip  # noqa: E501
add("conv2d_transpose of a narrow filter", lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [1, 3, 3, 2], [1, 1, 1, 1], "SAME"), floats(1, 3, 3, 1), floats(2, 1, 2, 1))  # fmt: skip  # noqa: E501
add("conv2d by name", lambda tf, x, w: tf.nn.conv2d(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME", name="own"), _IMAGES, _FILTER)  # fmt: skip  # noqa: E501
add("conv2d by one stride", lambda tf, x, w: tf.nn.conv2d(x, filters=w, strides=2, padding="SAME"), _IMAGES, _FILTER)
add("conv2d with zeros of one's own", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], [[0, 0], [2, 0], [1, 1], [0, 0]]), _IMAGES, _FILTER)  # fmt: skip  # noqa: E501
add("conv2d of float64", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), _IMAGES.astype(float), _FILTER.astype(float))  # fmt: skip  # noqa: E501
add("conv2d of no rows", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), floats(0, 5, 6, 2), _FILTER)
add("conv2d of two dtypes", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), _IMAGES, _FILTER.astype(float))
add("conv2d of other channels", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), floats(1, 5, 6, 3), _FILTER)
add("conv2d of a small image", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID"), floats(1, 2, 6, 2), _FILTER)
add("conv2d with no padding", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "NONE"), _IMAGES, _FILTER)
add("conv2d in groups", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), floats(1, 5, 6, 4), _FILTER)
add("conv2d by two strides too many", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1, 1], "SAME"), _IMAGES, _FILTER)
add("depthwise_conv2d of other channels", lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), floats(1, 5, 6, 3), floats(3, 2, 2, 2))  # fmt: skip  # noqa: E501
add("max_pool of lines", lambda tf, x: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), floats(2, 5, 3))
add("pool by no kind", lambda tf, x: tf.nn.pool(x, [2], "MIN", "SAME"), floats(2, 7, 3))
for _size, _step, _padding, _shape in [((3, 2), 2, "SAME", (2, 5, 6, 3)), ((3, 2), 2, "SAME", (2, 6, 5, 3)), ((2, 3), 1, "SAME", (2, 3, 3, 3)), ((3, 2), 2, "VALID", (2, 7, 6, 3)), ((3, 2), 2, "VALID", (2, 8, 7, 3))]:  # fmt: skip  # noqa: E501
    add(
        f"conv2d_transpose {_size} {_padding} by {_step} to {_shape}",
        lambda tf, x, w, s=_step, p=_padding, o=_shape: tf.nn.conv2d_transpose(x, w, o, [1, s, s, 1], p),
        floats(2, 3, 3, 4),
        floats(*_size, 3, 4),
    )
add("conv2d_transpose to a fed shape", lambda tf, x, w, o: tf.nn.conv2d_transpose(x, w, o, [1, 2, 2, 1], "SAME"), floats(2, 3, 3, 4), floats(3, 2, 3, 4), [2, 6, 6, 3])  # fmt: skip  # noqa: E501
add("conv2d_transpose of other channels", lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 6, 6, 3], [1, 2, 2, 1], "SAME"), floats(2, 3, 3, 5), floats(3, 2, 3, 4))  # fmt: skip  # noqa: E501
add("conv2d_transpose to other channels", lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 6, 6, 2], [1, 2, 2, 1], "SAME"), floats(2, 3, 3, 4), floats(3, 2, 3, 4))  # fmt: skip  # noqa: E501
add("conv2d_transpose to another size", lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 9, 9, 3], [1, 2, 2, 1], "SAME"), floats(2, 3, 3, 4), floats(3, 2, 3, 4))  # fmt: skip  # noqa: E501
add("local_response_normalization", lambda tf, x: tf.nn.local_response_normalization(x, 1, 0.5, 0.1, 0.75), floats(2, 3, 2, 5))  # fmt: skip  # noqa: E501
add("lrn", lambda tf, x: tf.nn.lrn(x), floats(2, 3, 2, 5))
add("lrn of lines", lambda tf, x: tf.nn.lrn(x), floats(2, 3, 5))
add("bias_add of images", lambda tf, x, b: tf.nn.bias_add(x, b), _IMAGES, floats(2))
add("bias_add with channels first", lambda tf, x, b: tf.nn.bias_add(x, b, data_format="NCHW"), floats(2, 3, 4, 5), floats(3))  # fmt: skip  # noqa: E501
add("bias_add by no format", lambda tf, x, b: tf.nn.bias_add(x, b, data_format="HWC"), _IMAGES, floats(2))
add("moments of images", lambda tf, x: tf.nn.moments(x, [0, 1, 2]), _IMAGES)
add("batch_normalization of images", lambda tf, x, m, v: tf.nn.batch_normalization(x, m, v, None, None, 1e-3), _IMAGES, floats(2), floats(2, low=0.1, seed=1))  # fmt: skip  # noqa: E501
add("avg_pool of integers", lambda tf, x: tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), ints(2, 4, 4, 1, dtype=np.int32))  # fmt: skip  # noqa: E501
