"""NaN, infinities, zeros, tiny and huge numbers, and integers that overflow: C++ makes of them what torch does."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.single_operations import Single, by_compiled_loops
from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk
from unspool.engine.emit.text.spelling import literal
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.ops.scalar import Scalar, expression
from unspool.engine.ops.table import OPS
from unspool.engine.trace.graph import aten

pytestmark = pytest.mark.compiled

FLOATS = (torch.float32, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
EVERY = (*FLOATS, *INTEGERS, torch.bool)

ROUNDINGS = 8
"""Units in the last place by which two right functions may differ."""

CONSTANTS: dict[Any, list[tuple[Any, ...]]] = {
    aten.hardtanh.default: [(), (0.0, 6.0), (2.0, -2.0), (-math.inf, math.inf)],
    aten.clamp.default: [(-1, 1), (0, 6), (2, -2), (None, 1), (1,)],
    aten.clamp_min.default: [(0,), (-1,)],
    aten.clamp_max.default: [(0,), (3,)],
    aten.threshold.default: [(0.5, -1.0), (0.0, 7.0)],
    aten.pow.Tensor_Scalar: [(p,) for p in (2, 3, 0.5, -1, 1, 0, -2, -0.5, 4, 2.5, -3, 1 / 3, math.inf, math.nan)],
    aten.leaky_relu.default: [(), (-0.5,), (0.0,), (2.0,)],
    aten.elu.default: [(), (1.5,), (-1.0,), (0.0,), (1.6732632423543772, 1.0507009873554805), (2.0, 1, 0.5)],
    aten.celu.default: [(), (2.0,), (-0.5,)],
    aten.softplus.default: [(), (2.0,), (0.5, 3.0), (-1.0,)],
    aten.gelu.default: [()],
    aten.masked_fill.Scalar: [(7,), (-1,)],
    aten.nan_to_num.default: [(), (3.0, 5.0, -5.0), (None, None, 1.0)],
    **{
        operation: [(number,) for number in (3, -2, 7, 0.1, -0.0, math.inf, math.nan)]
        for operation in (aten.remainder.Scalar, aten.fmod.Scalar, aten.div.Scalar_mode)
    },
    **{
        operation: [(number,) for number in (0, 3, -2, 0.1, -0.0, math.inf, math.nan)]
        for name in ("add", "sub", "rsub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")
        for operation in [getattr(aten, name).Scalar]
    },
}
"""Numbers behind the tensors that an operation takes."""

OPTIONS: dict[Any, list[dict[str, Any]]] = {
    aten.add.Tensor: [{}, {"alpha": 3}],
    aten.sub.Tensor: [{}, {"alpha": 3}],
    aten.addcmul.default: [{}, {"value": 3}],
    aten.addcdiv.default: [{}, {"value": 3}],
    aten.gelu.default: [{}, {"approximate": "tanh"}],
    aten.div.Tensor_mode: [{"rounding_mode": mode} for mode in (None, "trunc", "floor")],
    aten.div.Scalar_mode: [{"rounding_mode": mode} for mode in (None, "trunc", "floor")],
}

SAME_TEXT = {
    aten.where.ScalarSelf: aten.where.self,
    aten.where.ScalarOther: aten.where.self,
    aten.lerp.Scalar: aten.lerp.Tensor,
}
"""Operations with a number in the place of a tensor, and those whose texts they have."""

SCALARS: dict[Any, Scalar] = {target: op.scalar for target, op in OPS.items() if op.scalar is not None}
OPERATIONS = sorted(SCALARS.keys() - SAME_TEXT.keys(), key=str)


def special(dtype: torch.dtype) -> Tensor:
    if dtype is torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        middle = [limits.max // 2 + 1, limits.min // 2, 0, 1, 2, 3, 7, *([-1, -2, -7] if limits.min else [])]
        return torch.tensor([limits.min, limits.min + 1, limits.max - 1, limits.max, *middle], dtype=dtype)
    limits = torch.finfo(dtype)
    ends = [math.nan, math.inf, limits.max, limits.tiny, limits.smallest_normal / 64, limits.eps]
    sizes = [*ends, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, 21.0, 100.0]
    return torch.tensor([*sizes, *(-size for size in sizes)], dtype=dtype)


def every_combination(columns: list[Tensor]) -> list[Tensor]:
    """As rows of vectors; each number is at several places, since compilers treat the ends of arrays apart."""
    places = torch.cartesian_prod(*(torch.arange(len(each)) for each in columns)).reshape(-1, len(columns))
    return [each[places[:, k]].repeat(3)[None] for k, each in enumerate(columns)]


def singles() -> list[Single]:
    """Every operation with every dtype that torch has it for."""
    made: list[Single] = []
    for operation in OPERATIONS:
        filled = operation is aten.masked_fill.Tensor  # with a tensor of no dimensions
        for dtype in EVERY:
            condition = SCALARS[operation].condition
            columns = [special(torch.bool if k == condition else dtype) for k in range(tensors_of(operation))]
            tensors = every_combination(columns[:2] if filled else columns)
            for constants in CONSTANTS.get(operation, [()]):
                for options in OPTIONS.get(operation, [{}]):
                    arguments = (*tensors, *constants)
                    if filled:
                        arguments = (*tensors, torch.tensor(3).to(dtype))
                    if operation is aten.pow.Scalar:
                        arguments = (2.0, *tensors)
                    single = Single(operation, arguments, options, shared=(2,) if filled else ())
                    made += [single] if torch_has(single) else []
    return made + conversions()


def tensors_of(operation: Any) -> int:
    """How many tensors an operation takes."""
    given = [each for each in operation._schema.arguments if not each.kwarg_only]
    return sum(str(each.type) in ("Tensor", "Optional[Tensor]") for each in given)


def conversions() -> list[Single]:
    """Every dtype to every other, with numbers that the other does not have."""
    small, large = [130.0, 255.5, 256, 300, 3e4, 4e4, 7e4], [2**31, 2**31 - 1, 3e9, 2**32, 1e12, 9.2e18, 9.3e18, 1e30]
    far = torch.tensor([*small, *large])
    made: list[Single] = []
    for dtype in EVERY:
        given = torch.cat([special(dtype), far.to(dtype), -far.to(dtype)]) if dtype in FLOATS else special(dtype)
        others = [other for other in EVERY if other != dtype]
        made += [Single(aten._to_copy.default, (given.repeat(3)[None],), {"dtype": other}) for other in others]
    return made


def torch_has(single: Single) -> bool:
    try:
        single.by_torch()
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


@cache
def computed() -> dict[Any, list[tuple[Single, Tensor]]]:
    found: dict[Any, list[tuple[Single, Tensor]]] = {}
    for single, result in by_compiled_loops(singles()).items():
        found.setdefault(single.operation, []).append((single, result))
    return found


def deviations(found: Tensor, expected: Tensor, roundings: float = ROUNDINGS) -> Tensor:
    """Where two results differ: NaN, an infinity, the sign of a zero, or more than rounding."""
    if not expected.is_floating_point():
        return found != expected
    limits = torch.finfo(expected.dtype)
    near = (found - expected).abs() <= roundings * limits.eps * expected.abs().clamp(min=limits.tiny)
    same = (found == expected) & (found.signbit() == expected.signbit())
    return ~(same | (found.isnan() & expected.isnan()) | (near & (found != expected)))


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_operations_give_what_torch_gives(operation: Any) -> None:
    """Forwards; in the table there is nothing that was not compared."""
    cases = computed().get(operation, [])
    assert cases, f"{operation} was emitted for no dtype"
    for single, found in cases:
        expected = single.by_torch()
        assert found.dtype == expected.dtype
        wrong = deviations(found, expected)
        if operation is aten.gelu.default and expected.dtype is torch.float32:
            continue  # torch's own is wrong by hundreds of roundings at -3, and NaN at infinity
        if operation is aten.mish.default:
            wrong &= expected.abs() > torch.finfo(expected.dtype).tiny  # torch has two forms for vectors and their ends
        if operation in (aten.fmod.Scalar, aten.fmod.Tensor, aten.remainder.Scalar, aten.remainder.Tensor):
            wrong &= ~expected.isnan() | ~found.isfinite()  # torch's own gives up where the quotient overflows
        given = [each[wrong][:3] if isinstance(each, Tensor) and each.dim() else each for each in single.arguments]
        about = f"{given} {single.options}: {found[wrong][:3]}, torch has {expected[wrong][:3]}"
        assert not wrong.any(), about


def test_every_dtype_is_converted() -> None:
    pairs = {(single.arguments[0].dtype, found.dtype) for single, found in computed()[aten._to_copy.default]}
    assert {(a, b) for a in EVERY for b in EVERY if a != b and (b is not torch.bool or a not in FLOATS)} <= pairs


@pytest.mark.parametrize(
    ("operation", "dtype", "constants"),
    [
        (aten.addcdiv.default, torch.int32, ()),
        (aten.div.Tensor, torch.int64, ()),
        (aten.relu.default, torch.bool, ()),
        (aten.clamp_min.default, torch.int8, (300,)),
        (aten.add.Scalar, torch.uint8, (-1,)),
        (aten.mul.Scalar, torch.int32, (2**40,)),
    ],
)
def test_what_torch_refuses_has_no_form(operation: Any, dtype: torch.dtype, constants: tuple[Any, ...]) -> None:
    """A division of integers would end the process; a number out of range would be another number."""

    def form() -> list[str]:
        given = (*[None] * tensors_of(operation), *constants)
        text = expression(operation, SCALARS[operation], given, {}, dtype).text
        return [text, *(literal(number, dtype) for number in constants)]

    with pytest.raises(CannotEmitError):
        form()


def test_the_compiler_takes_no_advantage_of_overflow() -> None:
    """`x + 1 > x` is not always true. Two instructions that a compiler looks at together."""
    for dtype in INTEGERS:
        given = special(dtype).repeat(5)[None]
        x, more, size = (Value(name, (given.shape[1],), dtype) for name in ("x", "more", "size"))
        truth, big = (Value(name, (given.shape[1],), torch.bool) for name in ("truth", "big"))
        instructions = (
            Instruction(Kind.POINTWISE, aten.add.Scalar, (x, 1), {}, (more,)),
            Instruction(Kind.POINTWISE, aten.gt.Tensor, (more, x), {}, (truth,)),
            Instruction(Kind.POINTWISE, aten.abs.default, (x,), {}, (size,)),
            Instruction(Kind.POINTWISE, aten.ge.Scalar, (size, 0), {}, (big,)),
        )
        module = Module()
        loop = Compiled(Core((), (x,), (), instructions, (), (truth, big)), module, "overflow")
        module.start()
        _, found = loop(loop.prepare([]), Chunk(Counts([1]), [given], ()))
        assert torch.equal(found[0], given + 1 > given)
        assert torch.equal(found[1], given.abs() >= 0)


def test_every_operation_with_a_text_is_compared() -> None:
    """By itself, or as another with the same texts."""
    assert {*OPERATIONS, *SAME_TEXT} == SCALARS.keys()
    for operation, other in SAME_TEXT.items():
        one, two = SCALARS[operation], SCALARS[other]
        assert (one.real, one.whole, one.truth) == (two.real, two.whole, two.truth)
