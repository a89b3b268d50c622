"""Programs: how parts are lowered, printed, fused and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.test_plans import call_of
from unspool import BasicRNNCell, RNNCell
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Chunk
from unspool.engine.emit.python import as_python, fuse
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Program, RowCount, Value, lower_part
from unspool.engine.trace.graph import aten

CPU = torch.device("cpu")


def rows(name: str, *shape: int, dtype: torch.dtype = torch.float64, **where: Any) -> Value:
    return Value(name, shape, dtype, **where)


def shared(name: str, *shape: int, dtype: torch.dtype = torch.float64) -> Value:
    return Value(name, shape, dtype, shared=True)


def instruction(operation: Any, arguments: Sequence[Any], *results: Value, **options: Any) -> Instruction:
    kind = Kind.PRODUCT if operation is aten.mm.default else Kind.POINTWISE
    return Instruction(kind, operation, tuple(arguments), options, results)


H, M, P, Y, B = rows("h", 3), shared("m", 3, 4), rows("p", 4), rows("y", 4), rows("b", 4)
PRODUCT = instruction(aten.mm.default, [H, M], P)
SUM = instruction(aten.add.Tensor, [P, B], Y)


def operations(program: Program) -> list[Any]:
    return [each.operation for each in fuse(program)]


def test_a_sum_joins_its_product() -> None:
    program = Program((H, M, B), (PRODUCT, SUM), (Y,))
    assert operations(program) == [aten.addmm.default]
    function, source = as_python(program, "part", CPU)
    assert "torch.addmm(b, h, m)" in source
    h, m, b = (torch.randn(*shape, dtype=torch.float64) for shape in [(2, 3), (3, 4), (2, 4)])
    torch.testing.assert_close(function(2, h, m, b)[0], h @ m + b, rtol=1e-14, atol=1e-14)


def test_a_bias_joins_too_on_either_side() -> None:
    bias = shared("b", 4)
    for arguments in ([P, bias], [bias, P]):
        program = Program((H, M, bias), (PRODUCT, instruction(aten.add.Tensor, arguments, Y)), (Y,))
        assert operations(program) == [aten.addmm.default]


def test_a_sum_joins_a_multiplication() -> None:
    a, b, c, product, total = (rows(name, 4) for name in "abcpt")
    steps = (instruction(aten.mul.Tensor, [a, b], product), instruction(aten.add.Tensor, [c, product], total))
    program = Program((a, b, c), steps, (total,))
    assert operations(program) == [aten.addcmul.default]
    values = [torch.randn(2, 4, dtype=torch.float64) for _ in range(3)]
    (found,) = as_python(program, "part", CPU)[0](2, *values)
    torch.testing.assert_close(found, values[0] * values[1] + values[2], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("steps", "outputs"),
    [
        ((PRODUCT, SUM), (Y, P)),  # the product is a result
        ((PRODUCT, SUM, instruction(aten.tanh.default, [P], rows("z", 4))), (Y, rows("z", 4))),  # and used elsewhere
        ((PRODUCT, instruction(aten.add.Tensor, [P, B], Y, alpha=2)), (Y,)),
        ((PRODUCT, instruction(aten.add.Tensor, [P, 1.0], Y)), (Y,)),
        ((PRODUCT, instruction(aten.add.Tensor, [P, rows("b", 4, dtype=torch.float32)], Y)), (Y,)),
        ((PRODUCT, instruction(aten.sub.Tensor, [P, B], Y)), (Y,)),
        (
            (
                instruction(aten.mul.Tensor, [B, 2.0], P),  # a number is no tensor
                SUM,
            ),
            (Y,),
        ),
    ],
)
def test_what_must_not_be_joined(steps: tuple[Instruction, ...], outputs: tuple[Value, ...]) -> None:
    program = Program((H, M, B), steps, outputs)
    assert operations(program) == [each.operation for each in steps]


@pytest.mark.parametrize(
    ("inner", "addend", "result"),
    [
        (PRODUCT, rows("w", 2, 4), rows("y", 2, 4)),  # a product of two axes in a sum of three
        (PRODUCT, shared("w", 2, 1, 4), rows("y", 2, 4, axis=1)),
        (instruction(aten.mul.Tensor, [H, H], P, out=None), B, Y),
        (instruction(aten.mul.Tensor, [rows("i", 4, dtype=torch.float32), B], P), B, Y),  # addcmul does not promote
        (instruction(aten.mm.default, [rows("i", 3, dtype=torch.float32), M], P), B, Y),
    ],
)
def test_sums_that_one_call_cannot_compute_are_not_joined(inner: Instruction, addend: Value, result: Value) -> None:
    total = instruction(aten.add.Tensor, [P, addend], result)
    assert operations(Program((H, M, B, addend), (inner, total), (result,))) == [inner.operation, aten.add.Tensor]


def test_whole_numbers_are_not_joined() -> None:
    a, b, c, product, total = (rows(name, 4, dtype=torch.int64) for name in "abcpt")
    steps = (instruction(aten.mul.Tensor, [a, b], product), instruction(aten.add.Tensor, [product, c], total))
    assert operations(Program((a, b, c), steps, (total,))) == [aten.mul.Tensor, aten.add.Tensor]


def test_a_product_that_its_sum_repeats_is_not_joined() -> None:
    column, k = rows("p", 1), shared("k", 3, 1)
    steps = (instruction(aten.mm.default, [H, k], column), instruction(aten.add.Tensor, [B, column], Y))
    assert operations(Program((H, k, B), steps, (Y,))) == [aten.mm.default, aten.add.Tensor]


def test_of_two_products_one_is_joined() -> None:
    q = rows("q", 4)
    steps = (PRODUCT, instruction(aten.mm.default, [H, M], q), instruction(aten.add.Tensor, [P, q], Y))
    assert sorted(map(str, operations(Program((H, M), steps, (Y,))))) == ["aten.addmm.default", "aten.mm.default"]


def test_a_product_added_to_itself_is_not_joined() -> None:
    steps = (PRODUCT, instruction(aten.add.Tensor, [P, P], Y))
    assert operations(Program((H, M), steps, (Y,))) == [aten.mm.default, aten.add.Tensor]


GIVEN = {
    "h": (rows("h", 4), (5, 4)),
    "x": (rows("x", 4), (5, 4)),
    "f": (rows("f", 4, dtype=torch.float32), (5, 4)),
    "c": (rows("c", 1), (5, 1)),
    "m": (shared("m", 4, 4), (4, 4)),
    "b": (shared("b", 4), (4,)),
    "s": (shared("s"), ()),
}
"""What drawn programs start from: values, and the shapes of their tensors for five rows."""


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[Value, Tensor]]:
    """Sums and products of all shapes that broadcast, used once or more; and what each value is."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    env = {value: torch.randn(shape, dtype=value.dtype) for value, shape in GIVEN.values()}
    inputs, steps = tuple(env), list[Instruction]()
    for number in range(draw(st.integers(2, 6))):
        operation = draw(st.sampled_from([aten.add.Tensor, aten.mul.Tensor, aten.mm.default, aten.tanh.default]))
        values = list(env)
        recent = st.sampled_from(values[-3:]) | st.sampled_from(values)
        left, right = draw(recent), draw(recent)
        if operation is aten.tanh.default:
            arguments = (left,)
        elif operation is aten.mm.default:
            left, right = (left, GIVEN["m"][0])
            if env[left].shape != (5, 4) or left.dtype != right.dtype:
                continue
            arguments = (left, right)
        else:
            arguments = (left, right)
        try:
            result = operation(*(env[each] for each in arguments))
        except RuntimeError:
            continue  # they do not broadcast
        has_rows = any(not each.shared for each in arguments)
        if has_rows and result.shape[0] != 5:
            continue
        made = Value(f"v{number}", tuple(result.shape[has_rows:]), result.dtype, shared=not has_rows)
        steps.append(instruction(operation, arguments, made))
        env[made] = result
    made = [step.results[0] for step in steps]
    others = draw(st.lists(st.sampled_from(made), max_size=2, unique=True)) if made else []
    return Program(inputs, tuple(steps), tuple(dict.fromkeys([*others, *made[-1:]]))), env


@settings(max_examples=300, deadline=None)
@given(programs())
def test_drawn_programs_compute_what_their_instructions_do(drawn: tuple[Program, dict[Value, Tensor]]) -> None:
    """However they are joined. Some values are float32, and a joined call rounds once less."""
    program, env = drawn
    found = as_python(program, "part", CPU)[0](5, *(env[value] for value in program.inputs))
    torch.testing.assert_close(list(found), [env[value] for value in program.outputs], rtol=1e-5, atol=1e-5)


def test_what_is_not_needed_any_more_is_let_go() -> None:
    mid, end = rows("mid", 4), rows("end", 4)
    steps = (instruction(aten.tanh.default, [B], mid), instruction(aten.exp.default, [mid], end))
    source = as_python(Program((B,), steps, (end,)), "part", CPU)[1]
    assert "mid = None" in source
    assert "b = None" not in source  # it is the caller's


def test_numbers_and_sizes_are_written_as_they_are() -> None:
    made = rows("made", 2)
    steps = (instruction(aten.full.default, [[RowCount(2), 2], float("-inf")], made, dtype=torch.float32, device=CPU),)
    (found,) = as_python(Program((), steps, (made,)), "part", CPU)[0](3)
    assert found.shape == (6, 2)
    assert found.isinf().all()


def test_a_program_as_it_is_printed() -> None:
    wide, left, unused = rows("w", 3, axis=1, times=2), rows("l", 2), Value("_", (), torch.float32)
    steps = (
        PRODUCT,
        instruction(aten.split_with_sizes.default, [P, [2, 2], 1], left, unused),
        instruction(aten.full.default, [[3, RowCount(2)], 0.5], wide, dtype=torch.float64),
        instruction(aten.add.Tensor, [left, 1], Y, alpha=2),
    )
    assert str(Program((H, M), steps, (Y, wide))) == (
        """\
(h: float64[rows, 3], m: float64[3, 4])
  p: float64[rows, 4] = mm(h, m)                                          # product
  l: float64[rows, 2], _: float32[rows] = split_with_sizes(p, [2, 2], 1)  # pointwise
  w: float64[3, 2 rows] = full([3, 2 rows], 0.5, dtype=torch.float64)     # pointwise
  y: float64[rows, 4] = add(l, 1, alpha=2)                                # pointwise
  return y, w
"""
    )


class Small(RNNCell):
    """The least cell that has something before, in and after its loop."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = 3, 2
        self.of_x, self.of_h = (torch.nn.Parameter(torch.randn(n, 3, dtype=torch.float64)) for n in (2, 3))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x @ self.of_x + h @ self.of_h)
        return h[:, :2].exp(), h


def test_the_parts_of_a_small_cell_as_they_are_printed() -> None:
    cell = Small()
    call = call_of(cell, torch.zeros(4, 5, 2, dtype=torch.float64), cell.zero_state(5, torch.float64))
    phase = call.plan.inference.forward
    before, after = (str(lower_part(part, call.plan.labels)) for part in (phase.split.before, phase.split.after))
    assert before == (
        """\
(input_0: float64[rows, 2], weight_0: float64[2, 3])
  mm: float64[rows, 3] = mm(input_0, weight_0)  # product
  return mm
"""
    )
    assert str(phase.core) == (
        """\
core
  carried state_0: float64[rows, 3]
  streamed mm: float64[rows, 3]
  shared weight_1: float64[3, 3]
  mm_1: float64[rows, 3] = mm(state_0, weight_1)  # product
  add: float64[rows, 3] = add(mm, mm_1)           # pointwise
  tanh: float64[rows, 3] = tanh(add)              # pointwise
  carry tanh
  emit tanh
"""
    )
    assert after == (
        """\
(tanh: float64[rows, 3])
  slice_2: float64[rows, 2] = slice(tanh, 1, 0, 2)  # view
  exp: float64[rows, 2] = exp(slice_2)              # pointwise
  return exp
"""
    )


def test_a_core_as_it_is_printed() -> None:
    cell = BasicRNNCell(3, input_size=2)
    call = call_of(cell, torch.zeros(4, 5, 2), cell.zero_state(5, torch.float32), torch.float32)
    core = call.plan.inference.forward.core
    lines = str(core).splitlines()
    assert lines[0] == "core"
    assert "product" in lines[-5]
    assert lines[-1].startswith("  emit ")
    assert core.count(Kind.PRODUCT) == 1
    assert [each.kind for each in core.instructions] == [Kind.PRODUCT, Kind.POINTWISE, Kind.POINTWISE]
    assert "float32[rows, 3]" in str(core)
    assert "float32[3, 3]" in str(core)


def test_instructions_know_the_line_they_came_from() -> None:
    class Own(RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 3

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(x + h)
            return h, h

    cell = Own()
    call = call_of(cell, torch.zeros(4, 5, 3), cell.zero_state(5, torch.float32), torch.float32)
    program = lower_part(call.plan.inference.forward.split.core, call.plan.labels)
    assert {each.source for each in program.instructions} == {"h = torch.tanh(x + h)"}


def reference(counts: list[int], x: Tensor, h: Tensor, *, reverse: bool) -> tuple[Tensor, Tensor]:
    """`h = tanh(x + h)` for the rows of each step, one step after another."""
    steps, h = list(x.split(counts)), h.clone()
    emitted: list[Any] = [None] * len(counts)
    for time in reversed(range(len(counts))) if reverse else range(len(counts)):
        h[: counts[time]] = torch.tanh(steps[time] + h[: counts[time]])
        emitted[time] = h[: counts[time]].clone()
    return h, torch.cat(emitted)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), reverse=st.booleans())
def test_the_interpreter_runs_the_rows_that_a_step_has(lengths: list[int], reverse: bool) -> None:
    counts = [sum(length > time for length in lengths) for time in range(max(lengths))]
    h, x, total, new = (rows(name, 3) for name in ("h", "x", "t", "n"))
    steps = (instruction(aten.add.Tensor, [x, h], total), instruction(aten.tanh.default, [total], new))
    loop = Interpreted(Core((h,), (x,), (), steps, (new,), (new,)), CPU)
    torch.manual_seed(0)
    streamed = torch.randn(sum(counts), 3, dtype=torch.float64)
    carried = torch.randn(counts[0], 3, dtype=torch.float64)
    (found,), (emitted,) = loop([], Chunk(Counts(counts), [streamed], [carried], reverse))
    expected, collected = reference(counts, streamed, carried, reverse=reverse)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(emitted, collected, rtol=0, atol=0)
    target = torch.full_like(collected, torch.nan)
    loop([], Chunk(Counts(counts), [streamed], [carried], reverse, into=[target]))
    torch.testing.assert_close(target, collected, rtol=0, atol=0)


@pytest.mark.parametrize("counts", [[2, 2, 2], [3, 2, 1]])
def test_values_whose_rows_are_not_in_front(counts: list[int]) -> None:
    """Streamed with the rows second and two entries a row, emitted transposed."""
    h, wide, back, new = rows("h", 3), rows("w", 3, axis=1, times=2), rows("k", 3, axis=1), rows("n", 3)
    picked = rows("p", 3)
    steps = (
        instruction(aten.slice.Tensor, [wide, 1, 0, RowCount()], back),
        instruction(aten.t.default, [back], picked),
        instruction(aten.add.Tensor, [h, picked], new),
    )
    loop = Interpreted(Core((h,), (wide,), (), steps, (new,), (back,)), CPU)
    streamed = torch.randn(3, 2 * sum(counts), dtype=torch.float64)
    carried = torch.zeros(counts[0], 3, dtype=torch.float64)
    (found,), (emitted,) = loop([], Chunk(Counts(counts), [streamed], [carried]))
    pieces = [piece[:, :count] for piece, count in zip(streamed.split([2 * n for n in counts], 1), counts, strict=True)]
    expected = carried.clone()
    for piece in pieces:
        expected[: piece.shape[1]] += piece.t()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)
    torch.testing.assert_close(emitted, torch.cat(pieces, 1), rtol=0, atol=0)


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), reverse=st.booleans(), axis=st.integers(0, 2))
def test_rows_may_be_in_any_axis_of_what_is_streamed_and_emitted(lengths: list[int], reverse: bool, axis: int) -> None:
    """`h += factor * x; emit 2 * h`, with the rows of x and of what is emitted in that axis, each of shape `[2, 3]`."""
    counts = [sum(length > time for length in lengths) for time in range(max(lengths))]
    there, back = [[0, 1, 2], [1, 0, 2], [1, 2, 0]][axis], [[0, 1, 2], [1, 0, 2], [2, 0, 1]][axis]
    h, x, moved, scaled, new, double = (rows(name, 2, 3) for name in ("h", "x", "m", "s", "n", "d"))
    x, double = rows("x", 2, 3, axis=axis), rows("d", 2, 3, axis=axis)
    factor, turned = shared("f"), rows("t", 2, 3, axis=axis)
    steps = (
        instruction(aten.permute.default, [x, back], moved),
        instruction(aten.mul.Tensor, [moved, factor], scaled),
        instruction(aten.add.Tensor, [h, scaled], new),
        instruction(aten.permute.default, [new, there], turned),
        instruction(aten.mul.Tensor, [turned, 2], double),
    )
    loop = Interpreted(Core((h,), (x,), (factor,), steps, (new,), (double,)), CPU)
    in_front = torch.randn(sum(counts), 2, 3, dtype=torch.float64)
    carried, half = torch.randn(counts[0], 2, 3, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    streamed = in_front.permute(there).contiguous()
    (found,), (emitted,) = loop([half], Chunk(Counts(counts), [streamed], [carried], reverse))
    expected, collected = carried.clone(), list[Any]([None] * len(counts))
    for time in reversed(range(len(counts))) if reverse else range(len(counts)):
        expected[: counts[time]] += half * in_front.split(counts)[time]
        collected[time] = 2 * expected[: counts[time]]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)  # the sum may be joined to its product
    torch.testing.assert_close(emitted, torch.cat(collected).permute(there), rtol=0, atol=1e-14)
    target = torch.full_like(streamed, torch.nan)
    (_,), (written,) = loop([half], Chunk(Counts(counts), [streamed], [carried], reverse, into=[target]))
    assert written is target
    torch.testing.assert_close(target, emitted, rtol=0, atol=0)


def test_a_gradient_of_zero_is_carried_as_zeros() -> None:
    h, x, y = rows("h", 3), rows("x", 3), rows("y", 3)
    loop = Interpreted(Core((h,), (x,), (), (instruction(aten.add.Tensor, [x, h], y),), (None,), (y,)), CPU)
    (found,), (emitted,) = loop([], Chunk(Counts([2, 2]), [torch.ones(4, 3)], [torch.ones(2, 3)]))
    assert not found.any()
    torch.testing.assert_close(emitted, torch.tensor([2.0, 2, 1, 1])[:, None].expand(-1, 3))


def test_a_core_without_a_state_runs() -> None:
    x, y = rows("x", 3), rows("y", 3)
    loop = Interpreted(Core((), (x,), (), (instruction(aten.tanh.default, [x], y),), (), (y,)), CPU)
    carried, (emitted,) = loop([], Chunk(Counts([3, 1]), [torch.ones(4, 3)], []))
    assert carried == []
    torch.testing.assert_close(emitted, torch.ones(4, 3).tanh())
