"""Helpers of the graph: unspool's, made anew in every run from the values of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

import unspool
from unspool.flags import check_flags
from unspool.structure import Structure, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import DType, as_dtype, int32
from unspool.tf1.functions import Function, Like
from unspool.tf1.operations import as_tensor
from unspool.tf1.rnn.modules import as_sizes
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Operators, Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class Traced:
    """A function of symbolic tensors, as a function of values.

    Args:
        function: a Python function of symbolic tensors.
        arguments: what it is called with, as `Like`.
    """

    def __init__(self, function: Callable[..., Structure], *arguments: Structure) -> None:
        self.traced = Function(function, *arguments)

    @property
    def inputs(self) -> list[Tensor]:
        """What it reads of the graph around it."""
        return self.traced.captured

    def on_values(self, run: Run, captured: Sequence[Any]) -> Callable[..., Structure]:
        """The function of values, in one run."""

        def call(*arguments: Any, **named: Any) -> Structure:
            leaves = [torch.as_tensor(leaf) for leaf in flatten((arguments, tuple(named.values())))]
            return unflatten_as(self.traced.result, self.traced(run, [*leaves, *captured]))

        return call


class Helper:
    """Says what a decoder makes of a step's output, and what it reads next.

    Subclasses name unspool's helper, as `kind`, whose arguments they take, with tensors of the graph for values.
    """

    kind: Any
    named = False
    """Whether there is a `name` after unspool's arguments, as some of TensorFlow's helpers have; it changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        signature = inspect.signature(self.kind)
        if self.named:
            name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            every = sorted([*signature.parameters.values(), name], key=lambda each: each.kind)
            signature = signature.replace(parameters=every)
        self.arguments: dict[str, Any] = dict(signature.bind(*args, **kwargs).arguments)
        self.arguments.pop("name", None)
        check_flags(self.kind, self.arguments)
        self.prepare()

    def prepare(self) -> None:
        """Checks the arguments, and traces functions among them whose own arguments are known."""

    def trace(self, outputs: Structure, state: Structure) -> None:
        """Traces functions of a step's outputs and state."""

    @property
    def step_inputs(self) -> Structure:
        """What the cell reads at a step."""
        raise NotImplementedError

    @property
    def rows(self) -> int | None:
        """How many rows there are, if that is known."""
        leaf = flatten(self.step_inputs)[0]
        return leaf.dims[0] if leaf.dims else None

    @property
    def samples(self) -> Like:
        """A step's samples."""
        return Like(int32, (self.rows,))

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that its arguments hold."""
        return [tensor for _, tensors in self._symbolic() for tensor in tensors]

    def _symbolic(self) -> Iterator[tuple[str, list[Tensor]]]:
        for name, value in self.arguments.items():
            if isinstance(value, Traced):
                yield name, value.inputs
            else:
                yield name, [as_tensor(leaf) for leaf in flatten(value) if isinstance(leaf, Operators)]

    def on_values(self, run: Run, values: Sequence[Any]) -> Any:
        """Unspool's helper, in one run."""
        remaining, made = list(values), {}
        for name, tensors in self._symbolic():
            value, own, remaining = self.arguments[name], remaining[: len(tensors)], remaining[len(tensors) :]
            made[name] = value.on_values(run, own) if isinstance(value, Traced) else _filled(value, own)
        return self.kind(**made)


def _filled(value: Structure, own: Sequence[Any]) -> Structure:
    given = iter(own)
    return map_structure(lambda leaf: next(given) if isinstance(leaf, Operators) else _plain(leaf), value)


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, DType):
        return leaf.torch
    return as_sizes(leaf) if isinstance(leaf, TensorShape) else leaf


class TrainingHelper(Helper):
    """`unspool.TrainingHelper` in the graph: reads inputs that are known.

    >>> from unspool import tf1 as tf
    >>> tf.contrib.seq2seq.TrainingHelper(tf.zeros([2, 5, 3]), [5, 2]).step_inputs.dims
    (2, 3)
    """

    kind = unspool.TrainingHelper
    named = True

    def prepare(self) -> None:
        """Makes tensors of the inputs."""
        self.arguments["inputs"] = map_structure(as_tensor, self.arguments["inputs"])
        lengths = as_tensor(self.arguments["sequence_length"])
        if lengths.dims is not None and len(lengths.dims) != 1:
            raise ValueError(f"Expected sequence_length to be a vector, but received shape: {lengths.shape}")

    @property
    def step_inputs(self) -> Structure:
        """The inputs without their time."""
        first = 1 if self.arguments.get("time_major") else 0

        def one(leaf: Tensor) -> Like:
            if leaf.dims is None or len(leaf.dims) < 2:
                raise ValueError(f"inputs must be [batch, time, ...], but {leaf!r} is not")
            return Like(leaf.dtype, (leaf.dims[first], *leaf.dims[2:]))

        return map_structure(one, self.arguments["inputs"])


class GreedyEmbeddingHelper(Helper):
    """`unspool.GreedyEmbeddingHelper` in the graph: reads what stands for the id that was most probable."""

    kind = unspool.GreedyEmbeddingHelper

    def prepare(self) -> None:
        """Makes a table, or a function of ids, of the embedding."""
        tokens = self.arguments["start_tokens"] = as_tensor(self.arguments["start_tokens"])
        if tokens.dims is not None and len(tokens.dims) != 1:
            raise ValueError(f"start_tokens must be a vector, but has shape {tokens.shape}")
        end = self.arguments["end_token"] = as_tensor(self.arguments["end_token"])
        if end.dims not in ((), None):
            raise ValueError(f"end_token must be a scalar, but has shape {end.shape}")
        rows = None if tokens.dims is None else tokens.dims[0]
        self.arguments["embedding"], self._read = as_embedding(self.arguments["embedding"], (rows,))

    @property
    def step_inputs(self) -> Structure:
        """What stands for an id."""
        return self._read


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """`unspool.SampleEmbeddingHelper` in the graph: reads what stands for an id that was drawn."""

    kind = unspool.SampleEmbeddingHelper


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """`unspool.ScheduledEmbeddingTrainingHelper` in the graph: reads now and then what was drawn."""

    kind = unspool.ScheduledEmbeddingTrainingHelper

    def prepare(self) -> None:
        """Makes a table, or a function of ids, of the embedding."""
        super().prepare()
        self.arguments["embedding"], _ = as_embedding(self.arguments["embedding"], (None,))


class ScheduledOutputTrainingHelper(TrainingHelper):
    """`unspool.ScheduledOutputTrainingHelper` in the graph: reads now and then what was put out."""

    kind = unspool.ScheduledOutputTrainingHelper

    def trace(self, outputs: Structure, state: Structure) -> None:
        """Traces the function that makes inputs of outputs."""
        function = self.arguments.get("next_inputs_fn")
        if function is not None and not isinstance(function, Traced):
            self.arguments["next_inputs_fn"] = Traced(function, outputs)

    @property
    def samples(self) -> Like:
        """Whether each row was drawn for."""
        return Like(int32, (self.rows,))


class InferenceHelper(Helper):
    """`unspool.InferenceHelper` in the graph: functions say what is sampled and read."""

    kind = unspool.InferenceHelper

    def prepare(self) -> None:
        """Traces the functions of samples."""
        given = self.arguments["start_inputs"] = as_tensor(self.arguments["start_inputs"])
        shape = TensorShape(self.arguments["sample_shape"]).sizes or ()
        self._sample = Like(as_dtype(self.arguments["sample_dtype"]), ((given.dims or (None,))[0], *shape))
        for name in ("end_fn", "next_inputs_fn"):
            if self.arguments.get(name) is not None:
                self.arguments[name] = Traced(self.arguments[name], self._sample)

    def trace(self, outputs: Structure, state: Structure) -> None:
        """Traces the function that samples from outputs."""
        if not isinstance(self.arguments["sample_fn"], Traced):
            self.arguments["sample_fn"] = Traced(self.arguments["sample_fn"], outputs)

    @property
    def step_inputs(self) -> Structure:
        """Like the first ones."""
        given = self.arguments["start_inputs"]
        return Like(given.dtype, given.dims)

    @property
    def samples(self) -> Like:
        """As the helper was told."""
        return self._sample


class CustomHelper(Helper):
    """`unspool.CustomHelper` in the graph: functions say everything."""

    kind = unspool.CustomHelper

    def prepare(self) -> None:
        """Traces the function that begins."""
        self.arguments["initialize_fn"] = begin = Traced(self.arguments["initialize_fn"])
        self._read = map_structure(lambda leaf: Like(leaf.dtype, leaf.dims), begin.traced.result[1])
        shape = TensorShape(self.arguments.get("sample_ids_shape") or []).sizes or ()
        self._sample = Like(as_dtype(self.arguments.get("sample_ids_dtype") or int32), (self.rows, *shape))

    def trace(self, outputs: Structure, state: Structure) -> None:
        """Traces the functions of a step."""
        time = Like(int32, ())
        if not isinstance(self.arguments["sample_fn"], Traced):
            self.arguments["sample_fn"] = Traced(_by_name(self.arguments["sample_fn"]), time, outputs, state)
            following = _by_name(self.arguments["next_inputs_fn"])
            self.arguments["next_inputs_fn"] = Traced(following, time, outputs, state, self._sample)

    @property
    def step_inputs(self) -> Structure:
        """Like the first ones."""
        return self._read

    @property
    def samples(self) -> Like:
        """As the helper was told."""
        return self._sample


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A step's function, which TensorFlow calls with named arguments."""
    names = ("time", "outputs", "state", "sample_ids")
    return lambda *given: function(**dict(zip(names, given, strict=False)))


def as_embedding(embedding: Any, before: tuple[int | None, ...]) -> tuple[Any, Like]:
    """What turns ids into inputs, a table or a traced function; and what it makes of ids with these axes."""
    if callable(embedding) and not isinstance(embedding, Operators):
        traced = Traced(embedding, Like(int32, before))
        made = traced.traced.outputs[0]
        return traced, Like(made.dtype, made.dims)
    table = as_tensor(embedding)
    if table.dims is None or len(table.dims) < 2:
        raise ValueError(f"embedding must be a matrix or a function, but is {table!r}")
    return table, Like(table.dtype, (*before, *table.dims[1:]))
