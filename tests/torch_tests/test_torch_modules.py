"""Torch's tests of all modules, for the drop-ins, and those of its cells, in our loops."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.torch_tests.comparing import MODES, compare, error_of, hidden, pair

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"num_layers": 2, "bidirectional": True, "dropout": 0.0, "bias": False},
    {"batch_first": True, "bidirectional": True},
]


class TestModules:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_forward(self, mode: str, options: dict[str, Any], dtype: torch.dtype) -> None:
        """Batched and not, with states and without."""
        ours, theirs = pair(mode, 5, 7, dtype=dtype, **options)
        for inputs, rows in [(torch.randn(4, 3, 5, dtype=dtype), 4 if ours.batch_first else 3), (None, None)]:
            x = torch.randn(4, 5, dtype=dtype) if inputs is None else inputs
            compare(ours, theirs, x)
            compare(ours, theirs, x, hidden(ours, rows, dtype=dtype))

    @pytest.mark.parametrize("mode", MODES)
    def test_factory_kwargs(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(3, 4, bidirectional=True, device="meta", dtype=torch.float64)
        assert {(each.device.type, each.dtype) for each in rnn.parameters()} == {("meta", torch.float64)}

    @pytest.mark.parametrize("mode", MODES)
    def test_device_ctx_init(self, mode: str) -> None:
        with torch.device("meta"):
            rnn = getattr(unspool.nn, mode)(3, 4)
            outputs, _ = rnn(torch.randn(5, 2, 3))
        assert {each.device.type for each in (outputs, *rnn.parameters())} == {"meta"}
        assert outputs.shape == (5, 2, 4)

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize("mode", MODES)
    def test_repr(self, mode: str, options: dict[str, Any]) -> None:
        ours, theirs = pair(mode, 3, 4, **options)
        assert repr(ours) == repr(theirs)

    @pytest.mark.parametrize("mode", MODES)
    def test_pickle(self, mode: str) -> None:
        rnn, inputs = getattr(unspool.nn, mode)(3, 4, 2, bidirectional=True), torch.randn(5, 2, 3)
        expected, _ = rnn(inputs)
        for other in (pickle.loads(pickle.dumps(rnn)), copy.deepcopy(rnn)):
            assert type(other) is type(rnn)
            assert torch.equal(other(inputs)[0], expected)
            with torch.no_grad():
                other.weight_ih_l0.zero_()
            assert torch.equal(rnn(inputs)[0], expected)

    @pytest.mark.parametrize("mode", MODES)
    def test_check_inplace(self, mode: str) -> None:
        """What it is given stays as it was."""
        rnn = getattr(unspool.nn, mode)(3, 4, 2, bidirectional=True)
        inputs, hx = torch.randn(5, 2, 3), hidden(rnn, 2)
        kept = copy.deepcopy((inputs, hx))
        rnn(inputs, hx)[0].sum().backward()
        assert str((inputs, hx)) == str(kept)

    @pytest.mark.parametrize("mode", MODES)
    def test_non_contiguous_tensors(self, mode: str) -> None:
        ours, theirs = pair(mode, 3, 4, 2, dtype=torch.float64)
        compare(ours, theirs, torch.randn(3, 2, 5, dtype=torch.float64).permute(2, 1, 0))
        compare(ours, theirs, torch.randn(2, 3, dtype=torch.float64).expand(5, 2, 3))

    @pytest.mark.parametrize("mode", MODES)
    def test_grad(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(2, 2, bidirectional=True, dtype=torch.float64)
        leaves = [
            torch.randn(3, 2, 2, dtype=torch.float64),
            *(part for part in _parts(hidden(rnn, 2, dtype=torch.float64))),
        ]

        def run(x: Tensor, *hx: Tensor) -> list[Tensor]:
            outputs, states = rnn(x, hx if mode == "LSTM" else hx[0])
            return [outputs, *_parts(states)]

        assert torch.autograd.gradcheck(run, [each.requires_grad_() for each in leaves])

    @pytest.mark.parametrize("mode", MODES)
    def test_gradgrad(self, mode: str) -> None:
        rnn = getattr(unspool.nn, mode)(2, 3, dtype=torch.float64)
        inputs = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradgradcheck(lambda x: rnn(x)[0], [inputs])

    @pytest.mark.parametrize("mode", MODES)
    def test_to(self, mode: str) -> None:
        """To another dtype and back, and to one that torch runs."""
        ours, theirs = pair(mode, 3, 4)
        inputs = torch.randn(5, 2, 3)
        for dtype in (torch.float64, torch.float32):
            compare(ours.to(dtype), theirs.to(dtype), inputs.to(dtype))
        half = ours.to(torch.bfloat16)(inputs.to(torch.bfloat16))[0]
        assert torch.equal(half, theirs.to(torch.bfloat16)(inputs.to(torch.bfloat16))[0])

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize("mode", MODES)
    def test_save_load_state_dict(self, mode: str, options: dict[str, Any]) -> None:
        ours, theirs = pair(mode, 3, 4, **options)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        file = io.BytesIO()
        torch.save(ours.state_dict(), file)
        file.seek(0)
        fresh = getattr(nn, mode)(3, 4, **options)
        fresh.load_state_dict(torch.load(file), strict=True)
        for one, other in zip(fresh.parameters(), ours.parameters(), strict=True):
            assert torch.equal(one, other)

    @pytest.mark.parametrize("mode", MODES)
    def test_if_train_and_eval_modes_differ(self, mode: str) -> None:
        rnn, inputs = getattr(unspool.nn, mode)(3, 40, 2, dropout=0.5), torch.randn(5, 2, 3)
        assert not torch.equal(rnn.train()(inputs)[0], rnn.eval()(inputs)[0])
        assert torch.equal(rnn.eval()(inputs)[0], rnn.eval()(inputs)[0])

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            ((3,), {}),
            ((3, 0), {}),
            ((0, 4), {}),
            ((3, 4, 0), {}),
            ((3.0, 4), {}),
            ((3, 4), {"dropout": 2}),
            ((3, 4), {"dropout": True}),
            ((3, 4), {"bias": 1}),
            ((3, 4), {"batch_first": 1}),
            ((3, 4), {"proj_size": 4}),
            ((3, 4), {"proj_size": -1}),
        ],
    )
    def test_errors(self, arguments: Any, options: Any) -> None:
        """What cannot be made."""
        assert _error(unspool.nn.LSTM, arguments, options) == _error(nn.LSTM, arguments, options)
        assert _error(unspool.nn.GRU, arguments, options) == _error(nn.GRU, arguments, options)

    @pytest.mark.parametrize("mode", MODES)
    def test_errors_of_calls(self, mode: str) -> None:
        ours, theirs = pair(mode, 3, 4)
        good, state = torch.randn(5, 2, 3), hidden(ours, 2)
        wrong: list[tuple[Any, ...]] = [
            (torch.randn(3),),
            (torch.randn(1, 5, 2, 3),),
            (good.double(),),
            (good.long(),),
            (good, hidden(ours, None)),
            (good[:, 0], state),
            (good, state.double() if isinstance(state, Tensor) else tuple(each.double() for each in state)),
        ]
        for arguments in wrong:
            assert error_of(ours, *arguments) == error_of(theirs, *arguments)


def _parts(states: Any) -> tuple[Tensor, ...]:
    return states if isinstance(states, tuple) else (states,)


def _error(make: Any, arguments: Any, options: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever torch's module raises
        make(*arguments, **options)
    return caught.type, str(caught.value).replace("unspool.nn.layers.", "")


class TestCells:
    """Cells are torch's own. What is pinned is that our loops run them."""

    @pytest.mark.parametrize("bias", [True, False])
    def test_lstm_cell(self, bias: bool) -> None:
        cell, inputs = unspool.nn.LSTMCell(10, 20, bias=bias), torch.randn(6, 3, 10)
        h, c = torch.randn(3, 20), torch.randn(3, 20)
        outputs, _ = unspool.dynamic_rnn(cell, inputs, initial_state=(h, c), time_major=True)
        for x, output in zip(inputs, outputs, strict=True):
            h, c = cell(x, (h, c))
            torch.testing.assert_close(output, h, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("state", [(3, 21), (3, 1), (1, 20)])
    @pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
    def test_rnn_cell_no_broadcasting(self, kind: str, state: tuple[int, int]) -> None:
        cell = getattr(unspool.nn, kind)(10, 20)
        wrong = torch.randn(state)
        with pytest.raises((RuntimeError, ValueError)):
            unspool.dynamic_rnn(cell, torch.randn(3, 4, 10), initial_state=(wrong, wrong) if "LSTM" in kind else wrong)

    def test_lstm_cell_forward_input_size(self) -> None:
        with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 11 expected 10"):
            unspool.dynamic_rnn(unspool.nn.LSTMCell(10, 20), torch.randn(3, 4, 11))

    @pytest.mark.parametrize("sizes", [(21, 20), (20, 21)])
    def test_lstm_cell_forward_hidden_size(self, sizes: tuple[int, int]) -> None:
        h, c = (torch.randn(3, size) for size in sizes)
        with pytest.raises(RuntimeError, match="inconsistent hidden_size"):
            unspool.dynamic_rnn(unspool.nn.LSTMCell(10, 20), torch.randn(3, 4, 10), initial_state=(h, c))

    @pytest.mark.parametrize("number", [0, 1])
    def test_lstmcell_backward_only_one_output_grad(self, number: int) -> None:
        cell = unspool.nn.LSTMCell(30, 30, dtype=torch.float64)
        inputs, start = torch.randn(1, 1, 30, dtype=torch.float64), torch.randn(2, 1, 30, dtype=torch.float64)
        _, state = unspool.dynamic_rnn(cell, inputs, initial_state=tuple(start))
        found = torch.autograd.grad(state[number].sum(), cell.weight_hh)[0]
        (expected,) = torch.autograd.grad(cell(inputs[:, 0], tuple(start))[number].sum(), cell.weight_hh)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
