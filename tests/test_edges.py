"""Sizes of zero, lengths and states of any kind, other devices: where loops break first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import unspool
from tests.cells import Duck, Nested, Plus1, Returns
from tests.comparison import total
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, LSTMCell, LSTMStateTuple, TensorArray, bidirectional_dynamic_rnn, dynamic_rnn, static_rnn
from unspool.structure import flatten, map_structure

# A GPU, where there is one, runs what a CPU runs.
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


# -- nothing to do -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [0, 0]])
@pytest.mark.parametrize("time_major", [False, True])
def test_no_steps(lengths: Any, time_major: bool) -> None:
    """T = 0: outputs `[B, 0, N]`, the state as it was, gradients of zero where TensorFlow's backward fails."""
    cell = LSTMCell(4)
    inputs = torch.zeros((0, 2, 3) if time_major else (2, 0, 3), requires_grad=True)
    start = LSTMStateTuple(torch.randn(2, 4, requires_grad=True), torch.randn(2, 4))
    outputs, state = dynamic_rnn(cell, inputs, lengths, start, time_major=time_major)
    assert outputs.shape == ((0, 2, 4) if time_major else (2, 0, 4))
    assert torch.equal(state.c, start.c)
    assert torch.equal(state.h, start.h)
    assert cell.kernel.shape == (7, 16)  # variables are created all the same
    (total(outputs) + total(state)).backward()
    assert inputs.grad is not None
    assert cell.kernel.grad is not None
    assert not cell.kernel.grad.any()
    assert torch.equal(start.c.grad, torch.ones(2, 4))


@pytest.mark.parametrize("lengths", [None, []])
def test_no_rows(lengths: Any) -> None:
    cell, inputs = GRUCell(4), torch.zeros(0, 5, 3, requires_grad=True)
    outputs, state = dynamic_rnn(cell, inputs, lengths, dtype=torch.float32)
    assert outputs.shape == (0, 5, 4)
    assert state.shape == (0, 4)
    (total(outputs) + total(state)).backward()
    for weight in cell.parameters():
        assert weight.grad is not None
        assert not weight.grad.any()


@pytest.mark.parametrize("name", ["basic_rnn", "gru", "basic_lstm", "lstm", "lstm-peepholes", "stack"])
def test_no_depth(name: str) -> None:
    """D = 0: the cell runs on its state alone."""
    cell = ZOO[name]()
    inputs = torch.zeros(2, 5, 0, requires_grad=True)
    outputs, _ = dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
    total(outputs).backward()
    assert inputs.grad is not None
    assert inputs.grad.shape == (2, 5, 0)
    first = next(cell.parameters())
    assert first.shape[0] == (2 if name == "stack" else 4)
    assert all(weight.grad is not None for weight in cell.parameters())


@pytest.mark.parametrize("loop", ["dynamic", "static"])
def test_all_lengths_zero_runs_the_cell_zero_times(loop: str) -> None:
    cell = Plus1(3)
    if loop == "dynamic":
        outputs, state = dynamic_rnn(cell, torch.full((2, 6, 3), torch.nan), [0, 0], dtype=torch.float32)
    else:
        steps = [torch.full((2, 3), torch.nan)] * 6
        outputs, state = static_rnn(cell, steps, dtype=torch.float32, sequence_length=[0, 0])
    assert cell.calls == 0
    assert not total(outputs).any()
    assert not state.any()


@pytest.mark.parametrize("loop", ["dynamic", "static"])
def test_all_lengths_zero_gives_zero_gradients_not_an_error(loop: str) -> None:
    cell, inputs = GRUCell(4, input_size=3), torch.full((2, 6, 3), torch.nan, requires_grad=True)
    if loop == "dynamic":
        outputs, state = dynamic_rnn(cell, inputs, [0, 0], dtype=torch.float32)
    else:
        outputs, state = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32, sequence_length=[0, 0])
    (total(outputs) + total(state)).backward()
    for tensor in [inputs, *cell.parameters()]:
        assert tensor.grad is not None
        assert torch.equal(tensor.grad, torch.zeros_like(tensor))


@pytest.mark.parametrize(("lengths", "runs"), [([2, 1], 2), ([6, 0], 6), (None, 6)])
def test_steps_past_the_longest_row_are_not_run(lengths: Any, runs: int) -> None:
    cell = Plus1(3)
    dynamic_rnn(cell, torch.zeros(2, 6, 3), lengths, dtype=torch.float32)
    assert cell.calls == runs


def test_a_cell_without_state_or_output_runs() -> None:
    outputs, state = dynamic_rnn(Returns((), 3, lambda x, s: (x, s)), torch.ones(2, 4, 3), [4, 1], dtype=torch.float32)
    assert state == ()
    assert outputs.sum() == 15
    outputs, state = dynamic_rnn(Returns(1, (), lambda x, s: ((), s + 1)), torch.ones(2, 4, 3), dtype=torch.float32)
    assert outputs == ()
    assert torch.equal(state, torch.full((2, 1), 4.0))


# -- lengths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lengths",
    [[2, 4], (2, 4), np.array([2, 4], np.int16), torch.tensor([2, 4], dtype=torch.int32), torch.tensor([2, 4])],
    ids=["list", "tuple", "numpy-int16", "torch-int32", "torch-int64"],
)
def test_lengths_of_any_whole_kind(lengths: Any) -> None:
    outputs, state = dynamic_rnn(Plus1(3), torch.zeros(2, 5, 3), lengths, dtype=torch.float32)
    assert outputs.sum((1, 2)).tolist() == [6.0, 12.0]
    assert state[:, 0].tolist() == [2.0, 4.0]


def test_lengths_on_another_device_than_the_inputs() -> None:
    """Meta tensors have a device and no values: what would mix devices would fail."""
    cell = LSTMCell(4, input_size=3).to("meta")
    inputs = torch.zeros(2, 5, 3, device="meta")
    outputs, state = dynamic_rnn(cell, inputs, torch.tensor([2, 4]), dtype=torch.float32)
    assert outputs.shape == (2, 5, 4)
    assert outputs.device.type == state.c.device.type == "meta"
    (_, backward), _ = bidirectional_dynamic_rnn(cell, cell, inputs, torch.tensor([2, 4]), dtype=torch.float32)
    assert backward.device.type == "meta"
    listed, _ = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32, sequence_length=torch.tensor([2, 4]))
    assert listed[4].device.type == "meta"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("where", DEVICES)
def test_lengths_on_any_device(device: str, where: str) -> None:
    torch.manual_seed(0)
    cell, inputs, lengths = GRUCell(4, input_size=3), torch.randn(3, 5, 3), torch.tensor([2, 0, 5])
    expected, _ = dynamic_rnn(cell, inputs, lengths, dtype=torch.float32)
    outputs, state = dynamic_rnn(cell.to(device), inputs.to(device), lengths.to(where), dtype=torch.float32)
    assert state.device.type == device
    torch.testing.assert_close(outputs.cpu(), expected, rtol=1e-5, atol=1e-6)  # sums of other orders on a GPU


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ZOO)
def test_every_cell_on_any_device_is_the_static_loop_on_the_cpu(name: str, device: str) -> None:
    torch.manual_seed(0)
    cell, inputs, lengths = ZOO[name]().double(), inputs_for(name, 3, 4), [4, 0, 2]
    if name == "device":
        cell = unspool.DeviceWrapper(GRUCell(4), device)
    steps = [map_structure(lambda leaf, t=t: leaf[:, t], inputs) for t in range(4)]
    listed, _ = static_rnn(cell, steps, dtype=torch.float64, sequence_length=lengths)
    (sum(total(output).cpu() for output in listed) * 3).backward()  # pyright: ignore[reportAttributeAccessIssue]
    gradients = [weight.grad.cpu() for weight in cell.parameters()]  # pyright: ignore[reportOptionalMemberAccess]

    cell.zero_grad()
    moved = map_structure(lambda leaf: leaf.to(device), inputs)
    outputs, _ = dynamic_rnn(cell.to(device), moved, torch.tensor(lengths, device=device), dtype=torch.float64)
    (total(outputs) * 3).backward()
    # float64 on either device, so only the order of sums differs
    flat = [torch.stack(leaves, 1) for leaves in zip(*map(flatten, listed), strict=True)]
    torch.testing.assert_close([leaf.cpu() for leaf in flatten(outputs)], [leaf.cpu() for leaf in flat])
    torch.testing.assert_close([weight.grad.cpu() for weight in cell.parameters()], gradients)  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "cpu"] or ["meta"])
def test_lengths_that_cannot_be_looked_at_are_clamped_and_not_checked(device: str) -> None:
    from unspool.loops.lengths import check_lengths_fit

    check_lengths_fit(torch.tensor([9, -1], device=device), 4)


def test_lengths_do_not_change_after_the_call() -> None:
    lengths = torch.tensor([2, 4])
    dynamic_rnn(Plus1(3), torch.zeros(2, 5, 3), lengths, dtype=torch.float32)
    assert lengths.tolist() == [2, 4]


# -- states ------------------------------------------------------------------------------------------------------------


def test_a_state_of_rank_one_is_masked_and_a_scalar_is_not() -> None:
    cell = Returns((torch.Size([]), 1), 3, lambda x, s: (x, (s[0] + 1, s[1] + 1)))
    scalar_first = (torch.tensor(0.0), torch.zeros(2, 1))
    _, (scalar, vector) = dynamic_rnn(cell, torch.zeros(2, 5, 3), [1, 3], initial_state=scalar_first)
    assert scalar == 3  # as many as steps were run
    assert vector.flatten().tolist() == [1.0, 3.0]
    rows = (torch.zeros(2), torch.zeros(2, 1))
    _, (masked, _) = dynamic_rnn(cell, torch.zeros(2, 5, 3), [1, 3], initial_state=rows)
    assert masked.tolist() == [1.0, 3.0]


def test_states_of_several_dtypes_keep_them() -> None:
    cell = Returns((3, torch.Size([])), 3, lambda x, s: (x + s[0], (s[0] + x, s[1] + 1)))
    start = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int32))
    outputs, (floats, ints) = dynamic_rnn(cell, torch.ones(2, 5, 3), [1, 4], start, dtype=torch.float32)
    assert outputs.dtype == floats.dtype == torch.float32
    assert ints.dtype == torch.int32
    assert ints.tolist() == [1, 4]


def test_a_tensor_array_in_a_state_passes_through() -> None:
    def step(x: Tensor, state: Any) -> Any:
        return x, (state[0] + 1, state[1].write(state[0], x))

    cell = Returns((torch.Size([]), ()), 3, step)
    start = (torch.tensor(0), TensorArray(torch.float32))
    inputs = torch.randn(2, 4, 3)
    _, (count, array) = dynamic_rnn(cell, inputs, initial_state=start, dtype=torch.float32)
    assert count == 4
    assert torch.equal(array.stack(), inputs.transpose(0, 1))
    assert start[1].size() == 0


def test_numpy_is_accepted_everywhere() -> None:
    torch.manual_seed(0)
    cell, inputs = LSTMCell(4, input_size=3), np.ones((2, 5, 3), np.float32)
    start = LSTMStateTuple(np.ones((2, 4), np.float32), np.ones((2, 4), np.float32))
    expected, _ = dynamic_rnn(cell, torch.from_numpy(inputs), [5, 2], LSTMStateTuple(*map(torch.from_numpy, start)))
    batch_major, _ = dynamic_rnn(cell, inputs, np.array([5, 2]), start)
    time_major, _ = dynamic_rnn(cell, inputs.swapaxes(0, 1).copy(), np.array([5, 2]), start, time_major=True)
    assert torch.equal(batch_major, expected)
    assert torch.equal(time_major.transpose(0, 1), expected)
    listed, _ = static_rnn(cell, list(inputs.swapaxes(0, 1)), start, sequence_length=[5, 2])
    # The engine multiplies many steps at once, which may round sums differently.
    torch.testing.assert_close(torch.stack(listed, 1), expected, rtol=0, atol=1e-6)


def test_numpy_of_any_layout_is_accepted() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    frozen = array.copy()
    frozen.flags.writeable = False
    expected, _ = dynamic_rnn(Plus1(3), torch.from_numpy(array.copy()), [2, 4], dtype=torch.float32)
    for odd in [array[:, ::-1][:, ::-1], array[:, ::-1].copy()[:, ::-1], array.astype(">f4"), frozen]:
        outputs, _ = dynamic_rnn(Plus1(3), odd, np.array([4, 2])[::-1], dtype=torch.float32)
        assert torch.equal(outputs, expected)


@pytest.mark.parametrize("dtype", ["float64", np.float64, torch.float64])
def test_dtype_by_any_name(dtype: Any) -> None:
    outputs, _ = dynamic_rnn(GRUCell(4), torch.zeros(2, 3, 3, dtype=torch.float64), dtype=dtype)
    assert outputs.dtype == torch.float64


def test_a_cell_by_its_looks_alone_runs_in_every_loop() -> None:
    inputs = torch.randn(2, 4, 3)
    outputs, state = dynamic_rnn(Duck(), inputs, [4, 2], dtype=torch.float32)
    listed, static_state = static_rnn(Duck(), list(inputs.unbind(1)), dtype=torch.float32, sequence_length=[4, 2])
    assert torch.equal(outputs, torch.stack(listed, 1))
    assert torch.equal(state, static_state)
    stack = unspool.MultiRNNCell([Duck(), GRUCell(2)])
    assert dynamic_rnn(stack, inputs, dtype=torch.float32)[0].shape == (2, 4, 2)
    assert dynamic_rnn(unspool.ResidualWrapper(Duck()), inputs, dtype=torch.float32)[0].shape == (2, 4, 3)
    assert unspool.tf_variables(Duck()) == {}


def test_a_cell_that_holds_tensors_for_the_whole_batch_runs_with_lengths() -> None:
    """An attention over a memory `[B, ...]`, say: rows that have ended cannot be cut out of the cell's inputs."""
    memory = torch.randn(3, 4)
    cell = Returns(4, 4, lambda x, s: (x + memory, s + x * memory))
    inputs = torch.randn(3, 5, 4)
    outputs, state = dynamic_rnn(cell, inputs, [5, 0, 2], dtype=torch.float32)
    torch.testing.assert_close(outputs[2, :2], inputs[2, :2] + memory[2], rtol=0, atol=0)
    expected = inputs[2, 0] * memory[2] + inputs[2, 1] * memory[2]
    torch.testing.assert_close(state[2], expected, rtol=1e-6, atol=1e-7)  # a product and a sum may be rounded once
    assert not state[1].any()


# -- nested structures -------------------------------------------------------------------------------------------------


def test_nested_outputs_of_a_bidirectional_loop_are_right() -> None:
    """TensorFlow returns them stacked and reversed along the wrong axis."""
    torch.manual_seed(0)
    fw, bw = Nested(3), Nested(3)
    inputs = {"x": torch.randn(2, 4, 3), "image": torch.randn(2, 4, 2, 3)}
    lengths = [4, 2]
    (_, outputs), (_, state) = bidirectional_dynamic_rnn(fw, bw, inputs, lengths, dtype=torch.float32)
    for row, length in enumerate(lengths):
        reversed_row = {key: leaf[row : row + 1, :length].flip(1) for key, leaf in inputs.items()}
        expected, final = dynamic_rnn(bw, reversed_row, dtype=torch.float32)
        for leaf, right in zip(flatten(outputs), flatten(expected), strict=True):
            torch.testing.assert_close(leaf[row, :length], right[0].flip(0), rtol=0, atol=1e-6)
            assert not leaf[row, length:].any()
        torch.testing.assert_close(state[1]["map"][row], final[1]["map"][0], rtol=0, atol=1e-6)


def test_leaves_of_dicts_go_by_their_keys_however_they_were_written() -> None:
    def step(inputs: Any, state: Any) -> Any:
        new = OrderedDict(b=state["b"] + 10, a=state["a"] + 1)
        return OrderedDict(b=10 * inputs["b"], a=inputs["a"]), new

    cell = Returns({"a": 1, "b": 1}, {"a": 1, "b": 1}, step)
    inputs = OrderedDict(b=torch.full((2, 3, 1), 5.0), a=torch.ones(2, 3, 1))
    for start in [
        None,
        OrderedDict(b=torch.zeros(2, 1), a=torch.zeros(2, 1)),
        dict(a=torch.zeros(2, 1), b=torch.zeros(2, 1)),
    ]:
        for lengths in [None, [3, 3]]:
            outputs, state = dynamic_rnn(cell, inputs, lengths, start, torch.float32)
            assert (outputs["a"] == 1).all()
            assert (outputs["b"] == 50).all()
            assert state["a"].tolist() == [[3.0], [3.0]]
            assert state["b"].tolist() == [[30.0], [30.0]]
    assert list(map_structure(lambda leaf: leaf, inputs)) == ["b", "a"]


def test_the_cell_sees_the_containers_of_the_inputs() -> None:
    seen: list[Any] = []

    def step(inputs: Any, state: Tensor) -> Any:
        seen.append(inputs)
        return inputs[0]["b"], state

    inputs = ({"b": torch.zeros(2, 4, 1), "a": torch.zeros(2, 4, 2, 2)}, [torch.zeros(2, 4, 5)])
    dynamic_rnn(Returns(1, 1, step), inputs, [4, 1], dtype=torch.float32)
    assert [type(part) for part in seen[0]] == [dict, list]
    assert seen[0][0]["a"].shape == (2, 2, 2)
