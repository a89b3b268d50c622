"""Products of few rows joined with their neighbours: what is joined, and the same numbers with and without a GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from unspool.engine.emit.cuda.join import MOST_ELEMENTS, join_products
from unspool.engine.emit.cuda.multiply import Multiply, MultiplyLargest
from unspool.engine.emit.graphs.joined import as_function
from unspool.engine.emit.python import as_python
from unspool.engine.ir.program import Instruction, Kind, Program, Value
from unspool.engine.trace.graph import aten

F, CPU = torch.float32, torch.device("cpu")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def rows(name: str, *shape: int, dtype: torch.dtype = F) -> Value:
    return Value(name, shape, dtype)


def shared(name: str, *shape: int, dtype: torch.dtype = F) -> Value:
    return Value(name, shape, dtype, shared=True)


def call(operation: Any, results: Value | tuple[Value, ...], *arguments: Any) -> Instruction:
    kind = Kind.PRODUCT if operation in (aten.mm.default, aten.addmm.default) else Kind.POINTWISE
    return Instruction(kind, operation, arguments, {}, results if isinstance(results, tuple) else (results,))


def joined(program: Program) -> tuple[Program, list[Value]]:
    return join_products(program, partial(as_function, device=CPU))


def kernels(program: Program) -> list[Any]:
    return [each.operation for each in program.instructions if isinstance(each.operation, Multiply | MultiplyLargest)]


def step_of_a_cell(units: int, numbers: int, width: int) -> Program:
    """A row of a table beside a state, times a matrix, cut in four, and a new state; the old one where a row ended."""
    table, ids = shared("table", numbers, width), rows("ids", dtype=torch.int64)
    kernel, bias = shared("kernel", width + units, 4 * units), shared("bias", 4 * units)
    h, c, ended = rows("h", units), rows("c", units), rows("ended", 1, dtype=torch.bool)
    x, both, gates = rows("x", width), rows("both", width + units), rows("gates", 4 * units)
    i, j, f, o = (rows(name, units) for name in "ijfo")
    a, b, d, e, new = (rows(name, units) for name in ("a", "b", "d", "e", "new"))
    instructions = (
        call(aten.embedding.default, x, table, ids),
        call(aten.cat.default, both, [x, h], 1),
        call(aten.addmm.default, gates, bias, both, kernel),
        call(aten.split.Tensor, (i, j, f, o), gates, units, 1),
        call(aten.sigmoid.default, a, f),
        call(aten.mul.Tensor, b, a, c),
        call(aten.addcmul.default, d, b, i, j),
        call(aten.tanh.default, e, d),
        call(aten.where.self, new, ended, h, e),
    )
    return Program((table, ids, h, c, kernel, bias, ended), instructions, (new, d, o))


def search(width: int, columns: int) -> Program:
    """The largest of a product's elements, and whether it is the third."""
    x, matrix, bias = rows("x", width), shared("matrix", width, columns), shared("bias", columns)
    logits, ids, is_third = rows("logits", columns), rows("ids", dtype=torch.int64), rows("third", dtype=torch.bool)
    instructions = (
        call(aten.addmm.default, logits, bias, x, matrix),
        call(aten.argmax.default, ids, logits, -1),
        call(aten.eq.Scalar, is_third, ids, 2),
    )
    return Program((x, matrix, bias), instructions, (ids, is_third))


def draw(program: Program, count: int, device: str) -> list[Tensor]:
    torch.manual_seed(count)
    drawn: list[Tensor] = []
    for each in program.inputs:
        shape = each.shape if each.shared else (count, *each.shape)
        if each.dtype == torch.bool:
            drawn.append(torch.rand(shape) < 0.5)
        elif each.dtype == torch.int64:
            drawn.append(torch.randint(program.inputs[0].shape[0], shape))
        else:
            drawn.append(torch.randn(shape) / each.shape[0] ** 0.5 if each.shared else torch.randn(shape))
    return [each.to(device) for each in drawn]


def run(program: Program, count: int, inputs: list[Tensor], device: str = "cpu") -> tuple[Tensor, ...]:
    return as_python(program, "step", torch.device(device))[0](count, *inputs)


def run_joined(program: Program, count: int, inputs: list[Tensor], device: str = "cpu") -> tuple[Tensor, ...]:
    together, matrices = joined(program)
    across = [inputs[program.inputs.index(each)].t().contiguous() for each in matrices]
    return run(together, count, [*inputs, *across], device)


def test_a_product_takes_what_is_before_and_after_it() -> None:
    program = step_of_a_cell(8, 5, 4)
    together, matrices = joined(program)
    (kernel,) = kernels(together)
    assert len(together.instructions) == 1
    assert [each.name for each in matrices] == ["kernel"]
    assert {each.name for each in kernel.outputs} == {"new", "d", "o"}  # a part of the product is written if needed
    inputs = draw(program, 3, "cpu")
    for one, other in zip(run_joined(program, 3, inputs), run(program, 3, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_product_that_is_only_searched_is_not_written() -> None:
    program = search(8, 50)
    together, _ = joined(program)
    (kernel,) = kernels(together)
    assert len(together.instructions) == 1
    assert "logits_out" not in kernel.source
    inputs = draw(program, 3, "cpu")
    assert all(map(torch.equal, run_joined(program, 3, inputs), run(program, 3, inputs)))


def test_a_product_that_others_need_too_is_written() -> None:
    program = search(8, 50)
    together, _ = joined(Program(program.inputs, program.instructions, (*program.outputs, rows("logits", 50))))
    assert not kernels(together)


def test_a_product_alone_is_left_to_torch() -> None:
    x, matrix, y = rows("x", 8), shared("matrix", 8, 12), rows("y", 12)
    program = Program((x, matrix), (call(aten.mm.default, y, x, matrix),), (y,))
    assert joined(program) == (program, [])


@pytest.mark.parametrize("why", ["odd", "float64", "large", "not from outside"])
def test_what_the_kernel_does_not_serve_is_left_to_torch(why: str) -> None:
    dtype = torch.float64 if why == "float64" else F
    width, columns = (6 if why == "odd" else 8), (MOST_ELEMENTS if why == "large" else 12)
    x, matrix, y = rows("x", width, dtype=dtype), shared("matrix", width, columns, dtype=dtype), rows("y", columns)
    given = shared("given", width, columns)
    product = call(aten.mm.default, y, x, matrix)
    after = call(aten.tanh.default, rows("z", columns), y)
    before = [call(aten.neg.default, matrix, given)] if why == "not from outside" else []
    program = Program((x, given if before else matrix), (*before, product, after), (rows("z", columns),))
    assert not kernels(joined(program)[0])


def test_two_products_that_wait_for_each_other_are_not_joined_in_a_circle() -> None:
    x, m, n = rows("x", 8), shared("m", 8, 8), shared("n", 8, 8)
    p, q, s, t, u = (rows(name, 8) for name in "pqstu")
    program = Program(
        (x, m, n),
        (
            call(aten.mm.default, p, x, m),
            call(aten.mm.default, q, x, n),
            call(aten.tanh.default, s, p),
            call(aten.add.Tensor, t, q, s),  # with the second product or the first, not with both
            call(aten.mul.Tensor, u, t, p),
        ),
        (u, s),
    )
    inputs = draw(program, 3, "cpu")
    for one, other in zip(run_joined(program, 3, inputs), run(program, 3, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@needs_cuda
@pytest.mark.parametrize("count", [1, 2, 16, 17, 33, 64, 65])
@pytest.mark.parametrize("units", [8, 52, 1024])
def test_the_numbers_are_those_of_float64(count: int, units: int) -> None:
    program = step_of_a_cell(units, 30, 20 if units < 1000 else 4)
    inputs = draw(program, count, "cuda")
    expected = run(program, count, [each.double() if each.is_floating_point() else each for each in inputs], "cuda")
    for one, other in zip(run_joined(program, count, inputs, "cuda"), expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@needs_cuda
@pytest.mark.parametrize("count", [1, 3, 16, 40, 64, 65])
@pytest.mark.parametrize("columns", [3, 40, 121, 5000])
def test_the_largest_is_the_first_of_the_largest(count: int, columns: int) -> None:
    program = search(36, columns)
    x, matrix, bias = draw(program, count, "cuda")
    matrix[:, columns // 2] = matrix[:, 0]  # equal to another
    bias[columns // 2] = bias[0] = 100
    x[0] = 0
    bias_of_nan = bias.clone()
    bias_of_nan[-1] = float("nan")
    for added in (bias, bias_of_nan):
        ids, third = run_joined(program, count, [x, matrix, added], "cuda")
        logits = (x.double() @ matrix.double() + added.double()).cpu()
        assert ids.tolist() == logits.numpy().argmax(1).tolist()
        assert third.tolist() == (ids == 2).tolist()


@needs_cuda
def test_rows_with_other_strides_are_read_too() -> None:
    program = step_of_a_cell(8, 30, 4)
    table, ids, h, c, *rest = draw(program, 5, "cuda")
    wide = torch.randn(5, 17, device="cuda")
    odd = wide[:, 1:9]  # not where four numbers are fetched at once
    for each in (h.t().contiguous().t(), odd, torch.cat([h, h], 1)[:, :8]):
        inputs = [table, ids, each, c, *rest]
        for one, other in zip(run_joined(program, 5, inputs, "cuda"), run(program, 5, inputs, "cuda"), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
