"""Layers of convolutions: of lines, images and volumes, separable, and transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.layers.base import as_function
from unspool.tf1.layers.weighted import WeightedLayer
from unspool.tf1.ops.array import shape
from unspool.tf1.ops.convolutions import conv2d as _conv2d
from unspool.tf1.ops.convolutions import conv2d_transpose as _transposed
from unspool.tf1.ops.convolutions import convolution, depthwise_conv2d
from unspool.tf1.ops.joining import pad, stack
from unspool.tf1.ops.nn import bias_add
from unspool.tf1.shapes import TensorShape

FORMS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class _Conv(WeightedLayer):
    """`activation(convolution(inputs, kernel) + bias)`.

    Args:
        filters: how many channels come out.
        kernel_size: the sizes of a filter, or one number for all.
        strides: how far it moves.
        padding: "valid" for none; "same" for zeros around, so that every place has an output; of lines also "causal".
        data_format: "channels_last" or "channels_first".
        dilation_rate: how far the places that a filter sees are apart; not with strides.
        activation: a function of the sum; None for the sum itself.
        use_bias: whether there is a bias.
        kernel_initializer: by default the scope's, else Glorot's uniform.
        bias_initializer: by default zeros.
        kernel_regularizer: a function of the kernel whose result is added to the regularisation losses.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.
        kernel_constraint, bias_constraint: not supported.
        trainable: whether optimisers change the variables by default.
        name: of the scope of its variables, made unique.
        more: see `Layer`.
    """

    sides: int

    @checks_flags
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = zeros_initializer,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            activation,
            use_bias,
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint),
            trainable=trainable,
            name=name,
            activity_regularizer=activity_regularizer,
            **more,
        )
        self.filters = int(filters)
        if self.filters <= 0:
            raise ValueError(f"filters must be positive, but is {filters}")
        self.kernel_size = per_side(kernel_size, self.sides, "kernel_size")
        self.strides = per_side(strides, self.sides, "strides")
        self.dilation_rate = per_side(dilation_rate, self.sides, "dilation_rate")
        self.padding = check_padding(padding, causal=self.sides == 1)
        self.data_format = check_data_format(data_format)

    @property
    def form(self) -> str:
        """The order of axes as operations name it."""
        return FORMS[self.sides][self.data_format == "channels_first"]

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias."""
        channels = self.channels_of(input_shape)
        self.make_kernel(self.kernel_name, (*self.kernel_size, channels, self.filters))
        self.make_bias(self.filters)
        self.built = True

    def channels_of(self, input_shape: Any) -> int:
        """How many channels inputs have; `ValueError` if that is not known, or there are other axes."""
        sizes = TensorShape(input_shape)
        if sizes.ndims is not None and sizes.ndims != self.sides + 2:
            raise ValueError(
                f"Input 0 of layer {self.name} is incompatible with the layer: expected ndim={self.sides + 2}, found "
                f"ndim={sizes.ndims}. Full shape received: {sizes.as_list()}"
            )
        found = None if sizes.ndims is None else sizes[-1 if self.data_format == "channels_last" else 1].value
        if found is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        return found

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The activation of the sum."""
        padding = self.padding.upper()
        if padding == "CAUSAL":
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            rows, width, channels = [0, 0], [before, 0], [0, 0]
            around = [rows, width, channels] if self.data_format == "channels_last" else [rows, channels, width]
            inputs, padding = pad(inputs, around), "VALID"
        return self.finish(
            convolution(inputs, self.kernel, padding, self.strides, self.dilation_rate, data_format=self.form)
        )

    def finish(self, made: Any) -> Any:
        """The activation of what was made and the bias."""
        if self.bias is not None:
            made = bias_add(made, self.bias, self.form)
        return made if self.activation is None else self.activation(made)


class Conv1D(_Conv):
    """A convolution of lines `[batch, width, channels]`; see `Conv2D`."""

    sides = 1


class Conv2D(_Conv):
    """A convolution of images `[batch, height, width, channels]`: `activation(convolution(inputs, kernel) + bias)`.

    Args:
        filters: how many channels come out.
        kernel_size: the height and the width of a filter, or one number for both.
        strides: how far it moves.
        padding: "valid" for none; "same" for zeros around, so that every place has an output.
        data_format: "channels_last" or "channels_first".
        dilation_rate: how far the places that a filter sees are apart; not with strides.
        activation: a function of the sum; None for the sum itself.
        use_bias: whether there is a bias.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer,
        kernel_constraint, bias_constraint, trainable, name, more: see `Dense`.

    >>> from unspool import tf1 as tf
    >>> layer = tf.layers.Conv2D(4, 3, padding="same", name="features")
    >>> layer(tf.placeholder(tf.float32, [None, 8, 8, 3])).shape, layer.kernel.shape, layer.kernel.name
    (TensorShape([None, 8, 8, 4]), TensorShape([3, 3, 3, 4]), 'features/kernel:0')
    """

    sides = 2


class Conv3D(_Conv):
    """A convolution of volumes `[batch, depth, height, width, channels]`; see `Conv2D`."""

    sides = 3


class SeparableConv2D(_Conv):
    """A convolution of each channel by itself, then one of all channels at every place.

    Args:
        filters: how many channels come out.
        kernel_size: the height and the width of the first filters.
        depth_multiplier: how many channels the first convolution makes of each.
        depthwise_initializer, pointwise_initializer, depthwise_regularizer, pointwise_regularizer: of both kernels.
        depthwise_constraint, pointwise_constraint: not supported.
        strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer, bias_regularizer,
        activity_regularizer, bias_constraint, trainable, name, more: see `Conv2D`.
    """

    sides = 2
    depthwise_name, pointwise_name = "depthwise_kernel", "pointwise_kernel"

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = zeros_initializer,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=depthwise_constraint or pointwise_constraint,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **more,
        )
        self.depth_multiplier = int(depth_multiplier)
        self._of_depthwise = depthwise_initializer, depthwise_regularizer
        self._of_pointwise = pointwise_initializer, pointwise_regularizer
        self.depthwise_kernel: Any = None
        self.pointwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the bias."""
        channels = self.channels_of(input_shape)
        start, regularizer = self._of_depthwise
        sizes = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self.add_variable(self.depthwise_name, sizes, None, start, regularizer)
        start, regularizer = self._of_pointwise
        sizes = (1, 1, channels * self.depth_multiplier, self.filters)
        self.pointwise_kernel = self.add_variable(self.pointwise_name, sizes, None, start, regularizer)
        self.make_bias(self.filters)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The activation of the sum."""
        apart, padding = self.dilation_rate, self.padding.upper()
        middle = depthwise_conv2d(inputs, self.depthwise_kernel, self.strides, padding, apart, None, self.form)
        return self.finish(_conv2d(middle, self.pointwise_kernel, 1, "VALID", data_format=self.form))


class Conv2DTranspose(_Conv):
    """The transpose of a convolution, for images that grow: with strides of 2 to twice their size.

    The arguments are those of `Conv2D`, without a dilation; the kernel is `[height, width, filters, channels]`.
    """

    sides = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = zeros_initializer,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            1,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **more,
        )

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias."""
        channels = self.channels_of(input_shape)
        self.make_kernel(self.kernel_name, (*self.kernel_size, self.filters, channels))
        self.make_bias(self.filters)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The activation of the sum."""
        start = 1 if self.data_format == "channels_last" else 2
        known: Any = inputs.dims or (None,) * 4
        sizes: list[Any] = [known[0], *known[start : start + 2]]
        if None in sizes:
            now, places = shape(inputs), (0, start, start + 1)
            sizes = [now[place] if size is None else size for place, size in zip(places, sizes, strict=True)]
        grown = [
            size * step + (max(window - step, 0) if self.padding == "valid" else 0)
            for size, step, window in zip(sizes[1:], self.strides, self.kernel_size, strict=True)
        ]
        wanted = [sizes[0], *grown, self.filters] if start == 1 else [sizes[0], self.filters, *grown]
        target = wanted if all(isinstance(each, int) for each in wanted) else stack(wanted)
        made = _transposed(inputs, self.kernel, target, self.strides, self.padding.upper(), self.form)
        made.set_shape([each if isinstance(each, int) else None for each in wanted])
        return self.finish(made)


conv1d = as_function(Conv1D, "conv1d", "`Conv1D(...)(inputs)`; a name is the scope's as it is.")
conv2d = as_function(
    Conv2D,
    "conv2d",
    """`Conv2D(...)(inputs)`; a name is the scope's as it is, and with `reuse` its variables are shared.

    >>> from unspool import tf1 as tf
    >>> tf.layers.conv2d(tf.placeholder(tf.float32, [None, 8, 8, 3]), 4, [3, 3], activation=tf.nn.relu).shape
    TensorShape([None, 6, 6, 4])
    """,
)
conv3d = as_function(Conv3D, "conv3d", "`Conv3D(...)(inputs)`; a name is the scope's as it is.")
separable_conv2d = as_function(
    SeparableConv2D, "separable_conv2d", "`SeparableConv2D(...)(inputs)`; a name is the scope's as it is."
)
conv2d_transpose = as_function(
    Conv2DTranspose, "conv2d_transpose", "`Conv2DTranspose(...)(inputs)`; a name is the scope's as it is."
)


def per_side(value: Any, sides: int, name: str) -> list[int]:
    """A number for each axis of an image, given one for all or a list."""
    found = [value] * sides if isinstance(value, int) else list(value)
    if len(found) != sides or any(not isinstance(each, int) or each < 1 for each in found):
        raise ValueError(f"The `{name}` argument must be an int or {sides} positive ints. Received: {value}")
    return found


def check_padding(padding: Any, *, causal: bool = False) -> str:
    """The padding in small letters; `ValueError` if there is no such."""
    allowed = ("valid", "same", *(("causal",) if causal else ()))
    if not isinstance(padding, str) or padding.lower() not in allowed:
        raise ValueError(f"The `padding` argument must be one of {', '.join(allowed)}. Received: {padding}")
    return padding.lower()


def check_data_format(data_format: Any) -> str:
    """The order of axes in small letters; `ValueError` if there is no such."""
    if not isinstance(data_format, str) or data_format.lower() not in ("channels_last", "channels_first"):
        raise ValueError(f"The `data_format` argument must be channels_first or channels_last. Received: {data_format}")
    return data_format.lower()
