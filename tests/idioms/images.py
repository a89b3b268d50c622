"""Images that are warped, and several of a row at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unspool
from tests.idioms.table import add

SIZE = 4


class Warped(unspool.RNNCell):
    """A state of images, moved by a flow that each row finds."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([2, SIZE, SIZE])
        self.flow, self.options = nn.Conv2d(4, 2, 3, padding=1), options

    def forward(self, x: Tensor, h: Tensor) -> Any:
        line = torch.linspace(-1, 1, SIZE, dtype=h.dtype)
        places = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
        moved = places + self.flow(torch.cat([x, h], 1)).permute(0, 2, 3, 1)
        h = torch.tanh(x + F.grid_sample(h, moved, **self.options))
        return h, h


class Slots(unspool.RNNCell):
    """A state of several images, each of which goes through the same layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([3, 2, SIZE, SIZE])
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        every = torch.cat([h, x[:, None].expand_as(h)], 2)
        h = torch.tanh(h + self.layers(every.flatten(0, 1)).view(-1, 3, 2, SIZE, SIZE))
        return h, h


class InTurn(unspool.RNNCell):
    """The same, with the images of a row apart from each other: `[image, row, ...]`."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([3, 2, SIZE, SIZE])
        self.layer = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        every = (h + x[:, None]).transpose(0, 1).reshape(-1, 2, SIZE, SIZE)
        h = torch.tanh(self.layer(every).view(3, -1, 2, SIZE, SIZE).transpose(0, 1))
        return h, h


class Correlated(unspool.RNNCell):
    """A table of costs for each pixel of a row, in which the pixel looks around: rows and pixels are one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([2, SIZE, SIZE])
        self.find = nn.Conv2d(2, 2, 1)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        costs = torch.einsum("bci,bcj->bij", x.flatten(2), x.flatten(2)).reshape(-1, 1, SIZE, SIZE)
        pooled = F.avg_pool2d(costs, 2)
        around = torch.linspace(-0.5, 0.5, 3, dtype=h.dtype).view(1, 3, 1, 1)
        places = torch.tanh(h).permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) + around
        seen = F.grid_sample(pooled, places, align_corners=True).view(-1, SIZE, SIZE, 3).mean(3)
        h = torch.tanh(self.find(h) + seen[:, None])
        return h, h


def images(batch: int, steps: int) -> Tensor:
    return torch.randn(batch, steps, 2, SIZE, SIZE)


for _mode, _padding in (("bilinear", "zeros"), ("bilinear", "reflection"), ("nearest", "border")):
    add(
        f"a warp, {_mode}, padded by {_padding}",
        lambda mode=_mode, padding=_padding: Warped(mode=mode, padding_mode=padding, align_corners=False),
        images,
    )
add("a convolution of several images a row", lambda: Slots(nn.Conv2d(4, 2, 3, padding=1)), images)
add(
    "convolutions of several images a row, in groups",
    lambda: Slots(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1, groups=2)),
    images,
)
add("a convolution of images in turn", InTurn, images)
add(
    "pools of several images a row",
    lambda: Slots(nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1), nn.Conv2d(4, 2, 1)),
    images,
)
add("a pyramid of costs", Correlated, images)
