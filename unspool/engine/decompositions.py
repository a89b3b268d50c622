"""What is taken apart before a step is looked at.

Derivatives are, so that the factors of one that do not depend on what is carried can leave the loop; and norms, so that
only the part of one that needs the state stays in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions  # pyright: ignore[reportUnknownVariableType]

from unspool.engine.graph import aten


def _product_and_sum(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`addmm`; torch's own decomposition would leave half precision and enter it again on the way."""
    product = torch.mm(left, right)
    return (added if beta == 1 else added * beta) + (product if alpha == 1 else product * alpha)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **get_decompositions(
        [
            aten.baddbmm,
            aten.rsub,
            aten.native_layer_norm,
            aten.native_layer_norm_backward,
            aten.native_group_norm,
            aten.native_group_norm_backward,
            aten.sigmoid_backward,
            aten.tanh_backward,
            aten.threshold_backward,
            aten.hardtanh_backward,
            aten.hardsigmoid_backward,
            aten.hardswish_backward,
            aten.leaky_relu_backward,
            aten.elu_backward,
            aten.gelu_backward,
            aten.silu_backward,
            aten.mish_backward,
            aten.softplus_backward,
            aten.log_sigmoid_backward,
            aten.native_dropout_backward,
            aten.select_backward,
        ]
    ),
    aten.addmm.default: _product_and_sum,
}
"""By operation, a function of tensors that does the same by simpler ones."""
