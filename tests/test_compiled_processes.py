"""Compiled loops in several processes: what one has compiled others use, and a forked one can go on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compiling import Counting, real_compiler, run_python

SHARED = """
import json, os, sys, time
import torch
import unspool
from torch import nn
from unspool.engine.execute import plain

class Mine(unspool.RNNCell):
    def __init__(self, units, depth=8):
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(depth + units, units)

    def forward(self, inputs, state):
        mixed = self.mix(torch.cat([inputs, state], 1))
        state = torch.tanh(mixed) * 0.5
        return state, state

def made(units, depth=8, batch=8, steps=20):
    torch.manual_seed(0)
    return Mine(units, depth), torch.randn(batch, steps, depth, requires_grad=True)

def grads(cell, inputs, outputs, final):
    sources = [inputs, *cell.parameters()]
    found = torch.autograd.grad((outputs * outputs).sum() + final.sum(), sources)
    return [each.detach() for each in (outputs, final, *found)]

def by_engine(cell, inputs):
    return grads(cell, inputs, *unspool.dynamic_rnn(cell, inputs, dtype=torch.float32))

def by_plain_loop(cell, inputs):
    state = cell.zero_state(len(inputs), torch.float32)
    outputs, final = plain.run(cell, inputs.transpose(0, 1), None, state, torch.float32)
    return grads(cell, inputs, outputs.transpose(0, 1), final)

def check(cell, inputs, expected):
    torch.testing.assert_close(by_engine(cell, inputs), expected, rtol=1e-4, atol=1e-4)

def check_compiled(cell, inputs):
    explanation = unspool.explain(cell, inputs, dtype=torch.float32)
    assert explanation.emitter == explanation.backward.emitter == "c++", explanation
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all processes here; each test has cells of its own."""
    real_compiler()
    return tmp_path_factory.mktemp("processes") / "cache"


class TestFork:
    """A child has the memory of its parent, but not its threads; both go on."""

    def run(self, code: str, cache: Path, tmp_path: Path) -> None:
        used = """
torch.set_num_threads(2)
cell, inputs = made(64)
expected = by_plain_loop(cell, inputs)
check(cell, inputs, expected)  # large enough for two threads
check_compiled(cell, inputs)
# Torch's own products may hang in a child, so the plain loop runs here.
right = {units: by_plain_loop(*made(units)) for units in (64, 65, 66, 67)}
"""
        done = run_python(SHARED + used + code, tmp_path, timeout=120, UNSPOOL_CACHE=str(cache))
        assert "went on" in done.stdout
        assert list((tmp_path / "tmp").glob("unspool-*")) == []

    def test_by_hand(self, cache: Path, tmp_path: Path) -> None:
        code = """
def in_a_child(work):
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    check(cell, inputs, expected)

def use():
    check(cell, inputs, expected)
    check_compiled(cell, inputs)
    with torch.no_grad():
        unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    check(*made(65), right[65])  # planned and compiled here

in_a_child(use)
in_a_child(use)
in_a_child(lambda: in_a_child(use))
print("went on")
"""
        self.run(code, cache, tmp_path)

    def test_by_a_data_loader(self, cache: Path, tmp_path: Path) -> None:
        code = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        check(cell, inputs, expected)
        with torch.no_grad():
            return unspool.dynamic_rnn(cell, inputs.detach() + index, dtype=torch.float32)[0]

loader = torch.utils.data.DataLoader(
    Data(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60,
    worker_init_fn=lambda worker: torch.set_num_threads(2),
)
for index, outputs in enumerate(loader):
    check(cell, inputs, expected)
    torch.testing.assert_close(outputs, by_plain_loop(cell, inputs + index)[0], rtol=1e-4, atol=1e-4)
print("went on")
"""
        self.run(code, cache, tmp_path)

    def test_by_a_pool(self, cache: Path, tmp_path: Path) -> None:
        code = """
import multiprocessing

def work(units):
    check(cell, inputs, expected)
    check(*made(units), right[units])
    return [each.numpy() for each in by_engine(*made(units))]

with multiprocessing.get_context("fork").Pool(2) as pool:
    pending = pool.map_async(work, [64, 66, 66, 67], chunksize=1)
    check(cell, inputs, expected)
    found = pending.get(90)
for units, results in zip([64, 66, 66, 67], found):
    check(*made(units), [torch.from_numpy(each) for each in results])
print("went on")
"""
        self.run(code, cache, tmp_path)


@dataclass(frozen=True)
class Run:
    """The seconds of its first calls, what runs it, and how often compilers were called by then."""

    first: float
    second: float
    source: str
    calls: int


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The same program twice, in one cache."""
    folder = tmp_path_factory.mktemp("runs")
    compiler = Counting(folder)
    code = """
def timed(cell, inputs):
    begin = time.perf_counter()
    outputs, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    outputs.sum().backward()
    return time.perf_counter() - begin

first, second = timed(*made(12)), timed(*made(13))
check(*made(12), by_plain_loop(*made(12)))
check_compiled(*made(12))
explanation = unspool.explain(*made(12), dtype=torch.float32)
print(json.dumps([first, second, explanation.source]))
"""
    found: list[Run] = []
    for _ in range(2):
        environment = dict(UNSPOOL_CACHE=str(folder / "cache"), CXX=compiler.command)
        done = run_python(SHARED + code, folder, **environment)
        assert list((folder / "tmp").glob("unspool-*")) == []
        found.append(Run(*json.loads(done.stdout), compiler.calls))
    return found


class TestCache:
    def test_a_second_process_compiles_nothing(self, runs: list[Run]) -> None:
        cold, warm = runs
        assert cold.calls > 0
        assert warm.calls == cold.calls

    def test_the_first_call_does_not_take_long(self, runs: list[Run]) -> None:
        """Planning and compiling included; what it takes is a fraction of this on an idle machine."""
        cold, warm = runs
        assert cold.first < 20
        assert cold.second < 5
        assert warm.first < 5

    def test_the_source_is_there_to_read(self, runs: list[Run]) -> None:
        """It is the C++ of both directions, with the lines of the cell where they are computed."""
        source = runs[0].source
        assert source.count('extern "C"') == 2
        assert "for (int64_t k = 0; k < chunk.steps; k++) {" in source
        assert "tanh(" in source
        comments = [line.strip() for line in source.splitlines() if "//" in line]
        assert any(line.endswith("mixed = self.mix(torch.cat([inputs, state], 1))") for line in comments)
        assert any(line.endswith("state = torch.tanh(mixed) * 0.5") for line in comments)

    def test_eight_processes_at_once(self, tmp_path: Path) -> None:
        """All of them compile; one file of each library is left."""
        code = """
import multiprocessing

def work(barrier, failures):
    barrier.wait(60)
    try:
        check(cell, inputs, expected)
        check_compiled(cell, inputs)
    except BaseException as error:
        failures.put(repr(error))
        raise

cell, inputs = made(16)
expected = by_plain_loop(cell, inputs)
fork = multiprocessing.get_context("fork")
barrier, failures = fork.Barrier(8), fork.SimpleQueue()
processes = [fork.Process(target=work, args=(barrier, failures)) for _ in range(8)]
for each in processes:
    each.start()
for each in processes:
    each.join()
assert failures.empty(), failures.get()
assert [each.exitcode for each in processes] == [0] * 8
libraries = sorted(os.listdir(os.environ["UNSPOOL_CACHE"]))
check(cell, inputs, expected)  # from the cache
check_compiled(cell, inputs)
assert sorted(os.listdir(os.environ["UNSPOOL_CACHE"])) == libraries
print(len(libraries))
"""
        compiler = Counting(tmp_path, flags="-O0")  # there are many to compile, and nobody is in a hurry to run them
        cache = tmp_path / "cache"
        done = run_python(SHARED + code, tmp_path, timeout=300, UNSPOOL_CACHE=str(cache), CXX=compiler.command)
        files = [each.name for each in cache.iterdir()]
        assert len(files) == int(done.stdout) == len({each.split(".")[0] for each in files})
        assert all(each.endswith(".so") for each in files)
        assert len(files) < compiler.calls <= 8 * len(files)
        assert list((tmp_path / "tmp").glob("unspool-*")) == []
