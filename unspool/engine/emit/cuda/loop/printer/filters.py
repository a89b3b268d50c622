"""The geometry of a convolution, as a kernel is told it."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.convolutions import AXES
from unspool.engine.emit.stages.statements import Convolve


def filters_text(product: Convolve) -> str:
    """The `unspool::Filters` of a convolution.

    Raises:
        CannotEmitError: if a row has several images.
    """
    left, filters, added, options = product.left, product.matrix.shape, product.added, product.geometry.options
    if left.shape[0] != 1:
        raise CannotEmitError("a convolution of several images of a row")
    channels = filters[0] // options.groups if options.spreads else filters[1]
    made = filters[1] if options.spreads else filters[0] // options.groups

    def three(numbers: Sequence[int], otherwise: int) -> str:
        return f"{{{', '.join(map(str, [*[otherwise] * (AXES - len(numbers)), *numbers]))}}}"

    sizes = (filters[2:], product.geometry.image[1:], product.geometry.outputs[1:])
    ways = (three(options.steps, 1), three(options.padding, 0), three(options.dilation, 1))
    apart = (str(left.strides[1]), three(left.strides[2:], 0))
    per_pixel = added is not None and any(
        size > 1 and step for size, step in zip(added.shape[2:], added.strides[2:], strict=True)
    )
    more = (0 if added is None else added.strides[1], int(per_pixel), str(options.spreads).lower())
    numbers = (options.groups, channels, made, *(three(each, 1) for each in sizes), *ways, *apart, *more)
    return f"{{{', '.join(map(str, numbers))}}}"
