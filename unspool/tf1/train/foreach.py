"""Torch's functions of lists of tensors, which its own optimisers use: on a GPU one kernel for the whole list."""

from __future__ import annotations

from collections.abc import Callable
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
) -> bool:
    """A step of Adam in one pass over the memory, with a learning rate that is corrected already.

    Returns:
        False, and nothing is done, if torch has no kernel for such tensors: it goes through memory as it lies.
    """
    if not all(each.is_contiguous() for group in (weights, first, second) for each in group):
        return False
    _torch._fused_adam_(
        weights,
        [each.contiguous() for each in grads],
        first,
        second,
        [],
        [_LATE] * len(weights),
        lr=rate,
        beta1=beta1,
        beta2=beta2,
        weight_decay=0.0,
        eps=eps,
        amsgrad=False,
        maximize=False,
    )
    return True


_LATE = torch.tensor(1e30)
"""A step after so many that torch corrects nothing any more."""
