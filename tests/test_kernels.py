"""Pointwise instructions joined into kernels: what is joined, what the code says, and the same numbers without a GPU.

On a GPU, the tests of cells and of decoding run the kernels themselves.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from unspool.engine.emit.cuda.join import join_pointwise
from unspool.engine.emit.cuda.kernel import Kernel, with_functions
from unspool.engine.emit.cuda.pointwise import Pointwise
from unspool.engine.emit.python import as_python
from unspool.engine.ir.program import Instruction, Kind, Program, Value
from unspool.engine.trace.graph import aten

CPU = torch.device("cpu")


def vector(name: str, size: int = 4, dtype: torch.dtype = torch.float32, **more: Any) -> Value:
    return Value(name, (size,), dtype, **more)


def pointwise(operation: Any, result: Value, *arguments: Any, **options: Any) -> Instruction:
    return Instruction(Kind.POINTWISE, operation, arguments, options, (result,))


def joined(program: Program) -> Program:
    def as_function(part: Program, name: str) -> Any:
        function, _ = as_python(part, name, CPU)

        def run(*given: Any) -> Any:
            results = function(*given)
            return results[0] if len(results) == 1 else results

        return run

    return join_pointwise(program, as_function)


def kernels(program: Program) -> list[Kernel]:
    return [each.operation for each in program.instructions if isinstance(each.operation, Kernel)]


def run(program: Program, rows: int, *inputs: Tensor) -> tuple[Tensor, ...]:
    return as_python(program, "step", CPU)[0](rows, *inputs)


def check(program: Program, *inputs: Tensor) -> Program:
    """The joined program, which gives the same numbers."""
    together = joined(program)
    rows = len(inputs[0])
    for one, other in zip(run(together, rows, *inputs), run(program, rows, *inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    return together


x, y, z, a, b, c, d = (vector(name) for name in "xyzabcd")


def test_neighbours_become_one_kernel() -> None:
    program = Program(
        (x, y),
        (
            pointwise(aten.tanh.default, a, x),
            pointwise(aten.mul.Tensor, b, a, y),
            pointwise(aten.add.Tensor, c, b, 0.5),
        ),
        (c, a),
    )
    together = check(program, torch.randn(3, 4), torch.randn(3, 4))
    (kernel,) = kernels(together)
    assert len(together.instructions) == 1
    assert isinstance(kernel, Pointwise)
    assert kernel.inputs == (x, y)
    assert kernel.outputs == (a, c)  # in the order in which they are made


def test_a_product_parts_what_needs_it_from_what_it_needs() -> None:
    weight = Value("w", (4, 4), torch.float32, shared=True)
    program = Program(
        (x, weight),
        (
            pointwise(aten.tanh.default, a, x),
            pointwise(aten.neg.default, b, a),
            Instruction(Kind.PRODUCT, aten.mm.default, (b, weight), {}, (c,)),
            pointwise(aten.exp.default, d, c),
            pointwise(aten.mul.Tensor, z, d, a),
        ),
        (z,),
    )
    together = check(program, torch.randn(3, 4), torch.randn(4, 4))
    assert [str(each.operation) for each in together.instructions] == ["pointwise_0", "aten.mm.default", "pointwise_2"]


def test_one_instruction_alone_stays_as_it_is() -> None:
    program = Program((x,), (pointwise(aten.tanh.default, a, x),), (a,))
    assert joined(program) == program


def test_results_of_other_shapes_are_not_joined() -> None:
    column, twice = vector("column", 1), vector("twice", 1)
    program = Program(
        (x, column),
        (
            pointwise(aten.mul.Tensor, twice, column, 2.0),
            pointwise(aten.mul.Tensor, a, x, twice),
            pointwise(aten.tanh.default, b, a),
        ),
        (b,),
    )
    together = check(program, torch.randn(3, 4), torch.randn(3, 1))
    assert len(kernels(together)) == 1
    assert len(together.instructions) == 2


def test_truths_and_whole_numbers_are_joined_too() -> None:
    ids, ended = Value("ids", (), torch.int64), Value("ended", (), torch.bool)
    now, either = Value("now", (), torch.bool), Value("either", (), torch.bool)
    program = Program(
        (ids, ended),
        (pointwise(aten.eq.Scalar, now, ids, 2), pointwise(aten.bitwise_or.Tensor, either, ended, now)),
        (either,),
    )
    together = check(program, torch.tensor([1, 2, 3]), torch.tensor([False, False, True]))
    (kernel,) = kernels(together)
    assert "const bool now_ = ids_ == ((long long)(2));" in kernel.source
    assert "const bool either_ = ended_ | now_;" in kernel.source


@pytest.mark.parametrize(
    "instruction",
    [
        pointwise(aten.erfinv.default, a, x),
        pointwise(aten.add.Tensor, a, x, y, alpha=2),
        pointwise(aten.tanh.default, vector("half", dtype=torch.float16), vector("h", dtype=torch.float16)),
        pointwise(aten.mul.Tensor, a, x, vector("double", dtype=torch.float64)),
        pointwise(aten.mul.Tensor, vector("n", dtype=torch.int64), vector("m", dtype=torch.int64), 0.5),
        pointwise(aten.eq.Scalar, vector("t", dtype=torch.bool), vector("u", dtype=torch.bool), 2),
        pointwise(aten.div.Tensor, a, vector("v", dtype=torch.bool), vector("w", dtype=torch.bool)),
    ],
    ids=[
        "no form",
        "options",
        "half precision",
        "two dtypes",
        "a fraction of whole numbers",
        "a truth that is 2",
        "truths divided",
    ],
)
def test_what_has_no_form_is_left_to_torch(instruction: Instruction) -> None:
    result = instruction.results[0]
    after = Value("after", result.shape, result.dtype)
    operation = aten.logical_not.default if result.dtype is torch.bool else aten.neg.default
    program = Program(tuple(instruction.uses()), (instruction, pointwise(operation, after, result)), (after,))
    assert not kernels(joined(program))


def test_numbers_have_the_type_of_what_they_meet() -> None:
    program = Program(
        (x,),
        (pointwise(aten.mul.Tensor, a, x, 0.1), pointwise(aten.add.Tensor, b, a, float("-inf"))),
        (b,),
    )
    (kernel,) = kernels(joined(program))
    assert "((float)(0.1))" in kernel.source
    assert "((float)(-(1.0 / 0.0)))" in kernel.source


def test_functions_stand_before_the_kernels_that_call_them() -> None:
    gates = Program((x,), (pointwise(aten.sigmoid.default, a, x), pointwise(aten.neg.default, b, a)), (b,))
    (kernel,) = kernels(joined(gates))
    assert "const float a_ = unspool::sigmoid(x_);" in kernel.source
    functions = with_functions(kernel.source).removesuffix(kernel.source)
    assert "T sigmoid(T x) { return T(1) / (T(1) + ::exp(-x)); }" in functions
    sums = Program((x, y), (pointwise(aten.add.Tensor, a, x, y), pointwise(aten.neg.default, b, a)), (b,))
    (kernel,) = kernels(joined(sums))
    assert with_functions(kernel.source) == kernel.source


def test_truths_are_taken_to_the_type_of_what_they_meet() -> None:
    mask = vector("mask", dtype=torch.bool)
    program = Program(
        (x, mask), (pointwise(aten.mul.Tensor, a, x, mask), pointwise(aten.where.self, b, mask, a, x)), (b,)
    )
    (kernel,) = kernels(check(program, torch.randn(3, 4), torch.rand(3, 4) < 0.5))
    assert "const float a_ = x_ * ((float)mask_);" in kernel.source
    assert "const float b_ = (mask_ ? a_ : x_);" in kernel.source


@pytest.mark.parametrize("dim", [-1, 1])
def test_the_largest_of_each_row_has_a_kernel(dim: int) -> None:
    ids = Value("ids", (), torch.int64)
    program = Program((x,), (Instruction(Kind.OTHER, aten.argmax.default, (x, dim), {}, (ids,)),), (ids,))
    (kernel,) = kernels(check(program, torch.randn(3, 4)))
    assert "x_at + i0 * 4;" in kernel.source


def test_what_follows_from_the_largest_is_in_its_kernel() -> None:
    ids, ended = Value("ids", (), torch.int64), Value("ended", (), torch.bool)
    now, either = Value("now", (), torch.bool), Value("either", (), torch.bool)
    program = Program(
        (x, ended),
        (
            Instruction(Kind.OTHER, aten.argmax.default, (x, -1), {}, (ids,)),
            pointwise(aten.eq.Scalar, now, ids, 2),
            pointwise(aten.bitwise_or.Tensor, either, ended, now),
        ),
        (either, ids),
    )
    together = check(program, torch.randn(3, 4), torch.tensor([False, False, True]))
    assert len(together.instructions) == len(kernels(together)) == 1


def test_the_largest_along_another_axis_is_left_to_torch() -> None:
    ids = Value("ids", (4,), torch.int64, shared=True)
    program = Program((x,), (Instruction(Kind.OTHER, aten.argmax.default, (x, 0), {}, (ids,)),), (ids,))
    assert not kernels(joined(program))


def test_whole_numbers_wrap_around() -> None:
    """Without saying so, the compiler takes for granted that they never do: `x + 1 > x` would be true."""
    number, more = (vector(name, dtype=torch.int64) for name in ("number", "more"))
    truth = vector("t", dtype=torch.bool)
    instructions = (pointwise(aten.add.Scalar, more, number, 1), pointwise(aten.gt.Tensor, truth, more, number))
    (kernel,) = kernels(joined(Program((number,), instructions, (truth,))))
    assert (
        "more_ = (long long)(((unsigned long long)number_) + ((unsigned long long)((long long)(1))));" in kernel.source
    )
    assert "t_ = more_ > number_;" in kernel.source
