"""How two runs of a loop are compared."""

from __future__ import annotations

import torch

from unspool.structure import flatten

ROUNDING = 1e-12
"""Of float64: two loops that run the same steps differ by the order of their sums, a few times 2e-16, and no more."""

SIX_DIGITS = 1e-6
"""Of numbers that TensorFlow's own tests give to six digits after the point, computed in float32."""


def assert_same(actual, expected, atol=ROUNDING):
    """Both have equal containers, shapes, dtypes and, within `atol`, values."""
    assert type(actual) is type(expected)
    one, other = flatten(actual), flatten(expected)
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def assert_all_equal_to(tensor, number, atol=SIX_DIGITS):
    """Every element of `tensor` is `number`."""
    torch.testing.assert_close(tensor, torch.full_like(tensor, number), rtol=0, atol=atol)


def gradients(result, sources):
    """The gradients of the sum of `result` with respect to each source; zeros where there is no way between them."""
    total = sum(leaf.sum() for leaf in flatten(result))
    return list(torch.autograd.grad(total, sources, retain_graph=True, allow_unused=True, materialize_grads=True))
