"""Cells drawn at random as source text: nested inputs, states and outputs of several dtypes, over `soak_operations`.

Unlike those of `drawn_cells`, they are of everything that users write, planned or not, and print as what can be run.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Sequence
from typing import Any

import torch

from tests.soak_drawing import FUNCTIONS, ROWS, WRONG, Drawing, Value
from tests.soak_operations import OPERATIONS, noise
from unspool.structure import flatten, map_structure

INPUTS = [("float", (4,)), ("float", (4,)), ("float", (6,)), ("float", (2, 3)), ("float", (1,)), ("float", (2, 2, 3))]
INPUTS += [("int", (1,)), ("int", (3,)), ("bool", (1,)), ("bool", (4,))]
STATES = [("float", (4,)), ("float", (4,)), ("float", (5,)), ("float", (2, 3)), ("float", (3, 3)), ("float", ())]
STATES += [
    ("int", ()),
    ("int", (3,)),
    ("bool", ()),
    ("bool", (2,)),
    ("other", (4,)),
    ("other", (2, 2)),
    ("int32", (1,)),
]
"""Kinds and shapes of rows."""

TYPES = {"float": "DTYPE", "other": "OTHER", "int": "torch.int64", "int32": "torch.int32", "bool": "torch.bool"}


class Nest:
    """A few leaves in nested tuples, lists and dicts."""

    def __init__(self, chance: random.Random, count: int, first: int = 0) -> None:
        self.kind = chance.choice(["tuple", "tuple", "list", "dict"])
        keys = chance.sample("abcdef", count) if self.kind == "dict" else range(count)
        self.keys, self.leaves = [repr(key) for key in keys], list[Any](range(first, first + count))
        if count == 1 and chance.random() < 0.6:
            self.kind = "leaf"
        elif count > 1 and chance.random() < 0.5:
            cut = chance.randint(1, count - 1)
            rest = Nest(chance, count - cut, first + cut)
            self.keys, self.leaves = self.keys[: cut + 1], [*self.leaves[:cut], rest]

    def write(self, leaves: Sequence[str]) -> str:
        """The nest with these in it."""
        own = [each.write(leaves) if isinstance(each, Nest) else leaves[each] for each in self.leaves]
        if self.kind == "dict":
            return "{" + ", ".join(f"{key}: {each}" for key, each in zip(self.keys, own, strict=True)) + "}"
        if self.kind == "list":
            return f"[{', '.join(own)}]"
        return own[0] if self.kind == "leaf" else f"({', '.join(own)},)"

    def paths(self, name: str) -> list[str]:
        """How to get each leaf out of it."""
        if self.kind == "leaf":
            return [name]
        found: list[str] = []
        for key, each in zip(self.keys, self.leaves, strict=True):
            path = f"{name}[{key}]"
            found += each.paths(path) if isinstance(each, Nest) else [path]
        return found


class SoakCell:
    """The source of a drawn cell, and of what it runs on.

    Args:
        seed: everything follows from it.
        dtype: what the cell computes in.
        other: the dtype of some of its states; may be the same.
        noisy: whether it draws random numbers.
        operations: how many are drawn.
    """

    def __init__(self, seed: int, dtype: torch.dtype, other: torch.dtype, *, noisy: bool, operations: int) -> None:
        self.name, self.seed = f"Cell{seed}", seed
        self.dtype, self.other = dtype, other
        for attempt in range(50):
            self._chance = random.Random(f"{seed}.{attempt}")
            torch.manual_seed(seed)
            try:
                self._draw(operations, noisy=noisy)
                self._try()
            except WRONG:  # autograd refuses what was changed in place, say
                continue
            return
        raise AssertionError(f"no cell can be drawn from {seed}")

    def _draw(self, operations: int, *, noisy: bool) -> None:
        chance = self._chance
        self.inputs = [chance.choice(INPUTS[:6]), *(chance.choice(INPUTS) for _ in range(chance.randint(0, 2)))]
        chance.shuffle(self.inputs)
        floats = [each for each in STATES if each[0] == "float"]
        self.states = [chance.choice(floats), *(chance.choice(STATES) for _ in range(chance.randint(0, 3)))]
        if self.dtype == self.other:
            self.states = [("float" if kind == "other" else kind, shape) for kind, shape in self.states]
        elif not any(kind == "other" for kind, _ in self.states):
            self.states.append(("other", (4,)))
        chance.shuffle(self.states)
        d = self._drawing = Drawing(chance, self.dtype, self.other, noisy=noisy)
        given = [("x", self.inputs), ("h", self.states)]
        names = [(f"{letter}{k}", each) for letter, leaves in given for k, each in enumerate(leaves)]
        values = [d.give(name, self._sample(kind, shape)) for name, (kind, shape) in names]
        if noisy:
            while not d.draw(noise):
                pass
        for _ in range(20 * operations):
            d.draw(chance.choices([*OPERATIONS], [*OPERATIONS.values()])[0])
            if len(d.drawn) >= operations:
                break
        self.values = list(d.values)
        new = [self._new_state(k, values[len(self.inputs) + k]) for k in range(len(self.states))]
        self._outputs = [d.write(self._output(new), f"y{k}") for k in range(chance.randint(1, 2))]
        unused = [each.name for each in self.values if each.name[0] == "v" and not d.uses(each.name)]
        if unused and chance.random() < 0.9:
            rest = ", ".join(f"{name}.reshape(b, -1).to(DTYPE)" for name in unused)
            self._outputs.append(d.write(f"torch.cat([{rest}], 1)", f"y{len(self._outputs)}"))
        if chance.random() < 0.15:
            self._outputs.append(self._outputs[0])  # the same tensor twice
        self._new = [each.name for each in new]
        if chance.random() < 0.95:
            d.weights = {name: each for name, each in d.weights.items() if d.uses(f"self.{name}")}
        self._nests = [Nest(chance, len(each)) for each in (self.inputs, self.states, self._outputs)]

    def _sample(self, kind: str, shape: tuple[int, ...]) -> torch.Tensor:
        return eval(self._random(kind, (ROWS, *shape)), {"torch": torch, "DTYPE": self.dtype, "OTHER": self.other})

    @staticmethod
    def _random(kind: str, shape: Sequence[Any]) -> str:
        sizes = ", ".join(map(str, shape))
        if kind == "bool":
            return f"torch.rand({sizes}) < 0.5"
        if kind.startswith("int"):
            return f"torch.randint(0, 7, ({sizes},), dtype={TYPES[kind]})"
        return f"torch.randn({sizes}, dtype=torch.float64).to({TYPES[kind]})"

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _new_state(self, number: int, old: Value) -> Value:
        """A value brought to the shape and dtype of a state, and kept small; or the old one, or another."""
        d, (kind, shape) = self._drawing, self.states[number]
        same = [each for each in self.values if each.shape == shape and each.tensor.dtype == old.tensor.dtype]
        if d.often(0.12):
            given = [each for each in same if each.name[0] in "xh"]
            return d.of(old, d.of(*given))  # handed on unchanged, or an input or another state in its place
        name, source = f"n{number}", d.of(*self.values[-4:])
        size = old.size
        if kind in ("float", "other"):
            drawn = [each for each in self.values if each.name[0] == "v" and each.tensor.dtype == d.dtype]
            value = d.of(*drawn[-4:]) if drawn else d.value()
            fitting = [each for each in drawn if each.size == size]
            if fitting and d.often(0.6):
                value = d.of(*fitting)
            text = f"{value}.reshape(b, {size})" if value.shape != (size,) else value.name
            if value.size != size:
                text = f"{value}.reshape(b, {value.size}) @ {d.weight(value.size, size)} + {d.weight(size)}"
            text = (
                f"torch.tanh({text})"
                if shape == (size,)
                else f"torch.tanh({text}).reshape({', '.join(map(str, ('b', *shape)))})"
            )
            cast = ".to(OTHER)" if kind == "other" else ""
            return d.write(
                d.of(
                    f"{text}{cast}",
                    f"{text}{cast}",
                    f"0.5 * {old} + 0.5 * {text}{cast}",
                    f"torch.lerp({old}, {text}{cast}, torch.sigmoid({old}))",
                ),
                name,
            )
        flat = f"{source}.reshape(b, {source.size})"
        axis = f"-1{', keepdim=True' if shape else ''}"
        if kind == "bool":
            whole = f"({flat} > 0.1).any({axis})" if source.tensor.dtype != torch.bool else f"{flat}.all({axis})"
            return d.write(d.of(f"{old} ^ {whole}", f"{whole} & ~{old}", f"({whole}) | {old}", f"{old} & {old}"), name)
        whole = f"({flat} > 0.1).sum({axis})" if source.tensor.dtype != torch.int64 else f"{flat}.amax({axis})"
        cast = ".int()" if kind == "int32" else ""
        ways = [f"({old} + {whole}) % 7", f"({old} + 1) % 5", f"torch.where({whole} > 1, {old}, {whole} % 6)"]
        ints = [each for each in same if each.name[0] == "v"]
        ways += [f"{d.of(*ints)} % 9"] * 2 if ints else []
        return d.write(f"({d.of(*ways)}){cast}", name)

    def _output(self, new: Sequence[Value]) -> str:
        d = self._drawing
        d.values = [*self.values, *new]
        floats = [each for each in new if each.tensor.dtype == d.dtype and each.shape]
        ways = [f"{d.value(axes=(0, 1, 2, 3))}", f"{d.of(*self.values[-5:])}.to(DTYPE)", f"torch.tanh({d.value()})"]
        if floats:
            state = d.of(*floats)
            ways += [f"{state}"] * 3 + [f"{state} * 2", f"{state}.view(b, -1)", f"{state}[:, :1]"]
            ways += [f"torch.cat([{', '.join(f'{each}.reshape(b, -1)' for each in floats)}], 1)"]
        ways += [f"{d.of(*[each for each in self.values if each.name[0] in 'xh'])}.to(DTYPE)"]
        if d.often(0.03):
            ways = [f"{d.weight(3, scale=1)}.expand(b, 3)", "torch.zeros(b, 2, dtype=DTYPE)"]
        return d.of(*ways)

    # -- text ----------------------------------------------------------------------------------------------------------

    def source(self, dtype: torch.dtype | None = None) -> str:
        """The cell and its data as a module; with `dtype`, as if everything were in that dtype."""
        d, (inputs, state, outputs) = self._drawing, self._nests
        sizes = [f"torch.Size({list(shape)})" for _, shape in self.states]
        output_sizes = [f"torch.Size({list(each.shape)})" for each in self._outputs]
        lines = [
            "import torch",
            "import torch.nn.functional as F",
            "from torch import nn",
            "from unspool import RNNCell",
            "",
            f"DTYPE, OTHER = {dtype or self.dtype}, {dtype or self.other}",
        ]
        if any(name in line for line in d.lines for name in ("Through.", "Clipped.")):
            lines += ["", "", *FUNCTIONS.rstrip().split("\n")]
        lines += ["", "", f"class {self.name}(RNNCell):", "    def __init__(self):", "        super().__init__()"]
        lines += [
            f"        self.state_size = {state.write(sizes)}",
            f"        self.output_size = {outputs.write(output_sizes)}",
        ]
        for name, (shape, scale) in d.weights.items():
            drawn = f"torch.randn({list(shape)}, dtype=torch.float64)"
            lines += [f"        self.{name} = nn.Parameter(({drawn} * {scale}).to(DTYPE))"]
        lines += ["", "    def forward(self, inputs, state):"]
        unpacked = zip(inputs.paths("inputs"), (f"x{k}" for k in range(len(self.inputs))), strict=True)
        lines += [f"        {name} = {path}" for path, name in unpacked]
        unpacked = zip(state.paths("state"), (f"h{k}" for k in range(len(self.states))), strict=True)
        lines += [f"        {name} = {path}" for path, name in unpacked]
        lines += ["        b = x0.shape[0]", *(f"        {line}" for line in d.lines)]
        lines += [f"        return {outputs.write([each.name for each in self._outputs])}, {state.write(self._new)}"]
        given = [self._random(kind, ("batch", "steps", *shape)) for kind, shape in self.inputs]
        first = [self._random(kind, ("batch", *shape)) for kind, shape in self.states]
        lines += ["", "", "def data(batch, steps):", f"    inputs = {inputs.write(given)}"]
        lines += [f"    state = {state.write(first)}"]
        return "\n".join([*lines, "    return inputs, state", ""])

    def made(self, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
        """A cell, and the function that draws data for it."""
        file, source = f"<{self.name} {dtype or ''}>", self.source(dtype)
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        names: dict[str, Any] = {"__name__": self.name}
        exec(compile(source, file, "exec"), names)
        torch.manual_seed(self.seed)
        return names[self.name](), names["data"]

    def _try(self) -> None:
        """Runs one step with its gradients; raises what torch does not like about it."""
        cell, data = self.made()
        inputs, state = data(2, 1)
        leaves: list[torch.Tensor] = []

        def wanting(leaf: torch.Tensor) -> torch.Tensor:
            leaves.append(leaf.requires_grad_(leaf.is_floating_point()))
            return leaf

        one_step = map_structure(lambda leaf: wanting(leaf[:, 0].clone()), inputs)
        results = flatten(cell(one_step, map_structure(wanting, state)))
        loss = sum((each.double().sum() for each in results if each.is_floating_point()), torch.zeros(()))
        sources = [each for each in [*leaves, *cell.parameters()] if each.requires_grad]
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            torch.autograd.grad(loss, sources, allow_unused=True)

    @property
    def operations(self) -> list[str]:
        """What was drawn."""
        return list(self._drawing.drawn)

    def __str__(self) -> str:
        return self.source()
