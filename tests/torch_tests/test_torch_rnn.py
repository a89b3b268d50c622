"""Torch's tests of its recurrent modules, for the drop-ins."""

from __future__ import annotations

import copy
import io
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import unspool
from tests.torch_tests.comparing import (
    MODES,
    as_torch,
    assert_same,
    compare,
    error_of,
    hidden,
    pair,
    results,
    tensors,
)

WRONG = 7
"""A size that nothing has."""


def wrong_calls(ours: Any, inputs: Tensor, shapes: list[list[int]]) -> Any:
    """Inputs and states with one axis of one of them wrong."""
    states = [torch.zeros(shape) for shape in shapes]

    def as_hx(parts: list[Tensor]) -> Any:
        return tuple(parts) if len(shapes) == 2 else parts[0]

    for axis in (1, 2):
        shape = list(inputs.shape)
        shape[axis] = WRONG
        yield torch.zeros(shape), as_hx(states)
    for number, axis in itertools.product(range(len(shapes)), range(3)):
        shape = list(shapes[number])
        shape[axis] = WRONG
        yield inputs, as_hx([torch.zeros(shape) if k == number else state for k, state in enumerate(states)])


class TestArguments:
    @pytest.mark.parametrize("mode", MODES)
    def test_rnn_args_check(self, mode: str) -> None:
        ours, theirs = pair(mode, 3, 5, 2)
        for inputs, hx in wrong_calls(ours, torch.randn(6, 4, 3), [[2, 4, 5]] * (1 + (mode == "LSTM"))):
            kind, text = error_of(ours, inputs, hx)
            assert kind is RuntimeError
            assert (kind, text) == error_of(theirs, inputs, hx)

    def test_projections_lstm_args_check(self) -> None:
        ours, theirs = pair("LSTM", 3, 5, 2, proj_size=2)
        for inputs, hx in wrong_calls(ours, torch.randn(6, 4, 3), [[2, 4, 2], [2, 4, 5]]):
            kind, text = error_of(ours, inputs, hx)
            assert kind is RuntimeError
            assert (kind, text) == error_of(theirs, inputs, hx)

    @pytest.mark.parametrize("mode", MODES)
    def test_rnn_check_device(self, mode: str) -> None:
        """The second device is the one that every machine has: meta."""
        ours, theirs = pair(mode, 3, 5, 2)
        inputs, hx = torch.randn(6, 4, 3), hidden(ours, 4)
        elsewhere = tuple(each.to("meta") for each in hx) if mode == "LSTM" else hx.to("meta")
        for arguments in [(inputs.to("meta"),), (inputs, elsewhere), (inputs.to("meta"), hx)]:
            assert error_of(ours, *arguments) == error_of(theirs, *arguments)

    def test_projections_lstm_check_device(self) -> None:
        ours, theirs = pair("LSTM", 3, 5, 2, proj_size=2)
        inputs, (h, c) = torch.randn(6, 4, 3), hidden(ours, 4)
        for arguments in [(inputs.to("meta"),), (inputs, (h.to("meta"), c)), (inputs, (h, c.to("meta")))]:
            assert error_of(ours, *arguments) == error_of(theirs, *arguments)

    @pytest.mark.parametrize("mode", ["RNN", "GRU"])
    def test_projections_errors_on_gru_and_rnn(self, mode: str) -> None:
        with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM, not RNN or GRU"):
            getattr(unspool.nn, mode)(30, 20, 2, proj_size=10)

    @pytest.mark.parametrize(("mode", "options"), [("LSTM", {}), ("LSTM", {"proj_size": 10}), ("GRU", {}), ("RNN", {})])
    def test_cudnn_forward_exception(self, mode: str, options: dict[str, int]) -> None:
        rnn = getattr(unspool.nn, mode)(10, 20, batch_first=True, **options)
        states = torch.zeros(1, 2, 19)
        with pytest.raises(RuntimeError, match=r"Expected hidden.*size.*got"):
            rnn(torch.randn(2, 3, 10), (states, states) if mode == "LSTM" else states)
        with pytest.raises(RuntimeError, match=r"input.size\(-1\) must be equal to input_size. Expected 10, got 3"):
            rnn(torch.randn(2, 3, 3))

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("bidirectional", [True, False])
    def test_error_rnn_seq_len_zero(self, mode: str, bidirectional: bool) -> None:
        rnn = getattr(unspool.nn, mode)(5, 6, bidirectional=bidirectional)
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            rnn(torch.ones(0, 10, 5))

    @pytest.mark.parametrize("mode", MODES)
    def test_rnn_input_size_zero(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(3, 4)
        outputs, _ = rnn(torch.zeros(5, 0, 3))
        assert outputs.shape == (5, 0, 4)
        outputs.sum().backward()
        assert not rnn.weight_ih_l0.grad.any()

    def test_pack_sequence_batch_sizes_throw(self) -> None:
        """The sizes of a packed batch are read by whoever packs it: on a CPU, and nowhere else."""
        with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
            unspool.nn.LSTM(3, 4)(PackedSequence(torch.rand(5, 3), torch.ones(5, dtype=torch.int64, device="meta")))


class TestStates:
    @pytest.mark.parametrize("mode", MODES)
    def test_rnn_initial_hidden_state(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(30, 20, 2)
        inputs, zeros = torch.randn(10, 32, 30), torch.zeros(2, 32, 20)
        given = rnn(inputs, (zeros, zeros) if mode == "LSTM" else zeros)
        for one, other in zip(tensors(*given), tensors(*rnn(inputs)), strict=True):
            assert torch.equal(one, other)

    @pytest.mark.parametrize("bidirectional", [False, True])
    def test_projections_lstm_initial_hidden_state(self, bidirectional: bool) -> None:
        rnn = unspool.nn.LSTM(30, 20, 2, bidirectional=bidirectional, proj_size=10)
        count = 4 if bidirectional else 2
        inputs, zeros = torch.randn(10, 32, 30), (torch.zeros(count, 32, 10), torch.zeros(count, 32, 20))
        for one, other in zip(tensors(*rnn(inputs, zeros)), tensors(*rnn(inputs)), strict=True):
            assert torch.equal(one, other)


def noncontiguous(tensor: Tensor) -> Tensor:
    """The same numbers with gaps between them."""
    return torch.stack([torch.zeros_like(tensor), tensor], -1).select(-1, 1)


def every_option(
    dropout: float, bias: bool, bidirectional: bool, batch_first: bool, mode: str, projection: int
) -> None:
    """A drop-in against torch's module, over whole and packed batches, contiguous or not."""
    options: dict[str, Any] = {"proj_size": projection} if projection else {}
    ours, theirs = pair(
        mode, 10, 6, 2, bias=bias, bidirectional=bidirectional, batch_first=batch_first, dropout=dropout,
        dtype=torch.float64, **options,
    )  # fmt: skip
    inputs = torch.randn(*((6, 7) if batch_first else (7, 6)), 10, dtype=torch.float64)
    hx = hidden(ours, 6, dtype=torch.float64)
    compare(ours, theirs, inputs, hx)
    gaps = tuple(map(noncontiguous, hx)) if mode == "LSTM" else noncontiguous(hx)
    compare(ours, theirs, noncontiguous(inputs), gaps)
    for lengths in ([7, 5, 5, 2, 1, 1], torch.tensor([7, 5, 5, 2, 1, 1])):
        compare(ours, theirs, pack_padded_sequence(inputs, lengths, batch_first=batch_first), hx)


class TestAgainstTorch:
    @pytest.mark.parametrize(  # every two of them in every combination
        ("bias", "bidirectional", "batch_first"),
        [(True, True, True), (True, False, False), (False, True, False), (False, False, True)],
    )
    @pytest.mark.parametrize(("mode", "projection"), [("RNN", 0), ("LSTM", 0), ("GRU", 0), ("LSTM", 3)])
    def test_rnn_cpu_vs_cudnn_no_dropout(
        self, bias: bool, bidirectional: bool, batch_first: bool, mode: str, projection: int
    ) -> None:
        every_option(0.0, bias, bidirectional, batch_first, mode, projection)

    @pytest.mark.parametrize("bidirectional", [True, False])
    @pytest.mark.parametrize(("mode", "projection"), [("RNN", 0), ("LSTM", 0), ("GRU", 0), ("LSTM", 3)])
    def test_rnn_cpu_vs_cudnn_with_dropout(self, bidirectional: bool, mode: str, projection: int) -> None:
        """With everything dropped there is nothing random about it."""
        every_option(1.0, True, bidirectional, False, mode, projection)

    @pytest.mark.compiled
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize(("mode", "options"), [("RNN", {"nonlinearity": "relu"}), ("GRU", {}), ("LSTM", {})])
    def test_rnn_fused(self, mode: str, options: dict[str, Any], packed: bool, dtype: torch.dtype) -> None:
        """Compiled, in both dtypes: what torch has as one kernel."""
        ours, theirs = pair(mode, 10, 6, 2, bidirectional=True, dtype=dtype, **options)
        inputs: Any = torch.randn(7, 6, 10, dtype=dtype)
        inputs = pack_padded_sequence(inputs, [1, 7, 3, 5, 5, 2], enforce_sorted=False) if packed else inputs
        compare(ours, theirs, inputs, hidden(ours, 6, dtype=dtype))

    @pytest.mark.parametrize("mode", MODES)
    def test_rnn_retain_variables(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(10, 20, num_layers=2, dtype=torch.float64)
        inputs = torch.randn(5, 6, 10, dtype=torch.float64, requires_grad=True)
        outputs, _ = rnn(inputs)
        outputs.sum().backward(retain_graph=True)
        first = [each.grad.clone() for each in (inputs, *rnn.parameters())]
        for _ in range(2):
            rnn.zero_grad()
            inputs.grad = None
            outputs.sum().backward(retain_graph=True)
            for one, each in zip(first, (inputs, *rnn.parameters()), strict=True):
                assert torch.equal(one, each.grad)


def second_order(mode: str, **options: Any) -> None:
    ours, theirs = pair(mode, 2, 3, dtype=torch.float64, **options)
    inputs, hx = torch.randn(4, 2, 2, dtype=torch.float64), hidden(ours, 2, dtype=torch.float64)

    def twice(module: nn.RNNBase) -> dict[str, Tensor]:
        x = inputs.clone().requires_grad_()
        sources = dict(module.named_parameters()) | {"inputs": x}
        outputs, _ = module(x, hx)
        first = torch.autograd.grad((outputs**2).sum(), list(sources.values()), create_graph=True)
        second = torch.autograd.grad(sum((each**2).sum() for each in first), list(sources.values()))
        return {f"second {name}": each for name, each in zip(sources, second, strict=True)}

    assert_same(twice(ours), twice(theirs))


class TestGradientsOfGradients:
    @pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"proj_size": 2}])
    def test_lstm_grad_and_gradgrad(self, options: dict[str, Any]) -> None:
        second_order("LSTM", **options)

    @pytest.mark.parametrize("bias", [True, False])
    def test_gru_grad_and_gradgrad(self, bias: bool) -> None:
        second_order("GRU", bias=bias)

    def test_lstm_differentiable_backward_using_onednn(self) -> None:
        ours, theirs = pair("LSTM", 5, 6)
        x = torch.randn(3, 4, 5)

        def penalty(module: nn.RNNBase) -> list[Tensor]:
            inputs = x.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(module(inputs)[0].sum(), inputs, create_graph=True)
            return list(torch.autograd.grad(gradient.square().sum(), list(module.parameters()), allow_unused=True))

        for one, other in zip(penalty(ours), penalty(theirs), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)  # float32, and two loops after each other


class TestWeights:
    @pytest.mark.parametrize(("options", "name"), [({}, "weight_hh_l0"), ({"proj_size": 3}, "weight_hr_l0")])
    @pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
    def test_rnn_cudnn_weight_norm(self, options: dict[str, int], name: str) -> None:
        rnn = unspool.nn.LSTM(10, 6, 2, **options, dtype=torch.float64)
        inputs = torch.randn(7, 6, 10, dtype=torch.float64)
        expected = results(rnn, inputs)["result 0"]
        normed = nn.utils.weight_norm(rnn, name)
        found = results(normed, inputs)
        assert f"gradient of {name}_g" in found
        torch.testing.assert_close(found["result 0"], expected)
        with torch.no_grad():
            getattr(normed, f"{name}_g").mul_(2)
        assert_same(results(normed, inputs), results(as_torch_normed(options, name, normed), inputs))
        torch.testing.assert_close(nn.utils.remove_weight_norm(normed, name)(inputs)[0], normed(inputs)[0])

    @pytest.mark.parametrize("mode", MODES)
    def test_cudnn_weight_format(self, mode: str) -> None:
        """A weight in memory of its own, which stays where it is."""
        rnn = getattr(unspool.nn, mode)(10, 20, batch_first=True, dtype=torch.float64)
        inputs = torch.randn(5, 4, 10, dtype=torch.float64)
        rnn.flatten_parameters()
        expected = results(rnn, inputs)
        elsewhere = rnn.weight_hh_l0.data.clone()
        with torch.no_grad():
            rnn.weight_hh_l0.set_(elsewhere)
        assert_same(results(rnn, inputs), expected)
        elsewhere[:] = 4
        assert bool((rnn.weight_hh_l0 == 4).all())
        assert_same(results(rnn, inputs), results(as_torch(rnn), inputs))

    @pytest.mark.parametrize(("mode", "options"), [("LSTM", {}), ("LSTM", {"proj_size": 10}), ("GRU", {}), ("RNN", {})])
    def test_cudnn_weight_tying(self, mode: str, options: dict[str, Any]) -> None:
        options = {"batch_first": True, "bidirectional": True, "dtype": torch.float64, **options}
        rnn = getattr(unspool.nn, mode)(10, 20, **options)
        rnn.bias_ih_l0_reverse = rnn.bias_ih_l0
        inputs, optimizer = torch.randn(5, 4, 10, dtype=torch.float64), torch.optim.SGD(rnn.parameters(), lr=0.1)
        rnn(inputs)[0].sum().backward()
        optimizer.step()
        assert rnn.bias_ih_l0_reverse is rnn.bias_ih_l0
        compare(rnn, as_torch(rnn), inputs)

    def test_partial_flat_weights(self) -> None:
        rnn, inputs = unspool.nn.LSTM(10, 6, 2), torch.randn(3, 2, 10)
        expected, _ = rnn(inputs)
        weight = rnn.weight_hh_l0
        del rnn.weight_hh_l0
        assert not hasattr(rnn, "weight_hh_l0")
        rnn.to(torch.float64).to(torch.float32)
        rnn.weight_hh_l0 = weight
        torch.testing.assert_close(rnn(inputs)[0], expected)

    def test_save_lstm_compatibility(self) -> None:
        """A module that was saved before there were projections."""
        rnn, inputs = unspool.nn.LSTM(2, 3), torch.randn(32, 5, 2)
        expected, _ = rnn(inputs)
        state = rnn.__dict__.copy()
        del state["proj_size"]
        loaded = unspool.nn.LSTM(2, 3)
        loaded.__setstate__(state)
        assert torch.equal(loaded(inputs)[0], expected)


def as_torch_normed(options: dict[str, int], name: str, normed: nn.Module) -> Any:
    theirs = nn.utils.weight_norm(nn.LSTM(10, 6, 2, **options, dtype=torch.float64), name)
    theirs.load_state_dict(normed.state_dict())
    return theirs


class TestDropout:
    @pytest.mark.parametrize("p", [0, 0.276, 0.731, 1])
    @pytest.mark.parametrize("train", [True, False])
    def test_rnn_dropout(self, p: float, train: bool) -> None:
        """Between the layers, and nowhere else: 1000 units of 10 each are dropped or divided by 1 - p."""
        rnn = unspool.nn.RNN(10, 1000, 2, bias=False, dropout=p, nonlinearity="relu", dtype=torch.float64).train(train)
        with torch.no_grad():
            for weight in rnn.parameters():
                weight.fill_(1)
        outputs, h = rnn(torch.ones(1, 1, 10, dtype=torch.float64), torch.zeros(2, 1, 1000, dtype=torch.float64))
        value = outputs[0, 0, 0].item()
        assert bool((outputs == value).all())
        assert bool((h[0] == 10).all())
        assert bool((h[1] == value).all())
        if p == 0 or not train:
            assert value == 10_000
        elif p == 1:
            assert value == 0
        else:
            assert 8_000 < value < 12_000  # five standard deviations or more
            assert value * (1 - p) / 10 == pytest.approx(round(value * (1 - p) / 10), abs=1e-6)

    @pytest.mark.parametrize("p", [0, 0.1234])
    @pytest.mark.parametrize("train", [True, False])
    def test_rnn_dropout_state(self, p: float, train: bool) -> None:
        rnn = unspool.nn.RNN(100, 100, 2, bias=False, dropout=p, nonlinearity="relu").train(train)
        inputs, hx = torch.rand(1, 1, 100), torch.rand(2, 1, 100)
        file = io.BytesIO()
        torch.save(rnn, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        loaded.flatten_parameters()
        first, second, third = (each(inputs, hx)[0] for each in (rnn, rnn, loaded))
        same = p == 0 or not train
        assert torch.equal(first, second) == same
        assert torch.equal(first, third) == same

    @pytest.mark.parametrize("train", [True, False])
    def test_rnn_change_dropout(self, train: bool) -> None:
        rnn = unspool.nn.RNN(100, 100, 2, dropout=0, nonlinearity="relu", dtype=torch.float64).train(train)
        inputs, previous = torch.rand(3, 2, 100, dtype=torch.float64), None
        for p in (0, 0.5, 0, 0.7, 0.2, 1, 0.2, 0):
            rnn.dropout = p
            (one, _), (other, _) = rnn(inputs), rnn(inputs)
            assert torch.equal(one, other) == (p in (0, 1) or not train)
            assert previous is None or torch.equal(one, previous) == (not train)
            previous = one


class TestPacked:
    @pytest.mark.parametrize("enforce_sorted", [True, False])
    @pytest.mark.parametrize("mode", MODES)
    def test_variable_sequence(self, mode: str, enforce_sorted: bool) -> None:
        """A packed batch is each of its sequences alone: outputs, states and gradients."""
        lengths = [7, 5, 5, 2, 1, 1] if enforce_sorted else [2, 7, 1, 5, 1, 5]
        ours = getattr(unspool.nn, mode)(3, 4, bidirectional=True, num_layers=2, dtype=torch.float64)
        alone = copy.deepcopy(ours)
        x = torch.randn(7, 6, 3, dtype=torch.float64).requires_grad_()
        hx = hidden(ours, 6, dtype=torch.float64)
        packed, states = ours(pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted), hx)
        outputs, found = pad_packed_sequence(packed)
        assert found.tolist() == lengths
        separate = []
        for row, length in enumerate(lengths):
            own = tuple(part[:, row : row + 1] for part in hx) if mode == "LSTM" else hx[:, row : row + 1]
            y, final = alone(x[:length, row : row + 1], own)
            separate.append(y)
            assert not outputs[length:, row].any()
            torch.testing.assert_close(outputs[:length, row], y[:, 0], rtol=0, atol=1e-12)
            for one, other in zip(tensors(states), tensors(final), strict=True):
                torch.testing.assert_close(one[:, row : row + 1], other, rtol=0, atol=1e-12)
        together = torch.autograd.grad((outputs**2).sum(), [x, *ours.parameters()])
        apart = torch.autograd.grad(sum((y**2).sum() for y in separate), [x, *alone.parameters()])
        for one, other in zip(together, apart, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)

    def test_pack_sequence(self) -> None:
        ours, theirs = pair("GRU", 3, 4, 2, bidirectional=True, dtype=torch.float64)
        sequences = [torch.randn(length, 3, dtype=torch.float64) for length in (4, 9, 1, 4)]
        packed = pack_sequence(sequences, enforce_sorted=False)
        outputs, _ = ours(packed)
        for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
            assert getattr(outputs, name) is getattr(packed, name)
        compare(ours, theirs, packed, hidden(ours, 4, dtype=torch.float64))

    def test_unpack_sequence(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, dtype=torch.float64)
        packed = pack_sequence([torch.randn(length, 3, dtype=torch.float64) for length in (2, 5)], enforce_sorted=False)
        found, expected = (nn.utils.rnn.unpack_sequence(module(packed)[0]) for module in (ours, theirs))
        assert [len(each) for each in found] == [2, 5]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("batch_first", [True, False])
    @pytest.mark.parametrize(
        "lengths", [[10, 8, 4, 2, 2, 2, 1], [5] * 7, [1, 1, 1, 1, 1, 1, 1], [3, 10, 1, 1, 8, 2, 2]]
    )
    def test_pack_padded_sequence(self, lengths: list[int], batch_first: bool) -> None:
        ours, theirs = pair("RNN", 5, 4, 2, bidirectional=True, batch_first=batch_first, dtype=torch.float64)
        x = torch.randn(*((7, max(lengths)) if batch_first else (max(lengths), 7)), 5, dtype=torch.float64)
        packed = pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
        compare(ours, theirs, packed, hidden(ours, 7, dtype=torch.float64))

    def test_total_length(self) -> None:
        rnn = unspool.nn.GRU(3, 4)
        packed, _ = rnn(pack_padded_sequence(torch.randn(6, 2, 3), [6, 2]))
        assert pad_packed_sequence(packed, total_length=9)[0].shape == (9, 2, 4)
        with pytest.raises(ValueError, match="Expected total_length to be at least the length of the longest sequence"):
            pad_packed_sequence(packed, total_length=5)

    def test_type_casts(self) -> None:
        ours, theirs = pair("LSTM", 3, 4, dtype=torch.float64)
        packed = pack_padded_sequence(torch.randn(6, 2, 3), [6, 2])
        compare(ours, theirs, packed.double())
        assert error_of(ours, packed)[0] in (RuntimeError, ValueError)

    def test_to(self) -> None:
        ours, _ = pair("LSTM", 3, 4)
        packed = pack_padded_sequence(torch.randn(6, 2, 3), [6, 2])
        outputs, _ = ours(packed)
        assert outputs.to("cpu") is outputs
        assert outputs.to(torch.float64).data.dtype == torch.float64
