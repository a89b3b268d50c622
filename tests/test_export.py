"""What is exported is a scan of one step: right for other numbers of rows and steps, and it does not need unspool."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import unspool
from tests.compiled_graphs import CELLS, Centred
from tests.profiles import SOAK
from unspool import GRUCell, LSTMCell, dynamic_rnn
from unspool.structure import flatten

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]

DEPTH, UNITS = 8, 8
SHAPES = [(2, 3), (7, 11), (5, 1)]
CLOSE = dict(rtol=0, atol=5e-6)  # float32, eleven steps deep; norms divide by deviations below one


class Loop(nn.Module):
    """Its outputs and final state, flat; with an output layer, so that there is more than the loop."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell, self.scale = cell, nn.Parameter(torch.tensor(0.5))

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        return flatten(dynamic_rnn(self.cell, inputs * self.scale, lengths, dtype=torch.float32))


def some(rows: int, steps: int, with_lengths: bool) -> tuple[Any, ...]:
    inputs = torch.randn(rows, steps, DEPTH)
    return (inputs, torch.randint(0, steps + 1, (rows,))) if with_lengths else (inputs,)


def shapes(with_lengths: bool) -> tuple[Any, ...]:
    rows, steps = Dim("rows"), Dim("steps")
    return ({0: rows, 1: steps}, {0: rows}) if with_lengths else ({0: rows, 1: steps},)


def exported(model: nn.Module, with_lengths: bool) -> Any:
    return torch.export.export(model.eval(), some(4, 6, with_lengths), dynamic_shapes=shapes(with_lengths))


def check_other_shapes(run: Callable[..., Any], model: nn.Module, with_lengths: bool, **close: Any) -> None:
    for rows, steps in SHAPES:
        given = some(rows, steps, with_lengths)
        with torch.no_grad():
            torch.testing.assert_close(list(run(*given)), model(*given), **{**CLOSE, **close})


@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("name", CELLS)
def test_rows_and_steps_are_dynamic(name: str, with_lengths: bool) -> None:
    torch.manual_seed(0)
    model = Loop(CELLS[name]())
    program = exported(model, with_lengths)
    assert [node.target for node in program.graph.nodes].count(torch.ops.higher_order.scan) == 1
    check_other_shapes(program.module(), model, with_lengths)


def test_both_directions_are_two_scans() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fw, self.bw = GRUCell(UNITS, input_size=DEPTH), LSTMCell(UNITS, input_size=DEPTH)

        def forward(self, inputs: Tensor, lengths: Tensor) -> list[Tensor]:
            return flatten(unspool.bidirectional_dynamic_rnn(self.fw, self.bw, inputs, lengths, dtype=torch.float32))

    torch.manual_seed(0)
    model = Both()
    program = exported(model, True)
    assert [node.target for node in program.graph.nodes].count(torch.ops.higher_order.scan) == 2
    check_other_shapes(program.module(), model, True)


def test_what_stands_in_the_padding_never_matters() -> None:
    torch.manual_seed(0)
    model = Loop(CELLS["lstm"]())
    run, (inputs, _) = exported(model, True).module(), some(3, 5, True)
    lengths = torch.tensor([2, 0, 4])
    inputs[torch.arange(5) >= lengths[:, None]] = float("nan")
    with torch.no_grad():
        torch.testing.assert_close(list(run(inputs, lengths)), model(inputs, lengths), **CLOSE)


@pytest.mark.filterwarnings("ignore:The tensor attribute self.cell.scaled was assigned during export:UserWarning")
def test_a_cell_that_computes_something_when_a_sequence_starts() -> None:
    class Scaled(GRUCell):
        def __init__(self) -> None:
            super().__init__(UNITS, input_size=DEPTH)
            self.scale, self.offset = nn.Parameter(torch.rand(UNITS)), torch.rand(UNITS)

        def start_sequence(self) -> None:
            self.scaled = self.scale * 2

        def forward(self, inputs: Any, state: Any) -> Any:
            return super().forward(inputs * self.scaled + self.offset, state)

    torch.manual_seed(0)
    model = Loop(Scaled())
    check_other_shapes(exported(model, True).module(), model, True)


class TwoNames(nn.Module):
    """A model that has a cell under a name of its own, besides that in its loops."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(DEPTH, UNITS)
        self.loop, self.again = unspool.RNN(self.cell), unspool.RNN(self.cell, bidirectional=True)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.loop(x, h)[0], self.again(x)[0]


def test_a_cell_with_two_names() -> None:
    model, given = TwoNames(), (torch.randn(3, 6, DEPTH), torch.randn(3, UNITS))
    shapes = {"x": {0: Dim("rows"), 1: Dim("steps")}, "h": {0: Dim("rows")}}
    program = torch.export.export(model, given, dynamic_shapes=shapes).module()
    x, h = torch.randn(2, 4, DEPTH), torch.randn(2, UNITS)
    for found, expected in zip(program(x, h), model(x, h), strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


def test_rows_that_meet_meet_as_they_do_without() -> None:
    """A row that has ended lends the inputs and the state of the longest one to a mean over the batch."""

    class Other(Centred):
        """Which nobody has warned of yet."""

    torch.manual_seed(0)
    model = Loop(Other(UNITS))
    with pytest.warns(unspool.PerformanceWarning, match="across rows"):
        model(*some(2, 3, True))
    check_other_shapes(exported(model, True).module(), model, True)


WITHOUT_UNSPOOL = """
import sys
import torch

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "unspool":
            raise ImportError("unspool is blocked")

sys.meta_path.insert(0, Blocked())
try:
    import unspool
except ImportError:
    pass
else:
    raise SystemExit("unspool can be imported")
run = torch.export.load(sys.argv[1]).module()
for given, expected in torch.load(sys.argv[2]):
    torch.testing.assert_close(list(run(*given)), expected, rtol=0, atol=5e-6)
print("the same")
"""


def test_a_saved_program_runs_where_unspool_cannot_be_imported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Loop(CELLS["layer-norm"]())
    torch.export.save(exported(model, True), tmp_path / "model.pt2")
    cases = [some(rows, steps, True) for rows, steps in SHAPES]
    with torch.no_grad():
        torch.save([(given, model(*given)) for given in cases], tmp_path / "cases.pt")
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_UNSPOOL, tmp_path / "model.pt2", tmp_path / "cases.pt"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.stdout == "the same\n", found.stderr


ONNX = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(ONNX), reason=f"needs {', '.join(ONNX)}: pip install 'unspool[onnx]'")


@needs_onnx
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own
@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("name", ["lstm", "gru", "layer-norm", "dict"])
def test_onnx(name: str, with_lengths: bool, tmp_path: Path) -> None:
    import onnxruntime  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    model = Loop(CELLS[name]())
    program: Any = torch.onnx.export(exported(model, with_lengths), dynamo=True, verbose=False)
    program.save(tmp_path / "model.onnx")
    session: Any = onnxruntime.InferenceSession(tmp_path / "model.onnx")

    def run(*given: Tensor) -> list[Tensor]:
        names = [each.name for each in session.get_inputs()]
        return [
            torch.from_numpy(each)
            for each in session.run(None, dict(zip(names, map(Tensor.numpy, given), strict=True)))
        ]

    check_other_shapes(run, model, with_lengths, atol=1e-5)  # its own exp and tanh


@pytest.mark.drawn
@pytest.mark.skipif(not SOAK, reason="inductor compiles for most of a minute: make soak does it")
def test_a_package_of_aot_inductor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Loop(CELLS["lstm"]())
    inductor: Any = torch._inductor
    path = inductor.aoti_compile_and_package(exported(model, True), package_path=str(tmp_path / "model.pt2"))
    check_other_shapes(inductor.aoti_load_package(path), model, True)
