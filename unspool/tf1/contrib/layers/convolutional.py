"""The older layers of convolutions and pooling of `tf.contrib.layers`, and how layers are put after each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.tf1.contrib.arg_scope import add_arg_scope
from unspool.tf1.contrib.layers.collecting import collect, finished
from unspool.tf1.contrib.layers.initializers import xavier_initializer
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.layers import convolutional, pooling
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.nn import relu
from unspool.tf1.scopes import variable_scope

_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")


class _Named:
    """A layer's older names of variables."""

    kernel_name, bias_name = "weights", "biases"


class _Convolution1D(_Named, convolutional.Conv1D):
    """A convolution of lines by its older names."""


class _Convolution2D(_Named, convolutional.Conv2D):
    """A convolution of images by its older names."""


class _Convolution3D(_Named, convolutional.Conv3D):
    """A convolution of volumes by its older names."""


class _Transposed(_Named, convolutional.Conv2DTranspose):
    """A transposed convolution by its older names."""


class _Separable(_Named, convolutional.SeparableConv2D):
    """A separable convolution by its older names."""

    depthwise_name, pointwise_name = "depthwise_weights", "pointwise_weights"


def _layer(kinds: dict[int, Any], default: str) -> Callable[..., Any]:
    """A layer as a function with the older arguments, of inputs that have one of these numbers of axes."""

    def call(
        inputs: Any,
        num_outputs: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: str = "SAME",
        data_format: str | None = None,
        rate: Any = 1,
        activation_fn: Callable[[Any], Any] | None = relu,
        normalizer_fn: Callable[..., Any] | None = None,
        normalizer_params: dict[str, Any] | None = None,
        weights_initializer: Any = None,
        weights_regularizer: Any = None,
        biases_initializer: Any = zeros_initializer,
        biases_regularizer: Any = None,
        reuse: Any = None,
        variables_collections: Any = None,
        outputs_collections: Any = None,
        trainable: bool = True,
        scope: Any = None,
        **own: Any,
    ) -> Any:
        if data_format not in _FORMATS:
            raise ValueError(f"Invalid data_format: {data_format!r}")
        with variable_scope(scope, default, [inputs], reuse=reuse) as entered:
            given = as_tensor(inputs)
            rank = None if given.dims is None else len(given.dims)
            if rank not in kinds:
                raise ValueError(f"Convolution expects input with rank {', '.join(map(str, kinds))}, got {rank}")
            layer = kinds[rank](
                num_outputs,
                kernel_size,
                strides=stride,
                padding=padding,
                data_format="channels_first" if data_format and data_format.startswith("NC") else "channels_last",
                use_bias=normalizer_fn is None and biases_initializer is not None,
                bias_initializer=biases_initializer,
                bias_regularizer=biases_regularizer,
                trainable=trainable,
                name=entered.name,
                _scope=entered,
                _reuse=reuse,
                **_own(kinds[rank], rate, weights_initializer, weights_regularizer, own),
            )
            made = layer(given)
            for variable in layer.variables:
                collect(variable, variable.op.name.rpartition("/")[2], variables_collections)
            return finished(made, normalizer_fn, normalizer_params, activation_fn, outputs_collections)

    return call


def _own(kind: Any, rate: Any, start: Any, regularizer: Any, own: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a kind of layer has, and others have not."""
    start = start or xavier_initializer()
    if kind is _Separable:
        last = own.pop("pointwise_initializer", None) or start
        made = dict(depthwise_initializer=start, pointwise_initializer=last, dilation_rate=rate)
        return {**made, "depthwise_regularizer": regularizer, "pointwise_regularizer": regularizer, **own}
    made = dict(kernel_initializer=start, kernel_regularizer=regularizer)
    if kind is not _Transposed:
        made["dilation_rate"] = rate
    return {**made, **own}


def _named(call: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = what
    return add_arg_scope(call)


_ALL = {3: _Convolution1D, 4: _Convolution2D, 5: _Convolution3D}
_ARGUMENTS = """

    Args:
        inputs: {inputs}.
        num_outputs: how many channels come out.
        kernel_size: the sizes of a filter, or one number for all.
        stride: how far it moves.
        padding: "SAME" or "VALID".
        data_format: "NHWC" and the like, or "NCHW" if channels come first.
        rate: how far the places that a filter sees are apart.
        activation_fn: a function of the sum, ReLU by default; None for the sum itself.
        normalizer_fn: a function of the product in the place of the biases, such as `batch_norm`.
        normalizer_params: its other arguments.
        weights_initializer, weights_regularizer, biases_initializer, biases_regularizer, reuse, variables_collections,
        outputs_collections, trainable, scope: see `fully_connected`; the scope is "{scope}" by default.
"""
convolution = _named(
    _layer(_ALL, "Conv"),
    "convolution",
    "A convolution of lines, images or volumes."
    + _ARGUMENTS.format(inputs="lines, images or volumes, with axes for rows and channels", scope="Conv"),
)
convolution1d = _named(_layer({3: _Convolution1D}, "Conv"), "convolution1d", "`convolution` of lines alone.")
convolution2d = _named(
    _layer({4: _Convolution2D}, "Conv"),
    "convolution2d",
    "A convolution of images." + _ARGUMENTS.format(inputs="`[batch, height, width, channels]`", scope="Conv"),
)
convolution3d = _named(_layer({5: _Convolution3D}, "Conv"), "convolution3d", "`convolution` of volumes alone.")
convolution2d_transpose = _named(
    _layer({4: _Transposed}, "Conv2d_transpose"),
    "convolution2d_transpose",
    "The transpose of `convolution2d`: images grow by the stride.",
)


@add_arg_scope
def separable_convolution2d(
    inputs: Any, num_outputs: int, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1, **more: Any
) -> Any:
    """A convolution of each channel by itself, then one of all at every place; see `convolution2d`."""
    return _separable(inputs, num_outputs, kernel_size, stride, depth_multiplier=depth_multiplier, **more)


_separable = _layer({4: _Separable}, "SeparableConv2d")
conv1d, conv2d, conv3d = convolution1d, convolution2d, convolution3d
conv2d_transpose, separable_conv2d = convolution2d_transpose, separable_convolution2d


def _pooling(kind: Any, name: str, what: str) -> Callable[..., Any]:
    def call(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str = "NHWC",
        outputs_collections: Any = None,
        scope: str | None = None,
    ) -> Any:
        if data_format not in ("NHWC", "NCHW"):
            raise ValueError("data_format has to be either NCHW or NHWC.")
        form = "channels_first" if data_format == "NCHW" else "channels_last"
        made = kind(kernel_size, stride, padding, form, name=scope)(inputs)
        get_default_graph().add_to_collections(outputs_collections or (), made)
        return made

    return _named(call, name, what)


max_pool2d = _pooling(pooling.MaxPooling2D, "max_pool2d", "The largest element of every window of images.")
avg_pool2d = _pooling(pooling.AveragePooling2D, "avg_pool2d", "The mean of every window of images.")


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A layer several times, one after the other, in scopes with numbers.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     made = tf.contrib.layers.repeat(tf.zeros([2, 3]), 2, tf.contrib.layers.fully_connected, 3, scope="fc")
    ...     [variable.name for variable in tf.global_variables() if "weights" in variable.name]
    ['fc/fc_1/weights:0', 'fc/fc_2/weights:0']
    """
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        stem = scope or _name_of(layer, "repeat")
        for number in range(repetitions):
            inputs = layer(inputs, *args, **{**kwargs, "scope": f"{stem}_{number + 1}"})
        return inputs


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Any, **kwargs: Any) -> Any:
    """A layer several times, one after the other, each time with arguments of its own, in scopes with numbers."""
    scope, reuse = kwargs.pop("scope", None), kwargs.pop("reuse", None)
    if not isinstance(stack_args, list | tuple):
        raise ValueError("stack_args need to be a list or tuple")
    with variable_scope(scope, "Stack", [inputs], reuse=reuse):
        stem = scope or _name_of(layer, "stack")
        for number, given in enumerate(stack_args):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            own: Any = given if isinstance(given, list | tuple) else [given]
            inputs = layer(inputs, *own, **{**kwargs, "scope": f"{stem}_{number + 1}"})
        return inputs


def _name_of(layer: Any, default: str) -> str:
    return getattr(layer, "__name__", None) or getattr(getattr(layer, "func", None), "__name__", None) or default
