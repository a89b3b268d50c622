"""What `import unspool` loads: the engine's machinery, torch's tracers and compilers behind it, waits for a plan."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import run_python
from unspool.engine import entry

HEAVY = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch.export", "torch.onnx")
"""Packages of torch that are for tracing and compiling. `import torch` loads some of their modules; we load no more."""
OTHERS = ("optree", "torch.utils", "hmac", "html", "secrets", "unicodedata")
"""What else may come along: optree, and what it and the standard library need."""
MACHINERY = ("run", "stepper", "trace", "rows", "ir", "partition", "plans", "guards", "emit", "execute.call")
"""What of the engine waits for the first plan."""

LOADED = """
import json, sys
import torch
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def within(module: str, packages: Any) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


@pytest.fixture(scope="module", params=["unspool", "unspool.tf1"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The modules that an import adds to those of `import torch`."""
    code = LOADED.format(module=request.param)
    return json.loads(run_python(code, tmp_path_factory.mktemp("loaded"), imports="import torch").stdout)


class TestImport:
    def test_no_tracer_and_no_compiler_is_loaded(self, loaded: list[str]) -> None:
        heavy = [*HEAVY, "sympy", "networkx", "rich", "numpy.random", "multiprocessing"]
        assert [each for each in loaded if within(each, heavy)] == []

    def test_little_else_is_loaded(self, loaded: list[str]) -> None:
        foreign = [each for each in loaded if not within(each, ["unspool"])]
        assert [each for each in foreign if not within(each, OTHERS)] == []
        assert len(foreign) < 30

    def test_the_engine_is_not_loaded(self, loaded: list[str]) -> None:
        engine = [each for each in loaded if within(each, ["unspool.engine"])]
        assert [each for each in engine if within(each, [f"unspool.engine.{room}" for room in MACHINERY])] == []
        assert len(engine) < 20  # policies, reasons, warnings: what programs name


FIRST_PLAN = """
import sys
import torch
import unspool

cell, inputs = unspool.GRUCell(4, input_size=3), torch.randn(2, 5, 3)
random = torch.get_rng_state()

def engine():
    outputs, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    return outputs

def check():
    expected, _ = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32)
    torch.testing.assert_close(engine(), torch.stack(expected, 1))
    explanation = unspool.explain(cell, inputs, dtype=torch.float32)
    assert explanation.planned, explanation.reason
    assert "runs by plan" in str(explanation)
"""


class TestFirstPlan:
    @pytest.fixture(autouse=True)
    def in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def run(self, code: str) -> None:
        run_python(FIRST_PLAN + code, self.folder, imports="import torch", UNSPOOL_EMIT="interpreted")

    def test_it_loads_the_engine(self) -> None:
        self.run('assert "sympy" not in sys.modules\ncheck()\nassert "sympy" in sys.modules')

    @pytest.mark.parametrize("context", ["torch.inference_mode()", "torch.device('meta')", "FakeTensorMode()"])
    def test_where_torch_makes_other_tensors_than_usual(self, context: str) -> None:
        """What is loaded there is the same as anywhere."""
        code = f"""
from torch._subclasses.fake_tensor import FakeTensorMode
with {context}:
    unspool.engine.entry.run
assert torch.equal(torch.get_rng_state(), random)
check()
"""
        self.run(code)

    def test_an_interrupt_waits_until_all_is_loaded(self) -> None:
        """Torch does not recover from an import that stopped halfway."""
        code = """
import os, signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a program in the background does not have

class PressCtrlC:
    pressed = []

    def find_spec(self, name, path=None, target=None):
        if name in ("sympy.printing", "torch._dynamo.utils", "torch.export._trace"):
            self.pressed.append(name)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, PressCtrlC())
try:
    engine()
except KeyboardInterrupt:
    assert PressCtrlC.pressed
else:
    raise AssertionError("the interrupt did not reach the caller")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
check()
"""
        self.run(code)

    def test_in_a_thread(self) -> None:
        code = """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as threads:
    first, *others = threads.map(lambda _: engine(), range(4))
assert all(torch.equal(first, each) for each in others)
check()
"""
        self.run(code)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
    def test_in_a_forked_process(self) -> None:
        """The threads of its parent are gone, whether or not the parent had planned anything."""
        code = """
import os

torch.set_num_threads(2)
child = os.fork()
if not child:
    try:
        unspool.engine.entry.run
        from unspool.engine.emit.cpp.libraries.runtime import threads
        os._exit(threads() != 1)
    finally:
        os._exit(2)
assert os.waitpid(child, 0)[1] == 0
"""
        self.run(code)


def test_other_names_are_none_of_the_engines() -> None:
    with pytest.raises(AttributeError, match=r"module 'unspool\.engine\.entry' has no attribute 'walk'"):
        _: Any = getattr(entry, "walk")  # noqa: B009
