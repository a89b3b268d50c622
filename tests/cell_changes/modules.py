"""Modules below the cell, their hooks and their modes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from tests.cell_changes.table import Leaky, Stage, Stages, change, made, unseen


def linear() -> nn.Linear:
    return nn.Linear(3, 3, dtype=torch.float64)


def through(self: Any, t: Tensor) -> Tensor:
    for layer in self.layers:
        t = layer(t)
    return t


def layered(*layers: nn.Module) -> Any:
    return made(through, layers=nn.ModuleList(layers))


class Doubled(nn.Module):
    def forward(self, t: Tensor) -> Tensor:
        return 2 * t


@change
def module_is_replaced_by_another(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix = nn.Linear(6, 3, dtype=torch.float64)
    yield cell


@change
def module_is_appended(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(linear()))
    cell.layers.append(linear())
    yield cell


@change
def module_is_removed(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(linear(), linear()))
    del cell.layers[0]
    yield cell


@change
def modules_are_reordered(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(linear(), nn.Tanh()))
    cell.layers = nn.ModuleList(reversed(cell.layers))
    yield cell


@change
def modules_of_one_kind_are_reordered(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(linear(), linear()))
    first, second = cell.layers
    cell.layers[0], cell.layers[1] = second, first
    yield cell


@change
def module_in_two_places(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(linear(), linear()))
    cell.layers[1] = cell.layers[0]
    yield cell


@change
def activation_module_is_swapped(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.squash(t), squash=nn.Tanh()))
    cell.squash = nn.ReLU()
    yield cell
    cell.squash = nn.Sequential(nn.Tanh(), nn.ReLU())
    yield cell


@change
def module_dict_entry(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.ways[self.way](t), ways=nn.ModuleDict({"a": nn.Tanh()}), way="a"))
    cell.ways["a"] = nn.Sigmoid()
    yield cell
    cell.ways["b"] = nn.ReLU()
    yield Stage(cell, alike=True)
    cell.way = "b"
    yield cell


@change
def module_becomes_none(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t if self.squash is None else self.squash(t), squash=nn.Tanh()))
    cell.squash = None
    yield cell


@change
def option_of_a_module(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.norm(t), norm=nn.LayerNorm(3, dtype=torch.float64)))
    cell.norm.eps = 1.0
    yield cell


@change
def module_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    """Not one of the cell's modules as torch sees it."""
    yield (cell := made(lambda self, t: self.squash[0](t), squash=[nn.Softplus()]))
    cell.squash[0].beta = 3.0
    yield cell
    cell.squash[0] = nn.Tanh()
    yield cell


@unseen
def module_with_weights_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    """Its weights want gradients, and are no parameters of the cell."""
    yield (cell := made(lambda self, t: self.layers[0](t), layers=[linear()]))
    with torch.no_grad():
        cell.layers[0].weight.mul_(2)
    yield cell


@unseen
def module_in_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    """As above, and it does not hang on the cell at all."""
    layer = linear()
    yield (cell := made(lambda self, t: layer(t)))
    with torch.no_grad():
        layer.weight.mul_(2)
    yield cell
    layer = linear()
    yield cell


@change
def training_and_evaluation(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.drop(t), drop=nn.Dropout(0.5)))
    yield cell.eval()
    yield cell.train()


@change
def training_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t) if self.training else t))
    yield cell.eval()


@change
def evaluation_of_one_module(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := layered(nn.Dropout(0.5), linear(), nn.Dropout(0.5)))
    cell.layers[0].eval()
    yield cell


@change
def dropout_rate(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.drop(t), drop=nn.Dropout(0.5)))
    cell.drop.p = 0.25
    yield cell
    cell.drop.p = 0.0
    yield cell


@change
def dropout_rate_of_a_function(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: nn.functional.dropout(t, self.rate, self.training), rate=0.5))
    cell.rate = 0.25
    yield cell


@change
def weight_norm_is_registered(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    weight_norm(cell.mix)
    with torch.no_grad():
        cell.mix.parametrizations.weight.original0.mul_(2)
    yield cell
    parametrize.remove_parametrizations(cell.mix, "weight")
    with torch.no_grad():
        cell.mix.weight.mul_(2)
    yield cell


@change
def parametrization_is_registered(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    parametrize.register_parametrization(cell.mix, "weight", Doubled())
    yield cell
    cell.mix.parametrizations.weight[0].forward = lambda t: 3 * t
    yield cell


@change
def hook_of_the_cell(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    hook = cell.register_forward_hook(lambda module, args, result: (result[0] * 2, result[1]))
    yield cell
    hook.remove()
    yield cell


@change
def hook_of_a_module(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    hook = cell.mix.register_forward_hook(lambda module, args, result: result * 2)
    yield cell
    hook.remove()
    yield cell


@change
def hook_before_a_module(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    yield cell


@change
def hook_before_the_cell(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.register_forward_pre_hook(lambda module, args: (args[0] * 2, args[1]))
    yield cell


@change
def hook_with_keywords(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.register_forward_hook(lambda module, args, kwargs, result: result * 2, with_kwargs=True)
    yield cell


@change
def hook_of_gradients(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    hook = cell.mix.register_full_backward_hook(lambda module, given, wanted: (given[0] * 2,))
    yield cell
    hook.remove()
    yield cell


@change
def hook_before_gradients(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.register_full_backward_pre_hook(lambda module, wanted: (wanted[0] * 2,))
    yield cell


@change
def hook_of_all_modules(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, args, result: result * 2 if isinstance(module, nn.Linear) else None
    )
    try:
        yield cell
    finally:
        hook.remove()
    yield cell


@change
def hook_before_all_modules(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    hook = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: (args[0] * 2,) if isinstance(module, nn.Linear) else None
    )
    try:
        yield cell
    finally:
        hook.remove()


@change
def hook_of_a_weight(patch: pytest.MonkeyPatch) -> Stages:
    """On the gradient of the parameter, which is one however many steps there are."""
    yield (cell := Leaky())
    hook = cell.mix.weight.register_hook(lambda gradient: gradient * 2)
    yield cell
    hook.remove()
    yield cell


@change
def hook_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """On the gradient of what the step computes, once a step."""

    def act(self: Any, t: Tensor) -> Tensor:
        if self.hooked:
            t.register_hook(lambda gradient: gradient * 2)
        return torch.tanh(t)

    yield (cell := made(act, hooked=False))
    cell.hooked = True
    yield cell
