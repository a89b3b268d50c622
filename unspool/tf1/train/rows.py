"""Which rows of a table a gradient is of: TensorFlow's optimisers leave the others alone.

TensorFlow keeps the gradient of `tf.gather` as the rows that were looked up (`IndexedSlices`), and most optimisers then
neither move the other rows nor let fade what they remember of them.
"""

from __future__ import annotations

from unspool.tf1.graph import Operation
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import Variable

_KEEPING = frozenset({"clip_by_global_norm", "ClipByNorm"})
"""Operations that make rows of rows."""


def rows_of(grad: Tensor, variable: Variable) -> list[Tensor] | None:
    """The tensors of row numbers at which a variable was read, if it was read in no other way; None otherwise."""
    while grad.op.type in _KEEPING:
        grad = grad.op.inputs[0]
    if grad.op.type != "Gradients":
        return None
    value = variable.value()
    readers: list[Operation] = []
    found: set[Operation] = set()
    waiting = [each.op for each in grad.op.inputs if each is not value]
    while waiting:
        operation = waiting.pop()
        if operation in found:
            continue
        found.add(operation)
        if variable in operation.variables:
            return None
        if any(each is value for each in operation.inputs):
            readers.append(operation)
        waiting += [each.op for each in operation.inputs]
    return [each.inputs[1] for each in readers] if readers and all(map(_is_by_row, readers)) else None


def _is_by_row(operation: Operation) -> bool:
    if operation.type != "GatherV2":
        return False
    table, places = operation.inputs
    made = operation.outputs[0].dims
    return None not in (table.dims, places.dims, made) and made == (*(places.dims or ()), *(table.dims or ())[1:])
