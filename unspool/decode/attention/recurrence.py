"""Where a monotonic attention goes from where it was: the recurrence over the places of a memory, in three ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.flags import checks_flags
from unspool.loops.tensors import as_tensor

MODES = ("recursive", "parallel", "hard")


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """The distribution of a monotonic attention over a memory (Raffel et al., 2017).

    An attention that was at place k goes on from there: it stays at a place with the probability that the place is
    chosen, else it steps to the next. Where it stops is where it is now; it may step off the end, and then it is
    nowhere. So, place by place,

        here   = (1 - p_choose_i[:, j - 1]) * here + previous_attention[:, j]
        result[:, j] = p_choose_i[:, j] * here

    Args:
        p_choose_i: `[batch, places]`, the probability that each place is chosen.
        previous_attention: `[batch, places]`, where it was: a distribution, at first all at place 0.
        mode: "recursive" is this recurrence, in about log2(places) rounds; "parallel" a closed form with a cumulative
            product and sum, which is inexact where the product becomes small; "hard" is for probabilities that are 0 or
            1 and a previous attention at one place or none, whose result is again of this kind.

    Raises:
        ValueError: if the mode is unknown, or the shapes are not `[batch, places]` for both.

    >>> monotonic_attention([[0.5, 0.5, 0.5]], [[1.0, 0.0, 0.0]], "recursive")
    tensor([[0.5000, 0.2500, 0.1250]])
    >>> monotonic_attention([[0.0, 1.0, 1.0]], [[1.0, 0.0, 0.0]], "hard")
    tensor([[0., 1., 0.]])
    """
    check_mode(mode)
    chosen, previous = _matrix(p_choose_i, "p_choose_i"), _matrix(previous_attention, "previous_attention")
    if chosen.shape != previous.shape:
        raise ValueError(
            f"p_choose_i has shape {list(chosen.shape)}, but previous_attention has {list(previous.shape)}"
        )
    if mode == "recursive":
        return chosen * _recurrence(_shifted(1 - chosen, 1, 1.0), previous)
    if mode == "parallel":
        passed = safe_cumprod(1 - chosen, axis=1, exclusive=True)
        # TensorFlow's bound, where the dtype has it.
        least = max(1e-10, torch.finfo(passed.dtype).tiny)
        return chosen * passed * torch.cumsum(previous / passed.clamp(least, 1.0), 1)
    chosen = chosen * torch.cumsum(previous, 1)  # nothing before where it was can be chosen
    return chosen * _products_before(1 - chosen)


@checks_flags
def safe_cumprod(x: Any, axis: int = 0, exclusive: bool = False) -> Tensor:
    """The cumulative product of numbers in [0, 1], by a sum of logarithms.

    Numbers below the least normal one of their dtype count as that one, so that the gradient has no division by zero.

    Args:
        x: the numbers.
        axis: the axis along which to multiply.
        exclusive: whether each product leaves out the number in its own place; the first is then 1.

    >>> safe_cumprod(torch.tensor([0.5, 0.5, 1.0]), exclusive=True)
    tensor([1.0000, 0.5000, 0.2500])
    """
    x = as_tensor(x, "x")
    logarithms = torch.log(x.clamp(torch.finfo(x.dtype).tiny, 1.0))
    sums = torch.cumsum(logarithms, axis)
    if exclusive and x.shape[axis]:
        first, others = torch.zeros_like(sums.narrow(axis, 0, 1)), sums.narrow(axis, 0, x.shape[axis] - 1)
        sums = torch.cat([first, others], axis)
    return torch.exp(sums)


def check_mode(mode: Any) -> str:
    """`mode` if it is one; else a `ValueError`."""
    if mode not in MODES:
        raise ValueError(f"mode must be 'recursive', 'parallel', or 'hard', but is {mode!r}")
    return mode


def _matrix(values: Any, name: str) -> Tensor:
    values = torch.as_tensor(values) if type(values) in (list, tuple) else as_tensor(values, name)
    if values.dim() != 2:
        raise ValueError(f"{name} must be [batch, places], but has shape {list(values.shape)}")
    return values


def _recurrence(decay: Tensor, new: Tensor) -> Tensor:
    """`here[:, j] = decay[:, j] * here[:, j - 1] + new[:, j]`, by doubling (Hillis and Steele, 1986).

    After a round, `new` is what the last `reach` places add up to, and `decay` what passes all of them. There is no
    division in it, so it holds where the decay is 0.
    """
    reach = 1
    while reach < new.shape[1]:
        new, decay = new + decay * _shifted(new, reach, 0.0), decay * _shifted(decay, reach, 0.0)
        reach *= 2
    return new


def _products_before(x: Tensor) -> Tensor:
    """The product of all numbers in front of each place; unlike `safe_cumprod` it is exact where some are 0."""
    products, reach = _shifted(x, 1, 1.0), 1
    while reach < x.shape[1]:
        products = products * _shifted(products, reach, 1.0)
        reach *= 2
    return products


def _shifted(x: Tensor, by: int, fill: float) -> Tensor:
    """`x` moved to the right, with `fill` in the first places."""
    return torch.cat([torch.full_like(x[:, :by], fill), x[:, : x.shape[1] - by]], 1)
