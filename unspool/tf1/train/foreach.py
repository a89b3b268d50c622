"""Torch's functions of lists of tensors, which its own optimisers use: on a GPU one kernel for the whole list."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

_torch: Any = torch

Made = Callable[..., list[torch.Tensor]]
Done = Callable[..., None]

add: Made = _torch._foreach_add
sub: Made = _torch._foreach_sub
mul: Made = _torch._foreach_mul
sqrt: Made = _torch._foreach_sqrt
rsqrt: Made = _torch._foreach_rsqrt

add_: Done = _torch._foreach_add_
sub_: Done = _torch._foreach_sub_
mul_: Done = _torch._foreach_mul_
div_: Done = _torch._foreach_div_
sqrt_: Done = _torch._foreach_sqrt_
addcmul_: Done = _torch._foreach_addcmul_
addcdiv_: Done = _torch._foreach_addcdiv_
lerp_: Done = _torch._foreach_lerp_


def adam_(
    weights: list[torch.Tensor],
    grads: list[torch.Tensor],
    first: list[torch.Tensor],
    second: list[torch.Tensor],
    rate: float,
    *,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """A step of Adam on a CPU, with a learning rate that is corrected already.

    In one pass over memory by torch's kernel for that, which takes tensors as they lie, so they have to lie alike.
    """
    numbers = dict(beta1=beta1, beta2=beta2, eps=eps, weight_decay=0.0, amsgrad=False, maximize=False, lr=rate)
    lists, others = (weights, grads, first, second), list[tuple[torch.Tensor, ...]]()
    if not all(map(torch.Tensor.is_contiguous, chain(*lists))):
        alike: list[tuple[torch.Tensor, ...]] = []
        for each in zip(*lists, strict=True):
            (alike if all(map(torch.Tensor.is_contiguous, each)) else others).append(each)
        lists = [list(each) for each in zip(*alike, strict=True)]
    if lists and lists[0]:
        _torch._fused_adam_(*lists, [], [_LATE] * len(lists[0]), **numbers)
    if others:
        weights, grads, first, second = ([*each] for each in zip(*others, strict=True))
        lerp_(first, grads, 1 - beta1)
        lerp_(second, mul(grads, grads), 1 - beta2)
        scale = sqrt(second)
        add_(scale, eps)
        addcdiv_(weights, first, scale, -rate)


_LATE = torch.tensor(1e30)
"""A step after so many that torch's kernel corrects nothing any more."""
