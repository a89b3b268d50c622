"""Cells as users write them, in `dynamic_rnn` and in the plain loop: the same results, with every gradient.

However `dynamic_rnn` runs a cell, it stands for the plain loop; a cell that it cannot run faster it runs just so.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import (
    BATCH,
    CERTAIN,
    FEW,
    LENGTHS,
    STEPS,
    Loop,
    assert_same,
    check,
    data_for,
    engine_loop,
    loss_of,
    made,
    plain_loop,
    results,
    shared,
    wanting_gradients,
    with_parallel_iterations,
)
from tests.user_cells import RANDOM, USER_CELLS, LSTMTwoLinears, NNGRUCopy
from unspool import dynamic_rnn
from unspool.structure import flatten, map_structure, unflatten_as

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
