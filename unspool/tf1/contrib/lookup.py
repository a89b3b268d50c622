"""`tf.contrib.lookup`: tables of words and their numbers, from lists and from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, int64, string
from unspool.tf1.graph import get_default_graph
from unspool.tf1.lookup import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
    TextFileIndex,
    TextFileInitializer,
    found,
)
from unspool.tf1.namespace import missing
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import size
from unspool.tf1.ops.creation import range_
from unspool.tf1.ops.math import cast
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = [
    "HashTable",
    "KeyValueTensorInitializer",
    "MutableHashTable",
    "TextFileIndex",
    "TextFileInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]


class HashTable(StaticHashTable):
    """A table that its initialiser fills; see `tf.lookup.StaticHashTable`."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(initializer, default_value, name)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """The numbers of the lines of a text file, as a table from words to int64.

    Args:
        vocabulary_file: its name.
        num_oov_buckets: how many numbers follow for words that are not in it, which are spread by their fingerprints.
        vocab_size: how many lines are read; all by default.
        default_value: the number of words that are not in it, without buckets.
        hasher_spec: accepted.
        key_dtype: the dtype of keys.
        name: of its operations.
        key_column_index: the column of keys.
        value_column_index: the column of numbers.
        delimiter: what is between columns.

    Raises:
        ValueError: if the file has no name, or a number is negative that must not be.
    """
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_counts(num_oov_buckets, vocab_size)
    initializer = TextFileInitializer(
        vocabulary_file, key_dtype, key_column_index, int64, value_column_index, vocab_size, delimiter
    )
    return _index_table(initializer, num_oov_buckets, default_value, name)


def index_table_from_tensor(
    mapping: Any = None,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = string,
    name: str | None = None,
    *,
    vocabulary_list: Any = None,
) -> Any:
    """The places of words in a list, as a table from words to int64; see `index_table_from_file`.

    >>> from unspool import tf1 as tf
    >>> table = tf.contrib.lookup.index_table_from_tensor(["a", "b"], num_oov_buckets=1)
    >>> with tf.Session() as session:
    ...     session.run(tf.tables_initializer())
    ...     session.run(table.lookup(tf.constant(["b", "z", "a"])))
    array([1, 2, 0])
    """
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("mapping must be specified.")
    _check_counts(num_oov_buckets, None)
    keys = as_tensor(words, dtype if as_dtype(dtype) is string else None)
    keys = cast(keys, int64) if keys.dtype.is_integer else keys
    initializer = KeyValueTensorInitializer(keys, cast(range_(size(keys)), int64))
    return _index_table(initializer, num_oov_buckets, default_value, name)


def _index_table(initializer: Any, num_oov_buckets: int, default_value: int, name: str | None) -> Any:
    if num_oov_buckets:
        return StaticVocabularyTable(initializer, num_oov_buckets, name=name)
    return StaticHashTable(initializer, default_value, name or "string_to_index")


def _check_counts(num_oov_buckets: int, vocab_size: int | None) -> None:
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.")


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: Any = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:
    """The lines of a text file by their numbers, as a table from int64 to words."""
    if not isinstance(vocabulary_file, Tensor) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_counts(0, vocab_size)
    initializer = TextFileInitializer(
        vocabulary_file, int64, key_column_index, string, value_column_index, vocab_size, delimiter
    )
    return StaticHashTable(initializer, default_value, name or "index_to_string")


def index_to_string_table_from_tensor(
    mapping: Any = None, default_value: Any = "UNK", name: str | None = None, *, vocabulary_list: Any = None
) -> StaticHashTable:
    """The words of a list by their places, as a table from int64 to words."""
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("mapping must be specified.")
    values = as_tensor(words, string)
    initializer = KeyValueTensorInitializer(cast(range_(size(values)), int64), values)
    return StaticHashTable(initializer, default_value, name or "index_to_string")


class MutableHashTable:
    """A table that runs insert into.

    Args:
        key_dtype: the dtype of what is looked up.
        value_dtype: the dtype of what is found.
        default_value: for keys that are not there.
        shared_name: accepted.
        name: the name of its operations.
        checkpoint: accepted; tables are not saved.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        self.key_dtype: DType = as_dtype(key_dtype)
        self.value_dtype: DType = as_dtype(value_dtype)
        self.name, self._default = name, as_tensor(default_value, self.value_dtype)

    def _key_tensor(self, keys: Any) -> Tensor:
        given = as_tensor(keys, None if isinstance(keys, Tensor) else self.key_dtype)
        if given.dtype is not self.key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {self.key_dtype.name}, got {given.dtype.name}: {given!r}"
            )
        return given

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An operation that gives keys their values."""
        given, new = self._key_tensor(keys), as_tensor(values, self.value_dtype)

        def insert(run: Run, keys: torch.Tensor, values: torch.Tensor) -> tuple[()]:
            pairs = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
            run.state.kept(self, dict).update(pairs)
            return ()

        graph = get_default_graph()
        inputs = [graph.adopt(given), graph.adopt(new)]
        return graph.add("LookupTableInsert", name, insert, inputs, [], takes_run=True, effect=True)

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """The values of keys."""
        given = self._key_tensor(keys)

        def find(run: Run, keys: torch.Tensor, default: torch.Tensor) -> torch.Tensor:
            return found(keys, run.state.kept(self, dict), default, self.value_dtype)

        outputs = [(self.value_dtype, given.dims)]
        return apply("LookupTableFind", find, given, self._default, outputs=outputs, takes_run=True, name=name)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are."""
        count = lambda run: torch.tensor(len(run.state.kept(self, dict)))  # noqa: E731  # pyright: ignore[reportUnknownLambdaType]
        return apply("LookupTableSize", count, outputs=[(int64, ())], takes_run=True, name=name)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys, and their values."""

        def listed(run: Run) -> Any:
            contents = run.state.kept(self, dict)
            pairs = (list(contents), self.key_dtype), (list(contents.values()), self.value_dtype)
            return [
                Strings.of(each) if kind is string else torch.tensor(each, dtype=kind.torch) for each, kind in pairs
            ]

        outputs = [(self.key_dtype, (None,)), (self.value_dtype, (None,))]
        keys, values = apply("LookupTableExport", listed, outputs=outputs, takes_run=True, name=name)
        return keys, values


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.lookup", name, globals())
