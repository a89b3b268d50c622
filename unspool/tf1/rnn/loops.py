"""The loops of the graph: each is one operation, which runs unspool's loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import unspool
from unspool.cells.like import assert_like_rnncell
from unspool.flags import checks_flags
from unspool.loops.arguments import check_parallel_iterations
from unspool.sizes import shape_of
from unspool.structure import Structure, check_namedtuples, describe, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import DType, as_dtype, int32
from unspool.tf1.functions import Like
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import shape
from unspool.tf1.ops.math import cast
from unspool.tf1.rnn.cell import RNNCell, as_leaf, bound_cell, packed, run_module, sized, state_like
from unspool.tf1.rnn.modules import Bound, Traced, as_sizes
from unspool.tf1.rnn.running import BothWays, Looped
from unspool.tf1.scopes import variable_scope
from unspool.tf1.shapes import Dim, Dims, compatible, described
from unspool.tf1.tensor import Tensor


@checks_flags
def dynamic_rnn(
    cell: Any,
    inputs: Structure,
    sequence_length: Any = None,
    initial_state: Structure = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Structure, Structure]:
    """Runs a cell over a batch of sequences, each as long as it says: `unspool.dynamic_rnn` in the graph.

    Args:
        cell: a cell.
        inputs: `[batch, time, depth...]`, or a structure of such tensors; the depth must be known.
        sequence_length: the length of each row.
        initial_state: the state to start from; the cell's zero state if None.
        dtype: the dtype of the zero state and the outputs; needed without `initial_state`.
        parallel_iterations, swap_memory: passed on; they never change the result.
        time_major: whether inputs and outputs are `[time, batch, ...]`.
        scope: the scope of the variables, "rnn" by default.

    Returns:
        The outputs and the final state.

    Raises:
        TypeError: if `cell` is no cell.
        ValueError: if shapes that are known, or dtypes, do not fit each other.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 5, 3])
    >>> outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32)
    >>> outputs.shape, [variable.name for variable in tf.trainable_variables()][:2]
    (TensorShape([None, 5, 4]), ['rnn/gru_cell/gates/kernel:0', 'rnn/gru_cell/gates/bias:0'])
    """
    assert_like_rnncell("cell", cell)
    with variable_scope(scope or "rnn"):
        return loop(cell, inputs, sequence_length, initial_state, dtype, time_major, parallel_iterations, swap_memory)


def loop(
    cell: Any,
    inputs: Structure,
    sequence_length: Any,
    initial_state: Structure,
    dtype: Any,
    time_major: bool,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
) -> tuple[Structure, Structure]:
    """`dynamic_rnn` in the current scope."""
    sequences = _Sequences(inputs, sequence_length, time_major)
    state, kind = _state(cell, initial_state, dtype, sequences)
    sequences.check()
    bound = bound_cell(cell, sequences.step, state)
    fixed = bound.fixed
    looped = _loop("rnn", kind, time_major, parallel_iterations, swap_memory)

    def run(modules: list[Any], x: Structure, lengths: Any, s: Structure) -> Any:
        return looped(modules[0], x, lengths, s, fixed=fixed)

    results = sized(cell.output_size, sequences.axes, kind), state_like(state)
    given = sequences.inputs, sequences.lengths, state
    return run_module("dynamic_rnn", [bound], run, given, results, loops=True)


@checks_flags
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Structure,
    sequence_length: Any = None,
    initial_state_fw: Structure = None,
    initial_state_bw: Structure = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Structure, Structure], tuple[Structure, Structure]]:
    """Runs one cell forwards and one backwards: `unspool.bidirectional_dynamic_rnn` in the graph.

    The arguments are those of `dynamic_rnn`, with an initial state for each direction; the variables are in the scopes
    `fw` and `bw` below `scope`, "bidirectional_rnn" by default.

    Returns:
        `((outputs_fw, outputs_bw), (state_fw, state_bw))`.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    with variable_scope(scope or "bidirectional_rnn"):
        sequences = _Sequences(inputs, sequence_length, time_major)
        bounds: list[Any] = []
        states: list[Any] = []
        for name, cell, initial in (("fw", cell_fw, initial_state_fw), ("bw", cell_bw, initial_state_bw)):
            with variable_scope(name):
                state, kind = _state(cell, initial, dtype, sequences)
                sequences.check()
                bounds.append(bound_cell(cell, sequences.step, state))
                states.append((state, kind))
        kind = states[0][1]
        options = kind, time_major, parallel_iterations, swap_memory
        fixed = [bound.fixed for bound in bounds]
        run = BothWays(_loop("bidirectional_rnn/fw", *options), _loop("bidirectional_rnn/bw", *options), fixed)
        outputs = tuple(sized(cell.output_size, sequences.axes, kind) for cell in (cell_fw, cell_bw))
        both = states[0][0], states[1][0]
        results = outputs, (state_like(both[0]), state_like(both[1]))
        given = sequences.inputs, sequences.lengths, both
        return run_module("bidirectional_rnn", bounds, run, given, results, takes_run=True, loops=True)


def static_rnn(
    cell: Any,
    inputs: Sequence[Structure],
    initial_state: Structure = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], Structure]:
    """Runs a cell over a list of steps, each `[batch, depth]`; the results are those of `dynamic_rnn`.

    Args:
        cell: a cell.
        inputs: the steps.
        initial_state: the state to start from; the cell's zero state if None.
        dtype: the dtype of the zero state and the outputs; needed without `initial_state`.
        sequence_length: the length of each row.
        scope: the scope of the variables, "rnn" by default.

    Returns:
        The list of outputs, and the final state.

    >>> from unspool import tf1 as tf
    >>> steps = [tf.placeholder(tf.float32, [None, 3]) for _ in range(2)]
    >>> outputs, state = tf.nn.static_rnn(tf.nn.rnn_cell.BasicRNNCell(4), steps, dtype=tf.float32)
    >>> len(outputs), outputs[0].shape, state.shape
    (2, TensorShape([None, 4]), TensorShape([None, 4]))
    """
    assert_like_rnncell("cell", cell)
    with variable_scope(scope or "rnn"):
        steps = _as_steps(inputs)
        sequences = _Sequences(steps[0], sequence_length, True, stacked=False)
        state, kind = _state(cell, _unrolled(cell, initial_state, sequence_length), dtype, sequences)
        bound = bound_cell(cell, sequences.step, state, any_output=sequence_length is None)

        fixed, loop = bound.fixed, _loop("rnn", kind, True, None, False)

        def run(modules: list[Any], x: list[Structure], lengths: Any, s: Structure) -> Any:
            outputs, last = loop(modules[0], _stacked(x), lengths, s, fixed=fixed)
            return _unstacked(outputs), last

        results = [sized(_made(cell, bound), sequences.axes, kind) for _ in steps], state_like(state)
        return run_module("static_rnn", [bound], run, (steps, sequences.lengths, state), results)


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Structure],
    initial_state_fw: Structure = None,
    initial_state_bw: Structure = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], Structure, Structure]:
    """Runs one cell forwards and one backwards over a list of steps; the outputs of both are side by side.

    Returns:
        The list of outputs, and the final state of each direction.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    with variable_scope(scope or "bidirectional_rnn"):
        steps = _as_steps(inputs)
        sequences = _Sequences(steps[0], sequence_length, True, stacked=False)
        bounds: list[Any] = []
        states: list[Any] = []
        for name, cell, initial in (("fw", cell_fw, initial_state_fw), ("bw", cell_bw, initial_state_bw)):
            with variable_scope(name):
                states.append(_state(cell, _unrolled(cell, initial, sequence_length), dtype, sequences))
                bounds.append(bound_cell(cell, sequences.step, states[-1][0], any_output=sequence_length is None))
        kind = states[0][1]

        def run(modules: list[Any], x: list[Structure], lengths: Any, s: Any) -> Any:
            both, last = unspool.bidirectional_dynamic_rnn(
                modules[0], modules[1], _stacked(x), lengths, s[0], s[1], kind.torch, time_major=True
            )
            joined = map_structure(lambda fw, bw: torch.cat([fw, bw], 2), *both)
            return _unstacked(joined), *last

        cells = zip((cell_fw, cell_bw), bounds, strict=True)
        sizes = [sized(_made(cell, bound), sequences.axes, kind) for cell, bound in cells]
        joined = map_structure(_side_by_side, *sizes)
        both = states[0][0], states[1][0]
        results = [joined for _ in steps], state_like(both[0]), state_like(both[1])
        return run_module("bidirectional_rnn", bounds, run, (steps, sequences.lengths, both), results)


class _Sequences:
    """Inputs of a loop, as far as they are known when the graph is built."""

    def __init__(self, inputs: Structure, lengths: Any, time_major: bool, *, stacked: bool = True) -> None:
        self.inputs = map_structure(as_tensor, inputs)
        self._leaves: list[Tensor] = flatten(self.inputs)
        if not self._leaves:
            raise ValueError(f"inputs is empty: {inputs!r} has no tensor to run over")
        self._rows, self._time = (1, 0) if time_major and stacked else (0, 1)
        self._stacked = stacked
        first = self._leaves[0]
        if first.dims is None:
            raise ValueError(f"inputs must have a known rank, but {first!r} has none; use set_shape")
        if len(first.dims) < (2 if stacked else 1):
            raise ValueError(
                f"Expected input tensor {first.name} to have rank at least 2, but its shape is {described(first.dims)}"
            )
        self.lengths: Tensor | None = None
        if lengths is not None:
            given = as_tensor(lengths)
            self.lengths = given if given.dtype.is_integer else cast(given, int32)
            if given.dims is not None and len(given.dims) != 1:
                raise ValueError(
                    f"sequence_length must be a vector of length batch_size, but saw shape: {described(given.dims)}"
                )
            if given.dims is not None and not compatible(given.dims[0], self.rows):
                raise ValueError(f"sequence_length has {given.dims[0]} entries, but there are {self.rows} rows")

    @property
    def rows(self) -> Dim:
        """How many rows there are, if that is known."""
        return (self._leaves[0].dims or (None,))[self._rows]

    @property
    def batch_size(self) -> Any:
        """How many rows there are: a number, or a tensor that will say it."""
        return shape(self._leaves[0])[self._rows] if self.rows is None else self.rows

    def zeros(self, size: Sequence[int], dtype: DType) -> Tensor:
        """Zeros of a size for each row, where only a run will say how many there are."""
        axis, kind = self._rows, dtype.torch
        return apply(
            "ZerosLike",
            lambda x: x.new_zeros((x.shape[axis], *size), dtype=kind),
            self._leaves[0],
            name="zeros",
            outputs=[(dtype, (None, *size))],
        )

    @property
    def axes(self) -> tuple[Dim, ...]:
        """The axes before the sizes of the outputs."""
        return (self._leaves[0].dims or ())[:2] if self._stacked else (self.rows,)

    @property
    def step(self) -> Structure:
        """What the cell sees of the inputs: no time."""
        if not self._stacked:
            return self.inputs
        return map_structure(lambda leaf: Like(leaf.dtype, (leaf.dims[self._rows], *leaf.dims[2:])), self.inputs)

    def check(self) -> None:
        """Raises `ValueError` unless the inputs can be those of a loop."""
        for leaf in self._leaves:
            if leaf.dims is None or len(leaf.dims) < 3:
                raise ValueError(
                    f"inputs must have rank at least 3, [batch, time, depth...], but {leaf.name} has shape "
                    f"{described(leaf.dims)}"
                )
            if None in leaf.dims[2:]:
                raise ValueError(
                    "Input size (depth of inputs) must be accessible via shape inference, but saw value None: "
                    f"{leaf.name} has shape {described(leaf.dims)}"
                )
        for axis, what in ((self._time, "Time steps is not the same"), (self._rows, "Batch_size is not the same")):
            found = [(leaf.dims or ())[axis] for leaf in self._leaves]
            if any(not compatible(found[0], each) for each in found):
                raise ValueError(f"{what} for all the elements in the input in a batch: {found}")


def _state(cell: Any, initial_state: Structure, dtype: Any, sequences: _Sequences) -> tuple[Structure, DType]:
    """The initial state, and the dtype of the outputs."""
    if initial_state is None:
        if dtype is None:
            raise ValueError("If there is no initial_state, you must give a dtype.")
        state = _initial(cell, sequences, as_dtype(dtype))
    else:
        state = map_structure(as_leaf, initial_state)
        check_namedtuples(cell.state_size, state, name="initial_state", like="cell.state_size")
        if isinstance(state, list) and isinstance(cell.state_size, tuple):
            raise TypeError(
                f"initial_state is a list, but cell.state_size is {describe(cell.state_size)}; write tuple(...)"
            )
    if dtype is not None:
        return state, as_dtype(dtype)
    kinds = {leaf.dtype for leaf in flatten(state) if leaf.dtype.is_floating}
    if len(kinds) != 1:
        raise ValueError(
            "State has tensors of different inferred_dtypes, so dtype must be given: "
            f"{sorted(each.name for each in kinds)}"
        )
    return state, kinds.pop()


def _unrolled(cell: Any, initial_state: Structure, lengths: Any) -> Structure:
    """A first state for calls one after another, of which cells take any tuple; loops with lengths compare states."""
    return packed(cell.state_size, initial_state) if lengths is None else initial_state


def _initial(cell: Any, sequences: _Sequences, dtype: DType) -> Structure:
    kind: Any = type(cell)
    plain = getattr(kind, "zero_state", None) is RNNCell.zero_state
    if plain and kind.get_initial_state is RNNCell.get_initial_state and sequences.rows is None:
        return map_structure(lambda size: sequences.zeros(shape_of(size), dtype), as_sizes(cell.state_size))
    if hasattr(cell, "get_initial_state"):
        return map_structure(as_leaf, cell.get_initial_state(inputs=None, batch_size=sequences.batch_size, dtype=dtype))
    return map_structure(as_leaf, cell.zero_state(sequences.batch_size, dtype))


def _loop(scope: str, kind: DType, time_major: bool, parallel_iterations: Any, swap_memory: bool) -> Looped:
    if parallel_iterations is not None and not isinstance(parallel_iterations, int):
        raise TypeError(f"parallel_iterations must be an int, but is {parallel_iterations!r}")
    check_parallel_iterations(parallel_iterations)
    options: dict[str, Any] = dict(parallel_iterations=parallel_iterations, swap_memory=swap_memory)
    return Looped(kind, time_major, scope, **options)


def _as_steps(inputs: Any) -> list[Structure]:
    if not isinstance(inputs, list | tuple):
        raise TypeError(
            f"inputs must be a sequence of steps, but is a {type(inputs).__name__}; for one tensor there is dynamic_rnn"
        )
    if not inputs:
        raise ValueError("inputs must not be empty")
    steps = [map_structure(as_tensor, each) for each in inputs]  # pyright: ignore[reportUnknownVariableType]
    first = flatten(steps[0])
    for number, step in enumerate(steps):
        for leaf, one in zip(flatten(step), first, strict=True):
            if leaf.dims is None or len(leaf.dims) < 2 or None in leaf.dims[1:]:
                raise ValueError(
                    f"inputs[{number}] must be [batch, depth...] with a known depth, but {leaf.name} has shape "
                    f"{described(leaf.dims)}"
                )
            if not all(map(compatible, leaf.dims, one.dims or ())):
                raise ValueError(
                    f"inputs[{number}] has shape {described(leaf.dims)}, but inputs[0] has {described(one.dims)}: "
                    "Dimensions are not compatible"
                )
    return steps


def _made(cell: Any, bound: Bound) -> Structure:
    """The sizes of what a step puts out, which may be a tuple although `output_size` is a number."""
    return bound.module.output_size if isinstance(bound.module, Traced) else cell.output_size


def _stacked(steps: list[Structure]) -> Structure:
    columns = zip(*map(flatten, steps), strict=True)
    return unflatten_as(steps[0], [torch.stack(each) for each in columns])


def _unstacked(outputs: Structure) -> list[Structure]:
    columns = [leaf.unbind(0) for leaf in flatten(outputs)]
    return [unflatten_as(outputs, each) for each in zip(*columns, strict=True)]


def _side_by_side(one: Like, other: Like) -> Like:
    dims: Dims = None
    if one.dims is not None and other.dims is not None:
        dims = (one.dims[0], (one.dims[1] or 0) + (other.dims[1] or 0), *one.dims[2:])
    return Like(one.dtype, dims)
