"""What torch may be told at any time of how to compute: libraries choose their kernels by it.

Asked for at every call, so by the functions that `torch.backends` has names for, which take ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

import torch

_C = cast(Any, torch)._C
_OTHERS: tuple[Callable[[], Hashable], ...] = (
    _C._get_cublas_allow_fp16_accumulation,
    _C._get_cublas_allow_fp16_reduced_precision_reduction,
    _C._get_cublas_allow_bf16_reduced_precision_reduction,
    _C._get_blas_preferred_backend,
    _C._get_cudnn_enabled,
    _C._get_cudnn_benchmark,
    _C._get_cudnn_deterministic,
    _C._get_deterministic_algorithms,
)


def tf32_is_allowed() -> bool:
    """Whether float32 may be multiplied as TF32, by whichever of torch's two ways to say so.

    >>> tf32_is_allowed()
    False
    """
    return _C._get_fp32_precision_getter("cuda", "matmul") == "tf32"


def settings() -> tuple[Hashable, ...]:
    """All that decides how products and convolutions are computed."""
    precision = _C._get_fp32_precision_getter
    return precision("cuda", "matmul"), precision("cuda", "conv"), *[each() for each in _OTHERS]
