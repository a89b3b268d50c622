"""Steps that draw."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical, Normal, OneHotCategorical, OneHotCategoricalStraightThrough

from tests.idioms.table import UNITS, idiom


def _several_categorical(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    each = OneHotCategorical(logits=cell.mixed(x, h).reshape(-1, 2, UNITS // 2))
    drawn = each.sample()
    drawn += each.probs - each.probs.detach()
    return torch.tanh(drawn.flatten(1) + h)


def _categorical(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    drawn = Categorical(logits=cell.mixed(x, h)).sample()
    return torch.tanh(h + F.one_hot(drawn, UNITS))


class _Policy(Categorical):
    """A distribution as policies have it, with a last axis of one."""

    def sample(self) -> Tensor:
        return super().sample().unsqueeze(-1)

    def log_probs(self, actions: Tensor) -> Tensor:
        return self.log_prob(actions.squeeze(-1)).unsqueeze(-1)


def _acts(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    policy = _Policy(logits=cell.mixed(x, h))
    return torch.tanh(h + policy.log_probs(policy.sample()))


def _one_hot(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return OneHotCategoricalStraightThrough(logits=cell.mixed(x, h)).rsample()


def _multinomial(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    drawn = torch.multinomial(torch.softmax(cell.mixed(x, h), 1), 1)
    return torch.tanh(h + F.one_hot(drawn[:, 0], UNITS))


idiom(
    "a normal distribution",
    lambda cell, x, h: torch.tanh(Normal(cell.mixed(x, h), 0.1 + h.abs()).rsample()),
    draws=True,
)
idiom(
    "a normal distribution of one deviation",
    lambda cell, x, h: torch.tanh(Normal(cell.mixed(x, h), 0.5).log_prob(h)),
)
idiom(
    "samples of a normal distribution",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h) + Normal(h, 0.1 + x[:, :1].abs()).sample()),
    draws=True,
)
idiom(
    "normal numbers around a mean",
    lambda cell, x, h: torch.tanh(
        cell.mixed(x, h) + torch.normal(h.detach(), 0.3) + torch.normal(0.1, h.abs().detach())
    ),
    draws=True,
)
idiom("a categorical distribution", _categorical, draws=True)
idiom("a distribution of a class of its own", _acts, draws=True)
idiom("several categorical distributions a row", _several_categorical, draws=True)
idiom("a one-hot distribution, straight through", _one_hot, draws=True)
idiom("multinomial", _multinomial, draws=True)
idiom("gumbel softmax", lambda cell, x, h: F.gumbel_softmax(cell.mixed(x, h), hard=True), draws=True)
idiom("bernoulli", lambda cell, x, h: torch.tanh(h + torch.bernoulli(torch.sigmoid(cell.mixed(x, h)))), draws=True)
