"""`tf.linalg`: matrices."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.ops.creation import eye
from unspool.tf1.ops.diagonals import diag as tensor_diag
from unspool.tf1.ops.diagonals import diag_part as tensor_diag_part
from unspool.tf1.ops.diagonals import matrix_band_part as band_part
from unspool.tf1.ops.diagonals import matrix_diag as diag
from unspool.tf1.ops.diagonals import matrix_diag_part as diag_part
from unspool.tf1.ops.diagonals import matrix_set_diag as set_diag
from unspool.tf1.ops.diagonals import matrix_transpose, trace
from unspool.tf1.ops.diagonals import matrix_transpose as transpose
from unspool.tf1.ops.math import global_norm
from unspool.tf1.ops.nn import l2_normalize
from unspool.tf1.ops.products import matmul, tensordot
from unspool.tf1.ops.reductions import norm

__all__ = [
    "band_part",
    "diag",
    "diag_part",
    "eye",
    "global_norm",
    "l2_normalize",
    "matmul",
    "matrix_transpose",
    "norm",
    "set_diag",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "transpose",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.linalg", name, __all__)
