"""`tf.lookup`: tables from words to numbers and back. A session fills them when their initialisers run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unspool.tf1.data.sources import lines_of
from unspool.tf1.dtypes import DType, as_dtype, int64, string
from unspool.tf1.errors import FailedPreconditionError, InvalidArgumentError
from unspool.tf1.fingerprint import bucket_of
from unspool.tf1.graph import get_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.math import add
from unspool.tf1.shapes import described, fit
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys, group

if TYPE_CHECKING:
    from unspool.tf1.session import Run, State

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "tables_initializer",
]

Contents = dict[Any, Any]


@dataclass(frozen=True)
class Initializer:
    """What fills a table.

    Args:
        key_dtype: the dtype of what is looked up.
        value_dtype: the dtype of what is found.
        inputs: the tensors that it reads.
        contents: takes their values to what the table holds.
    """

    key_dtype: DType
    value_dtype: DType
    inputs: tuple[Tensor, ...]
    contents: Callable[..., Contents]


def KeyValueTensorInitializer(  # noqa: N802
    keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
) -> Initializer:
    """Fills a table with keys and their values.

    >>> from unspool import tf1 as tf
    >>> words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [3, 4]), -1)
    >>> with tf.Session() as session:
    ...     session.run(tf.tables_initializer())
    ...     session.run(words.lookup(tf.constant(["b", "z"])))
    array([ 4, -1], dtype=int32)
    """
    given, found = as_tensor(keys, key_dtype), as_tensor(values, value_dtype)
    if not fit(given.dims, found.dims):
        raise ValueError(f"keys have shape {described(given.dims)}, but values {described(found.dims)}")

    def contents(keys: torch.Tensor, values: torch.Tensor) -> Contents:
        if keys.numel() != values.numel():
            raise ValueError(f"there are {keys.numel()} keys, but {values.numel()} values")
        return _filled(zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True))

    return Initializer(given.dtype, found.dtype, (given, found), contents)


class TextFileIndex:
    """The columns of a text file that are no columns: a whole line, and its number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


def TextFileInitializer(  # noqa: N802
    filename: Any,
    key_dtype: Any,
    key_index: int,
    value_dtype: Any,
    value_index: int,
    vocab_size: int | None = None,
    delimiter: str = "\t",
    name: str | None = None,
) -> Initializer:
    """Fills a table with the lines of a text file.

    Args:
        filename: its name.
        key_dtype: the dtype of what is looked up.
        key_index: the number of the column of keys, or `TextFileIndex.WHOLE_LINE` or `.LINE_NUMBER`.
        value_dtype: the dtype of what is found.
        value_index: the same for values.
        vocab_size: how many lines are read; all by default.
        delimiter: what is between columns.
        name: accepted.
    """
    name_of_file = as_tensor(filename, string)
    kinds = as_dtype(key_dtype), as_dtype(value_dtype)
    for what, index, kind in zip(("key", "value"), (key_index, value_index), kinds, strict=True):
        if index < TextFileIndex.WHOLE_LINE:
            raise ValueError(f"Invalid {what} index {index}.")
        if index == TextFileIndex.LINE_NUMBER and kind is not int64:
            raise ValueError(f"Signature mismatch. {what} must be dtype int64, got {kind.name}.")
        if index == TextFileIndex.WHOLE_LINE and kind is not string:
            raise ValueError(f"Signature mismatch. {what} must be dtype string, got {kind.name}.")

    def column(line: bytes, number: int, index: int, kind: DType) -> Any:
        if index < 0:
            return number if index == TextFileIndex.LINE_NUMBER else line
        parts = line.split(delimiter.encode())
        if index >= len(parts):
            raise InvalidArgumentError(None, None, f"Invalid number of columns in line {number}: {len(parts)}")
        return parts[index] if kind is string else (int if kind.is_integer else float)(parts[index])

    def contents(name: Strings) -> Contents:
        lines = list(lines_of(name.item()))
        if vocab_size is not None and len(lines) < vocab_size:
            raise InvalidArgumentError(
                None, None, f"Invalid vocab_size in {name.item().decode()}: expected {vocab_size} but got {len(lines)}"
            )
        return _filled(
            (column(line, number, key_index, kinds[0]), column(line, number, value_index, kinds[1]))
            for number, line in enumerate(lines[:vocab_size])
        )

    return Initializer(*kinds, (name_of_file,), contents)


def _filled(pairs: Any) -> Contents:
    made: Contents = {}
    for key, value in pairs:
        if made.setdefault(key, value) != value:
            shown = key.decode() if isinstance(key, bytes) else key
            raise InvalidArgumentError(
                None,
                None,
                f"HashTable has different value for same key. Key {shown} has {made[key]!r} and trying to add value "
                f"{value!r}",
            )
    return made


class StaticHashTable:
    """A table that its initialiser fills: what is looked up, or a default for what is not there.

    Args:
        initializer: what fills it.
        default_value: for keys that are not there.
        name: the name of its operations.

    Raises:
        FailedPreconditionError: in a run, if it is looked up before the initialiser has run.
    """

    def __init__(self, initializer: Initializer, default_value: Any, name: str | None = None) -> None:
        self._default = as_tensor(default_value, initializer.value_dtype)
        if not fit(self._default.dims, ()):
            raise ValueError(f"default_value must be a scalar, but is {self._default!r}")
        self._key_dtype, self._value_dtype = initializer.key_dtype, initializer.value_dtype
        self._name = name or "hash_table"
        graph = get_default_graph()

        def fill(run: Run, *values: Any) -> tuple[()]:
            self._contents(run.state).update(initializer.contents(*values))
            _initialized(run.state).add(self)
            return ()

        inputs = [graph.adopt(each) for each in initializer.inputs]
        self._initializer = graph.add(
            "InitializeTable", f"{self._name}/table_init", fill, inputs, [], takes_run=True, effect=True
        )
        graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, self._initializer)

    @property
    def key_dtype(self) -> DType:
        """The dtype of what is looked up."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of what is found."""
        return self._value_dtype

    @property
    def default_value(self) -> Tensor:
        """What is found for keys that are not there."""
        return self._default

    @property
    def name(self) -> str:
        """The name of its operations."""
        return self._name

    @property
    def initializer(self) -> Operation:
        """The operation that fills it; `tf.tables_initializer()` runs those of all tables."""
        return self._initializer

    init = initializer

    def _contents(self, state: State) -> Contents:
        return state.kept(self, dict)

    def _filled_contents(self, state: State) -> Contents:
        if self not in _initialized(state):
            raise FailedPreconditionError(None, None, f"Table not initialized: {self._name}.")
        return self._contents(state)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has."""

        def count(run: Run) -> torch.Tensor:
            return torch.tensor(len(self._filled_contents(run.state)))

        return apply("LookupTableSize", count, outputs=[(int64, ())], takes_run=True, name=name)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys; for a `SparseTensor`, those of its elements.

        Raises:
            TypeError: if keys are of another dtype.
        """
        if hasattr(keys, "dense_shape") and hasattr(keys, "indices"):
            return type(keys)(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        given = as_tensor(keys)
        if given.dtype is not self._key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {self._key_dtype.name}, got {given.dtype.name}: {given!r}"
            )

        def find(run: Run, keys: torch.Tensor, default: torch.Tensor) -> torch.Tensor:
            return found(keys, self._filled_contents(run.state), default, self._value_dtype)

        outputs = [(self._value_dtype, given.dims)]
        return apply("LookupTableFind", find, given, self._default, outputs=outputs, takes_run=True, name=name)


def found(keys: torch.Tensor, contents: Contents, default: torch.Tensor, dtype: DType) -> torch.Tensor:
    """The values of keys in what a table holds."""
    other = default.item()
    if isinstance(keys, Strings):
        values = keys.mapped(lambda key: contents.get(key, other))
    else:
        values = np.empty(tuple(keys.shape), object)
        values.reshape(-1)[:] = [contents.get(key, other) for key in keys.reshape(-1).tolist()]
    return Strings.of(values) if dtype is string else torch.from_numpy(values.astype(dtype.as_numpy_dtype))


class StaticVocabularyTable:
    """Numbers of words, and of buckets for words that are not in the table: these follow its own.

    Args:
        initializer: what fills the table, with int64 values; None for buckets alone.
        num_oov_buckets: how many buckets there are.
        lookup_key_dtype: the dtype of keys, if there is no initialiser.
        name: the name of its operations.
    """

    def __init__(
        self, initializer: Initializer | None, num_oov_buckets: int, lookup_key_dtype: Any = None, name: Any = None
    ) -> None:
        if num_oov_buckets < 1:
            raise ValueError(f"oov_buckets must be > 0, but is {num_oov_buckets}")
        if initializer is not None and initializer.value_dtype is not int64:
            raise TypeError(f"Invalid value dtype {initializer.value_dtype.name}, expected int64.")
        self._buckets, self.name = num_oov_buckets, name or "string_to_index"
        self._table = None if initializer is None else StaticHashTable(initializer, -1, self.name)
        self.key_dtype: DType = string if initializer is None else initializer.key_dtype
        if lookup_key_dtype is not None:
            self.key_dtype = as_dtype(lookup_key_dtype)
        self.value_dtype: DType = int64

    @property
    def initializer(self) -> Operation:
        """The operation that fills it."""
        return group(name=f"{self.name}/init") if self._table is None else self._table.initializer

    init = initializer

    def size(self, name: str | None = None) -> Tensor:
        """How many numbers there are, with the buckets."""
        buckets = as_tensor(np.int64(self._buckets))
        return buckets if self._table is None else add(self._table.size(name), buckets)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The numbers of keys."""
        if hasattr(keys, "dense_shape") and hasattr(keys, "indices"):
            return type(keys)(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        given = as_tensor(keys)
        if given.dtype is not self.key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {self.key_dtype.name}, got {given.dtype.name}: {given!r}"
            )

        def find(keys: torch.Tensor, size: torch.Tensor, *own: torch.Tensor) -> torch.Tensor:
            words = keys.array() if isinstance(keys, Strings) else keys.numpy()
            buckets = [
                bucket_of(word if isinstance(word, bytes) else str(word).encode(), self._buckets)
                for word in words.reshape(-1)
            ]
            other = torch.tensor(buckets, dtype=torch.int64).reshape(keys.shape) + size - self._buckets
            return torch.where(own[0] < 0, other, own[0]) if own else other

        own = [] if self._table is None else [self._table.lookup(given)]
        return apply("VocabularyLookup", find, given, self.size(), *own, outputs=[(int64, given.dims)], name=name)


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills all tables of the default graph."""
    return group(*get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


def _initialized(state: State) -> set[Any]:
    return state.kept(StaticHashTable, set)


def __getattr__(name: str) -> Any:
    raise missing("tf.lookup", name, globals())
