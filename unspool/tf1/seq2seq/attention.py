"""Attention of the graph: unspool's mechanisms, whose memory is a tensor of the graph."""

from __future__ import annotations

import inspect
from typing import Any

import torch

import unspool
from unspool.cells.building import witnessed_initializers
from unspool.flags import check_flags
from unspool.sizes import shape_of
from unspool.structure import Structure, map_structure
from unspool.tf1.dtypes import DType, as_dtype, int64
from unspool.tf1.functions import Like
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import as_tensor
from unspool.tf1.rnn.cell import ModuleCell, run_module
from unspool.tf1.rnn.modules import Bound, Late, Traced, Weights, as_sizes
from unspool.tf1.scopes import get_variable, variable_scope
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.tensor_array import TensorArray


class AttentionMechanism:
    """A way to look at a memory. Subclasses name unspool's mechanism, as `kind`, whose arguments they take.

    The memory layer's kernel is made at once, in the current scope, as in TensorFlow.
    """

    kind: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments = dict(inspect.signature(self.kind).bind(*args, **kwargs).arguments)
        check_flags(self.kind, arguments)
        if arguments.get("memory") is None:
            raise ValueError("memory must be given: the tensor that is looked at")
        self.memory = as_tensor(arguments.pop("memory"))
        lengths = arguments.pop("memory_sequence_length", None)
        if self.memory.dims is None or len(self.memory.dims) != 3 or self.memory.dims[2] is None:
            raise ValueError(f"memory must be [batch, places, depth] with a known depth, but is {self.memory!r}")
        plain = {name: value.torch if isinstance(value, DType) else value for name, value in arguments.items()}
        self.module: Any = self.kind(**plain)
        needed = [self.memory] if lengths is None else [self.memory, as_tensor(lengths)]
        self.late = Late(self.module, needed, lambda module, *values: module.setup_memory(*values))
        depth: Any = self.memory.dims[2]
        self._make_memory_layer(depth)

    def _make_memory_layer(self, depth: int) -> None:
        layer = self.module.memory_layer
        with witnessed_initializers(), torch.random.fork_rng(devices=[]):
            layer.build(depth, dtype=self.memory.dtype.torch)
        weights: Weights = get_default_graph().kept(Weights)
        with variable_scope(None, default_name="memory_layer"):
            weights.add(layer.kernel, get_variable("kernel", list(layer.kernel.shape), self.memory.dtype))

    @property
    def alignments_size(self) -> int | None:
        """How many places the memory has, if that is known."""
        return (self.memory.dims or (None, None))[1]


class BahdanauAttention(AttentionMechanism):
    """`unspool.BahdanauAttention` in the graph."""

    kind = unspool.BahdanauAttention


class LuongAttention(AttentionMechanism):
    """`unspool.LuongAttention` in the graph."""

    kind = unspool.LuongAttention


class BahdanauMonotonicAttention(AttentionMechanism):
    """`unspool.BahdanauMonotonicAttention` in the graph."""

    kind = unspool.BahdanauMonotonicAttention


class LuongMonotonicAttention(AttentionMechanism):
    """`unspool.LuongMonotonicAttention` in the graph."""

    kind = unspool.LuongMonotonicAttention


class AttentionWrapper(ModuleCell):
    """`unspool.AttentionWrapper` in the graph.

    >>> from unspool import tf1 as tf
    >>> attention = tf.contrib.seq2seq.LuongAttention(4, memory=tf.zeros([2, 7, 5]))
    >>> cell = tf.contrib.seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), attention, attention_layer_size=6)
    >>> cell.zero_state(2, tf.float32).alignments.shape
    TensorShape([2, 7])
    """

    kind = unspool.AttentionWrapper

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(self.kind).bind(*args, **kwargs)
        check_flags(self.kind, bound.arguments)
        given = bound.arguments.get("attention_mechanism")
        several = isinstance(given, list | tuple)
        mechanisms: list[Any] = list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
        for each in mechanisms:
            if not isinstance(each, AttentionMechanism):
                raise TypeError(f"attention_mechanism must be an AttentionMechanism, but is {each!r}")
        self._several, self._mechanisms = several, mechanisms
        modules = [each.module for each in mechanisms]
        bound.arguments["attention_mechanism"] = modules if several else modules[0]
        if bound.arguments.get("cell_input_fn") is not None:
            bound.arguments["cell_input_fn"] = _CellInputs(bound.arguments["cell_input_fn"])
        self._initial_cell_state = bound.arguments.pop("initial_cell_state", None)
        super().__init__(*bound.args, **bound.kwargs)
        assert self._bound is not None
        lates = [each.late for each in mechanisms]
        self._bound.late += lates
        self._start = Bound(self.module, lates, runs_steps=False)

    def zero_state(self, batch_size: Any, dtype: Any) -> Structure:
        """The state before the first step, for the memory of the run."""
        kind = as_dtype(dtype)
        rows = as_tensor(batch_size)
        known = None if isinstance(batch_size, Operators) else int(batch_size)

        def begin(modules: list[Any], count: torch.Tensor) -> Structure:
            return modules[0].zero_state(int(count), kind.torch)

        made = run_module("zero_state", [self._start], begin, (rows,), self._state(known, kind))
        return made if self._initial_cell_state is None else made.clone(cell_state=self._initial_cell_state)

    def _state(self, rows: int | None, kind: DType) -> unspool.AttentionWrapperState:
        def like(size: Any) -> Like:
            return Like(kind, (rows, *shape_of(size)))

        def each(make: Any) -> Any:
            made = [make(mechanism.alignments_size) for mechanism in self._mechanisms]
            return tuple(made) if self._several else made[0]

        history = each(lambda places: TensorArray(kind, flow=_NOTHING, element_shape=(rows, places)))
        alignments = each(lambda places: Like(kind, (rows, places)))
        return unspool.AttentionWrapperState(
            cell_state=map_structure(like, as_sizes(self.module.cell.state_size)),
            attention=like(self.module.attention_size),
            time=Like(int64, (rows,)),
            alignments=alignments,
            alignment_history=history if self.module.alignment_history else (),
            attention_state=alignments,
        )


class _CellInputs(torch.nn.Module):
    """What a cell reads of its inputs and the attention, by a function of symbolic tensors, which may make variables.

    Args:
        function: takes the inputs and the attention to what the cell reads.
    """

    def __init__(self, function: Any) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"cell_input_fn must be callable, but got {function!r}")
        self.step = Traced(_Combined(function))

    def variables(self) -> Any:
        """The step, in the place of the names that only a call can tell."""
        yield "", self.step

    def forward(self, inputs: Structure, attention: torch.Tensor) -> Structure:
        """What the cell reads; zeros of its size when the wrapper is built, with blank rows."""
        if self.step.built:
            return self.step(inputs, attention)[0]
        like = map_structure(lambda leaf: Like(as_dtype(leaf.dtype), (None, *leaf.shape[1:])), (inputs, attention))
        self.step.trace(*like)
        return map_structure(lambda size: attention.new_zeros(1, *shape_of(size)), self.step.output_size)


class _Combined:
    """A function of inputs and attention as a step: the attention is its state, which it leaves as it is."""

    state_size = output_size = ()

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, inputs: Structure, attention: Tensor) -> tuple[Structure, Tensor]:
        return self._function(inputs, attention), attention


_NOTHING: Any = object.__new__(Tensor)
"""Stands in an array that only says what another one is like."""
