"""What the CUDA loop emitter makes of what is beside a core: products that start from biases, kernels with vectors."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import check, engine_loop, plain_loop, results, wanting_gradients
from tests.emulator import Emulated, emulated
from tests.emulator.cells import problem
from tests.test_cuda_tiles import binary, used
from unspool.engine.emit.cuda.loop import emitter, part
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.part import RowsLoop, fuse_part, rows_of_block
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.protocol import Chunk
from unspool.engine.emit.python import as_python
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Program, Value
from unspool.structure import map_structure

aten, CPU = torch.ops.aten, torch.device("cpu")
ROWS = 13
"""Of the calls: more than a block has in most of them, and no multiple of what it has."""


class Written:
    """A part that is written down one operation after another."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.instructions: list[Instruction] = []

    def given(self, *shape: int, dtype: torch.dtype = torch.float32, shared: bool = False) -> Value:
        self.inputs.append(Value(f"v{len(self.inputs)}", shape, dtype, shared))
        return self.inputs[-1]

    def __call__(self, operation: Any, *arguments: Any, kind: Kind = Kind.POINTWISE, **options: Any) -> Any:
        made = operation(*map(_example, arguments), **options)
        several = made if isinstance(made, list | tuple) else [made]
        number = len(self.instructions)
        values = [Value(f"m{number}_{k}", tuple(each.shape[1:]), each.dtype) for k, each in enumerate(several)]
        self.instructions.append(Instruction(kind, operation, arguments, options, tuple(values), "of a cell"))
        return values if isinstance(made, list | tuple) else values[0]

    def program(self, *outputs: Value) -> Program:
        return Program(tuple(self.inputs), tuple(self.instructions), outputs)

    def core(self, *outputs: Value) -> Core:
        rows, shared = (tuple(each for each in self.inputs if each.shared == which) for which in (False, True))
        return Core((), rows, shared, tuple(self.instructions), (), outputs)


def _example(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        return [_example(each) for each in argument]
    return _numbers(argument) if isinstance(argument, Value) else argument


def _numbers(value: Value, offset: int = 0) -> Tensor:
    """Numbers for a value, which begin at that element of their memory."""
    shape = value.shape if value.shared else (ROWS, *value.shape)
    count = 1
    for size in shape:
        count *= size
    numbers = torch.randn(offset + count)
    numbers = numbers > 0 if value.dtype is torch.bool else (numbers * (1 if value.dtype.is_floating_point else 9))
    return numbers.to(value.dtype)[offset:].view(shape)


def run(core: Core, offset: int = 0, *, rounds: bool = False) -> tuple[RowsLoop, list[Tensor]]:
    """The loop of what is beside a core, and what it computes in the emulator, which is what torch does."""
    torch.manual_seed(2)
    values = {value: _numbers(value, offset) for value in (*core.streamed, *core.shared)}
    expected, _ = as_python(Program(tuple(values), core.instructions, core.emitted), "part", CPU)
    loop = RowsLoop(core, Emulated(), Tiling(None, rows_of_block(core), part.WARPS, "memory"), rounds=rounds)
    chunk = Chunk(Counts.of_step(ROWS), [values[each] for each in core.streamed], ())
    _, found = loop(loop.prepare([values[each] for each in core.shared]), chunk)
    for own, exact in zip(found, expected(ROWS, *values.values()), strict=True):
        near = torch.finfo(exact.dtype).eps * 4 if exact.dtype.is_floating_point else 0  # a few roundings
        torch.testing.assert_close(own, exact, rtol=near, atol=near)
    return loop, found


def widths(loop: RowsLoop) -> list[int]:
    """How many elements each of the kernel's loops takes at a time."""
    return [int(each) for each in re.findall(r"for \(int v = 0; v < (\d+)", loop.source)]


# -- vectors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [64, 40, 12, 6, 5, 1])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_pointwise_work_moves_sixteen_bytes_at_a_time(dtype: torch.dtype, units: int) -> None:
    own = Written()
    x, y, bias = (
        own.given(units, dtype=dtype),
        own.given(units, dtype=dtype),
        own.given(units, dtype=dtype, shared=True),
    )
    product = own(aten.mul.Tensor, own(aten.add.Tensor, x, bias), own(aten.tanh.default, y))
    loop, _ = run(own.core(product, own(aten.neg.default, y)))
    most = 16 // dtype.itemsize
    assert widths(loop) == [
        width for width in [next(k for k in (8, 4, 2, 1) if k <= most and units % k == 0)] if width > 1
    ]


def gates(units: int, dtype: torch.dtype) -> Core:
    """Parts of one value, a part of which is stored into another, side by side with a broadcast one."""
    own = Written()
    all_gates, scale = own.given(4 * units, dtype=dtype), own.given(1, dtype=dtype)
    i, f, o, g = own(aten.split.Tensor, all_gates, units, 1, kind=Kind.VIEW)
    new = own(aten.mul.Tensor, own(aten.mul.Tensor, i, g), own(aten.sigmoid.default, f))
    both = own(aten.cat.default, [new, own(aten.mul.Tensor, o, scale)], 1, kind=Kind.VIEW)
    return own.core(both)


@pytest.mark.parametrize(("units", "expected"), [(32, {8}), (12, {4}), (2, {2}), (7, set[int]())])
def test_parts_of_values_are_vectors_where_they_begin_at_multiples(units: int, expected: set[int]) -> None:
    loop, _ = run(gates(units, torch.float16))
    assert set(widths(loop)) == expected


def test_parts_that_begin_elsewhere_are_read_one_by_one() -> None:
    own = Written()
    x = own.given(33, dtype=torch.float32)
    loop, _ = run(own.core(own(aten.neg.default, own(aten.slice.Tensor, x, 1, 1, 33, kind=Kind.VIEW))))
    assert widths(loop) == []


def test_dtypes_are_mixed() -> None:
    own = Written()
    half, single, wide = (own.given(24, dtype=each) for each in (torch.float16, torch.float32, torch.float64))
    whole, truth = own.given(24, dtype=torch.int64), own.given(24, dtype=torch.bool)
    product = own(aten.mul.Tensor, own(aten._to_copy.default, half, dtype=torch.float32), single)
    total = own(aten.add.Tensor, own(aten._to_copy.default, product, dtype=torch.float64), wide)
    chosen = own(aten.where.self, truth, total, wide)
    more = own(aten.add.Tensor, whole, 3)
    loop, _ = run(own.core(chosen, product, more, own(aten.logical_not.default, truth)))
    assert set(widths(loop)) == {8}


def test_columns_and_rows_of_a_rows_matrix_are_broadcast() -> None:
    own = Written()
    matrix, column, row = own.given(3, 16), own.given(3, 1), own.given(16, shared=True)
    loop, _ = run(own.core(own(aten.add.Tensor, own(aten.mul.Tensor, matrix, column), row)))
    assert set(widths(loop)) == {4}
    own = Written()
    turned = own(aten.transpose.int, own.given(8, 4), 1, 2, kind=Kind.VIEW)
    loop, _ = run(own.core(own(aten.mul.Tensor, turned, own.given(4, 8))))
    assert widths(loop) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_vectors_before_and_after_folds(dtype: torch.dtype) -> None:
    own = Written()
    x, y = own.given(32, dtype=dtype), own.given(32, dtype=dtype)
    most = own(aten.amax.default, own(aten.add.Tensor, x, y), [1], True, kind=Kind.REDUCTION)
    scaled = own(aten.mul.Tensor, own(aten.sub.Tensor, x, most), y)
    loop, _ = run(own.core(scaled, own(aten.exp.default, own(aten.neg.default, scaled))), rounds=True)
    assert widths(loop)


def norms(units: int, dtype: torch.dtype, axes: list[int], shape: tuple[int, ...] = ()) -> Core:
    """A scaled sum of squares of each row, or of parts of it, and all elements divided by it."""
    own = Written()
    x, scale = own.given(*shape, units, dtype=dtype), own.given(units, shared=True)
    wide = own(aten._to_copy.default, x, dtype=torch.float32)
    square = own(aten.mul.Tensor, own(aten.mul.Tensor, wide, wide), scale)
    total = own(aten.sum.dim_IntList, square, axes, True, kind=Kind.REDUCTION)
    return own.core(own(aten.div.Tensor, wide, own(aten.add.Tensor, own(aten.abs.default, total), 1.0)), square)


@pytest.mark.parametrize(("units", "width"), [(512, 8), (264, 8), (24, 8), (12, 4), (6, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_folds_read_vectors(units: int, width: int, seed: int) -> None:
    core = norms(units, torch.bfloat16, [1])
    loop, found = run(core)
    assert widths(loop) == [width, width]
    torch.manual_seed(2)
    values = {value: _numbers(value) for value in (*core.streamed, *core.shared)}
    # In another order of threads, with fewer rows a block: the same bits.
    other = RowsLoop(core, Emulated(seed=seed), Tiling(None, 3, 3, "memory"))
    chunk = Chunk(Counts.of_step(ROWS), [values[each] for each in core.streamed], ())
    _, again = other(other.prepare([values[each] for each in core.shared]), chunk)
    for one, same in zip(found, again, strict=True):
        assert torch.equal(one, same)


def test_parts_of_rows_are_folded_by_vectors() -> None:
    assert widths(run(norms(16, torch.float16, [2], (3,)))[0]) == [8, 8]  # a sum for each of three parts
    assert widths(run(norms(16, torch.float16, [1, 2], (3,)))[0]) == [8, 8]
    assert widths(run(norms(16, torch.float16, [1], (3,)))[0]) == [8, 8]  # before and after; columns one by one


def test_folds_of_odd_rows_and_places_read_one_by_one() -> None:
    assert widths(run(norms(33, torch.float16, [1]))[0]) == []
    own = Written()
    x = own.given(64)
    place = own(aten.argmax.default, own(aten.mul.Tensor, x, 2.0), 1, True, kind=Kind.REDUCTION)
    assert widths(run(own.core(place))[0]) == [4]  # of the product, where the place is not looked for


def test_what_does_not_begin_at_a_multiple_of_sixteen_bytes_is_copied_first() -> None:
    for offset in (1, 3, 4):
        own = Written()
        x, bias = own.given(16), own.given(16, shared=True)
        loop, _ = run(own.core(own(aten.add.Tensor, x, bias)), offset)
        assert set(widths(loop)) == {4}


def test_nothing_else_reads_vectors() -> None:
    own = Written()
    core = own.core(own(aten.neg.default, own.given(16)))
    loop = CudaLoop(core, Emulated(), Tiling(None, 2, 2))  # of tensors that begin anywhere
    assert "unspool::Vector" not in loop.source
    x = _numbers(core.streamed[0], 1)
    _, (found,) = loop(loop.prepare([]), Chunk(Counts.of_step(ROWS), [x], ()))
    assert torch.equal(found, -x)


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_blocks_of_few_and_of_many_rows_have_the_same_bits(rows: int) -> None:
    core = gates(16, torch.bfloat16)
    x = [_numbers(each) for each in core.streamed]
    found = []
    for most in (rows, ROWS):
        loop = RowsLoop(core, Emulated(seed=rows), Tiling(None, most, 1, "memory"))
        found.append(loop(loop.prepare([]), Chunk(Counts.of_step(ROWS), x, ()))[1][0])
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("streamed", "emitted", "rows"),
    [
        ([4096], [4096], 2),  # four vectors of a thread
        ([1024] * 5, [1024] * 5, 2),  # one of each value
        ([4096, 4096, 1024], [1024] * 6, 2),
        ([64] * 5, [64] * 5, 32),
        ([33, 33], [33], 31),  # four elements of a thread, one by one
        ([8] * 3, [4096, 8], 2),  # whatever is kept between its loops has to fit
    ],
)
def test_blocks_have_rows_for_all_their_threads(streamed: list[int], emitted: list[int], rows: int) -> None:
    given, made = (
        tuple(Value(f"v{k}", (size,), torch.float16) for k, size in enumerate(s)) for s in (streamed, emitted)
    )
    assert rows_of_block(Core((), given, (), (), (), made)) == rows


def backward_of_lstm(units: int, dtype: torch.dtype) -> list[Core]:
    own, inputs, state = problem("lstm", dtype, units=units)
    with emulated() as emitter:
        results(engine_loop, own, dtype, None, inputs, state)
    return emitter.beside


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_kernels_with_vectors_compile_and_keep_all_in_registers(dtype: torch.dtype, architecture: str) -> None:
    cores = [*backward_of_lstm(32, dtype), gates(32, dtype)]
    assert len(cores) > 1
    for core in cores:
        tiling = Tiling(None, rows_of_block(core), part.WARPS, "memory")
        text = KernelText(lower(core), tiling, aligned=True)
        assert "unspool::read(" in text.body
        registers, stack = used(binary(text, architecture))
        assert stack == 0
        assert registers <= 128  # two blocks share a multiprocessor


# -- biases ------------------------------------------------------------------------------------------------------------


def operations(program: Program, *, rounds: bool = False) -> list[Any]:
    beside = fuse_part(program, Emulated(), [], rounds=rounds)
    return [each.operation for each in beside.program.instructions if each.kind is not Kind.OTHER]


def with_bias(bias: Sequence[int], *, shared: bool = True, bias_first: bool = True) -> tuple[Written, Value, Value]:
    own = Written()
    x, matrix, added = own.given(8), own.given(8, 16, shared=True), own.given(*bias, shared=shared)
    product = own(aten.mm.default, x, matrix, kind=Kind.PRODUCT)
    return own, product, own(aten.add.Tensor, *((added, product) if bias_first else (product, added)))


@pytest.mark.parametrize("bias_first", [True, False])
def test_a_product_starts_from_its_bias(bias_first: bool) -> None:
    own, _, total = with_bias([16], bias_first=bias_first)
    assert operations(own.program(total)) == [aten.addmm.default]


def test_a_product_is_left_alone_where_its_bias_is_not_all_that_is_wanted() -> None:
    own, product, total = with_bias([16])
    assert operations(own.program(total), rounds=True) == [aten.mm.default]  # what torch would round is rounded
    assert operations(own.program(total, product)) == [aten.mm.default]
    other = own(aten.neg.default, product)
    assert operations(own.program(total, other)) == [aten.mm.default]


def test_what_would_have_to_be_copied_first_is_added_by_a_kernel() -> None:
    for bias, shared in (([16], False), ([1], True), ([1, 16], True)):
        own, _, total = with_bias(bias, shared=shared)
        assert operations(own.program(total)) == [aten.mm.default]
    own = Written()
    product = own(aten.mm.default, own.given(8), own.given(8, 16, shared=True), kind=Kind.PRODUCT)
    twice = own(aten.add.Tensor, own.given(16, shared=True), product, alpha=2)
    assert operations(own.program(twice)) == [aten.mm.default]


@pytest.mark.parametrize("name", ["lstm", "gru", "peepholes and projection", "layer norms"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_and_gradients_are_the_plain_loops(name: str, dtype: torch.dtype) -> None:
    own, inputs, state = problem(name, dtype)
    with emulated(tiling=Tiling(rows=2, warps=2)) as emitter:
        check(own, dtype, [4, 0, 2], inputs, state)
    assert emitter.beside


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_as_near_to_float64_as_their_rounding(dtype: torch.dtype) -> None:
    own, inputs, state = problem("lstm", dtype)
    with emulated(tiling=Tiling(rows=2, warps=2)) as emitter:
        found = results(engine_loop, own, dtype, [4, 0, 2], inputs, state)
    assert not any(each.operation is aten.add.Tensor for each in emitter.beside[0].instructions[:1])
    wide = torch.float64
    exact = [wanting_gradients(map_structure(lambda leaf: leaf.to(wide), each)) for each in (inputs, state)]
    expected = results(plain_loop, copy.deepcopy(own).to(wide), wide, [4, 0, 2], *exact)
    limit = {torch.bfloat16: 1e-2, torch.float16: 1.5e-3}[dtype]  # as in test_cuda_loop.py
    for key, value in expected.items():
        assert (found[key].to(wide) - value).norm() < limit * value.norm(), key


def adjoint_of_norms(dtype: torch.dtype) -> tuple[Core, dict[str, Any]]:
    """The adjoint core of a stack of LayerNorm LSTMs, and what a call of it gives."""
    own, inputs, state = problem("layer norms", dtype)
    with emulated(tiling=Tiling(rows=1, warps=1)) as emitted:
        found = results(engine_loop, own, dtype, [4, 0, 2], inputs, state)
    return emitted.cores[-1], found


def bytes_of(values: Sequence[Value]) -> list[int]:
    """What they take of a row and step."""
    return [prod(each.shape) * each.dtype.itemsize for each in values]


def test_scaled_copies_of_what_a_loop_reads_are_made_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "with_narrow_reads", lambda split, labels: split)
    own = bytes_of(adjoint_of_norms(torch.bfloat16)[0].streamed)
    monkeypatch.setattr(emitter, "with_reads_at_hand", lambda split, labels: split)
    more = bytes_of(adjoint_of_norms(torch.bfloat16)[0].streamed)
    assert len(own) < len(more)
    assert sum(own) < sum(more)


def test_normalised_values_are_computed_again_of_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    core, found = adjoint_of_norms(torch.bfloat16)
    assert not any(prod(each.shape) > 1 and each.dtype is torch.float32 for each in core.streamed)
    monkeypatch.setattr(emitter, "with_narrow_reads", lambda split, labels: split)
    wider, expected = adjoint_of_norms(torch.bfloat16)
    for own, before in ((core.streamed, wider.streamed), (core.emitted, wider.emitted)):
        assert sum(bytes_of(own)) < sum(bytes_of(before))
    for name, value in expected.items():
        # Of a few sums, in another order: of products of numbers of 24 bits, and then rounded to eight.
        torch.testing.assert_close(found[name], value, rtol=2**-7, atol=2**-9)


def test_what_would_take_as_much_memory_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An LSTM's local derivatives are halves, computed of more halves than one."""
    own, inputs, state = problem("lstm", torch.bfloat16)

    def streamed() -> list[str]:
        with emulated(tiling=Tiling(rows=1, warps=1)) as emitted:
            results(engine_loop, own, torch.bfloat16, None, inputs, state)
        return [each.name for each in emitted.cores[-1].streamed]

    before = streamed()
    monkeypatch.setattr(emitter, "with_narrow_reads", lambda split, labels: split)
    assert streamed() == before


def test_kernels_beside_a_core_leave_registers_to_other_blocks() -> None:
    own, inputs, state = problem("layer norms", torch.bfloat16, units=512)
    with emulated(tiling=Tiling(rows=1, warps=1)) as emitted:
        results(engine_loop, own, torch.bfloat16, None, inputs, state)
    texts = [KernelText(lower(core), Tiling(None, 8, 8, "memory"), aligned=True) for core in emitted.beside]
    assert texts
    for text in texts:
        registers, stack = used(binary(text, "sm_90"))
        assert registers * text.threads * 2 <= 1 << 16
        assert stack <= 64
