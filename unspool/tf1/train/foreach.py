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
