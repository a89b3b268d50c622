"""The table of operations: rows are whole, what emitters lack is listed, and a row is all that an operation needs."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import unspool
from tests.comparison import engine_loop, plain_loop, results, wanting_gradients
from tests.emitting import assert_compiled
from unspool.engine.emit import cpp, cuda
from unspool.engine.emit.cuda.forms import computes, has_form
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.ir.program import Instruction, Value
from unspool.engine.ir.program import Kind as InstructionKind
from unspool.engine.ops.arguments import dims_of, first
from unspool.engine.ops.scalar import Given, Numbers, Scalar
from unspool.engine.ops.table import OPS, Op, OpKind, kind_of, register
from unspool.engine.rows import op_axes
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten

POINTWISE = (OpKind.POINTWISE, OpKind.COMPARISON, OpKind.CAST)
ROWS = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: str(op.target))

# -- what emitters lack ------------------------------------------------------------------------------------------------

WITHOUT_CPP = {
    # Gradients of filters, which are sums over rows, and the like of convolutions.
    aten.convolution_backward.default,
    aten.avg_pool2d.default,
    aten.avg_pool2d_backward.default,
    aten.max_pool2d_with_indices.default,
    aten.max_pool2d_with_indices_backward.default,
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool2d_backward.default,
    aten.upsample_nearest2d.vec,
    aten._weight_norm_interface_backward.default,
    # Elements found by indices.
    aten.embedding_dense_backward.default,
    aten.take_along_dim.default,
    aten.scatter_reduce.two,
    # Over all rows, or of complex numbers.
    aten.sum.default,
    aten.mean.default,
    aten.max.default,
    aten.min.default,
    aten._fft_r2c.default,
    aten._fft_c2r.default,
    aten._fft_c2c.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten._conj.default,
    aten._unsafe_view.default,  # which rewrites call reshape
    operator.getitem,  # no instruction, but one of several results
    # Draws.
    aten.rand.default,
    aten.randn.default,
    aten.bernoulli.p,
    aten.bernoulli.default,
    aten.native_dropout.default,
    aten.uniform.default,
    aten.normal_functional.default,
    aten.exponential.default,
}
"""Operations that have no form in compiled loops."""

WITHOUT_CUDA = {
    aten.maximum.default,
    aten.minimum.default,
    aten.clamp.default,
    aten.clamp.Tensor,
    aten.clamp_min.default,
    aten.clamp_min.Tensor,
    aten.clamp_max.default,
    aten.clamp_max.Tensor,
    aten.hardtanh.default,
    aten.sgn.default,
    aten.sign.default,
    aten.addcdiv.default,
    aten.div.Tensor_mode,
    aten.div.Scalar_mode,
    aten.remainder.Tensor,
    aten.remainder.Scalar,
    aten.fmod.Tensor,
    aten.fmod.Scalar,
    aten.heaviside.default,
    aten.nan_to_num.default,
    aten.logaddexp.default,
    aten.expm1.default,
    aten.log1p.default,
    aten.log2.default,
    aten.exp2.default,
    aten.erf.default,
    aten.tan.default,
    aten.atan.default,
    aten.atan2.default,
    aten.sinh.default,
    aten.cosh.default,
    aten.floor.default,
    aten.ceil.default,
    aten.trunc.default,
    aten.round.default,
    aten.pow.Tensor_Scalar,
    aten.pow.Tensor_Tensor,
    aten.pow.Scalar,
    aten.lerp.Scalar,
    aten.lerp.Tensor,
    aten.leaky_relu.default,
    aten.threshold.default,
    aten.elu.default,
    aten.celu.default,
    aten.silu.default,
    aten.softplus.default,
    aten.gelu.default,
    aten.mish.default,
    aten.hardsigmoid.default,
    aten.hardswish.default,
    aten.logical_xor.default,
    aten.isnan.default,
    aten.bitwise_xor.Tensor,
    aten.bitwise_not.default,
    aten.where.ScalarSelf,
    aten.where.ScalarOther,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.clone.default,
    aten._to_copy.default,
}
"""Pointwise operations that are no part of CUDA kernels; other kinds are joined by what they are, in `cuda/join.py`."""


def test_what_compiled_loops_lack() -> None:
    compiled = {op.target for op in OPS.values() if op.scalar or op.lowering or op.kind is OpKind.PRODUCT}
    assert OPS.keys() - compiled == WITHOUT_CPP


def test_what_cuda_kernels_lack() -> None:
    pointwise = {op.target for op in OPS.values() if op.kind in POINTWISE}
    assert {each for each in pointwise if not _on_cuda(OPS[each].scalar)} == WITHOUT_CUDA


def _on_cuda(scalar: Scalar | None) -> bool:
    return scalar is not None and any(scalar.text(each) is not None for each in scalar.cuda)


# -- rows --------------------------------------------------------------------------------------------------------------


@ROWS
def test_a_row_is_whole(op: Op) -> None:
    assert OPS[op.target] is op
    assert not (op.rule and op.axes), "two rules for rows"
    assert not (op.scalar and op.lowering), "two ways to compute it"
    if op.kind in POINTWISE:
        assert op.rule is aligned
        has_text = op.scalar is not None and any(op.scalar.text(each) for each in Numbers)
        assert has_text != bool(op.lacks), "has a text, or says why it has none"
    else:
        assert op.scalar is None
        assert not op.lacks
    if op.kind is OpKind.REDUCTION:
        assert op.axes
        assert op.lowering


@ROWS
def test_what_torch_says_is_pointwise_is(op: Op) -> None:
    if torch.Tag.pointwise in getattr(op.target, "tags", ()):
        assert op.kind in POINTWISE


def test_an_operation_has_one_row() -> None:
    with pytest.raises(ValueError, match=r"aten\.tanh\.default is in the table already"):
        register(Op(aten.tanh.default, OpKind.POINTWISE, aligned))


def test_an_operation_without_a_row_is_what_torch_says() -> None:
    assert kind_of(aten.hypot.default) is OpKind.POINTWISE
    assert kind_of(aten.linalg_svd.default) is OpKind.OTHER
    assert kind_of(print) is OpKind.OTHER


DTYPES = {Numbers.REAL: torch.float64, Numbers.WHOLE: torch.int64, Numbers.TRUTH: torch.bool}
ARGUMENTS = [(None,), (None, 1, 1), (None, 0.5, 2), (None, None, 1)]
OPTIONS: list[dict[str, Any]] = [{}, {"approximate": "tanh"}, {"alpha": 0}, {"value": 0}]


def _texts(op: Op) -> list[str]:
    """Its texts, with numbers given and not."""
    found: list[str] = []
    for numbers, dtype in DTYPES.items():
        text = None if op.scalar is None else op.scalar.text(numbers)
        for arguments, options in itertools.product(ARGUMENTS, OPTIONS):
            with suppress(CannotEmitError, TypeError):  # such an operation is given no such numbers
                made = text(Given(arguments, dict(options), dtype)) if callable(text) else text
                found += [] if made is None else [made]
    return found


@pytest.mark.parametrize("emitter", [cpp, cuda], ids=["c++", "cuda"])
def test_emitters_have_every_function_that_texts_call(emitter: Any) -> None:
    (header,) = (each.read_text() for each in Path(emitter.__file__).parent.rglob("functions.h"))
    called = {name for op in OPS.values() for text in _texts(op) for name in re.findall(r"unspool::(\w+)\(", text)}
    defined = {
        *re.findall(r"\bT (\w+)\(", header),
        *re.findall(r"^UNSPOOL_OF_(?:ONE|TWO)\((\w+)\)", header, re.MULTILINE),
    }
    assert {"exp", "sigmoid", "at_most", "atan2"} <= called
    assert called <= defined


def test_texts_are_of_no_one_language() -> None:
    for op in OPS.values():
        for text in _texts(op):
            assert not re.search(r"std::|infinity|not_a_number|float|double|int64_t", text)


# -- a row is all that a new operation needs --------------------------------------------------------------------------


class Cell(unspool.RNNCell):
    """A step with an operation in the middle."""

    state_size = output_size = 4

    def __init__(self, operation: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
        self._operation = operation

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self._operation(h @ self.weight, x))
        return h, h


def check(operation: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Asserts that a cell with it is compiled, and is the plain loop."""
    torch.manual_seed(0)
    cell = Cell(operation)
    inputs, state = wanting_gradients((torch.randn(3, 5, 4).double(), torch.randn(3, 4).double()))
    assert_compiled(cell, inputs, [5, 1, 3], state, torch.float64)
    found = results(engine_loop, cell, torch.float64, [5, 1, 3], inputs, state)
    expected = results(plain_loop, cell, torch.float64, [5, 1, 3], inputs, state)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12, msg=lambda text, name=name: name + text)


@pytest.mark.compiled
def test_a_row_is_all_that_a_pointwise_operation_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    target = aten.hypot.default
    assert target not in OPS
    row = Op(target, OpKind.POINTWISE, aligned, scalar=Scalar("unspool::sqrt({0} * {0} + {1} * {1})"))
    monkeypatch.setitem(OPS, target, row)
    check(torch.hypot)
    x, y, z = (Value(name, (4,), torch.float32) for name in "xyz")
    instruction = Instruction(InstructionKind.POINTWISE, target, (x, y), {}, (z,))
    assert has_form(instruction)
    assert computes([instruction]) == ["const float z_ = unspool::sqrt(x_ * x_ + y_ * y_);"]


@pytest.mark.compiled
def test_a_row_is_all_that_a_reduction_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def least_and_most(row: Any, instruction: Instruction) -> list[Any]:
        ref, dims = first(row, instruction), dims_of(instruction)
        return [row.reduce(f"range_{fold}", fold, ref, dims) for fold in ("min", "max")]

    target = aten.aminmax.default
    assert target not in OPS
    row = Op(target, OpKind.REDUCTION, axes=op_axes.second, lowering=least_and_most)
    monkeypatch.setitem(OPS, target, row)

    def centred(h: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            least, most = torch.aminmax(h, dim=1, keepdim=True)
        return h - (least + most) / 2 + x

    check(centred)
