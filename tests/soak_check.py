"""A soak cell by the engine beside the plain loop: outputs, final states and every gradient, under every policy.

What differs by more than rounding is a fault, unless rounding decides: then the plain loop differs from itself as much
when all its results are rounded another way, and the cell is left out.
"""

from __future__ import annotations

import os
import random
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.comparison import Run, loss_of, plain_loop, results, wanting_gradients
from tests.emitting import compiled_together, difference, interpreter, largest
from tests.soak_cells import SoakCell
from unspool import Checkpoint, Keep, Recompute, dynamic_rnn
from unspool.engine import Options, Request
from unspool.engine.emit.cpp.emitter import NEAR
from unspool.engine.reasons import CannotPlanError
from unspool.engine.run import prepare
from unspool.structure import flatten, map_structure

POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]
CHUNKS = [1, 2, 7, None]
LIMIT = 1e-9
"""How far results in float64 may be apart, relative to the largest: sums of numbers around 1 in another order."""
SINGLE = 2e-6
"""The same in float32: what is not even an error."""
WORSE = 8
"""How many times as far from the float64 result a float32 result may be as that of the plain loop."""
ILL = 0.02
"""As much of a difference as other rounding must make of itself for the difference to be rounding."""


@dataclass
class Outcome:
    """What became of a cell."""

    seed: int
    kind: str
    source: str
    operations: list[str]
    reason: str = ""
    """Why it has no plan, if it has none."""
    emitters: set[str] = field(default_factory=set)
    runs: int = 0
    faults: list[str] = field(default_factory=list)
    ill: str = ""
    """Which result is decided by rounding."""


EXACT = """
    clone cat stack copy _to_copy zeros_like ones_like full_like lift_fresh abs neg sign sgn relu floor ceil round trunc
    amax amin max min aminmax maximum minimum fmax clamp clamp_min clamp_max where masked_fill sort topk gather index
    index_select scatter embedding constant_pad_nd flip roll repeat tril triu linalg_vector_norm max_pool2d_with_indices
"""
"""Operations whose results are not rounded."""


class Rounding(TorchDispatchMode):
    """Rounds every result another way, as sums in another order would; not what is exact in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        schema, name = func._schema, func._schema.name.removeprefix("aten::")
        if name in EXACT.split() or schema.is_mutable or any(each.alias_info for each in schema.returns):
            return found
        if not any(isinstance(each, Tensor) for each in flatten(args)):
            return found
        return torch.utils._pytree.tree_map(self._rounded, found)

    def _rounded(self, found: Any) -> Any:
        if not isinstance(found, Tensor) or not found.is_floating_point():
            return found
        noise = torch.randn(found.shape, generator=self._generator, dtype=found.dtype)
        return found * (1 + 2 * torch.finfo(found.dtype).eps * noise)


class Case:
    """A drawn cell with what it runs on.

    Args:
        seed: everything follows from it.
        operations: how many are drawn, at most.
    """

    def __init__(self, seed: int, operations: int = 10) -> None:
        chance = random.Random(seed)
        kind = chance.choices(["double", "single", "mixed", "noisy"], [6, 2, 1.5, 0.8])[0]
        dtype = torch.float32 if kind == "single" else torch.float64
        other = torch.float32 if kind in ("single", "mixed") else torch.float64
        self.drawn = SoakCell(seed, dtype, other, noisy=kind == "noisy", operations=chance.randint(3, operations))
        self.seed, self.kind, self.dtype = seed, kind, dtype
        self.batch, self.steps = chance.randint(1, 5), chance.randint(1, 9)
        lengths = [chance.randint(0, self.steps) for _ in range(self.batch)]
        lengths[0] = self.steps
        lengths[-1] = 0 if self.batch > 1 else self.steps
        chance.shuffle(lengths)
        full = kind == "noisy" or chance.random() < 0.25  # a plan does not draw for rows that have ended
        self.lengths = None if full else lengths
        # What is known of a random number that backward does not need is not kept at checkpoints.
        self.policies = POLICIES[:2] if kind == "noisy" else POLICIES
        self.outcome = Outcome(seed, kind, str(self.drawn), self.drawn.operations)
        self.fault: tuple[Any, int | None, bool] = (None, None, False)
        """How it ran when it went wrong: policy, chunk, and whether it was interpreted."""
        self.cell, self.inputs, self.state = self._made(None)
        self._choose_gradients(chance)

    def _made(self, dtype: torch.dtype | None) -> tuple[Any, Any, Any]:
        cell, data = self.drawn.made(dtype)
        return cell, *map(wanting_gradients, data(self.batch, self.steps))

    def _choose_gradients(self, chance: random.Random) -> None:
        """Some are not wanted, and some results are not used."""
        for leaf in [*flatten((self.inputs, self.state)), *self.cell.parameters()]:
            if leaf.is_floating_point() and chance.random() < 0.12:
                leaf.requires_grad_(False)
        count = len(flatten((self.cell.output_size, self.cell.state_size)))
        used = [chance.random() < 0.85 for _ in range(count)]
        if not any(used):
            used = [True] * count
        self.used = used
        self.wanted = [leaf.requires_grad for leaf in [*flatten((self.inputs, self.state)), *self.cell.parameters()]]

    def _loss(self, outputs: Any, final: Any) -> Tensor:
        return loss_of([leaf for leaf, used in zip(flatten((outputs, final)), self.used, strict=True) if used])

    def results(self, run: Run) -> dict[str, Any]:
        """What a loop gives for the cell; gradients only if it has any."""
        return results(run, self.cell, self.dtype, self.lengths, self.inputs, self.state, self._loss, optional=True)

    # -- what is right -------------------------------------------------------------------------------------------------

    def expect(self) -> None:
        """Computes what the plain loop gives; in float32, what it would give in float64 too."""
        self.expected = self.results(plain_loop)
        if not any(name.startswith("gradient") and each is not None for name, each in self.expected.items()):
            self.used = [True] * len(self.used)  # nothing that is used has a gradient
            self.expected = self.results(plain_loop)
        self.exact: dict[str, Any] | None = None
        if self.kind in ("single", "mixed"):
            self.exact = self._in_double()

    def _in_double(self) -> dict[str, Any]:
        own = self.cell, self.dtype, self.inputs, self.state
        double, inputs, state = self._made(torch.float64)
        for mine, theirs in zip(flatten((inputs, state)), flatten(own[2:]), strict=True):
            mine.data.copy_(theirs.data)
            mine.requires_grad_(theirs.requires_grad)
        for mine, theirs in zip(double.parameters(), own[0].parameters(), strict=True):
            mine.data.copy_(theirs.data)
            mine.requires_grad_(theirs.requires_grad)
        self.cell, self.dtype, self.inputs, self.state = double, torch.float64, inputs, state
        try:
            return self.results(plain_loop)
        finally:
            self.cell, self.dtype, self.inputs, self.state = own

    def differences(self, found: dict[str, Any]) -> dict[str, float]:
        """What is apart from what is right, and how much of what is allowed that is: more than 1 is too much."""
        wrong: dict[str, float] = {}
        sizes = {True: 0.0, False: 0.0}
        for name, value in self.expected.items():
            gradient = name.startswith("gradient")
            sizes[gradient] = max(sizes[gradient], 0.0 if value is None else largest(value))
        for name, value in self.expected.items():
            own, least = found.get(name), sizes[name.startswith("gradient")] / 100
            if own is None or value is None:
                rest = value if own is None else own
                if own is not value or (rest is not None and rest.any()):
                    wrong[name] = torch.inf
                continue
            off, limit = difference(own, value, least), LIMIT
            if self.exact is not None and value.is_floating_point():
                exact = self.exact.get(name)
                exact = torch.zeros_like(value) if exact is None else exact
                limit = SINGLE + WORSE * difference(value.double(), exact, least)
                off = min(off, difference(own.double(), exact, least))
            if off > limit:
                wrong[name] = off / limit
        return wrong

    def decided_by_rounding(self, wrong: dict[str, float]) -> bool:
        """Whether the plain loop differs from itself about as much, if it rounds another way."""
        spread = dict.fromkeys(wrong, 0.0)
        for seed in range(4):
            with Rounding(seed):
                found = self.results(plain_loop)
            off = self.differences(found)
            spread = {name: max(most, off.get(name, 0.0)) for name, most in spread.items()}
        return all(spread[name] > ILL * off or spread[name] == torch.inf for name, off in wrong.items())

    def chunk(self, number: int) -> int | None:
        """How many steps are worked on at once, in the run of that number."""
        return CHUNKS[(self.seed + number) % len(CHUNKS)]

    # -- runs ----------------------------------------------------------------------------------------------------------

    def prepare(self, policies: Sequence[Any]) -> bool:
        """Plans the cell for `policies`, and starts compilers; False if it has no plan."""
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1), self.inputs)
        lengths = None if self.lengths is None else torch.tensor(self.lengths)
        try:
            for memory in policies:
                call, _ = prepare(Request(self.cell, inputs, lengths, self.state, self.dtype, Options(memory=memory)))
                schedules = [call.schedule, *([call.plan.inference] if memory.reruns else [])]
                phases = [each for one in schedules for each in (one.forward, one.adjoint) if each is not None]
                self.outcome.emitters |= {
                    each.parts(call.layout.mean_rows, call.emitter).emitter.name for each in phases
                }
        except CannotPlanError as reason:
            self.outcome.reason = str(reason)
            return False
        return True

    def check(self, memory: Any, chunk: int | None, *, interpreted: bool) -> None:
        """Runs the cell, and notes what is wrong with what comes out."""
        if self.outcome.faults or self.outcome.ill:
            return
        how = f"memory={memory}, parallel_iterations={chunk}, {'interpreted' if interpreted else 'compiled'}"
        self.fault = memory, chunk, interpreted
        how = f"batch={self.batch}, steps={self.steps}, sequence_length={self.lengths}, {how}"

        def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
            return dynamic_rnn(cell, inputs, lengths, state, dtype, chunk, memory=memory)

        try:
            with interpreter() if interpreted else nullcontext(), warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # of a plan that fails: the plain loop would hide it
                found = self.results(run)
        except Exception:
            self.outcome.faults.append(f"{how}\n{traceback.format_exc(limit=-6)}")
            return
        self.outcome.runs += 1
        wrong = self.differences(found)
        if wrong and self.decided_by_rounding(wrong):
            self.outcome.ill = ", ".join(wrong)
        elif wrong:
            lines = [f"{name} differs by {off:.3g} times what is allowed" for name, off in wrong.items()]
            self.outcome.faults.append("\n".join([how, *lines]))


def check_interpreted(case: Case, *, every_chunk: bool) -> Outcome:
    """Every policy, with nothing to compile.

    Args:
        case: the cell.
        every_chunk: whether each policy runs with chunks of all lengths, not of one of them.
    """
    with emit("interpreted"):
        case.expect()
        case.prepare(case.policies)
        for number, memory in enumerate(case.policies):
            for chunk in CHUNKS if every_chunk else [case.chunk(number)]:
                case.check(memory, chunk, interpreted=True)
    return case.outcome


def check_compiled(cases: Sequence[Case], *, every_policy: bool) -> list[Outcome]:
    """What the engine chooses, compiled together; then the same plans interpreted.

    Args:
        cases: the cells.
        every_policy: whether each cell is compiled for all policies, not for one of them.
    """
    with emit(None):
        policies = {case: case.policies if every_policy else [case.policies[case.seed % 2]] for case in cases}
        with compiled_together(near=cases[0].seed // len(cases) % 2 * NEAR):
            planned = [case for case in cases if case.prepare(policies[case])]
        for case in cases:
            case.expect()
            for number, memory in enumerate(policies[case]):
                case.check(memory, case.chunk(number), interpreted=False)
                if case in planned:
                    case.check(memory, case.chunk(number + 1), interpreted=True)
    return [case.outcome for case in cases]


@contextmanager
def emit(by: str | None) -> Iterator[None]:
    """Cores run by that emitter in here; None for what the engine chooses."""
    before = os.environ.pop("UNSPOOL_EMIT", None)
    if by is not None:
        os.environ["UNSPOOL_EMIT"] = by
    try:
        yield
    finally:
        os.environ.pop("UNSPOOL_EMIT", None)
        if before is not None:
            os.environ["UNSPOOL_EMIT"] = before
