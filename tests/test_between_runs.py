"""A cell in several runs: what is done to it in between counts, whatever was learnt of it before."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import unspool
from tests.comparison import (
    BATCH,
    FEW,
    LENGTHS,
    STEPS,
    Loop,
    Run,
    assert_changed,
    assert_same,
    check,
    engine_loop,
    loss_of,
    made,
    plain_loop,
    results,
    shared,
    wanting_gradients,
)
from tests.user_cells import RANDOM, USER_CELLS, SoftmaxMixture
from unspool.structure import flatten, map_structure

CHANGES: dict[str, Callable[[Any], Any]] = {
    "float": lambda cell: setattr(cell, "level", 0.2),
    "function": lambda cell: setattr(cell, "activation", torch.sin),
    "flag": lambda cell: setattr(cell, "flag", True),
    "list in place": lambda cell: cell.levels.__setitem__(0, 3.0),
    "dict in place": lambda cell: cell.named.update(shift=-1.0),
    "tensor": lambda cell: setattr(cell, "held", torch.full((4,), 2.0, dtype=torch.float64)),
    "tensor in place": lambda cell: cell.held.fill_(2.0),
    "buffer": lambda cell: setattr(cell, "buffer", torch.full((4,), 2.0, dtype=torch.float64)),
    "buffer in place": lambda cell: cell.buffer.fill_(2.0),
    "module": lambda cell: setattr(cell, "mix", nn.Linear(7, 4, dtype=torch.float64)),
    "no bias": lambda cell: setattr(cell.mix, "bias", None),
    "option of a module": lambda cell: setattr(cell.norm, "eps", 10.0),
    "hook of a module": lambda cell: cell.norm.register_forward_hook(lambda module, args, output: output * 2),
    "hook": lambda cell: cell.register_forward_hook(lambda module, args, output: (output[0] * 2, output[1])),
    "forward": lambda cell: setattr(cell, "forward", lambda x, h: (h, h + 1)),
}
"""What can be done to an `Adjustable` cell."""


class TestBetweenRuns:
    """What is done to a cell between two runs counts in the second, whatever the first has learnt of it."""

    @pytest.mark.parametrize("name", FEW)
    def test_two_loops_of_one_graph(self, name: str) -> None:
        """The second loop goes on where the first ended; both send gradients to the same weights."""
        cell, dtype, inputs, state = shared(name)

        def twice(run: Run) -> Run:
            def loops(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
                first, middle = run(cell, inputs, lengths, state, dtype)
                backwards = map_structure(lambda leaf: leaf.flip(1), inputs)
                second, final = run(cell, backwards, None, middle, dtype)
                return map_structure(lambda y, z: y * z, first, second), final

            return loops

        expected = results(twice(plain_loop), cell, dtype, LENGTHS, inputs, state)
        assert_same(results(twice(engine_loop), cell, dtype, LENGTHS, inputs, state), expected)

    @pytest.mark.parametrize("name", FEW)
    def test_functional_call_gives_other_weights(self, name: str) -> None:
        """The gradients go to the weights that were given, none to the module's own."""
        cell, dtype, inputs, state = shared(name)
        before = check(cell, dtype, LENGTHS, inputs, state)
        torch.manual_seed(1)
        own = dict(cell.named_parameters())
        given = {f"cell.{k}": (v + 0.3 * torch.randn_like(v)).detach().requires_grad_() for k, v in own.items()}

        def functional(run: Run) -> tuple[dict[str, Any], list[Any]]:
            loop = Loop(cell, LENGTHS, dtype, run)
            outputs, final = torch.func.functional_call(loop, given, (inputs, state))
            sources = [*given.values(), *own.values()]
            gradients = torch.autograd.grad(loss_of(outputs, final), sources, allow_unused=True)
            found = dict(enumerate([*flatten(outputs), *flatten(final), *gradients[: len(given)]]))
            return {f"outputs {k}": value for k, value in found.items()}, list(gradients[len(given) :])

        (expected, _), (found, of_own) = functional(plain_loop), functional(engine_loop)
        assert_same(found, expected)
        assert_changed(before, found)
        assert of_own == [None] * len(own)
        assert_same(check(cell, dtype, LENGTHS, inputs, state), before)

    @pytest.mark.parametrize("name", FEW)
    def test_a_step_of_an_optimiser(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        optimiser = torch.optim.SGD(cell.parameters(), lr=1.0)
        before = check(cell, dtype, LENGTHS, inputs, state)
        for weight, value in cell.named_parameters():
            value.grad = before[f"gradient of {weight}"].sign() * 0.5
        optimiser.step()
        assert_changed(before, check(cell, dtype, LENGTHS, inputs, state))

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_changed_attributes(self, change: Any) -> None:
        torch.manual_seed(0)
        cell, dtype = Adjustable().double(), torch.float64
        inputs = torch.randn(BATCH, STEPS, 3, dtype=torch.float64, requires_grad=True)
        state = torch.randn(BATCH, 4, dtype=torch.float64, requires_grad=True)
        before = check(cell, dtype, LENGTHS, inputs, state)
        change(cell)
        assert_changed(before, check(cell, dtype, LENGTHS, inputs, state))

    def test_a_changed_temperature(self) -> None:
        cell, dtype, inputs, state = made("softmax_mixture")
        assert isinstance(cell, SoftmaxMixture)
        before = check(cell, dtype, LENGTHS, inputs, state)
        cell.temperature = 0.01
        assert_changed(before, check(cell, dtype, LENGTHS, inputs, state))
        cell.temperature = 1.0
        assert_same(check(cell, dtype, LENGTHS, inputs, state), before)

    @pytest.mark.parametrize("how", ["a new parameter", "data", "load_state_dict", "assign"])
    @pytest.mark.parametrize("name", FEW)
    def test_replaced_weights(self, name: str, how: str) -> None:
        """New objects, new storage or new values: the old ones are no longer read, and get no gradients."""
        cell, dtype, inputs, state = made(name)
        before = check(cell, dtype, LENGTHS, inputs, state)
        torch.manual_seed(1)
        values = {key: torch.randn_like(value) for key, value in cell.state_dict().items()}
        if how == "a new parameter":
            for key, value in cell.named_parameters():
                module, _, leaf = key.rpartition(".")
                setattr(cell.get_submodule(module), leaf, nn.Parameter(torch.randn_like(value)))
        elif how == "data":
            for value in cell.parameters():
                value.data = torch.randn_like(value)
        else:
            cell.load_state_dict(values, assign=how == "assign")
        assert_changed(before, check(cell, dtype, LENGTHS, inputs, state))

    @pytest.mark.parametrize("name", ["lstm_two_linears", *FEW])
    def test_conversion_to_another_dtype_and_back(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        inputs32, state32 = (wanting_gradients(map_structure(Tensor.float, each)) for each in (inputs, state))
        before = check(cell, dtype, LENGTHS, inputs, state)
        single = check(cell.float(), torch.float32, LENGTHS, inputs32, state32)
        assert single["outputs 0"].dtype == torch.float32
        # Weights rounded to float32 are off by 6e-8 of themselves.
        close = dict(rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(single["outputs 0"].double(), before["outputs 0"], **close)
        back = check(cell.double(), dtype, LENGTHS, inputs, state)
        torch.testing.assert_close(back["outputs 0"], before["outputs 0"], **close)

    @pytest.mark.parametrize("name", FEW)
    def test_a_copy_of_a_used_cell_is_a_cell_of_its_own(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        before = check(cell, dtype, LENGTHS, inputs, state)
        twin = copy.deepcopy(cell)
        assert_same(check(twin, dtype, LENGTHS, inputs, state), before)
        with torch.no_grad():
            for weight in twin.parameters():
                weight.mul_(-2).add_(0.5)
        assert_changed(before, check(twin, dtype, LENGTHS, inputs, state))
        assert_same(check(cell, dtype, LENGTHS, inputs, state), before)

    def test_two_cells_of_one_class_differ(self) -> None:
        """In a weight, in an option: what was learnt of one is not taken for the other."""
        cell, dtype, inputs, state = made("softmax_mixture")
        other = USER_CELLS["softmax_mixture"].make()
        other.load_state_dict(cell.state_dict())
        other.temperature = 0.01
        before = check(cell, dtype, LENGTHS, inputs, state)
        assert_changed(before, check(other, dtype, LENGTHS, inputs, state))
        assert_same(check(cell, dtype, LENGTHS, inputs, state), before)

    def test_a_parametrisation_registered_after_the_first_run(self) -> None:
        """The weights have other names then, and the step reads them by another way; removed, all is as it was."""
        cell, dtype, inputs, state = made("lstm_two_linears")
        before = check(cell, dtype, LENGTHS, inputs, state)
        parametrize.register_parametrization(cell.of_h, "weight", Squared())
        after = check(cell, dtype, LENGTHS, inputs, state)
        assert_changed(before, after)
        assert "gradient of of_h.parametrizations.weight.original" in after
        parametrize.remove_parametrizations(cell.of_h, "weight", leave_parametrized=False)
        assert_same(check(cell, dtype, LENGTHS, inputs, state), before)

    def test_weight_norm_registered_after_the_first_run(self) -> None:
        cell, dtype, inputs, state = made("nn_gru_copy")
        before = check(cell, dtype, LENGTHS, inputs, state)
        weight_norm(cell.hh)
        after = check(cell, dtype, LENGTHS, inputs, state)
        torch.testing.assert_close(after["outputs 0"], before["outputs 0"], rtol=1e-10, atol=1e-12)
        assert "gradient of hh.parametrizations.weight.original0" in after

    @pytest.mark.parametrize("name", RANDOM)
    def test_training_and_evaluation_take_turns(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        training = check(cell, dtype, None, inputs, state)
        evaluated = check(cell.eval(), dtype, None, inputs, state)
        assert_changed(training, evaluated)
        assert_same(check(cell.train(), dtype, None, inputs, state), training)
        assert_same(check(cell.eval(), dtype, None, inputs, state), evaluated)

    @pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
    @pytest.mark.parametrize("name", RANDOM)
    def test_the_same_seed_gives_the_same_draws_in_every_run(self, name: str, lengths: Any) -> None:
        """From the first run of a new cell on: an experiment can be repeated in the process that ran it."""
        cell, dtype, inputs, state = made(name)
        outputs = []
        for _ in range(3):
            torch.manual_seed(7)
            outputs.append(engine_loop(cell, inputs, lengths, state, dtype)[0])
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(outputs[2], outputs[0], rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("name", RANDOM)
    def test_random_cells_draw_anew_in_every_run(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        first, _ = engine_loop(cell, inputs, LENGTHS, state, dtype)
        second, _ = engine_loop(cell, inputs, LENGTHS, state, dtype)
        assert not torch.equal(first, second)

    @pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
    def test_a_memory_of_the_whole_batch_that_the_cell_holds(self, lengths: Any) -> None:
        """An encoder's: a part of the graph, another in every run; its gradient reaches the encoder."""
        torch.manual_seed(0)
        cell, dtype = HoldsMemory().double(), torch.float64
        encoder = nn.Linear(2, 2, dtype=torch.float64)
        for batch in (BATCH, BATCH, 2):
            now = None if lengths is None else lengths[:batch]
            inputs = torch.randn(batch, STEPS, 3, dtype=torch.float64, requires_grad=True)
            state = torch.randn(batch, 4, dtype=torch.float64, requires_grad=True)
            source = torch.randn(batch, 6, 2, dtype=torch.float64)
            of_encoder = []
            for run in (plain_loop, engine_loop):
                cell.memory = encoder(source)
                outputs, final = run(cell, inputs, now, state, dtype)
                of_encoder.append(torch.autograd.grad(loss_of(outputs, final), [*encoder.parameters()]))
            torch.testing.assert_close(of_encoder[1], of_encoder[0], rtol=1e-10, atol=1e-12)
            cell.memory = encoder(source).detach()
            check(cell, dtype, now, inputs, state)

    @pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
    def test_buffers_that_every_step_updates(self, lengths: Any) -> None:
        """Spectral normalisation refines an estimate whenever it reads a weight, so every step has another weight."""
        cell, dtype, inputs, state = made("lstm_two_linears")
        spectral_norm(cell.of_h)
        twin = copy.deepcopy(cell)
        for _ in range(2):
            expected = results(plain_loop, twin, dtype, lengths, inputs, state)
            assert_same(results(engine_loop, cell, dtype, lengths, inputs, state), expected)
            assert_same(dict(cell.named_buffers()), dict(twin.named_buffers()))
        check(cell.eval(), dtype, lengths, inputs, state)

    @pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
    def test_what_a_step_notes_down(self, lengths: Any) -> None:
        """A cell that keeps a list of what it saw: one entry a step, of real numbers, as in the plain loop."""
        torch.manual_seed(0)
        inputs = torch.randn(BATCH, STEPS, 3, dtype=torch.float64)
        state = torch.randn(BATCH, 4, dtype=torch.float64)
        cell = Notes().double()
        expected, _ = plain_loop(cell, inputs, lengths, state, torch.float64)
        notes, cell.notes = cell.notes, []
        found, _ = engine_loop(cell, inputs, lengths, state, torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(cell.notes, notes, rtol=1e-10, atol=1e-12)


class Adjustable(unspool.RNNCell):
    """Has one of each kind of thing that a step can read from its cell."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 4
        self.mix = nn.Linear(3 + 4, 4)
        self.norm = nn.LayerNorm(4)
        nn.init.uniform_(self.mix.bias, -2, 2)
        self.register_buffer("buffer", torch.ones(4, dtype=torch.float64))
        self.held = torch.ones(4, dtype=torch.float64)
        self.level, self.levels, self.named = 1.0, [1.0, 2.0], {"shift": 0.5}
        self.activation = torch.tanh
        self.flag = False

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = self.activation(self.norm(self.mix(torch.cat([x, h * self.held], 1))) * self.level) * self.buffer
        if self.flag:
            h = h + h.cos()
        return h * self.levels[0] + self.named["shift"], h


class HoldsMemory(unspool.RNNCell):
    """Attends to a memory `[B, M, k]` that somebody gives it before a run."""

    memory: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 4
        self.query = nn.Linear(4, 2)
        self.mix = nn.Linear(3 + 2 + 4, 4)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        weights = torch.softmax((self.memory @ self.query(h).unsqueeze(-1)).squeeze(-1), 1)
        context = (weights.unsqueeze(-1) * self.memory).sum(1)
        h = torch.tanh(self.mix(torch.cat([x, context, h], 1)))
        return h, h


class Notes(unspool.RNNCell):
    """Keeps its gates of every step, to be looked at later."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 4
        self.mix = nn.Linear(3 + 4, 4)
        self.notes: list[Tensor] = []

    def forward(self, x: Tensor, h: Tensor) -> Any:
        gate = torch.sigmoid(self.mix(torch.cat([x, h], 1)))
        self.notes.append(gate.detach())
        h = gate * h
        return h, h


class Squared(nn.Module):
    """A parametrisation: the square of every element."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight.square()
