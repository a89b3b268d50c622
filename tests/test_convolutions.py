"""Convolutions in compiled loops: every geometry beside torch's, and cells of images beside the plain loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.comparison import engine_loop, plain_loop, results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, difference
from tests.profiles import SOAK
from unspool import gallery
from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.protocol import Chunk
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.trace.graph import aten

pytestmark = pytest.mark.compiled


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """Which share the outputs of a convolution where there is one row."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


# -- the kernel --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Geometry:
    """A convolution: sizes of the image, of the filters, and how they go over it."""

    dtype: torch.dtype
    channels: int
    outputs: int
    sizes: tuple[int, ...]
    taps: tuple[int, ...]
    steps: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    more: tuple[int, ...]
    groups: int
    bias: bool

    def arguments(self, rows: int) -> list[Any]:
        across = (self.channels, self.outputs // self.groups)
        across = across if self.transposed else (self.outputs, self.channels // self.groups)
        image = torch.randn(rows, self.channels, *self.sizes, dtype=self.dtype)
        filters = torch.randn(*across, *self.taps, dtype=self.dtype)
        bias = torch.randn(self.outputs, dtype=self.dtype) if self.bias else None
        return [image, filters, bias, *map(list, (self.steps, self.padding, self.dilation)), *self.way]

    @property
    def way(self) -> tuple[Any, ...]:
        return (self.transposed, list(self.more), self.groups)


def drawn(draw: random.Random) -> Geometry:
    """A geometry that torch takes."""
    while True:
        axes = draw.choice([1, 2, 2, 3])

        def each(*numbers: int, axes: int = axes) -> tuple[int, ...]:
            return tuple(draw.choice(numbers) for _ in range(axes))

        groups = draw.choice([1, 1, 1, 2, 3])
        sizes = each(*((1, 2, 3, 4, 5) if axes == 3 else (1, 4, 5, 7, 8, 16, 17, 32, 33, 64)))
        taps, steps, padding, dilation = each(1, 2, 3, 3, 5), each(1, 1, 2, 3), each(0, 0, 1, 2), each(1, 1, 2)
        transposed = draw.random() < 0.4
        more = tuple(draw.randrange(step) if transposed else 0 for step in steps)
        channels, outputs = (groups * draw.choice([1, 2, 3, 5, 8, 11, 40]) for _ in range(2))
        dtype = draw.choice([torch.float32, torch.float32, torch.float64])
        found = Geometry(
            dtype,
            channels,
            outputs,
            sizes,
            taps,
            steps,
            padding,
            dilation,
            transposed,
            more,
            groups,
            draw.random() < 0.5,
        )
        made = zip(sizes, taps, steps, padding, dilation, more, strict=True)
        if transposed:
            left = [
                (size - 1) * step - 2 * zeros + apart * (tap - 1) + 1 + few
                for size, tap, step, zeros, apart, few in made
            ]
        else:
            left = [size + 2 * zeros - apart * (tap - 1) for size, tap, _, zeros, apart, _ in made]
        if min(left) >= 1:
            return found


def core_of(geometry: Geometry, given: list[Any], expected: Tensor) -> Core:
    """A core that convolves an image, and adds something to what comes of it."""
    image, filters, bias, *options = given
    x = Value("image", tuple(image.shape[1:]), geometry.dtype)
    w = Value("filters", tuple(filters.shape), geometry.dtype, shared=True)
    b = None if bias is None else Value("bias", tuple(bias.shape), geometry.dtype, shared=True)
    y = Value("y", tuple(expected.shape[1:]), geometry.dtype)
    a, total = Value("a", y.shape, geometry.dtype), Value("total", y.shape, geometry.dtype)
    convolved = Instruction(Kind.OTHER, aten.convolution.default, (x, w, b, *options), {}, (y,))
    added = Instruction(Kind.POINTWISE, aten.add.Tensor, (a, y), {}, (total,))
    return Core((), (x, a), (w,) if b is None else (w, b), (convolved, added), (), (total,))


def test_every_geometry_is_torchs() -> None:
    draw = random.Random(3)
    torch.manual_seed(0)
    module, cases = Module(), list[tuple[Geometry, Any, Compiled]]()
    for number in range(600 if SOAK else 120):
        geometry = drawn(draw)
        given = geometry.arguments(rows=3)
        expected = aten.convolution.default(*given)
        core, more = core_of(geometry, given, expected), torch.randn_like(expected)
        cases.append((geometry, (given, expected, more), Compiled(core, module, f"case_{number}")))
    for geometry, ((image, filters, bias, *_), expected, more), loop in cases:
        prepared = loop.prepare([filters] if bias is None else [filters, bias])
        _, (found,) = loop(prepared, Chunk(Counts([2, 1]), [image, more], ()))
        limit = 1e-12 if geometry.dtype == torch.float64 else 2e-6
        assert difference(found, expected + more) <= limit, geometry


# -- cells -------------------------------------------------------------------------------------------------------------


class Images(unspool.RNNCell):
    """`h' = tanh(module(h) + x)`, for a module that keeps the shape of an image."""

    def __init__(self, module: nn.Module, *shape: int) -> None:
        super().__init__()
        self.module = module
        self.state_size = self.output_size = torch.Size(shape)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.module(h) + x)
        return h, h


class Joint(unspool.RNNCell):
    """A ConvLSTM as most people write it: one convolution of x and h together."""

    def __init__(self, inputs: int, channels: int, size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs + channels, 4 * channels, 3, padding=1, dtype=dtype)
        shape = torch.Size([channels, size, size])
        self.state_size, self.output_size = (shape, shape), shape

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        i, f, o, g = self.conv(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


def conv(axes: int, inputs: int, outputs: int, taps: int, **options: Any) -> nn.Module:
    return getattr(nn, f"Conv{axes}d")(inputs, outputs, taps, dtype=torch.float64, **options)


def spread(axes: int, inputs: int, outputs: int, taps: int, **options: Any) -> nn.Module:
    return getattr(nn, f"ConvTranspose{axes}d")(inputs, outputs, taps, dtype=torch.float64, **options)


SHAPED = {
    "1d": (conv(1, 3, 3, 3, padding=1), (3, 19)),
    "2d": (conv(2, 3, 3, 3, padding=1), (3, 5, 6)),
    "3d": (conv(3, 2, 2, 3, padding=1), (2, 3, 4, 5)),
    "one tap": (conv(2, 9, 9, 1, bias=False), (9, 4, 4)),
    "groups": (conv(2, 4, 4, 3, padding=1, groups=2), (4, 5, 5)),
    "depthwise": (nn.Sequential(conv(2, 4, 4, 5, padding=2, groups=4), conv(2, 4, 4, 1)), (4, 5, 5)),
    "dilation": (conv(2, 3, 3, 3, padding=2, dilation=2), (3, 7, 6)),
    "same": (conv(2, 3, 3, (3, 5), padding="same", dilation=(2, 1)), (3, 7, 6)),
    "stride": (nn.Sequential(conv(1, 2, 5, 4, stride=3, padding=1), spread(1, 5, 2, 5, stride=3, padding=1)), (2, 18)),
    "transposed": (
        nn.Sequential(
            conv(2, 2, 6, 3, stride=2, padding=1), spread(2, 6, 2, 3, stride=2, padding=1, output_padding=1, groups=2)
        ),
        (2, 8, 8),
    ),
    # Large enough for gradients of filters to be added up in the loop.
    "odd lines": (conv(2, 7, 7, 3, padding=1, groups=7), (7, 17, 18)),
    "large 3d": (conv(3, 3, 3, 3, padding=1), (3, 7, 7, 7)),
    "large stride": (
        nn.Sequential(conv(1, 2, 5, 4, stride=3, padding=1), spread(1, 5, 2, 5, stride=3, padding=1)),
        (2, 900),
    ),
    "large transposed": (
        nn.Sequential(
            conv(2, 2, 6, 3, stride=2, padding=1), spread(2, 6, 2, 3, stride=2, padding=1, output_padding=1, groups=2)
        ),
        (2, 34, 34),
    ),
    "transposed 3d": (
        nn.Sequential(conv(3, 2, 3, 2, stride=2), spread(3, 3, 2, 2, stride=2, bias=False)),
        (2, 4, 2, 4),
    ),
}
"""Modules that keep an image's shape, by name, with the shape."""


def made(cell: Any, *shape: int, rows: int = 5, steps: int = 4, dtype: torch.dtype = torch.float64) -> tuple[Any, Any]:
    """Inputs and a state that want gradients."""
    inputs = torch.randn(rows, steps, *shape, dtype=dtype)
    state = unspool.structure.map_structure(lambda size: torch.randn(rows, *size, dtype=dtype), cell.state_size)
    return wanting_gradients(inputs), wanting_gradients(state)


@pytest.mark.parametrize("lengths", [None, [4, 0, 2, 4, 1]], ids=["all", "ragged"])
@pytest.mark.parametrize("name", SHAPED)
def test_cells_of_images(name: str, lengths: list[int] | None) -> None:
    torch.manual_seed(1)
    module, shape = SHAPED[name]
    cell = Images(module, *shape)
    inputs, state = made(cell, *shape)
    assert_compiled(cell, inputs, lengths, state, torch.float64)
    found = results(engine_loop, cell, torch.float64, lengths, inputs, state)
    assert_equals_interpreter(found, results(plain_loop, cell, torch.float64, lengths, inputs, state))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_conv_lstm(dtype: torch.dtype, rows: int) -> None:
    """With one row, threads share the outputs of a convolution."""
    torch.manual_seed(1)
    cell = Joint(3, 8, 16, dtype)
    inputs, state = made(cell, 3, 16, 16, rows=rows, dtype=dtype)
    assert_compiled(cell, inputs, None, state, dtype)
    for lengths in (None, [4, 0, 2, 4, 1][:rows]):
        found = results(engine_loop, cell, dtype, lengths, inputs, state)
        assert_equals_interpreter(found, results(plain_loop, cell, dtype, lengths, inputs, state))


@pytest.mark.parametrize("make", [gallery.ConvLSTMCell, gallery.ConvGRUCell, gallery.SpatioTemporalLSTMCell])
def test_the_gallerys_cells_of_images(make: Any) -> None:
    torch.manual_seed(1)
    cell = make(2, 4, (8, 7))
    inputs, state = made(cell, 2, 8, 7, dtype=torch.float32)
    assert_compiled(cell, inputs, [4, 0, 2, 4, 1], state, torch.float32)
    found = results(engine_loop, cell, torch.float32, [4, 0, 2, 4, 1], inputs, state)
    assert_equals_interpreter(found, results(plain_loop, cell, torch.float32, [4, 0, 2, 4, 1], inputs, state))
