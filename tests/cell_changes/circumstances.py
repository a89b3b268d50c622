"""What torch is told around the call: modes, dtypes, flags."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.cell_changes.table import Leaky, Stage, Stages, change, made, unseen

ROUGH = 2e-2
"""A few of bfloat16's units in the last place: rows are multiplied one step at a time here, all at once there."""


@change
def default_dtype(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * torch.tensor(1 / 3).to(t.dtype)))
    torch.set_default_dtype(torch.float64)
    try:
        yield cell
    finally:
        torch.set_default_dtype(torch.float32)
    yield cell


@change
def autocast(patch: pytest.MonkeyPatch) -> Stages:
    cell = Leaky().float()
    yield Stage(cell, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        yield Stage(cell, dtype=torch.float32, tolerance=ROUGH)
    yield Stage(cell, dtype=torch.float32)


@change
def dtype_of_autocast(patch: pytest.MonkeyPatch) -> Stages:
    cell = Leaky().float()
    with torch.autocast("cpu", torch.bfloat16):
        yield Stage(cell, dtype=torch.float32, tolerance=ROUGH)
    with torch.autocast("cpu", torch.float16):
        yield Stage(cell, dtype=torch.float32, tolerance=ROUGH)


@change
def autocast_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    cell = made(lambda self, t: t.float() * (0.5 if torch.is_autocast_enabled("cpu") else 0.7)).float()
    yield Stage(cell, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        yield Stage(cell, dtype=torch.float32, tolerance=ROUGH)


@change
def grad_mode(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    with torch.no_grad():
        yield cell
    yield cell


@change
def grad_mode_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """Also where nothing wants gradients, so that there are none in either mode."""
    cell = made(lambda self, t: t * (0.5 if torch.is_grad_enabled() else 0.7)).requires_grad_(False)
    yield Stage(cell, wanted=False)
    with torch.no_grad():
        yield Stage(cell, wanted=False)
    yield Stage(cell, wanted=False)


@change
def inference_mode(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    with torch.inference_mode():
        yield cell
    yield cell


@unseen
def inference_mode_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """A trace is never in it, so that a step which asks is refused."""
    cell = made(lambda self, t: t * (0.5 if torch.is_inference_mode_enabled() else 0.7))
    with torch.no_grad():
        yield Stage(cell, wanted=False)
    with torch.inference_mode():
        yield Stage(cell, wanted=False)


@change
def deterministic_algorithms(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * (0.5 if torch.are_deterministic_algorithms_enabled() else 0.7)))
    torch.use_deterministic_algorithms(True)
    try:
        yield cell
    finally:
        torch.use_deterministic_algorithms(False)


@unseen
def precision_of_products(patch: pytest.MonkeyPatch) -> Stages:
    """A switch of torch's is read by a call, which no guard sees."""
    yield (cell := made(lambda self, t: t * (0.5 if torch.get_float32_matmul_precision() == "highest" else 0.7)))
    torch.set_float32_matmul_precision("high")
    try:
        yield cell
    finally:
        torch.set_float32_matmul_precision("highest")


@unseen
def flags_of_backends(patch: pytest.MonkeyPatch) -> Stages:
    """A switch of torch's is read by a call, which no guard sees."""
    yield (cell := made(lambda self, t: t * (0.5 if torch.backends.cudnn.benchmark else 0.7)))
    patch.setattr(torch.backends.cudnn, "benchmark", True)
    yield cell


@unseen
def number_of_threads(patch: pytest.MonkeyPatch) -> Stages:
    """A number of torch's that hardly any step reads."""
    threads = torch.get_num_threads()
    yield (cell := made(lambda self, t: t * torch.get_num_threads()))
    torch.set_num_threads(threads + 1)
    try:
        yield cell
    finally:
        torch.set_num_threads(threads)


@unseen
def seed_read_by_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """A number of torch's generator."""
    seeds = [5]
    cell = made(lambda self, t: t * torch.initial_seed())
    yield Stage(cell, reset=lambda: torch.manual_seed(seeds[0]))
    seeds[0] = 7
    yield Stage(cell, reset=lambda: torch.manual_seed(seeds[0]))


@unseen
def mode_of_functions(patch: pytest.MonkeyPatch) -> Stages:
    """A mode may see each operation of each step, and answer as it likes."""

    class Other(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (torch.sigmoid if function is torch.tanh else function)(*args, **(kwargs or {}))

    yield (cell := made(lambda self, t: torch.tanh(t)))
    with Other():
        yield cell
    yield cell


@unseen
def mode_of_operations(patch: pytest.MonkeyPatch) -> Stages:
    """As above, below autograd."""

    class Other(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            other = torch.ops.aten.sigmoid.default if function is torch.ops.aten.tanh.default else function
            return other(*args, **(kwargs or {}))

    yield (cell := made(lambda self, t: torch.tanh(t)))
    with Other():
        yield cell
    yield cell


@change
def default_device_context(patch: pytest.MonkeyPatch) -> Stages:
    """The same device, said aloud."""
    yield (cell := made(lambda self, t: t * torch.ones(3, dtype=torch.float64)))
    with torch.device("cpu"):
        yield Stage(cell, alike=True)


@change
def nothing_at_all(patch: pytest.MonkeyPatch) -> Stages:
    """The same cell again and again is planned once."""
    yield (cell := Leaky(levels=[0.5], options={"a": {1, 2}}, squash=lambda t: t))
    for _ in range(3):
        yield Stage(cell, alike=True)


def _squares(t: Tensor) -> Tensor:
    return t * t


@change
def second_cell_of_the_same_code(patch: pytest.MonkeyPatch) -> Stages:
    """Not the cell is changed: another is run in its place, and then the first again."""
    first = made(lambda self, t: _squares(t) * self.scale, scale=0.5)
    second = type(first)(scale=0.7)
    second.load_state_dict(first.state_dict())
    yield first
    yield second
    yield first
