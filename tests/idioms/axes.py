"""Axes that come and go: a leading axis of one, squeezes, rows on another axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.idioms.table import UNITS, idiom


def _attends(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    memory = cell.memory[:, None].expand(-1, h.shape[0], -1)
    looked, _ = cell.attention(h[None], memory, memory)
    return torch.tanh(cell.mixed(x, looked[0]))


def _attends_batch_first(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    both = torch.stack([h, cell.mixed(x, h)], 1)
    looked, _ = cell.attention(both, both, both, need_weights=False)
    return torch.tanh(looked[:, 0])


def _heads_in_front(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    slots = torch.stack([h, cell.mixed(x, h), h * h], 1)
    heads = slots.view(-1, 3, 2, UNITS // 2).permute(2, 0, 1, 3).contiguous().view(-1, 3, UNITS // 2)
    looked = torch.softmax(heads @ heads.transpose(1, 2), 2) * 1.0  # [heads * rows, slots, slots]
    looked = (looked @ heads).view(2, -1, 3, UNITS // 2).permute(1, 2, 0, 3).reshape(-1, 3, UNITS)
    return torch.tanh(looked[:, 1])


idiom("a layer on a leading axis", lambda cell, x, h: torch.tanh(cell.mix(torch.cat([x, h], 1)[None])[0]))
idiom("the last of a leading axis", lambda cell, x, h: torch.stack([h, torch.tanh(cell.mixed(x, h))])[-1])
idiom("unsqueeze and squeeze in front", lambda cell, x, h: torch.tanh(cell.mixed(x, h).unsqueeze(0)).squeeze(0))
idiom("squeeze without an axis", lambda cell, x, h: torch.tanh(cell.mixed(x, h).unsqueeze(1)).squeeze())
idiom("a product by squeeze", lambda cell, x, h: (cell.mixed(x, h)[:, None] @ torch.diag_embed(h.tanh())).squeeze(1))
idiom(
    "attention with the batch second",
    _attends,
    attention=lambda: nn.MultiheadAttention(UNITS, 2),
    memory=lambda: nn.Parameter(torch.randn(5, UNITS)),
)
idiom(
    "attention with the batch first",
    _attends_batch_first,
    attention=lambda: nn.MultiheadAttention(UNITS, 2, batch_first=True),
)
idiom(
    "a Transformer's layer",
    lambda cell, x, h: cell.layer(torch.stack([h, cell.mixed(x, h)], 1))[:, 1],
    layer=lambda: nn.TransformerEncoderLayer(UNITS, 2, 6, dropout=0.0, batch_first=True),
)
idiom("heads in front of the batch", _heads_in_front)
idiom("rows on the last axis", lambda cell, x, h: torch.tanh(cell.mixed(x, h).t() + h.t()).t())
idiom("a memory laid out time-major", lambda cell, x, h: torch.tanh(torch.stack([h, cell.mixed(x, h)], 0).mean(0)))
idiom(
    "one row fewer than there are",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h)) + h.new_zeros(h.shape[0] - 1 + 1, UNITS),
)
idiom(
    "several rows of zeros a row",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h).view(-1, 2) + h.new_zeros(2 * h.shape[0], 2) + 0.5).view(-1, UNITS),
)
idiom(
    "an axis that a view of the inputs loses in place",
    lambda cell, x, h: torch.tanh(cell.mixed(x.detach()[:, None].transpose(1, 2).squeeze_(2), h)),
)
idiom("chunks in front", lambda cell, x, h: sum(torch.tanh(cell.mixed(x, h)[None]).chunk(1, 0))[0])
idiom(
    "a select that is put back", lambda cell, x, h: torch.tanh(cell.mixed(x, h)).t().select_scatter(h[:, 0], 0, 1).t()
)
