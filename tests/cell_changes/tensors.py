"""Weights, buffers and other tensors: which they are, what they look like, and what the step reads of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.cell_changes.table import Leaky, Stage, Stages, change, made, unseen


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def scaled(self: Any, t: Tensor) -> Tensor:
    return torch.tanh(t) * self.scale


@change
def weight_in_place(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    with torch.no_grad():
        cell.mix.weight.mul_(2)
    yield cell


@change
def weight_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.weight = nn.Parameter(torch.randn(3, 6, dtype=torch.float64))
    yield cell


@change
def weight_of_another_shape(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=nn.Parameter(numbers(0.5))))
    cell.scale = nn.Parameter(numbers(0.5, 0.7, 0.9))
    yield cell


@change
def weight_of_another_dtype(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.scale.to(t.dtype), scale=nn.Parameter(numbers(0.7))))
    cell.scale = nn.Parameter(numbers(0.7).float())
    yield cell


@change
def data_of_a_weight_of_another_shape(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=nn.Parameter(numbers(0.5))))
    cell.scale.data = numbers(0.5, 0.7, 0.9)
    yield cell


@change
def strides_of_a_weight(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.weight.data = (2 * cell.mix.weight.data).t().contiguous().t()
    yield cell


@change
def weight_is_frozen(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.weight.requires_grad_(False)
    yield cell
    cell.requires_grad_(False)
    yield cell
    cell.requires_grad_()
    yield cell


@change
def frozen_weight_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * (0.5 if self.mix.bias.requires_grad else 0.7)))
    cell.mix.bias.requires_grad_(False)
    yield cell


@change
def weights_are_tied_and_untied(patch: pytest.MonkeyPatch) -> Stages:
    def act(self: Any, t: Tensor) -> Tensor:
        return t * self.a + torch.tanh(t) * self.b

    yield (cell := made(act, a=nn.Parameter(numbers(0.5)), b=nn.Parameter(numbers(0.7))))
    cell.b = cell.a
    yield cell
    cell.b = nn.Parameter(numbers(0.5))
    yield cell


@change
def bias_becomes_none(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.mix.bias = None
    yield cell


@change
def buffer_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    cell = made(scaled)
    cell.register_buffer("scale", numbers(0.5))
    yield cell
    cell.scale = numbers(0.7)
    yield cell
    cell.scale.fill_(0.9)
    yield cell
    cell.scale = numbers(0.5, 0.7, 0.9)
    yield cell


@change
def buffer_becomes_a_parameter(patch: pytest.MonkeyPatch) -> Stages:
    cell = made(scaled)
    cell.register_buffer("scale", numbers(0.5))
    yield cell
    del cell.scale
    cell.scale = nn.Parameter(numbers(0.5))
    yield cell


@change
def parameter_moves_into_a_list(patch: pytest.MonkeyPatch) -> Stages:
    def act(self: Any, t: Tensor) -> Tensor:
        return t * (self.scale if self.held is None else self.held[0])

    yield (cell := made(act, scale=nn.Parameter(numbers(0.5)), held=None))
    held = [cell.scale]
    del cell.scale
    cell.held = held
    yield cell
    with torch.no_grad():
        held[0].fill_(0.7)
    yield cell


@change
def tensor_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=numbers(0.5)))
    cell.scale = numbers(0.7)
    yield cell
    cell.scale.fill_(0.9)
    yield cell
    cell.scale = numbers(0.5, 0.7, 0.9)
    yield cell
    cell.scale = 0.25
    yield cell


@change
def tensor_attribute_wants_a_gradient(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * (0.5 if self.scale.requires_grad else 0.7), scale=numbers(0.5)))
    cell.scale.requires_grad_()
    yield cell


@change
def tensors_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * sum(self.scales), scales=[numbers(0.5), numbers(0.7)]))
    cell.scales[0] = numbers(0.9)
    yield cell
    cell.scales[1].fill_(0.1)
    yield cell
    cell.scales.append(numbers(0.3))
    yield cell


@change
def tensors_in_a_list_change_places(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.scales[0], scales=[numbers(0.5), numbers(0.7)]))
    cell.scales.reverse()
    yield cell


@change
def tensors_in_a_dict_change_places(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.scales["a"], scales={"a": numbers(0.5), "b": numbers(0.7)}))
    cell.scales["a"], cell.scales["b"] = cell.scales["b"], cell.scales["a"]
    yield cell


@change
def tensor_in_a_namedtuple(patch: pytest.MonkeyPatch) -> Stages:
    class Held(NamedTuple):
        scale: Tensor

    yield (cell := made(lambda self, t: t * self.held.scale, held=Held(numbers(0.5))))
    cell.held = Held(numbers(0.7))
    yield cell


@change
def tensor_in_an_object(patch: pytest.MonkeyPatch) -> Stages:
    class Held:
        scale = numbers(1.0)

    held = Held()
    held.scale = numbers(0.5)
    yield (cell := made(lambda self, t: t * self.held.scale, held=held))
    held.scale = numbers(0.7)
    yield cell


@unseen
def tensor_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    """It hangs on the class, not on the cell."""
    kind: Any = made(scaled).__class__
    kind.scale = numbers(0.5)
    yield (cell := kind())
    kind.scale.fill_(0.7)
    yield cell
    kind.scale = numbers(0.9)
    yield cell


@unseen
def tensor_in_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    """It hangs on a function, not on the cell."""
    scale = numbers(0.5)
    yield (cell := made(lambda self, t: t * scale))
    scale.fill_(0.7)
    yield cell
    scale = numbers(0.9)
    yield cell


@unseen
def tensor_of_a_module_of_globals(patch: pytest.MonkeyPatch) -> Stages:
    """It is a global."""
    patch.setitem(globals(), "SCALE", numbers(0.5))
    yield (cell := made(lambda self, t: t * globals()["SCALE"]))
    globals()["SCALE"].fill_(0.7)
    yield cell


@unseen
def number_of_a_tensor(patch: pytest.MonkeyPatch) -> Stages:
    """What `item` returns is a number in the step, and its tensor may be changed in place."""
    yield (cell := made(lambda self, t: t * self.scale.item(), scale=numbers(0.5)))
    cell.scale.fill_(0.7)
    yield cell


@unseen
def branch_on_a_buffer(patch: pytest.MonkeyPatch) -> Stages:
    """As above, by `bool`."""
    cell = made(lambda self, t: torch.tanh(t) if self.scale > 0.6 else t)
    cell.register_buffer("scale", numbers(0.5))
    yield cell
    cell.scale.fill_(0.7)
    yield cell


@unseen
def list_of_a_tensor(patch: pytest.MonkeyPatch) -> Stages:
    """As above, by `tolist`."""
    yield (cell := made(lambda self, t: t * self.scale.tolist()[0], scale=numbers(0.5)))
    cell.scale.fill_(0.7)
    yield cell


@unseen
def numpy_view_of_a_tensor(patch: pytest.MonkeyPatch) -> Stages:
    """As above, through NumPy."""
    yield (cell := made(lambda self, t: t * float(self.scale.numpy()[0]), scale=numbers(0.5)))
    cell.scale.fill_(0.7)
    yield cell


@change
def tensor_in_the_memory_of_an_array(patch: pytest.MonkeyPatch) -> Stages:
    array = np.array([0.5])
    yield (cell := made(scaled, scale=torch.from_numpy(array)))
    array[0] = 0.7
    yield cell


@change
def attribute_of_a_parameter(patch: pytest.MonkeyPatch) -> Stages:
    """Tensors have a dict as well."""
    cell = Leaky()
    cell.mix.weight.gain = 0.5
    cell.act = lambda t: t * cell.mix.weight.gain
    yield cell
    cell.mix.weight.gain = 0.7
    yield cell


@unseen
def gradient_of_a_parameter(patch: pytest.MonkeyPatch) -> Stages:
    """A step that reads `grad` depends on what backward has done."""
    yield (cell := made(lambda self, t: t * (0.5 if self.mix.weight.grad is None else 0.7)))
    cell.mix.weight.grad = torch.zeros(3, 6, dtype=torch.float64)
    yield cell


@unseen
def version_of_a_tensor(patch: pytest.MonkeyPatch) -> Stages:
    """How often a tensor was changed in place is a number in the step."""
    yield (cell := made(lambda self, t: t * (1 + self.scale._version), scale=numbers(0.5)))
    cell.scale.fill_(0.5)
    yield cell


@change
def inputs_want_gradients(patch: pytest.MonkeyPatch) -> Stages:
    yield Stage(cell := Leaky(), wanted=False)
    yield Stage(cell, wanted=True)
    yield Stage(cell, wanted=False)


@change
def dtype_of_everything(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    yield Stage(cell.float(), dtype=torch.float32)
    yield cell.double()


@change
def containers_of_the_state(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        def forward(self, x: Tensor, state: Any) -> Any:
            inner = state["h"][0] if isinstance(state["h"], tuple) else 2 * state["h"]["c"]
            h, _ = super().forward(x, inner)
            return h, state

    cell = Cell(state_size={"h": (3,)})
    yield Stage(cell, containers=lambda h: {"h": (h,)})
    cell.state_size = {"h": {"c": 3}}
    yield Stage(cell, containers=lambda h: {"h": {"c": h}})


@unseen
def rows_counted_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """The number of rows as a number: the plan holds for any, or not at all."""
    yield Stage(cell := made(lambda self, t: t * t.shape[0]))
    yield Stage(cell, batch=4)
    yield Stage(cell)


@unseen
def branch_on_the_number_of_rows(patch: pytest.MonkeyPatch) -> Stages:
    """As above."""
    yield Stage(cell := made(lambda self, t: t if t.shape[0] < 3 else torch.tanh(t)))
    yield Stage(cell, batch=4)
