"""torch's conventions: averages of models, filters by shape, models without memory, profilers, documentation."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import types
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import unspool
from unspool import RNN, GRUCell, LSTMCell, Stack, gallery
from unspool.profiling import profiled

DEPTH, UNITS = 3, 4
X = torch.randn(5, 6, DEPTH)
LENGTHS = [6, 1, 0, 4, 3]


def model() -> nn.ModuleDict:
    return nn.ModuleDict({"rnn": RNN(LSTMCell(UNITS), initial_state="learned"), "top": nn.Linear(UNITS, 2)})


def run(module: Any, x: torch.Tensor = X) -> torch.Tensor:
    return module["top"](module["rnn"](x, lengths=LENGTHS)[0])


def train(module: Any, steps: int, averaged: AveragedModel) -> list[list[torch.Tensor]]:
    """Takes steps, and averages after each; returns the weights after each."""
    optimizer = torch.optim.Adam(module.parameters(), 0.1)
    seen: list[list[torch.Tensor]] = []
    for _ in range(steps):
        optimizer.zero_grad()
        run(module).square().mean().backward()
        optimizer.step()
        averaged.update_parameters(module)
        seen.append([weight.detach().clone() for weight in module.parameters()])
    return seen


@pytest.mark.parametrize("built", [False, True], ids=["unbuilt", "built"])
def test_an_averaged_model_has_the_mean_of_all_weights(built: bool) -> None:
    module = model()
    if built:
        run(module)
    averaged = AveragedModel(module)
    seen = train(module, 3, averaged)
    for weight, each in zip(averaged.module.parameters(), zip(*seen, strict=True), strict=True):
        # Three running averages of numbers below 1, in float32.
        torch.testing.assert_close(weight.detach(), torch.stack(each).mean(0), rtol=1e-5, atol=1e-6)
    expected = copy.deepcopy(module)
    expected.load_state_dict(averaged.module.state_dict())
    torch.testing.assert_close(run(averaged.module), run(expected), rtol=0, atol=0)


def test_an_exponential_average_that_is_made_before_the_weights_are() -> None:
    module = model()
    averaged = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.75))
    first, second = train(module, 2, averaged)
    for weight, one, other in zip(averaged.module.parameters(), first, second, strict=True):
        torch.testing.assert_close(weight.detach(), 0.75 * one + 0.25 * other, rtol=1e-5, atol=1e-6)
        assert weight.requires_grad


def test_an_average_of_weights_that_were_not_made_says_what_to_do() -> None:
    module = model()
    averaged = AveragedModel(module)
    averaged.update_parameters(module)
    run(module)
    with pytest.raises(ValueError, match=r"of a weight that has no shape yet: .* RNN\(cell\)\.materialize\(x\)"):
        averaged.update_parameters(module)


def test_a_copy_has_the_dtype_of_what_is_copied_unless_it_was_converted() -> None:
    source = GRUCell(UNITS, input_size=DEPTH, dtype="float64").gates_kernel
    for cell, dtype in ((GRUCell(UNITS), torch.float64), (GRUCell(UNITS).bfloat16(), torch.bfloat16)):
        with torch.inference_mode():
            cell.gates_kernel.copy_(source)
        assert (cell.gates_kernel.dtype, type(cell.gates_kernel)) == (dtype, nn.Parameter)
        assert not cell.gates_kernel.is_inference()
        torch.testing.assert_close(cell.gates_kernel.detach(), source.detach().to(dtype), rtol=0, atol=0)


def test_filters_by_shape_find_matrices_once_they_are_made_and_say_what_to_do_before() -> None:
    module = model()
    with pytest.raises(RuntimeError, match=r"the ndim of a weight that has none yet: .* RNN\(cell\)\.materialize\(x\)"):
        [weight for weight in module.parameters() if weight.ndim >= 2]
    module["rnn"].materialize(X)  # pyright: ignore[reportCallIssue]
    assert [name for name, weight in module.named_parameters() if weight.ndim >= 2] == ["rnn.cell.kernel", "top.weight"]


@pytest.mark.parametrize("ask", ["ndim", "nbytes", "shape", "size", "numel", "dim", "data_ptr", "clone"])
def test_nothing_about_a_missing_shape_is_made_up(ask: str) -> None:
    weight: Any = GRUCell(UNITS).gates_kernel
    with pytest.raises((RuntimeError, ValueError), match=rf"{ask} of a weight that has .* yet: .*cell\.build"):
        getattr(weight, ask)()


@pytest.mark.parametrize("sizes", [{"input_size": DEPTH}, {}], ids=["built", "unbuilt"])
def test_layers_made_without_memory_are_filled_where_they_will_be(sizes: dict[str, int]) -> None:
    with torch.device("meta"):
        layer = RNN(LSTMCell(UNITS, **sizes), initial_state="learned", bidirectional=True)
        stack = Stack([GRUCell(UNITS, **sizes), nn.GRUCell(UNITS, 2)], initial_state="learned")
    for each in (layer, stack):
        assert all(weight.is_meta for weight in each.parameters())
        each.to_empty(device="cpu")
        each.reset_parameters()
        outputs, _ = each(X, lengths=LENGTHS)
        assert all(weight.device.type == "cpu" for weight in each.parameters())
        assert bool(outputs.isfinite().all())
    zeros = re.compile(r"state_\d$|cell(_bw)?\.bias$|candidate_bias$")
    for name, weight in [*layer.named_parameters(), *stack.named_parameters()]:
        assert bool((weight == 0).all()) == bool(zeros.search(name)), name


def test_a_layer_draws_as_a_new_one_does() -> None:
    def make() -> Stack:
        torch.manual_seed(3)
        return Stack([RNN(GRUCell(UNITS, input_size=DEPTH), initial_state="learned"), nn.GRUCell(UNITS, 2)])

    expected, stack = make(), make()
    with torch.no_grad():
        for weight in stack.parameters():
            weight.fill_(7.0)
    torch.manual_seed(3)
    stack.reset_parameters()
    drawn = dict(stack.named_parameters())
    for name, weight in expected.named_parameters():
        torch.testing.assert_close(drawn[name], weight, rtol=0, atol=0)


def test_a_layer_whose_cell_cannot_be_drawn_says_so() -> None:
    class Secret(nn.Module):
        state_size = output_size = UNITS

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(UNITS))

        def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return state * self.weight, state

    with pytest.raises(NotImplementedError, match="Secret has weights, but no reset_parameters"):
        RNN(Secret()).reset_parameters()


def test_unbuilt_weights_move_to_empty_memory_and_stay_unbuilt() -> None:
    cell = GRUCell(UNITS).double().to_empty(device="meta").to_empty(device="cpu")
    assert all(isinstance(weight, UninitializedParameter) for weight in cell.parameters())
    cell.build(DEPTH)
    assert (cell.gates_kernel.dtype, cell.gates_kernel.device.type) == (torch.float64, "cpu")


def test_weights_that_are_replaced_one_by_one_are_made_where_they_were_put() -> None:
    """As libraries do that keep parameters from taking memory: the module itself is never moved."""
    cell = GRUCell(UNITS)
    for name, weight in list(cell.named_parameters()):
        replaced = type(weight)(weight.to("meta"), requires_grad=False)
        assert isinstance(replaced, UninitializedParameter)
        cell._parameters[name] = replaced
    stays, moves = cell, copy.deepcopy(cell)
    stays.build(DEPTH)
    assert all(weight.is_meta and not weight.requires_grad for weight in stays.parameters())
    with pytest.raises(
        RuntimeError, match=r"GRUCell: .* is on the meta device.*made on cpu: call to_empty\(device='cpu'\)"
    ):
        unspool.dynamic_rnn(moves, X, LENGTHS, dtype=torch.float32)
    unspool.dynamic_rnn(moves.to_empty(device="cpu"), X, LENGTHS, dtype=torch.float32)
    assert all(weight.device.type == "cpu" for weight in moves.parameters())


def test_a_learned_state_requires_no_gradient_where_none_is_recorded() -> None:
    seen: list[bool] = []
    layer = RNN(GRUCell(UNITS, input_size=DEPTH), initial_state="learned")
    layer.cell.register_forward_pre_hook(lambda _, given: seen.append(given[1].requires_grad))
    for recording in (True, False):
        with torch.set_grad_enabled(recording):
            layer(X[:, :1])
            assert seen[-1] == recording


def ranges(steps: Any) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        steps()
    return {event.name for event in profile.events() or [] if "core" in event.name}


def test_a_profiler_shows_the_core_of_each_loop() -> None:
    layer = RNN(GRUCell(UNITS, input_size=DEPTH))
    assert ranges(lambda: layer(X)[0].sum().backward()) == {"rnn/core interpreted", "rnn/adjoint core interpreted"}

    def encode() -> None:
        with torch.no_grad():
            unspool.dynamic_rnn(layer.cell, X, LENGTHS, scope="encoder")

    assert ranges(encode) == {"encoder/core interpreted"}


@pytest.mark.compiled
def test_a_profiler_shows_which_emitter_ran_a_core() -> None:
    layer = RNN(GRUCell(UNITS, input_size=DEPTH))
    assert ranges(lambda: layer(X)[0].sum().backward()) == {"rnn/core c++", "rnn/adjoint core c++"}


def test_there_are_no_ranges_without_a_profiler() -> None:
    assert profiled("rnn") is profiled("rnn", "core", "c++")


def public() -> Iterator[tuple[str, Any]]:
    """Every public name, and those of the methods and properties that public classes have from this library."""
    for module in (unspool, gallery):
        for name in module.__all__:
            value = getattr(module, name)
            yield name, value
            for base in value.__mro__ if inspect.isclass(value) else ():
                if base.__module__.startswith("unspool"):
                    kinds = (types.FunctionType, property, classmethod, staticmethod)
                    yield from (
                        (f"{name}.{key}", each)
                        for key, each in vars(base).items()
                        if isinstance(each, kinds) and not key.startswith("_")
                    )


def documentation(name: str, value: Any) -> str:
    """What an editor shows for a name."""
    if isinstance(value, int):  # a number has the text after it
        for file in Path(inspect.getfile(unspool)).parent.rglob("*.py"):
            body = ast.parse(file.read_text()).body if f"\n{name} = " in file.read_text() else []
            for one, after in pairwise(body):
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name:
                    return ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return own or ""


def test_every_public_name_begins_with_a_sentence_that_says_what_it_is() -> None:
    names = dict(public())
    assert len(names) > 1000
    for name, value in names.items():
        first = inspect.cleandoc(documentation(name, value)).split("\n\n")[0]
        assert re.fullmatch(r"(?s)[A-Z0-9`].+[.:]", first), f"{name}: {first!r}"


def test_all_that_a_public_module_defines_is_in_its_list() -> None:
    for module in (unspool, gallery):
        found = {name for name, each in vars(module).items() if not isinstance(each, types.ModuleType)}
        assert {name for name in found if not name.startswith("_")} - set(module.__all__) == set()
