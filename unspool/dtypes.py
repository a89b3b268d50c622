"""Dtypes by any of their names: torch's, NumPy's, or TensorFlow's strings; and when they may be mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool.structure import shown


def as_dtype(dtype: Any, name: str = "dtype") -> torch.dtype:
    """The torch dtype that `dtype` names.

    >>> import numpy as np
    >>> as_dtype("float64"), as_dtype(np.float32), as_dtype(torch.bfloat16)
    (torch.float64, torch.float32, torch.bfloat16)
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    try:
        word = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except TypeError:
        raise TypeError(f"{name} must be a dtype or its name, but got {shown(dtype)}") from None
    found = getattr(torch, word, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} must be a dtype or its name, but torch has no dtype {word!r}")
    return found


def may_mix(device: torch.device) -> bool:
    """Whether tensors of several floating dtypes may meet on `device`: under autocast, which converts them."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
