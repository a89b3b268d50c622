"""`tf.test`: whether there is a GPU."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.namespace import missing

__all__ = [
    "gpu_device_name",
    "is_built_with_cuda",
    "is_gpu_available",
]


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether torch can compute on a GPU; a session does so after `torch.set_default_device("cuda")`."""
    return torch.cuda.is_available()


def is_built_with_cuda() -> bool:
    """Whether torch was built for GPUs."""
    return torch.version.cuda is not None


def gpu_device_name() -> str:
    """TensorFlow's name for the first GPU; empty if there is none."""
    return "/device:GPU:0" if torch.cuda.is_available() else ""


def __getattr__(name: str) -> Any:
    raise missing("tf.test", name, globals())
