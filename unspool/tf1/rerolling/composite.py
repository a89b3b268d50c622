"""The step of a period as a cell, and the loop of the engine that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from unspool.cells.cell import RNNCell
from unspool.cells.like import start_sequence
from unspool.engine import Request, StrictError, entry, strict
from unspool.profiling import profiled
from unspool.sizes import UNKNOWN
from unspool.structure import Containers
from unspool.tf1.rerolling.sequences import stacked
from unspool.tf1.rnn.modules import Bound, Sealed
from unspool.tf1.tables import current_lookups, look_up
from unspool.tf1.variables import Variable

if TYPE_CHECKING:
    from unspool.tf1.session import Run

Values: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Computed:
    """An operation that computes its outputs from its inputs alone."""

    function: Callable[..., Any]
    single: bool

    def __call__(self, cell: Any, values: Values, noise: Any) -> Sequence[Any]:
        """The values of its outputs."""
        made = self.function(*values)
        return (made,) if self.single else made


@dataclass(frozen=True, eq=False)
class Called:
    """A call of the cell that is the part `name` of a composite one.

    Args:
        name: this.
        given: the containers of its inputs and state.
        made: those of what it returns.
    """

    name: str
    given: Containers
    made: Containers

    def __call__(self, cell: Any, values: Values, noise: Any) -> Sequence[Any]:
        """The leaves of its output and its new state."""
        return self.made.leaves(getattr(cell, self.name)(*self.given.fill(values)))


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Rows of a variable, whose gradient holds each reading by itself.

    A loop does not note its readings down one by one. So it adds zeros to the rows, whose gradient is that of the rows.

    Args:
        whole: whether somebody wants the gradient of all of the variable, too.
    """

    whole: bool

    def __call__(self, cell: Any, values: Values, noise: Any) -> Sequence[Any]:
        """The rows."""
        table, places = values
        if noise is _CALLS:
            return (look_up(table, places),)
        rows = torch.nn.functional.embedding(places, table if self.whole else table.detach())
        return (rows if noise is None else rows + noise,)


_CALLS: Any = object()
"""In the place of zeros for rows that are read: readings are noted down, step by step."""

Part: TypeAlias = Computed | Called | LookedUp


class Reading(NamedTuple):
    """Rows that every step reads of a variable, and that have a gradient.

    Args:
        variable: this.
        sizes: how many rows a row of the batch reads: the other sizes of the places.
    """

    variable: Variable
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a step does to a list of values, which are those of the state, of the inputs, and what it holds by name.

    Args:
        inputs: how many there are.
        names: of what it holds.
        parts: each operation, the values that it reads, and the number of its reading if it has one.
        shown: the values that are its output; at the end the places of what is read of variables.
        new: the values that are the new state.
        readings: what is read of variables and has a gradient.
        final: how many of the operations belong to the last step.
    """

    inputs: int
    names: tuple[str, ...]
    parts: tuple[tuple[Part, tuple[int, ...], int | None], ...]
    shown: tuple[int, ...]
    new: tuple[int, ...]
    readings: tuple[Reading, ...]
    final: int


class Composite(RNNCell):
    """A step of several cells, and of operations around them.

    Args:
        recipe: what it does.
        cells: its parts, by name.
        held: the weights and constants by name.
        rows: the names of what has a row for each of the batch.
    """

    state_size = output_size = UNKNOWN

    def __init__(self, recipe: Recipe, cells: dict[str, Any], held: dict[str, Any], rows: tuple[str, ...]) -> None:
        super().__init__()
        self._recipe = Sealed(_constant(recipe))
        for name, each in cells.items():
            self.add_module(name, each)
        for name, each in held.items():
            if isinstance(each, torch.nn.Parameter):
                self.register_parameter(name, each)
            else:
                self.register_buffer(name, each, persistent=False)
        self.row_buffers = rows
        self.built = True

    def forward(self, inputs: Values, state: Values) -> tuple[Values, Values]:
        """One step of a loop; what follows the inputs are zeros for rows that are read."""
        recipe: Recipe = self._recipe.value(0)
        values = self._values(inputs[: recipe.inputs], state, recipe.parts, inputs[recipe.inputs :])
        return tuple(values[each] for each in recipe.shown), tuple(values[each] for each in recipe.new)

    def called(self, inputs: Values, state: Values, *, last: bool) -> tuple[Values, Values]:
        """One step by itself; None for what the last step does not have."""
        recipe: Recipe = self._recipe.value(0)
        values = self._values(inputs, state, recipe.parts[: recipe.final] if last else recipe.parts, None)
        found = dict(enumerate(values))
        return tuple(found.get(each) for each in recipe.shown), tuple(found.get(each) for each in recipe.new)

    def _values(self, inputs: Values, state: Values, parts: Sequence[Any], zeros: Values | None) -> list[Any]:
        values = [*state, *inputs, *(getattr(self, name) for name in self._recipe.value(0).names)]
        for part, reads, number in parts:
            noise = _CALLS if zeros is None else None if number is None else zeros[number]
            values.extend(part(self, tuple(values[each] for each in reads), noise))
        return values


def _constant(value: Any) -> Callable[[int], Any]:
    """A built-in function that returns a value for 0: an atom, into which no guard looks.

    What a recipe holds never changes, but it reaches the graph that it is of: a guard would take longer than the loop.
    """
    return (value,).__getitem__


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a composite cell is made of in a session.

    Args:
        recipe: what its step does.
        cells: its parts by name, each with the numbers of what else it needs of a run.
        variables: its weights by name.
        constants: its constants by name.
        outside: the names of what else it holds; then come the values that cells need.
        rows: those of them that have a row for each of the batch.
    """

    recipe: Recipe
    cells: dict[str, tuple[Bound, slice]]
    variables: dict[str, Variable]
    constants: dict[str, torch.Tensor]
    outside: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def fixed(self) -> bool:
        """Whether nothing about a composite changes between runs but the values of its weights."""
        return not self.outside and all(bound.fixed for bound, _ in self.cells.values())

    def composite(self, run: Run, values: Sequence[Any]) -> Composite:
        """The session's composite, with what it holds in a run: what is outside, and what cells need."""
        for variable in (*self.variables.values(), *(v for bound, _ in self.cells.values() for v in bound.variables)):
            run.state.value_of(variable)  # or an error that names it
        cells = {name: run.module(bound, values[where]) for name, (bound, where) in self.cells.items()}

        def make() -> Composite:
            weights = {name: run.state.place_of(variable) for name, variable in self.variables.items()}
            constants = {name: run.placed(each) for name, each in self.constants.items()}
            around = dict(zip(self.outside, values, strict=False))
            return Composite(self.recipe, cells, {**weights, **constants, **around}, self.rows)

        made: Composite = run.state.kept(self, make)
        for name, value in zip(self.outside, values, strict=False):
            setattr(made, name, value)
        return made


class Rolled:
    """Runs a period as a loop of the engine; step by step where the engine has no plan for it.

    Args:
        ingredients: the cell.
        count: how many steps there are.
        padded: for each of the sequences that it is given, whether it lacks the last step.
        trimmed: for each of the sequences that it shows, whether it does.
        ended: the numbers of those parts of the state that are there at the end.
    """

    def __init__(
        self,
        ingredients: Ingredients,
        count: int,
        *,
        padded: Sequence[bool],
        trimmed: Sequence[bool],
        ended: Sequence[int],
    ) -> None:
        self._ingredients, self._count, self._fixed = ingredients, count, ingredients.fixed
        self._padded, self._trimmed, self._ended = padded, trimmed, ended

    def __call__(self, run: Run, *values: Any) -> Any:
        """What all steps show, and the final state; if there is one tensor of these, the tensor."""
        found = self._results(run, values)
        return found[0] if len(found) == 1 else found

    def _results(self, run: Run, values: Values) -> list[Any]:
        first, last = len(self._padded), len(self._padded) + len(self._ingredients.recipe.new)
        sequences, state = values[:first], values[first:last]
        cell = self._ingredients.composite(run, values[last:])
        unplanned: list[bool] = run.state.kept((self, "unplanned"), list)
        if not unplanned and all(isinstance(each, torch.Tensor) for each in sequences):
            try:
                return self._looped(run, cell, sequences, state)
            except StrictError:
                unplanned.append(True)
            except (RuntimeError, ValueError, IndexError, TypeError):
                pass  # the steps will tell
        return self._called(cell, sequences, state)

    def _looped(self, run: Run, cell: Composite, sequences: Values, state: Values) -> list[Any]:
        readings = self._ingredients.recipe.readings
        tables = [run.state.value_of(each.variable) for each in readings]
        sizes = [(self._count, len(state[0]), *each.sizes) for each in readings]
        noise = [_noise(table, each) for table, each in zip(tables, sizes, strict=True)]
        pairs = zip(sequences, self._padded, strict=True)
        given = [torch.cat([each, each[-1:].detach()]) if short else each for each, short in pairs]
        given += [each.view(*size, *each.shape[1:]) for each, size in zip(noise, sizes, strict=True)]
        if not given:  # the engine counts steps and rows by the first input
            given = [state[0].new_zeros(()).expand(self._count, len(state[0]))]
        start_sequence(cell)
        with strict(), profiled("rnn"):
            shown, end = entry.run(Request(cell, tuple(given), None, state, None, fixed=self._fixed), "rnn")
        for table, rows, places in zip(tables, noise, shown[len(self._trimmed) :], strict=True):
            if rows.requires_grad:
                read = places[: self._count - 1] if self._is_turned else places
                current_lookups().add(table, read.reshape(-1), rows)
        pairs = zip(shown, self._trimmed, strict=False)
        return [*(each[:-1] if short else each for each, short in pairs), *(end[each] for each in self._ended)]

    @property
    def _is_turned(self) -> bool:
        recipe = self._ingredients.recipe
        return recipe.final < len(recipe.parts)

    def _called(self, cell: Composite, sequences: Values, state: Values) -> list[Any]:
        made: list[Values] = []
        for number in range(self._count):
            last = number == self._count - 1
            pairs = zip(sequences, self._padded, strict=True)
            inputs = tuple(None if last and short else each[number] for each, short in pairs)
            shown, state = cell.called(inputs, state, last=last)
            made.append(shown[: len(self._trimmed)])
        columns = [[each for each in column if each is not None] for column in zip(*made, strict=True)]
        return [*(stacked(*each) for each in columns), *(state[each] for each in self._ended)]


def _noise(table: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Zeros for so many rows of a table."""
    return table.new_zeros(torch.Size(sizes).numel(), *table.shape[1:], requires_grad=torch.is_grad_enabled())
