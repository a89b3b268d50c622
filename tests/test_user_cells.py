"""Cells as users write them, in `dynamic_rnn` and in the plain loop: the same results, with every gradient.

However `dynamic_rnn` runs a cell, it stands for the plain loop; a cell that it cannot run faster it runs just so.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import unspool
from tests.user_cells import RANDOM, USER_CELLS, LSTMTwoLinears, NNGRUCopy, SoftmaxMixture, UserCell
from unspool import dynamic_rnn
from unspool.cells.like import start_sequence
from unspool.engine import plain
from unspool.structure import flatten, map_structure, same_structure, unflatten_as

BATCH, STEPS = 5, 7
LENGTHS = [7, 0, 3, 3, 1]
CERTAIN = [name for name in USER_CELLS if name not in RANDOM]
FEW = ["layer_norm_lstm", "weight_normed", "tied", "conv_lstm", "stacked"]
"""Cells with weights of different kinds, for what does not depend on what a step computes."""

Run = Callable[[Any, Any, Any, Any, torch.dtype], tuple[Any, Any]]


# -- the comparison ----------------------------------------------------------------------------------------------------


def plain_loop(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """What `dynamic_rnn` stands for, batch-major like it."""
    start_sequence(cell)
    time_major = map_structure(lambda leaf: leaf.transpose(0, 1), inputs)
    outputs, final = plain.run(cell, time_major, None if lengths is None else torch.tensor(lengths), state, dtype)
    return map_structure(lambda leaf: leaf.transpose(0, 1), outputs), final


def engine_loop(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    return dynamic_rnn(cell, inputs, lengths, state, dtype)


def with_parallel_iterations(parallel_iterations: int) -> Run:
    def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, parallel_iterations)

    return run


def wanting_gradients(structure: Any) -> Any:
    """The tensors as leaves of a new autograd graph, with their strides: a memory expanded over time stays so."""
    return map_structure(lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()), structure)


def loss_of(*structures: Any) -> Tensor:
    """A number that every element of every floating tensor has a part of its own in."""
    generator = torch.Generator().manual_seed(11)
    leaves = [leaf.double() for leaf in flatten(structures) if leaf.is_floating_point()]
    terms = [(leaf * torch.randn(leaf.shape, dtype=leaf.dtype, generator=generator)).sum() for leaf in leaves]
    return sum(terms, torch.zeros((), dtype=torch.float64))


def results(
    run: Run, cell: Any, dtype: torch.dtype, lengths: Any, inputs: Any, state: Any, loss: Any = loss_of
) -> dict[str, Any]:
    """Outputs, final state, and the gradient of `loss(outputs, final)` for everything that wants one."""
    torch.manual_seed(5)  # the same draws for each way to run
    outputs, final = run(cell, inputs, lengths, state, dtype)
    assert same_structure(cell.output_size, outputs)
    assert same_structure(cell.state_size, final)
    weights = dict(cell.named_parameters()) if isinstance(cell, nn.Module) else {}
    sources = {f"inputs {k}": leaf for k, leaf in enumerate(flatten(inputs))}
    sources |= {f"state {k}": leaf for k, leaf in enumerate(flatten(state))} | weights
    sources = {name: source for name, source in sources.items() if source.requires_grad}
    # One loop may leave out a gradient that another computes to be zero.
    gradients = torch.autograd.grad(loss(outputs, final), list(sources.values()), materialize_grads=True)
    found = {f"outputs {k}": leaf for k, leaf in enumerate(flatten(outputs))}
    found |= {f"final state {k}": leaf for k, leaf in enumerate(flatten(final))}
    return found | {f"gradient of {name}": value for name, value in zip(sources, gradients, strict=True)}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal up to the order of summation."""
    assert found.keys() == expected.keys()
    # A cell that carries something in float32 computes through it, forwards and backwards: its rounding is everywhere.
    single = any(leaf.dtype == torch.float32 for leaf in expected.values())
    tolerance = dict(rtol=1e-5, atol=1e-5) if single else dict(rtol=1e-10, atol=1e-12)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **tolerance, msg=lambda why, name=name: f"{name}: {why}")


def check(
    cell: Any, dtype: torch.dtype, lengths: Any, inputs: Any, state: Any, loss: Any = loss_of, run: Run = engine_loop
) -> dict[str, Any]:
    """Asserts that `dynamic_rnn` equals the plain loop, now; returns what it computed."""
    expected = results(plain_loop, cell, dtype, lengths, inputs, state, loss)
    found = results(run, cell, dtype, lengths, inputs, state, loss)
    assert_same(found, expected)
    return found


def made(name: str, batch: int = BATCH, steps: int = STEPS) -> tuple[Any, torch.dtype, Any, Any]:
    """A cell of the table, the dtype of its outputs, inputs and a state; the latter two want gradients."""
    torch.manual_seed(0)
    case = USER_CELLS[name]
    return case.make(), case.dtype, *data_for(case, batch, steps)


@functools.cache
def shared(name: str) -> tuple[Any, torch.dtype, Any, Any]:
    """What `made` makes, once for all tests that leave it as it is: one cell in many runs, and planned only once."""
    return made(name)


def data_for(case: UserCell, batch: int, steps: int) -> tuple[Any, Any]:
    return wanting_gradients(case.inputs(batch, steps)), wanting_gradients(case.state(batch))


def assert_changed(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert not torch.allclose(before["outputs 0"], after["outputs 0"], rtol=1e-3, atol=1e-3)


# -- every cell --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel_iterations", [1, 3, 32])
@pytest.mark.parametrize("name", USER_CELLS)
def test_equals_the_plain_loop(name: str, parallel_iterations: int) -> None:
    """Of random cells too: from the same seed come the same draws, in the same order."""
    cell, dtype, inputs, state = shared(name)
    check(cell, dtype, None, inputs, state, run=with_parallel_iterations(parallel_iterations))


@pytest.mark.parametrize("parallel_iterations", [1, 3, 32])
@pytest.mark.parametrize("name", CERTAIN)
def test_equals_the_plain_loop_with_lengths(name: str, parallel_iterations: int) -> None:
    cell, dtype, inputs, state = shared(name)
    check(cell, dtype, LENGTHS, inputs, state, run=with_parallel_iterations(parallel_iterations))


@pytest.mark.parametrize("name", RANDOM)
def test_gradients_of_random_cells_with_lengths(name: str) -> None:
    """How many numbers are drawn for rows that have ended is nobody's promise; that gradients fit the draws is."""
    lengths = [4, 0, 2, 2]
    cell, dtype, inputs, state = made(name, batch=4, steps=4)
    engine_loop(cell, inputs, lengths, state, dtype)  # the first run may take another way, and draw otherwise
    weights = dict(cell.named_parameters())

    def run(*variables: Tensor) -> tuple[Tensor, ...]:
        torch.manual_seed(5)
        rest = list(variables)
        x = unflatten_as(inputs, [rest.pop(0) for _ in flatten(inputs)])
        start = unflatten_as(state, [rest.pop(0) for _ in flatten(state)])
        loop = Loop(cell, lengths, dtype, engine_loop)
        named = {f"cell.{name}": value for name, value in zip(weights, rest, strict=True)}
        outputs, final = torch.func.functional_call(loop, named, (x, start))
        return (*flatten(outputs), *flatten(final))

    values = [*flatten(inputs), *flatten(state), *weights.values()]
    # Central differences with eps 1e-6 on functions of size 1 are good to about 1e-9; the default atol leaves room.
    assert torch.autograd.gradcheck(run, [value.detach().clone().requires_grad_() for value in values])


class Loop(nn.Module):
    """A module that holds a cell and runs it."""

    def __init__(self, cell: Any, lengths: Any, dtype: torch.dtype, run: Run) -> None:
        super().__init__()
        self.cell, self.lengths, self.dtype, self.run = cell, lengths, dtype, run

    def forward(self, inputs: Any, state: Any) -> Any:
        return self.run(self.cell, inputs, self.lengths, state, self.dtype)


@pytest.mark.parametrize("name", CERTAIN)
def test_padding_has_no_influence(name: str) -> None:
    """It is NaN, or an id that no embedding has: nothing may be computed from it, not even to be masked later."""
    cell, dtype, inputs, state = shared(name)
    padding = torch.arange(STEPS) >= torch.tensor(LENGTHS)[:, None]

    def poisoned(leaf: Tensor) -> Tensor:
        mask = padding.reshape(BATCH, STEPS, *[1] * (leaf.dim() - 2))
        return leaf.detach().masked_fill(mask, float("nan") if leaf.is_floating_point() else 10**6)

    found = check(cell, dtype, LENGTHS, wanting_gradients(map_structure(poisoned, inputs)), state)
    assert_same(found, results(engine_loop, cell, dtype, LENGTHS, inputs, state))


@pytest.mark.parametrize("name", CERTAIN)
def test_one_cell_on_batches_of_many_shapes(name: str) -> None:
    """What was learnt of a cell on one batch holds for the next: one row, one step, none, longer, and all at once."""
    cell, dtype, *_ = shared(name)
    shapes: list[tuple[int, int, Any]] = [(5, 7, None), (5, 7, LENGTHS), (1, 7, None), (1, 4, [2]), (5, 1, None)]
    shapes += [(2, 9, [4, 9]), (3, 0, None), (3, 4, [0, 0, 0]), (5, 7, None)]
    for batch, steps, lengths in shapes:
        check(cell, dtype, lengths, *data_for(USER_CELLS[name], batch, steps))


def test_the_lstm_and_the_gru_of_the_table_are_those_of_torch() -> None:
    """The plain loop is the measure of all other tests here; this is what it is measured by."""
    torch.manual_seed(0)
    inputs = torch.randn(BATCH, STEPS, 3, dtype=torch.float64)
    for cell, of_x, of_h, peer in [
        (gru := NNGRUCopy(3, 4).double(), gru.ih, gru.hh, nn.GRU(3, 4, batch_first=True).double()),
        (lstm := LSTMTwoLinears(3, 4).double(), lstm.of_x, lstm.of_h, nn.LSTM(3, 4, batch_first=True).double()),
    ]:
        weights = [of_x.weight, of_h.weight, of_x.bias, of_h.bias]
        with torch.no_grad():
            for weight, value in zip(weights, peer.parameters(), strict=True):
                weight.copy_(value)
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float64)
        expected, _ = peer(inputs)
        torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-12)
        found = torch.autograd.grad(loss_of(outputs), weights)
        torch.testing.assert_close(found, torch.autograd.grad(loss_of(expected), [*peer.parameters()]))


# -- what a caller wants of a run --------------------------------------------------------------------------------------


class TestWhatIsWanted:
    """Which gradients are wanted, and of what: it changes what has to be computed, never what comes out."""

    @pytest.mark.parametrize("name", [*RANDOM, *FEW])
    def test_gradients_in_eval_mode(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        check(cell.eval(), dtype, LENGTHS, inputs, state)

    @pytest.mark.parametrize("name", USER_CELLS)
    def test_some_weights_are_frozen(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        frozen = list(cell.named_parameters())[::2]
        for _, weight in frozen:
            weight.requires_grad_(False)
        found = check(cell, dtype, None if name in RANDOM else LENGTHS, inputs, state)
        assert not any(f"gradient of {weight}" in found for weight, _ in frozen)

    @pytest.mark.parametrize("name", CERTAIN)
    def test_all_weights_are_frozen(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        found = check(cell.requires_grad_(False), dtype, LENGTHS, inputs, state)
        assert not any(f"gradient of {weight}" in found for weight, _ in cell.named_parameters())

    @pytest.mark.parametrize("name", CERTAIN)
    def test_inputs_want_no_gradient(self, name: str) -> None:
        cell, dtype, inputs, state = shared(name)
        check(cell, dtype, LENGTHS, map_structure(lambda leaf: leaf.detach(), inputs), state)

    @pytest.mark.parametrize("name", CERTAIN)
    def test_only_the_weights_want_gradients(self, name: str) -> None:
        cell, dtype, *data = shared(name)
        inputs, state = (map_structure(lambda leaf: leaf.detach(), each) for each in data)
        check(cell, dtype, LENGTHS, inputs, state)

    @pytest.mark.parametrize("name", [*FEW, "dict_state_dtypes", "ntm"])
    def test_one_leaf_of_the_state_wants_a_gradient_and_nothing_else(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        inputs = map_structure(lambda leaf: leaf.detach(), inputs)
        leaves = [leaf.detach() for leaf in flatten(state)]
        next(leaf for leaf in leaves if leaf.is_floating_point()).requires_grad_()
        check(cell.requires_grad_(False), dtype, LENGTHS, inputs, unflatten_as(state, leaves))

    @pytest.mark.parametrize("name", CERTAIN)
    def test_the_loss_is_of_the_final_state_alone(self, name: str) -> None:
        cell, dtype, inputs, state = shared(name)
        check(cell, dtype, LENGTHS, inputs, state, lambda outputs, final: loss_of(final))

    @pytest.mark.parametrize("name", CERTAIN)
    def test_the_loss_is_of_the_outputs_alone(self, name: str) -> None:
        cell, dtype, inputs, state = shared(name)
        check(cell, dtype, LENGTHS, inputs, state, lambda outputs, final: loss_of(outputs))

    @pytest.mark.parametrize("name", CERTAIN)
    def test_the_loss_is_of_one_step_alone(self, name: str) -> None:
        cell, dtype, inputs, state = shared(name)
        check(cell, dtype, None, inputs, state, lambda outputs, _: loss_of(map_structure(lambda y: y[:, 3], outputs)))

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    @pytest.mark.parametrize("name", CERTAIN)
    def test_no_gradients_at_all(self, name: str, mode: Any) -> None:
        """And a run with gradients after it, which may not get what was made without them."""
        cell, dtype, inputs, state = shared(name)
        with mode():
            expected = plain_loop(cell, inputs, LENGTHS, state, dtype)
            found = engine_loop(cell, inputs, LENGTHS, state, dtype)
            # Made here, as a server makes them: in inference mode they are tensors that autograd never sees.
            here = [map_structure(lambda leaf: leaf.clone(), each) for each in (inputs, state)]
            again = engine_loop(cell, here[0], LENGTHS, here[1], dtype)
        assert not any(leaf.requires_grad for leaf in flatten((found, again)))
        # Copies, since an inference tensor may not be used out here.
        first, second, wanted = (
            {str(k): leaf.clone() for k, leaf in enumerate(flatten(each))} for each in (found, again, expected)
        )
        assert_same(first, wanted)
        assert_same(second, wanted)
        check(cell, dtype, LENGTHS, inputs, state)

    @pytest.mark.parametrize("name", FEW)
    def test_one_gradient_at_a_time(self, name: str) -> None:
        """`autograd.grad` of single tensors and a graph that is kept: the same as all at once."""
        cell, dtype, inputs, state = shared(name)
        found = check(cell, dtype, LENGTHS, inputs, state)
        loss = loss_of(*engine_loop(cell, inputs, LENGTHS, state, dtype))
        for weight, value in cell.named_parameters():
            (gradient,) = torch.autograd.grad(loss, value, retain_graph=True)
            torch.testing.assert_close(gradient, found[f"gradient of {weight}"], rtol=1e-10, atol=1e-12)
        (gradient,) = torch.autograd.grad(loss, inputs)
        torch.testing.assert_close(gradient, found["gradient of inputs 0"], rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("name", [*FEW, "ntm", "detach_and_no_grad"])
    def test_gradients_of_gradients(self, name: str) -> None:
        """A penalty on the gradient of the inputs, as critics are trained with."""
        cell, dtype, inputs, state = shared(name)

        def penalty(outputs: Any, final: Any) -> Tensor:
            (gradient,) = torch.autograd.grad(loss_of(outputs, final), inputs, create_graph=True)
            return gradient.square().sum()

        check(cell, dtype, LENGTHS, inputs, state, penalty)

    @pytest.mark.parametrize("name", FEW)
    def test_gradients_accumulate_in_the_weights(self, name: str) -> None:
        cell, dtype, inputs, state = made(name)
        found = check(cell, dtype, LENGTHS, inputs, state)
        for _ in range(2):
            loss_of(*engine_loop(cell, inputs, LENGTHS, state, dtype)).backward()
        for weight, value in cell.named_parameters():
            torch.testing.assert_close(value.grad, 2 * found[f"gradient of {weight}"], rtol=1e-10, atol=1e-12)


# -- a cell in several runs --------------------------------------------------------------------------------------------


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
