"""Along which axes elements meet in an operation: sums, softmax, scans, slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.engine.trace.graph import Node, aten, value


def _second(node: Node) -> Any:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")


def _third(node: Node) -> Any:
    return node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1)


def _everything(node: Node) -> Any:
    return None


def _rolled(node: Node) -> Any:
    return node.args[2] if len(node.args) > 2 and node.args[2] else None


def _second_or_first(node: Node) -> Any:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)


def _second_or_last(node: Node) -> Any:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", -1)


def _padded(node: Node) -> Any:
    given: Any = node.args[0]
    return [value(given).dim() - 1 - k for k in range(len(node.args[1]) // 2)]


def _last_two(node: Node) -> Any:
    return [-1, -2]


ALONG: dict[Any, Callable[[Node], Any]] = {
    **dict.fromkeys(
        [
            aten.sum.dim_IntList,
            aten.mean.dim,
            aten.amax.default,
            aten.amin.default,
            aten.var.correction,
            aten.var_mean.correction,
            aten.std.correction,
            aten.logsumexp.default,
            aten.any.dim,
            aten.any.dims,
            aten.all.dim,
            aten.argmax.default,
            aten.argmin.default,
            aten.max.dim,
            aten.min.dim,
            aten.prod.dim_int,
            aten._softmax.default,
            aten._log_softmax.default,
            aten._safe_softmax.default,
            aten.cumsum.default,
            aten.cumprod.default,
            aten.flip.default,
            aten.index_select.default,
        ],
        _second,
    ),
    **dict.fromkeys([aten.sort.default, aten.glu.default], _second_or_last),
    **dict.fromkeys([aten.slice.Tensor, aten.select.int, aten.unbind.int], _second_or_first),
    **dict.fromkeys(
        [
            aten.topk.default,
            aten.glu_backward.default,
            aten._softmax_backward_data.default,
            aten._log_softmax_backward_data.default,
            aten.linalg_vector_norm.default,
            aten.slice_scatter.default,
            aten.select_scatter.default,
            aten.slice_backward.default,
        ],
        _third,
    ),
    **dict.fromkeys(
        [aten.split.Tensor, aten.split_with_sizes.default],
        lambda node: node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0),
    ),
    **dict.fromkeys([aten.sum.default, aten.mean.default, aten.max.default, aten.min.default], _everything),
    **dict.fromkeys([aten.tril.default, aten.triu.default], _last_two),
    aten.roll.default: _rolled,
    aten.constant_pad_nd.default: _padded,
}
"""Operations in which elements meet along some axes, and how to find these: one, several, or None for all."""
