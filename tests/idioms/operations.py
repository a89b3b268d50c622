"""Operations of torch on what a row has."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.idioms.table import UNITS, idiom


def _zeroed_in_place(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = cell.mixed(x, h)
    new[:, 1:2].zero_()
    return torch.tanh(new)


def _integers(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    steps = (10 * h.detach()).long()
    return torch.tanh(cell.mixed(x, h) + steps // 3 + steps % 3)


def _complex(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    turned = torch.polar(torch.ones_like(h[:, :2]), cell.mixed(x, h)[:, :2]) * torch.complex(h[:, :2], h[:, 2:])
    return torch.tanh(torch.view_as_real(turned).flatten(1))


def _scatter(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    places = h.detach().argsort(1)
    return torch.tanh(cell.mixed(x, h)).scatter(1, places[:, :2], h[:, :2])


def _straight_through(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    soft = torch.softmax(cell.mixed(x, h), 1)
    hard = F.one_hot(soft.argmax(1), UNITS).to(soft)
    return hard + soft - soft.detach()


def _sparse_product(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(torch.sparse.mm(cell.sparse, cell.mixed(x, h).t()).t())


def _sparse_times(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh((cell.sparse @ cell.mixed(x, h).t()).t())


def _sparse() -> Tensor:
    return torch.diag_embed(torch.arange(1.0, UNITS, dtype=torch.float64), 1).to_sparse()


def _picks_one(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = torch.tanh(cell.mixed(x, h))
    return new * new[torch.arange(h.shape[0]), h.argmax(1)][:, None] + h[torch.arange(h.size(0)), -1][:, None]


def _picks_several(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    rows, places = torch.arange(0, h.shape[0]).view(-1, 1), h.topk(2, 1).indices
    new = torch.tanh(cell.mixed(x, h))
    squares = new.view(-1, 2, 2)
    return torch.cat([new[rows, places], squares[rows[:, 0], 1, places[:, 0] % 2][:, None], new[rows, -2]], 1)


def _puts_by_rows(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    rows, new = torch.arange(h.shape[0]), torch.tanh(cell.mixed(x, h))
    mask = torch.ones_like(h).index_put_((rows.unsqueeze(1), h.topk(2, 1).indices), torch.zeros(2, dtype=h.dtype))
    new = new * mask
    new[rows, h.argmin(1)] = x[:, 0]
    squares = new.clone().view(-1, 2, 2)
    squares[rows, h.argmax(1) % 2, :] = 0.5
    return squares.flatten(1).index_put((rows, h.argmax(1)), h[:, 0], accumulate=True)


def _puts_whole_rows(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    rows, new = torch.arange(h.shape[0]), h.clone()
    new[rows] = torch.tanh(cell.mixed(x[rows], h[rows]))  # as where only rows with something new are updated
    new = new.index_put((rows,), 0.1 * h, accumulate=True)
    mask = torch.ones_like(h)
    mask[rows] = 0.5
    mask[rows] = h.new_tensor([1.0, 2.0, 3.0, 0.5])
    return mask * new


def _puts_by_repeated_rows(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    rows, places = torch.arange(h.shape[0]).repeat_interleave(2), h.topk(2, 1).indices.view(-1)
    mask = torch.zeros_like(h)
    mask[rows, places] = 1
    new = torch.tanh(cell.mixed(x, h)) * mask
    new[rows, places] = 0.5 * new[rows, places] + h[rows, 0]
    squares = new.view(-1, 2, 2)
    return squares.index_put((rows, places % 2), squares[rows, places // 2], accumulate=True).flatten(1)


ON_A_ROW: dict[str, Any] = {
    "cumsum": lambda t: t.cumsum(1),
    "cumprod": lambda t: t.cumprod(1),
    "cummax": lambda t: t.cummax(1).values,
    "logcumsumexp": lambda t: t.logcumsumexp(1),
    "prod": lambda t: t * t.prod(1, keepdim=True),
    "roll": lambda t: t.roll(1, 1),
    "roll by two axes": lambda t: t.reshape(-1, 2, 2).roll((1, 1), (1, 2)).flatten(1),
    "flip": lambda t: t.flip(1),
    "sort": lambda t: t.sort(1).values,
    "topk": lambda t: torch.cat(list(t.topk(2, 1).values.split(1, 1)) * 2, 1),
    "gather": lambda t: t.gather(1, t.detach().argsort(1)),
    "median": lambda t: t - t.median(1, keepdim=True).values,
    "diagonal": lambda t: t.reshape(-1, 2, 2).diagonal(dim1=1, dim2=2).repeat(1, 2),
    "diag_embed": lambda t: torch.diag_embed(t).sum(1),
    "unfold": lambda t: F.pad(t, (1, 1)).unfold(1, 3, 1).sum(2),
    "triu": lambda t: t.reshape(-1, 2, 2).triu().flatten(1),
    "reflect": lambda t: F.pad(t, (1, 1), mode="reflect")[:, 1:-1] + F.pad(t, (2, 0), mode="reflect")[:, :UNITS],
    "replicate": lambda t: F.pad(t[:, None], (1, 1), mode="replicate")[:, 0, 2:],
    "interpolate": lambda t: F.interpolate(t[:, None, :2], scale_factor=2.0, mode="nearest")[:, 0],
    "index_copy": lambda t: t.index_copy(1, torch.tensor([2, 0]), t[:, :2]),
    "index_fill": lambda t: t.index_fill(1, torch.tensor([1]), 0.5),
    "index_select": lambda t: t.index_select(1, torch.tensor([3, 1, 0, 0])),
    "masked_fill": lambda t: t.masked_fill(t > 0.5, 0.25),
    "take_along_dim": lambda t: torch.take_along_dim(t, t.detach().argsort(1), 1),
    "norm": lambda t: t / t.norm(dim=1, keepdim=True),
    "normalize": lambda t: F.normalize(t, dim=1),
    "cosine similarity": lambda t: t * F.cosine_similarity(t[:, :2], t[:, 2:], dim=1)[:, None],
    "aminmax": lambda t: t - t.detach().aminmax(dim=1, keepdim=True).min * t.detach().aminmax(dim=1, keepdim=True).max,
    "std_mean": lambda t: t / torch.std_mean(t, 1, keepdim=True)[0],
    "logsumexp": lambda t: t - t.logsumexp(1, keepdim=True),
    "einsum": lambda t: torch.einsum("bi,bj->bij", t, t).mean(2),
    "outer products": lambda t: (t[:, :, None] * t[:, None]).sum(1),
    "cdist": lambda t: torch.cdist(t[:, None], t[:, None] + 1)[:, :, 0] * t,
    "kron": lambda t: (t[:, :2, None] * t[:, None, 2:]).flatten(1),
    "searchsorted": lambda t: t + torch.bucketize(t.detach(), torch.tensor([-0.5, 0.0, 0.5])),
    "fft": lambda t: torch.fft.irfft(torch.fft.rfft(t, dim=1), n=UNITS, dim=1),
    "clamp by tensors": lambda t: torch.clamp(t, t.detach().min(1, keepdim=True).values / 2, torch.ones(UNITS)),
    "lerp": lambda t: torch.lerp(t, t.roll(1, 1), 0.3),
    "addcmul": lambda t: torch.addcmul(t, t, t, value=0.5),
    "baddbmm": lambda t: torch.baddbmm(t[:, :, None], torch.diag_embed(t), t[:, :, None])[:, :, 0],
    "heaviside": lambda t: t * torch.heaviside(t.detach(), torch.tensor(0.5, dtype=t.dtype)),
    "nan_to_num": lambda t: torch.nan_to_num(torch.where(t > 0.5, torch.nan, t), 0.1),
    "repeat_interleave": lambda t: t[:, :2].repeat_interleave(2, 1),
    "tile": lambda t: t[:, :2].tile(1, 2),
    "movedim": lambda t: t.reshape(-1, 2, 2).movedim(1, 2).flatten(1),
    "expm1 and log1p": lambda t: torch.log1p(torch.expm1(t).abs()),
    "softplus": lambda t: F.softplus(t, beta=2),
    "swiglu": lambda t: F.silu(t[:, :2]).repeat(1, 2) * t,
    "rms_norm": lambda t: F.rms_norm(t, (UNITS,)),
    "einsum with three": lambda t: torch.einsum("bi,bj,bk->bi", t, t, t),
    "cross": lambda t: torch.cat([torch.linalg.cross(t[:, :3], t[:, 1:]), t[:, :1]], 1),
    "var": lambda t: t / (1 + t.var(1, keepdim=True)),
}
for _name, _function in ON_A_ROW.items():
    idiom(_name, lambda cell, x, h, function=_function: torch.tanh(function(cell.mixed(x, h))))

idiom("an element of each row by its number", _picks_one)
idiom("elements of each row by its number", _picks_several)
idiom("elements put into each row by its number", _puts_by_rows)
idiom("whole rows by their numbers", _puts_whole_rows)
idiom("elements of each row by its number, several times over", _puts_by_repeated_rows)
idiom(
    "the grad mode, asked for",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h)) * (0.5 if torch.is_grad_enabled() else 0.7),
)
idiom("zero_ on a view", _zeroed_in_place)
idiom("whole numbers divided", _integers)
idiom("complex numbers", _complex)
idiom("scatter", _scatter)
idiom("straight through", _straight_through)
idiom("a product by a sparse matrix", _sparse_product, sparse=_sparse)
idiom("a sparse matrix times a state", _sparse_times, sparse=_sparse)
