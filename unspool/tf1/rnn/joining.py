"""A chain of calls as one loop: inputs are stacked, a loop of the engine runs, and its outputs are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import torch

from unspool.engine import StrictError, strict
from unspool.layers.steps import Showing
from unspool.structure import flatten, unflatten_as
from unspool.tf1.dtypes import DType
from unspool.tf1.graph import Operation
from unspool.tf1.rnn.chains import CellCall, Order, in_order
from unspool.tf1.rnn.running import Looped
from unspool.tf1.shapes import Dims
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class Rewrite:
    """Operations in which loops take the places of chains; see `chains.joined` for the arguments."""

    def __init__(
        self,
        operations: Sequence[Operation],
        wanted: Sequence[Tensor | Operation],
        fed: Collection[Tensor],
        watched: Collection[Tensor],
    ) -> None:
        self._operations = dict.fromkeys(operations)
        self._wanted, self._fed, self._watched = wanted, fed, watched
        self._instead: dict[Operation, Operation] = {}

    def ordered(self) -> Order:
        """What is needed, in an order in which it can run."""
        return in_order(self._operations, self._wanted, self._fed, self._instead)

    def join(self, operations: Sequence[Operation]) -> None:
        """Has a loop in the place of calls, each of which starts from the state that the last one left."""
        calls: list[CellCall] = [each.call for each in operations]
        for each in operations:
            del self._operations[each]
        read = self._read()
        shows = any(each in read for call in calls[:-1] for each in call.ends)
        sequences = [self._sequence(column) for column in zip(*(call.reads for call in calls), strict=True)]
        columns = list(zip(*((*call.puts_out, *(call.ends if shows else ())) for call in calls), strict=True))
        kinds: list[tuple[DType, Dims]] = [(column[0].dtype, None) for column in columns]
        inputs = [*sequences, *calls[0].starts, *calls[0].late]
        made = self._add(operations[-1], Loop(calls, shows=shows), inputs, kinds, takes_run=True)
        stacked, made.outputs = made.outputs, (*made.outputs, *calls[-1].ends)
        made.control_inputs = tuple(dict.fromkeys(first for each in operations for first in each.control_inputs))
        self._instead.update(dict.fromkeys(operations, made))
        for whole, column in zip(stacked, columns, strict=True):
            self._rejoin(whole, column)
            self._take_apart(whole, column, self._read().difference(calls[-1].ends))

    def _read(self) -> set[Tensor]:
        """What somebody reads."""
        inputs = {each for operation in self._operations for each in operation.inputs}
        return inputs.union(each for each in self._wanted if isinstance(each, Tensor))

    def _sequence(self, steps: Sequence[Tensor]) -> Tensor:
        """The tensor that has these along its first axis."""
        source = None if any(map(self._must_stay, steps)) else self._source(steps)
        function, inputs = (_stacked, steps) if source is None else (_view(*source[1:]), source[:1])
        return self._add(steps[-1].op, function, inputs, [(steps[0].dtype, None)]).outputs[0]

    def _source(self, steps: Sequence[Tensor]) -> tuple[Tensor, int, slice, int] | None:
        """The tensor that steps are slices of, one after the other, their axis, which they are, and of how many."""
        squeezed = all(each.op.type == "Squeeze" for each in steps)  # of a split, as it was before tf.unstack
        parts = [each.op.inputs[0] for each in steps] if squeezed else steps
        cut, first = parts[0].op, parts[0].index
        if cut.type != ("Split" if squeezed else "Unpack") or any(map(self._must_stay, parts)):
            return None
        dims = cut.inputs[0].dims
        if not dims or tuple(parts) != cut.outputs[first : first + len(parts)]:
            return None
        axis = cut.attributes["axis"] % len(dims)
        gone = [each.op.attributes["axis"] for each in steps] if squeezed else []
        if dims[axis] != len(cut.outputs) or any(
            each is None or [k % len(dims) for k in each] != [axis] for each in gone
        ):
            return None
        return cut.inputs[0], axis, slice(first, first + len(parts)), len(cut.outputs)

    def _must_stay(self, tensor: Tensor) -> bool:
        """Whether somebody could tell that a tensor is not computed: it is fed, a gradient is by it, or it waits."""
        return tensor in self._fed or tensor in self._watched or bool(tensor.op.control_inputs)

    def _rejoin(self, whole: Tensor, steps: tuple[Tensor, ...]) -> None:
        """Has those read the whole sequence that put its steps together again."""
        for reader in [each for each in self._operations if each.inputs == steps and each.type in _TOGETHER]:
            del self._operations[reader]
            made = self._add(reader, _TOGETHER[reader.type](reader.attributes["axis"]), [whole], ())
            made.outputs, made.control_inputs = reader.outputs, reader.control_inputs
            self._instead[reader] = made

    def _take_apart(self, whole: Tensor, steps: Sequence[Tensor], read: set[Tensor]) -> None:
        """Computes the steps of a sequence that somebody reads."""
        places = [place for place, each in enumerate(steps) if each in read]
        if len(places) > 2:
            self._add(whole.op, _steps(places), [whole], ()).outputs = tuple(steps[each] for each in places)
        else:
            for place in places:
                self._add(whole.op, _step(place), [whole], ()).outputs = (steps[place],)

    def _add(
        self,
        like: Operation,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, Dims]],
        *,
        takes_run: bool = False,
    ) -> Operation:
        """An operation that no graph has, in the place of another."""
        made = Operation(like.graph, like.type, like.name, function, inputs, outputs, takes_run=takes_run)
        made.number, made.control_inputs = like.number, ()
        self._operations[made] = None
        return made


class Loop:
    """Runs calls as a loop of the engine; one by one where the engine has no plan for their cell.

    Args:
        calls: each starts from the state that the last one left.
        shows: whether the state after every step is wanted, besides the outputs and the final state.
    """

    def __init__(self, calls: Sequence[CellCall], *, shows: bool) -> None:
        self._count, self._shows, call = len(calls), shows, calls[0]
        self._bound, self._inputs, self._state = call.bound, call.inputs, call.state
        self._variables = call.bound.variables
        self._fixed = call.bound.fixed
        self._loop = Looped(call.puts_out[0].dtype, True, "rnn")
        self._widths = len(call.reads), len(call.starts)
        self._unplanned: WeakSet[Any] = WeakSet()
        self._showing: WeakKeyDictionary[Any, Showing] = WeakKeyDictionary()

    def __call__(self, run: Run, *values: Any) -> list[Any]:
        """The outputs of all steps, the states if they are wanted, and the final state."""
        for variable in self._variables:
            run.state.value_of(variable)  # or an error that names it
        first, last = self._widths[0], sum(self._widths)
        sequences, state = values[:first], unflatten_as(self._state, values[first:last])
        module = run.module(self._bound, values[last:])
        if run.state not in self._unplanned and all(isinstance(each, torch.Tensor) for each in sequences):
            try:
                return self._looped(run, module, sequences, state)
            except StrictError:
                self._unplanned.add(run.state)
            except (RuntimeError, ValueError, IndexError, TypeError):
                pass  # the calls will tell
        return self._called(module, sequences, state)

    def _looped(self, run: Run, module: Any, sequences: Sequence[torch.Tensor], state: Any) -> list[Any]:
        runs = module
        if self._shows:
            runs = self._showing.get(run.state) or self._showing.setdefault(run.state, Showing(module))
        with strict():
            outputs, end = self._loop(runs, unflatten_as(self._inputs, sequences), None, state, fixed=self._fixed)
        return [*flatten(outputs), *flatten(end)]

    def _called(self, module: Any, sequences: Sequence[Any], state: Any) -> list[Any]:
        made: list[list[Any]] = []
        for number in range(self._count):
            output, state = module(unflatten_as(self._inputs, [each[number] for each in sequences]), state)
            made.append([*flatten(output), *(flatten(state) if self._shows else ())])
        return [*(_stacked(*each) for each in zip(*made, strict=True)), *flatten(state)]


def _stacked(*steps: torch.Tensor) -> Any:
    """One tensor of all steps; where they have different shapes, the steps as they are."""
    return torch.stack(steps) if all(each.shape == steps[0].shape for each in steps) else list(steps)


def _view(axis: int, part: slice, count: int) -> Callable[..., Any]:
    def compute(x: torch.Tensor) -> torch.Tensor:
        if x.shape[axis] != count:
            raise ValueError(f"there are {x.shape[axis]} slices along axis {axis}, but num is {count}")
        steps = x.movedim(axis, 0)
        return steps if part.stop - part.start == count else steps[part]

    return compute


def _step(place: int) -> Callable[..., Any]:
    return lambda steps: steps[place]


def _steps(places: Sequence[int]) -> Callable[..., Any]:
    def compute(steps: Any) -> list[Any]:
        each = steps.unbind(0) if isinstance(steps, torch.Tensor) else steps
        return [each[place] for place in places]

    return compute


def _packed(axis: int) -> Callable[..., Any]:
    return lambda steps: steps.movedim(0, axis) if isinstance(steps, torch.Tensor) else torch.stack(steps, axis)


def _concatenated(axis: int) -> Callable[..., Any]:
    def compute(steps: Any) -> torch.Tensor:
        if not isinstance(steps, torch.Tensor):
            return torch.cat(steps, axis)
        where = axis % (steps.dim() - 1)
        return steps.movedim(0, where).flatten(where, where + 1)

    return compute


_TOGETHER = {"Pack": _packed, "ConcatV2": _concatenated}
"""What puts steps together, by the axis."""
