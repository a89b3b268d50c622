"""Where a product is largest, in compiled loops: the same column as that of the exact product, whatever the numbers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.compiling import ROOT, real_compiler
from unspool import RNNCell, dynamic_rnn, explain

pytestmark = pytest.mark.compiled

WIDE = 600
"""Columns of which most need not be computed exactly; `NARROW` are too few for that."""
NARROW = 40


class Searching(RNNCell):
    """Looks for the largest entry of a product of its input, which it may not do before the loop."""

    def __init__(self, matrix: Tensor, bias: Tensor | None = None, own: bool = False) -> None:
        super().__init__()
        self.matrix = nn.Buffer(matrix)
        self.bias = None if bias is None else nn.Buffer(bias)
        self.own = own
        depth, width = matrix.shape
        self.state_size, self.output_size = (torch.Size([]), width if own else depth), torch.Size([])

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        _, same = state
        entries = x @ self.matrix + same if self.own else (x + same) @ self.matrix
        entries = entries if self.bias is None else entries + self.bias
        found = entries.argmax(-1)
        return found.float(), (found, same)


def found(cell: Searching, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """The column for each row, by a search in a compiled loop."""
    same = torch.zeros_like(rows) if added is None else added
    state = (torch.zeros(len(rows), dtype=torch.int64), same)
    with torch.no_grad():
        told = explain(cell, rows[:, None], initial_state=state, dtype=torch.float32)
        assert told.source is not None
        assert "worker.largest(" in told.source
        _, (columns, _) = dynamic_rnn(cell, rows[:, None], initial_state=state, dtype=torch.float32)
    return columns


def whole_numbers(*shape: int, most: int) -> Tensor:
    """Numbers whose products and sums are exact in float32, in any order, but which bfloat16 rounds."""
    return torch.randint(-most, most + 1, shape).float()


SHAPES = [(1, 2), (3, 5), (64, NARROW), (5, 255), (7, 256), (64, 257), (33, WIDE), (130, 1000)]


@pytest.mark.parametrize(("depth", "width"), SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 9, 21])
def test_the_column_is_that_of_the_exact_product(depth: int, width: int, rows: int) -> None:
    torch.manual_seed(rows)
    x, matrix, bias = (whole_numbers(*shape, most=280) for shape in ((rows, depth), (depth, width), (width,)))
    assert torch.equal(found(Searching(matrix, bias), x), (x @ matrix + bias).argmax(-1))
    assert torch.equal(found(Searching(matrix), x), (x @ matrix).argmax(-1))


def test_a_matrix_that_lies_the_other_way_and_a_part_of_one() -> None:
    class Part(Searching):
        def forward(self, x: Tensor, state: Any) -> Any:
            found = ((x + state[1]) @ self.matrix[:, 100:-100]).argmax(-1)
            return found.float(), (found, state[1])

    torch.manual_seed(0)
    x, whole = whole_numbers(5, 32, most=280), whole_numbers(2 * WIDE, 32, most=280)
    assert torch.equal(found(Searching(whole.t()), x), (x @ whole.t()).argmax(-1))
    for matrix in (whole.t(), whole.t().contiguous()):
        assert torch.equal(found(Part(matrix), x), (x @ whole.t()[:, 100:-100]).argmax(-1))


@pytest.mark.parametrize("count", [8, 64, 100, 1000])
def test_numbers_that_are_all_rounded_as_much_as_can_be(count: int) -> None:
    """1 + 2^-8 is halfway, and goes down to 1; 1 + 3 * 2^-8 is, too, and goes up: each by a half of the last bit."""
    down, up = 1 + 2.0**-8, 1 + 3 * 2.0**-8
    fewer = count - 1  # whose products would be larger by their rounding alone
    x, matrix = torch.zeros(1, count + fewer), torch.zeros(count + fewer, WIDE)
    x[0, :count], matrix[:count, 5] = down, down
    x[0, count:], matrix[count:, 9] = up, up
    exact = x.double() @ matrix.double()
    assert found(Searching(matrix), x).tolist() == exact.argmax(-1).tolist()


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_workers_that_search_a_share_each(rows: int, threads: int) -> None:
    """Step after step, and two searches a step."""

    class Twice(Searching):
        def forward(self, x: Tensor, state: Any) -> Any:
            _, same = state
            first, second = ((x + same) @ self.matrix).argmax(-1), ((x - same) @ -self.matrix).argmax(-1)
            return (first - second).float(), (first + 10000 * second, same)

    torch.manual_seed(0)
    x, matrix = whole_numbers(rows, 6, 64, most=280), whole_numbers(64, 3000, most=280)
    state = (torch.zeros(rows, dtype=torch.int64), torch.zeros(rows, 64))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            told = explain(Twice(matrix), x, initial_state=state, dtype=torch.float32)
            outputs, (columns, _) = dynamic_rnn(Twice(matrix), x, initial_state=state, dtype=torch.float32)
    finally:
        torch.set_num_threads(before)
    assert told.source is not None
    assert told.source.count("worker.largest(") == 2
    first, second = (x @ matrix).argmax(-1), (x @ -matrix).argmax(-1)
    assert torch.equal(outputs, (first - second).float())
    assert torch.equal(columns, (first + 10000 * second)[:, -1])


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_what_is_added_may_differ_from_row_to_row(width: int) -> None:
    torch.manual_seed(0)
    x, matrix = whole_numbers(9, 16, most=280), whole_numbers(16, width, most=280)
    added = whole_numbers(9, width, most=100000)
    assert torch.equal(found(Searching(matrix, own=True), x, added), (x @ matrix + added).argmax(-1))


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_of_equals_the_first_counts(width: int) -> None:
    x = torch.ones(3, 8)
    matrix = torch.ones(8, width)
    assert found(Searching(matrix), x).tolist() == [0, 0, 0]
    matrix[:, [width // 2, width - 1]] = 2
    assert found(Searching(matrix), x).tolist() == [width // 2] * 3
    assert found(Searching(matrix), 0 * x).tolist() == [0, 0, 0]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_differences_that_rounded_numbers_do_not_show(width: int) -> None:
    """All columns are the same to bfloat16, and each is larger than the one before by one in two million."""
    x = torch.ones(4, 1) * torch.tensor([1.0, -1.0]).repeat(2)[:, None]
    matrix = (1 + torch.arange(width) * 2.0**-21)[None]
    assert found(Searching(matrix), x).tolist() == [width - 1, 0] * 2


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-20, 1.0, 1e18])
def test_numbers_of_any_size(scale: float, width: int) -> None:
    """float32 has them all; bfloat16's instructions know none below 1e-38."""
    torch.manual_seed(0)
    x, matrix = whole_numbers(6, 16, most=280), whole_numbers(16, width, most=280)
    expected = (x @ matrix).argmax(-1)
    assert torch.equal(found(Searching(matrix * scale), x), (x @ (matrix * scale)).argmax(-1))
    if scale > 1e-44:
        assert torch.equal(found(Searching(matrix), x * scale), (x * scale @ matrix).argmax(-1))
    if 1e-30 < scale < 1e10:
        assert torch.equal(found(Searching(matrix * scale), x), expected)


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 3.4e38, -3.4e38])
@pytest.mark.parametrize("where", ["row", "matrix", "bias"])
def test_numbers_that_are_none_or_nearly(odd: float, where: str, width: int) -> None:
    torch.manual_seed(0)
    x, matrix, bias = torch.randn(4, 8), torch.randn(8, width), torch.randn(width)
    if where == "row":
        x[1, 3] = odd
    elif where == "matrix":
        matrix[3, width // 3] = odd
        x[:, 3] = torch.tensor([1e-3, -1e-3, 0.0, 1e-38])
    else:
        bias[[width // 3, width // 2]] = odd
    assert torch.equal(found(Searching(matrix, bias), x), (x @ matrix + bias).argmax(-1))


def test_a_number_that_is_infinite_only_when_rounded() -> None:
    x, matrix, bias = torch.full((1, 1), 2e-38), torch.zeros(1, WIDE), torch.full((WIDE,), -1000.0)
    matrix[0, 7], bias[7] = -3.4e38, 0
    assert found(Searching(matrix, bias), x).tolist() == [7]


def test_a_bias_beside_which_a_product_is_nothing_but_rounding() -> None:
    x, matrix, bias = torch.ones(1, 1), torch.zeros(1, WIDE), torch.full((WIDE,), 2.0**19)
    matrix[0, 5], matrix[0, 9] = 0.0313, 0.0625  # next to the bias, both are 0.0625; the first to bfloat16, nothing
    assert ((x @ matrix + bias)[0, [5, 9]] - bias[0]).tolist() == [0.0625, 0.0625]
    assert found(Searching(matrix, bias), x).tolist() == [5]


def test_products_too_small_one_by_one() -> None:
    x, matrix = torch.full((1, 16), 1e-19), torch.zeros(16, WIDE)
    matrix[:, 5], matrix[0, 9] = 5e-20, 6e-19
    assert found(Searching(matrix), x).tolist() == [5]


def test_a_whole_vocabulary_that_is_nearly_one_direction() -> None:
    """Then nearly all entries have to be computed exactly."""
    torch.manual_seed(0)
    x = whole_numbers(3, 64, most=30)
    matrix = 3000 + whole_numbers(64, WIDE, most=2)
    assert torch.equal(found(Searching(matrix), x), (x @ matrix).argmax(-1))


def test_a_product_that_is_needed_otherwise_is_computed() -> None:
    class Both(Searching):
        def forward(self, x: Tensor, state: Any) -> Any:
            _, same = state
            entries = (x + same) @ self.matrix
            return entries.sum(-1), (entries[:, None].argmax(-1)[:, 0], same)

    torch.manual_seed(0)
    x, matrix = whole_numbers(5, 16, most=280), whole_numbers(16, WIDE, most=280)
    state = (torch.zeros(5, dtype=torch.int64), torch.zeros(5, 16))
    with torch.no_grad():
        told = explain(Both(matrix), x[:, None], initial_state=state, dtype=torch.float32)
        sums, (columns, _) = dynamic_rnn(Both(matrix), x[:, None], initial_state=state, dtype=torch.float32)
    assert told.emitter == "c++"
    assert told.source is not None
    assert "worker.largest(" not in told.source
    assert torch.equal(columns, (x @ matrix).argmax(-1))
    torch.testing.assert_close(sums[:, 0], (x @ matrix).sum(-1))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="elsewhere there is only one way to search")
def test_a_processor_without_bfloat16() -> None:
    """The same tests, by what is compiled for one."""
    compiler = f"{real_compiler()} -mno-avx512bf16"
    only = "exact_product and 21 or equals or any_size or none_or_nearly or share"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", __file__, "-k", only]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "CXX": compiler}, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()[-2000:]
