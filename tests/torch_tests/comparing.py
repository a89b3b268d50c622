"""A drop-in beside torch's module: the same weights, the same inputs, and everything that comes of them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

import unspool

MODES = ["RNN", "GRU", "LSTM"]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
"""Of the largest number in a tensor: sums over steps and rows are added up in another order."""


def pair(mode: str, *args: Any, **kwargs: Any) -> tuple[nn.RNNBase, nn.RNNBase]:
    """Ours and torch's, with the same weights; each has loaded those of the other, strictly."""
    ours, theirs = getattr(unspool.nn, mode)(*args, **kwargs), getattr(nn, mode)(*args, **kwargs)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return ours, theirs


def as_torch(ours: nn.RNNBase) -> nn.RNNBase:
    """A copy that torch runs."""
    theirs: Any = copy.deepcopy(ours)
    theirs.__class__ = getattr(nn, type(ours).__name__)
    return theirs


def hidden(module: nn.RNNBase, rows: int | None, **kind: Any) -> Any:
    """Random initial states; without rows, those of one sequence that is no batch."""
    count = module.num_layers * (2 if module.bidirectional else 1)
    batch = [] if rows is None else [rows]
    h = torch.randn(count, *batch, module.proj_size or module.hidden_size, **kind)
    return (h, torch.randn(count, *batch, module.hidden_size, **kind)) if isinstance(module, nn.LSTM) else h


def tensors(*parts: Any) -> list[Tensor]:
    """All tensors of inputs, states and outputs; of a packed sequence its rows."""
    found: list[Tensor] = []
    for part in parts:
        if isinstance(part, PackedSequence):
            found.append(part.data)
        elif isinstance(part, tuple | list):
            found += tensors(*part)
        elif part is not None:
            found.append(part)
    return found


def fresh(part: Any) -> Any:
    """A copy that wants gradients, with the strides of the original."""
    if isinstance(part, PackedSequence):
        return part._replace(data=fresh(part.data))
    if isinstance(part, tuple | list):
        return type(part)(map(fresh, part))
    return None if part is None else part.detach().clone().requires_grad_()


def results(module: nn.RNNBase, inputs: Any, hx: Any = None) -> dict[str, Tensor]:
    """Outputs, final states, and the gradients of inputs, initial states and weights."""
    inputs, hx = fresh(inputs), fresh(hx)
    outputs, states = module(inputs, hx)
    found = tensors(outputs, states)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in found]
    sources = {f"source {k}": each for k, each in enumerate(tensors(inputs, hx))} | dict(module.named_parameters())
    gradients = torch.autograd.grad(found, list(sources.values()), weights)
    return {f"result {k}": each for k, each in enumerate(found)} | {
        f"gradient of {name}": each for name, each in zip(sources, gradients, strict=True)
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Within `TOLERANCE` of the largest entry, or of 1."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        tolerance = TOLERANCE[value.dtype] * max(1.0, float(value.detach().abs().max())) if value.numel() else 0
        torch.testing.assert_close(
            found[name], value, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def compare(ours: nn.RNNBase, theirs: nn.RNNBase, inputs: Any, hx: Any = None) -> None:
    """Results and gradients of both."""
    assert_same(results(ours, inputs, hx), results(theirs, inputs, hx))


def error_of(module: nn.Module, *args: Any) -> tuple[type, str]:
    """What a call raises."""
    try:
        module(*args)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError(f"{module} took {args}")
