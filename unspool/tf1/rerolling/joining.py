"""A chain of calls as one loop: inputs are stacked, a loop of the engine runs, and its outputs are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from unspool.tf1.dtypes import DType
from unspool.tf1.operation import Operation
from unspool.tf1.rerolling.chains import CellCall
from unspool.tf1.rerolling.loop import Loop
from unspool.tf1.rerolling.order import Order, in_order
from unspool.tf1.rerolling.sequences import Cut, Together, one_step, some_steps, stacked
from unspool.tf1.shapes import Dims
from unspool.tf1.tensor import Tensor

FEW = 2
"""Slices of a tensor that are taken one by one rather than all at once."""


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
        self.fed = fed
        self._wanted, self._watched = wanted, watched
        self._instead: dict[Operation, Operation] = {}

    @property
    def operations(self) -> Collection[Operation]:
        """All of them; some may no longer be needed."""
        return self._operations.keys()

    def ordered(self) -> Order:
        """What is needed, in an order in which it can run."""
        return in_order(self._operations, self._wanted, self.fed, self._instead)

    def finished(self) -> list[Operation]:
        """What is needed, in an order in which it can run; of what is unstacked, the slices that somebody reads."""
        operations = self.ordered().operations
        read = {each for operation in operations for each in operation.inputs}.union(self._wanted)
        changed = False
        for operation in operations:
            wanted = [each for each in operation.outputs if each in read]
            if operation.type != "Unpack" or operation.takes_run or not 0 < len(wanted) <= FEW < len(operation.outputs):
                continue
            if isinstance(operation.function, Cut) or operation in self._wanted or any(map(self._must_stay, wanted)):
                continue
            del self._operations[operation]
            changed = True
            for each in wanted:  # backward of each is a slice of zeros, that of all a stack of as many tensors
                cut = Cut(operation.attributes["axis"], each.index, 1, len(operation.outputs))
                self._instead[operation] = self._add(operation, cut.one, operation.inputs, ())
                self._instead[operation].outputs = (each,)
        return self.ordered().operations if changed else operations

    def join(self, operations: Sequence[Operation]) -> None:
        """Has a loop in the place of calls, each of which starts from the state that the last one left."""
        calls: list[CellCall] = [each.call for each in operations]
        self.remove(operations)
        read = self.read()
        shows = any(each in read for call in calls[:-1] for each in call.ends)
        sequences = [self.sequence(column) for column in zip(*(call.reads for call in calls), strict=True)]
        columns = list(zip(*((*call.puts_out, *(call.ends if shows else ())) for call in calls), strict=True))
        inputs = [*sequences, *calls[0].starts, *calls[0].late]
        self.put_loop(operations, Loop(calls, shows=shows), inputs, columns, calls[-1].ends)

    def remove(self, operations: Iterable[Operation]) -> None:
        """Takes operations away, whose outputs a loop will compute."""
        for each in operations:
            self._operations.pop(each, None)

    def keep(self, operation: Operation) -> None:
        """Has an operation again that was removed."""
        self._operations[operation] = None

    def put_loop(
        self,
        operations: Sequence[Operation],
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        columns: Sequence[tuple[Tensor, ...]],
        ends: Sequence[Tensor],
    ) -> None:
        """Adds a loop.

        Args:
            operations: in whose place it is, the last of them last.
            function: takes the run and the inputs to a sequence for each of the columns, and to what is at the end.
            inputs: what it reads.
            columns: for each of its outputs, the tensors of all steps.
            ends: what it has computed at the end of the last step.
        """
        kinds: list[tuple[DType, Dims]] = [(column[0].dtype, None) for column in columns]
        made = self._add(operations[-1], function, inputs, kinds, takes_run=True)
        stacked, made.outputs = made.outputs, (*made.outputs, *ends)
        made.control_inputs = tuple(dict.fromkeys(first for each in operations for first in each.control_inputs))
        self._instead.update((each, made) for each in operations if each not in self._operations)
        there = self.made()
        for whole, column in zip(stacked, columns, strict=True):
            self._rejoin(whole, column)
            self._take_apart(whole, column, self.read() - there)

    def made(self) -> set[Tensor]:
        """What operations compute."""
        return {output for each in self._operations for output in each.outputs}

    def read(self) -> set[Tensor]:
        """What somebody reads."""
        inputs = {each for operation in self._operations for each in operation.inputs}
        return inputs.union(each for each in self._wanted if isinstance(each, Tensor))

    def sequence(self, steps: Sequence[Tensor]) -> Tensor:
        """The tensor that has these along its first axis."""
        source = None if any(map(self._must_stay, steps)) else self._source(steps)
        if source is None:
            return self._add(steps[-1].op, stacked, steps, [(steps[0].dtype, None)]).outputs[0]
        whole, cut = source
        operation = steps[0].op
        if operation.type != "Unpack" or operation not in self._operations or self.read().intersection(steps):
            return self._add(steps[-1].op, cut.part, [whole], [(steps[0].dtype, None)]).outputs[0]
        # What unstacks stays for those who read these steps later on; nobody does so far.
        made = self._add(operation, cut, [whole], [(steps[0].dtype, None)])
        sequence, others = made.outputs[0], operation.outputs
        made.outputs = (sequence, *others[: cut.first], *others[cut.first + cut.length :])
        return sequence

    def _source(self, steps: Sequence[Tensor]) -> tuple[Tensor, Cut] | None:
        """The tensor that steps are slices of, one after the other, and which of its slices they are."""
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
        return cut.inputs[0], Cut(axis, first, len(parts), len(cut.outputs))

    def _must_stay(self, tensor: Tensor) -> bool:
        """Whether somebody could tell that a tensor is not computed: it is fed, a gradient is by it, or it waits."""
        return tensor in self.fed or tensor in self._watched or bool(tensor.op.control_inputs)

    def _rejoin(self, whole: Tensor, steps: tuple[Tensor, ...]) -> None:
        """Has those read the whole sequence that put its steps together again, perhaps with others."""
        for reader in [each for each in self._operations if steps[0] in each.inputs and Together.is_done_by(each)]:
            first, last = reader.inputs.index(steps[0]), reader.inputs.index(steps[0]) + len(steps)
            if reader.inputs[first:last] != steps:
                continue
            del self._operations[reader]
            inputs = [*reader.inputs[:first], whole, *reader.inputs[last:]]
            made = self._add(reader, Together.of(reader).with_sequence(first, last), inputs, ())
            made.outputs, made.control_inputs = reader.outputs, reader.control_inputs
            self._instead[reader] = made

    def _take_apart(self, whole: Tensor, steps: Sequence[Tensor], read: set[Tensor]) -> None:
        """Computes the steps of a sequence that somebody reads."""
        places = [place for place, each in enumerate(steps) if each in read]
        if len(places) > FEW:
            self._add(whole.op, some_steps(places), [whole], ()).outputs = tuple(steps[each] for each in places)
        else:
            for place in places:
                self._add(whole.op, one_step(place), [whole], ()).outputs = (steps[place],)

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
