"""Layers of pooling: the largest element of every window, or the mean."""

from __future__ import annotations

from typing import Any

from unspool.tf1.layers.base import Layer, as_function
from unspool.tf1.layers.convolutional import FORMS, check_data_format, check_padding, per_side
from unspool.tf1.ops.pooling import pool
from unspool.tf1.shapes import TensorShape


class _Pooling(Layer):
    """Pooling of lines, images or volumes.

    Args:
        pool_size: the sizes of the window, or one number for all.
        strides: how far it moves.
        padding: "valid", or "same" if windows may reach beyond the sides.
        data_format: "channels_last" or "channels_first".
        name: of its operations.
        more: see `Layer`.
    """

    sides: int
    kind: str

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name=name, **more)
        self.pool_size = per_side(pool_size, self.sides, "pool_size")
        self.strides = per_side(pool_size if strides is None else strides, self.sides, "strides")
        self.padding, self.data_format = check_padding(padding), check_data_format(data_format)

    def build(self, input_shape: Any) -> None:
        """Checks how many axes there are."""
        ndims = TensorShape(input_shape).ndims
        if ndims not in (None, self.sides + 2):
            raise ValueError(
                f"Input 0 of layer {self.name} is incompatible with the layer: expected ndim={self.sides + 2}, found "
                f"ndim={ndims}"
            )
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The pooled input."""
        form = FORMS[self.sides][self.data_format == "channels_first"]
        options: Any = {"strides": self.strides, "data_format": form, "name": f"{self.kind.title()}Pool"}
        return pool(inputs, self.pool_size, self.kind, self.padding.upper(), **options)


class MaxPooling1D(_Pooling):
    """The largest element of every window of lines `[batch, width, channels]`."""

    sides, kind = 1, "MAX"


class MaxPooling2D(_Pooling):
    """The largest element of every window of images.

    >>> from unspool import tf1 as tf
    >>> tf.layers.MaxPooling2D(2, 2)(tf.zeros([1, 4, 6, 3])).shape
    TensorShape([1, 2, 3, 3])
    """

    sides, kind = 2, "MAX"


class MaxPooling3D(_Pooling):
    """The largest element of every window of volumes."""

    sides, kind = 3, "MAX"


class AveragePooling1D(_Pooling):
    """The mean of every window of lines."""

    sides, kind = 1, "AVG"


class AveragePooling2D(_Pooling):
    """The mean of every window of images."""

    sides, kind = 2, "AVG"


class AveragePooling3D(_Pooling):
    """The mean of every window of volumes."""

    sides, kind = 3, "AVG"


_MADE = "`{}(...)(inputs)`."
max_pooling1d = as_function(MaxPooling1D, "max_pooling1d", _MADE.format("MaxPooling1D"), shares=False)
max_pooling2d = as_function(MaxPooling2D, "max_pooling2d", _MADE.format("MaxPooling2D"), shares=False)
max_pooling3d = as_function(MaxPooling3D, "max_pooling3d", _MADE.format("MaxPooling3D"), shares=False)
average_pooling1d = as_function(AveragePooling1D, "average_pooling1d", _MADE.format("AveragePooling1D"), shares=False)
average_pooling2d = as_function(AveragePooling2D, "average_pooling2d", _MADE.format("AveragePooling2D"), shares=False)
average_pooling3d = as_function(AveragePooling3D, "average_pooling3d", _MADE.format("AveragePooling3D"), shares=False)
