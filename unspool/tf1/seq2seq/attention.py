"""Attention of the graph: unspool's mechanisms, whose memory is a tensor of the graph."""

from __future__ import annotations

import inspect
from typing import Any

import torch

import unspool
from unspool.cells.building import witnessed_initializers
from unspool.decode.attention.layers import listed
from unspool.flags import check_flags
from unspool.sizes import shape_of
from unspool.structure import Structure, map_structure
from unspool.tf1.dtypes import DType, as_dtype, int64
from unspool.tf1.functions import Like
from unspool.tf1.graph import get_default_graph
from unspool.tf1.layers.base import Layer
from unspool.tf1.operations import as_tensor
from unspool.tf1.rnn.callbacks import Callback, CalledLayer, as_callback
from unspool.tf1.rnn.cell import ModuleCell, run_module
from unspool.tf1.rnn.modules import Bound, Late, Weights, as_sizes
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
        if plain.get("probability_fn") is not None:
            plain["probability_fn"] = self._traced(plain["probability_fn"])
        self.module: Any = self.kind(**plain)
        needed = [self.memory] if lengths is None else [self.memory, as_tensor(lengths)]
        self.late = Late(self.module, needed, lambda module, *values: module.setup_memory(*values))
        depth: Any = self.memory.dims[2]
        self._make_memory_layer(depth)

    def _traced(self, function: Any) -> Any:
        """A function of the scores, one for each row and place of the memory."""
        called = as_callback(function)
        if isinstance(called, Callback):
            called.trace(Like(self.memory.dtype, (self.memory.dims or ())[:2]))
        return called

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
        layers = bound.arguments.get("attention_layer")
        if layers is not None:
            each = [CalledLayer(layer) if isinstance(layer, Layer) else layer for layer in listed(layers)[0]]
            bound.arguments["attention_layer"] = each if listed(layers)[1] else each[0]
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


_NOTHING: Any = object.__new__(Tensor)
"""Stands in an array that only says what another one is like."""
