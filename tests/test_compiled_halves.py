"""bfloat16 and float16 in compiled loops: stored as such, computed with as float32."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.comparison import STEPS, engine_loop, plain_loop, results, wanting_gradients
from tests.emitting import assert_compiled, compiled_together
from tests.single_operations import Single, by_compiled_loops
from tests.test_compiled import Case
from unspool import Checkpoint, GRUCell, Keep, LSTMCell, Recompute, dynamic_rnn, explain
from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.cpp.part import Sums
from unspool.engine.emit.protocol import Chunk
from unspool.engine.emit.stages.row import Row
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.trace.graph import aten
from unspool.gallery import LayerNormLSTMCell
from unspool.structure import flatten, map_structure

pytestmark = pytest.mark.compiled

HALVES = [torch.bfloat16, torch.float16]
POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]
DEPTH, UNITS = 6, 16
DRAWS, ROWS, LENGTHS = 4, 20, 4 * [STEPS, 0, 3, 4, 1]
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""By how much of itself a number is rounded at most."""
WORST = {torch.bfloat16: 1e-2, torch.float16: 1.25e-3}
"""How far results may be from those in float64, norm-wise: some three roundings."""


# -- conversions ------------------------------------------------------------------------------------------------------


def every_half(dtype: torch.dtype) -> Tensor:
    """All 65,536 of them."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def singles_to_round(dtype: torch.dtype) -> Tensor:
    """Numbers of float32: halves, all that is halfway between two, their neighbours, and every 9973rd of all."""
    halves = every_half(dtype).float()
    middle = (halves[:-1].double() + halves[1:].double()).float() / 2
    middle = middle[middle.isfinite()]
    spread = torch.arange(-(2**31), 2**31, 9973, dtype=torch.int64).to(torch.int32).view(torch.float32)
    infinity = torch.tensor(math.inf)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 65504.0, 65519.0, 65520.0, 3.4e38, 1e-45, 6e-8])
    return torch.cat(
        [halves, middle, middle.nextafter(infinity), middle.nextafter(-infinity), special, spread]
    ).contiguous()


def converted(numbers: Tensor, *dtypes: torch.dtype) -> Tensor:
    """`numbers` through dtypes, one after another, in one compiled loop."""
    wide = 4096
    padded = torch.nn.functional.pad(numbers.view(-1), (0, -len(numbers) % wide)).view(-1, wide)
    values = [Value("x", (wide,), numbers.dtype)]
    instructions: list[Instruction] = []
    for number, dtype in enumerate(dtypes):
        values.append(Value(f"y{number}", (wide,), dtype))
        cast = aten._to_copy.default
        instructions.append(Instruction(Kind.POINTWISE, cast, (values[-2],), {"dtype": dtype}, (values[-1],)))
    module = Module()
    loop = Compiled(Core((), (values[0],), (), tuple(instructions), (), (values[-1],)), module, "convert")
    module.start()
    _, (found,) = loop(loop.prepare([]), Chunk(Counts([len(padded)]), [padded], ()))
    return found.view(-1)[: len(numbers)]


def assert_same_bits(found: Tensor, expected: Tensor) -> None:
    """Equal, zeros with their signs; NaN is NaN."""
    assert found.dtype == expected.dtype
    same = (found == expected) & (found.signbit() == expected.signbit())
    wrong = ~(same | (found.isnan() & expected.isnan()))
    assert not wrong.any(), (found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("dtype", HALVES)
class TestConversions:
    def test_every_half_becomes_the_same_number(self, dtype: torch.dtype) -> None:
        assert_same_bits(converted(every_half(dtype), torch.float32), every_half(dtype).float())

    def test_numbers_are_rounded_as_torch_rounds(self, dtype: torch.dtype) -> None:
        numbers = singles_to_round(dtype)
        assert_same_bits(converted(numbers, dtype), numbers.to(dtype))

    def test_a_number_that_goes_through_a_half_is_rounded(self, dtype: torch.dtype) -> None:
        """Without being stored."""
        numbers = singles_to_round(dtype)
        assert_same_bits(converted(numbers, dtype, torch.float32), numbers.to(dtype).float())

    def test_other_dtypes(self, dtype: torch.dtype) -> None:
        whole = torch.arange(-3000, 3000)
        assert_same_bits(converted(whole, dtype), whole.to(dtype))
        halves = torch.linspace(-300, 300, 4000).to(dtype)
        assert torch.equal(converted(halves, torch.int64), halves.to(torch.int64))
        assert_same_bits(converted(halves, torch.float64), halves.double())
        other = next(each for each in HALVES if each != dtype)
        assert_same_bits(converted(halves, other), halves.to(other))


# -- products ---------------------------------------------------------------------------------------------------------

SHAPES = [(1, 1, 1), (3, 2, 5), (8, 33, 32), (9, 300, 31), (17, 64, 100), (2, 7, 129), (5, 513, 64)]
"""Rows, depth, width: even and odd, in whole panels and parts of them, and deeper than what is summed at once."""


def assert_rounded_once(found: Tensor, exact: Tensor, sizes: Tensor) -> None:
    """Within one rounding of the exact numbers, and of float32 sums of terms of these sizes."""
    allowed = UNIT[found.dtype] * 1.001 * exact.abs() + 2.0**-20 * sizes + torch.finfo(found.dtype).smallest_normal
    assert ((found.double() - exact).abs() <= allowed).all()


@cache
def products() -> dict[Single, Tensor]:
    torch.manual_seed(0)
    made = [
        Single(aten.mm.default, (torch.randn(r, d).to(t), torch.randn(d, w).to(t)), {}, Kind.PRODUCT, shared=(1,))
        for t in HALVES
        for r, d, w in SHAPES
    ]
    turned = [
        Single(aten.mm.default, (each.arguments[0], each.arguments[1].t().contiguous().t()), {}, Kind.PRODUCT, (1,))
        for each in made
    ]
    return by_compiled_loops([*made, *turned])


def test_products_are_summed_in_float32() -> None:
    assert len(products()) == 4 * len(SHAPES)
    for single, found in products().items():
        left, right = (each.double() for each in single.arguments)
        assert_rounded_once(found, left @ right, left.abs() @ right.abs())


def test_infinities_and_nan_in_a_product_stay_in_their_rows_and_columns() -> None:
    """What is beside them is not touched, nor is what is packed beside a last column or pair."""
    for dtype in HALVES:
        left, right = torch.ones(4, 5, dtype=dtype), torch.ones(5, 33, dtype=dtype)
        left[1, 4], left[2, 0], right[4, 32] = math.nan, math.inf, -math.inf
        (found,) = by_compiled_loops([Single(aten.mm.default, (left, right), {}, Kind.PRODUCT, shared=(1,))]).values()
        torch.testing.assert_close(found, (left.double() @ right.double()).to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (7, 9, 33), (255, 8, 32), (600, 17, 70)])
def test_sums_over_rows_are_in_float32(dtype: torch.dtype, rows: int, depth: int, width: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(rows, depth).to(dtype), torch.randn(rows, width).to(dtype)
    product, total, own = Sums([1, 0], [0], [(depth, width), (width,), (depth,)])(right, left)
    assert product.dtype == total.dtype == own.dtype == dtype
    assert_rounded_once(product, left.double().t() @ right.double(), left.double().abs().t() @ right.double().abs())
    assert_rounded_once(total, right.double().sum(0), right.double().abs().sum(0))
    assert_rounded_once(own, left.double().sum(0), left.double().abs().sum(0))


def test_products_are_the_same_in_shares() -> None:
    """With few rows, threads have columns of a product each."""
    cell, inputs = LSTMCell(96, input_size=40).to(torch.bfloat16), torch.randn(1, 30, 40).to(torch.bfloat16)
    before = torch.get_num_threads()
    found: list[Tensor] = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(dynamic_rnn(cell, inputs, dtype=torch.bfloat16)[0])
    torch.set_num_threads(before)
    assert torch.equal(*found)


# -- cells ------------------------------------------------------------------------------------------------------------


class Attending(unspool.RNNCell):
    """A softmax over what is remembered, which a row computes for itself, and a reduction of products."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, torch.Size([4, UNITS])), UNITS
        self.query, self.write = nn.Linear(DEPTH + UNITS, UNITS), nn.Linear(DEPTH, UNITS)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, memory = state
        query = self.query(torch.cat([x, h], 1))
        weights = torch.softmax((memory * query[:, None]).sum(2) / 3, 1)
        read = torch.bmm(weights[:, None], memory)[:, 0]
        memory = torch.cat([memory[:, 1:], torch.tanh(self.write(x))[:, None]], 1)
        h = torch.tanh(read + 0.5 * h)
        return h, (h, memory)


class Deciding(unspool.RNNCell):
    """Comparisons, an argmax, a sort and a maximum. Each operation is exact, or rounds in one way."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = UNITS, (UNITS, UNITS, 1, 1)
        self.scale = nn.Parameter(torch.linspace(0.3, 1.7, UNITS))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        z = (x[:, :1] * self.scale + h) * 0.7
        chosen = torch.where(z > h, z, 0.3 * h)
        rank = chosen.argsort(1)
        top = (chosen * 1.1).amax(1, keepdim=True)
        index = (chosen * chosen).argmax(1, keepdim=True)
        h = 0.4 * chosen + top * (rank == 0) - (z == z.amax(1, keepdim=True)) * x[:, 1:2]
        return (h, rank.to(x.dtype), index.to(x.dtype), top), h


CELLS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: LSTMCell(UNITS, input_size=DEPTH, use_peepholes=True),
    "gru": lambda: GRUCell(UNITS, input_size=DEPTH),
    "layer_norm_lstm": lambda: LayerNormLSTMCell(DEPTH, UNITS),
    "attending": Attending,
    "deciding": Deciding,
}


class Both(NamedTuple):
    """A cell of halves, and what it runs on; and the same in float64."""

    halves: Case
    exact: Case


def as_dtype(structure: Any, dtype: torch.dtype) -> Any:
    return wanting_gradients(map_structure(lambda leaf: leaf.detach().to(dtype), structure))


def drawn(cell: Any, exact: Any, dtype: torch.dtype, seed: int) -> Both:
    """The cell with inputs and states of its own."""
    torch.manual_seed(seed)
    inputs = as_dtype(torch.randn(ROWS, STEPS, DEPTH), dtype)
    state = as_dtype(map_structure(torch.randn_like, cell.zero_state(ROWS, torch.float32)), dtype)
    wide = [as_dtype(each, torch.float64) for each in (inputs, state)]
    return Both(Case(cell, dtype, inputs, LENGTHS, state), Case(exact, torch.float64, wide[0], LENGTHS, wide[1]))


def in_all_ways(name: str, dtype: torch.dtype) -> bool:
    """Whether a cell is run under every policy: all in bfloat16, and one in float16, of which only the type differs."""
    return dtype == torch.bfloat16 or name in ("lstm", "deciding")


WAYS = [(n, t, m) for n in CELLS for t in HALVES for m in (POLICIES if in_all_ways(n, t) else POLICIES[:1])]


@cache
def cases() -> dict[tuple[str, torch.dtype], list[Both]]:
    """Every cell in every dtype, compiled together."""
    made: dict[tuple[str, torch.dtype], list[Both]] = {}
    with compiled_together():
        for name, make in CELLS.items():
            for dtype in HALVES:
                torch.manual_seed(1)
                cell = make().to(dtype)
                exact = copy.deepcopy(cell).double()
                made[name, dtype] = [drawn(cell, exact, dtype, seed) for seed in range(DRAWS)]
                made[name, dtype][0].halves.start(POLICIES if in_all_ways(name, dtype) else POLICIES[:1])
    return made


@cache
def plain(name: str, dtype: torch.dtype, number: int, *, exact: bool = False) -> dict[str, Any]:
    """What the plain loop computes in halves, or in float64."""
    case = cases()[name, dtype][number]
    case = case.exact if exact else case.halves
    return results(plain_loop, case.cell, case.dtype, LENGTHS, case.inputs, case.state)


def errors(found: dict[str, Any], exact: dict[str, Any]) -> dict[str, float]:
    """How far results are from the exact ones, relative to their norms."""
    pairs = {name: (found[name].double(), value.double()) for name, value in exact.items()}
    return {name: ((one - other).norm() / other.norm()).item() for name, (one, other) in pairs.items()}


def mean_ratio(pairs: list[tuple[dict[str, float], dict[str, float]]]) -> float:
    """The geometric mean of how much larger errors are than others: where a step has poor condition, all are large."""
    logarithms = [math.log(own[name] / other[name]) for own, other in pairs for name in own]
    return math.exp(sum(logarithms) / len(logarithms))


@pytest.mark.parametrize(("name", "dtype", "memory"), [way for way in WAYS if way[0] != "deciding"])
def test_no_further_from_exact_than_torch(name: str, dtype: torch.dtype, memory: Any) -> None:
    """Outputs, states and every gradient, against the plain loop in float64 and the one in the same dtype.

    torch rounds after every operation, and compiled loops where they store.
    """
    every = cases()[name, dtype]
    own = every[0].halves
    assert_compiled(own.cell, own.inputs, LENGTHS, own.state, dtype, memory=memory)
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for number, case in enumerate(every):
        exact, torchs, found = (
            plain(name, dtype, number, exact=True),
            plain(name, dtype, number),
            case.halves.results(memory),
        )
        assert {k: v.dtype for k, v in found.items()} == {k: v.dtype for k, v in torchs.items()}
        pairs.append((errors(found, exact), errors(torchs, exact)))
        for key, off in pairs[-1][0].items():
            # Gradients of steps with poor condition have the errors of what they are computed from, many times over.
            allowed = 2 * max(pairs[-1][1].values()) if key.startswith("gradient") else 0
            assert off <= max(WORST[dtype], allowed), (key, off)
    assert mean_ratio(pairs) <= 1


@pytest.mark.parametrize(("dtype", "memory"), [way[1:] for way in WAYS if way[0] == "deciding"])
def test_what_is_decided_is_what_torch_decides(dtype: torch.dtype, memory: Any) -> None:
    """Where numbers are compared, every operation rounds as torch's does: outputs and states are equal, bit for bit.

    So are gradients up to the order in which they are added up.
    """
    every = cases()["deciding", dtype]
    own = every[0].halves
    assert_compiled(own.cell, own.inputs, LENGTHS, own.state, dtype, memory=memory)
    for number, case in enumerate(every):
        found = case.halves.results(memory)
        for name, value in plain("deciding", dtype, number).items():
            if name.startswith("gradient"):
                off = (found[name].double() - value.double()).norm() / value.double().norm()
                assert off <= 2 * WORST[dtype], name  # torch adds gradients of weights up in halves
            else:
                assert torch.equal(found[name], value), name


# -- mixed dtypes and special values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_autocast_is_compiled(name: str, dtype: torch.dtype) -> None:
    """Weights of float32 are cast in the step."""
    torch.manual_seed(3)
    cell = CELLS[name]()
    inputs = torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    state = wanting_gradients(map_structure(torch.randn_like, cell.zero_state(ROWS, torch.float32)))
    exact = copy.deepcopy(cell).double()
    wide = [as_dtype(each, torch.float64) for each in (inputs, state)]

    def under_autocast(run: Any) -> Any:
        def loop(*arguments: Any) -> Any:
            with torch.autocast("cpu", dtype=dtype):
                return run(*arguments)

        return loop

    with torch.autocast("cpu", dtype=dtype):
        assert_compiled(cell, inputs, LENGTHS, state, torch.float32)
    expected = results(plain_loop, exact, torch.float64, LENGTHS, *wide)
    torchs = results(under_autocast(plain_loop), cell, torch.float32, LENGTHS, inputs, state)
    found = results(under_autocast(engine_loop), cell, torch.float32, LENGTHS, inputs, state)
    assert {k: v.dtype for k, v in found.items()} == {k: v.dtype for k, v in torchs.items()}
    own, others = errors(found, expected), errors(torchs, expected)
    assert max(own.values()) <= 2 * WORST[dtype], own  # inputs and weights are rounded too
    assert mean_ratio([(own, others)]) <= 1.1  # roundings of the weights, which both have, are most of it


class Quantised(unspool.RNNCell):
    """A float32 cell that rounds its state through a half on purpose, with a gradient straight through."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.state_size = self.output_size = DEPTH
        self.dtype = dtype

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = 0.9 * h + x
        h = h + (h.to(self.dtype).float() - h).detach()
        return h, h


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_cast_to_a_half_and_back_is_no_identity(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cell, inputs = Quantised(dtype), torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    state = torch.randn(ROWS, DEPTH, requires_grad=True)
    assert_compiled(cell, inputs, LENGTHS, state, torch.float32)
    found = results(engine_loop, cell, torch.float32, LENGTHS, inputs, state)
    assert torch.equal(found["final state 0"][0], found["final state 0"][0].to(dtype).float())
    expected = results(plain_loop, cell, torch.float32, LENGTHS, inputs, state)
    for name, value in expected.items():  # a sum that is a multiply-add may be rounded to the next half
        torch.testing.assert_close(found[name], value, rtol=2 * UNIT[dtype], atol=1e-5)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_overflow_infinities_and_nan(dtype: torch.dtype) -> None:
    """What is stored overflows where torch's does."""

    class Growing(unspool.RNNCell):
        state_size = output_size = 6

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = x + h * 300
            return h, h

    start = torch.tensor([[1.0, -2.0, math.nan, math.inf, 0.0, 1e-4]], dtype=dtype)
    inputs = torch.tensor([0.0, 0.0, 1.0, -math.inf, 6e4, 1e-7]).to(dtype).expand(1, 20, 6)
    assert_compiled(Growing(), inputs, None, start, dtype)
    outputs, _ = dynamic_rnn(Growing(), inputs, None, start, dtype)
    expected, _ = plain_loop(Growing(), inputs, None, start, dtype)
    assert not expected[:, -1, :4].isfinite().any()
    torch.testing.assert_close(outputs, expected, rtol=8 * UNIT[dtype], atol=0, equal_nan=True)


def test_no_half_is_interpreted_with_a_warning() -> None:
    """Strict: a slow path would be an error."""
    for dtype in HALVES:
        cell, inputs = GRUCell(4, input_size=3).to(dtype), torch.randn(2, 5, 3).to(dtype).requires_grad_()
        with unspool.strict():
            outputs, state = dynamic_rnn(cell, inputs, dtype=dtype)
        (outputs.sum() + flatten(state)[0].sum()).backward()
        assert inputs.grad is not None
        assert explain(cell, inputs, dtype=dtype).emitter == "c++"


def test_copies_of_copies_have_names_of_their_own() -> None:
    """A half that is narrowed and then copied asks for the name that it was given itself."""
    row = Row([], [])
    names = [row.new(name, torch.float32, (3,)).buffer.name for name in ("x", "x", "x_2_", "x", "float", "float_")]
    assert len({*names}) == len(names)
    assert "float" not in names
