"""Operations on strings: splitting, joining, numbers in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, bool_, float32, int32, int64, string
from unspool.tf1.errors import OutOfRangeError
from unspool.tf1.fingerprint import bucket_of
from unspool.tf1.inference import broadcast
from unspool.tf1.operations import apply, as_tensor, check_axis
from unspool.tf1.shapes import Dims, described, fit, merged
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

__all__ = [
    "as_string",
    "reduce_join",
    "regex_replace",
    "string_join",
    "string_length",
    "string_lower",
    "string_split",
    "string_strip",
    "string_to_hash_bucket_fast",
    "string_to_number",
    "string_upper",
    "substr",
]


def string_split(source: Any, sep: str | None = None, skip_empty: bool = True, delimiter: str | None = None) -> Any:
    """The parts of each string of a vector, as a `SparseTensor` with a row for each.

    Args:
        source: a vector of strings.
        sep: the bytes that end a part, each of them; a blank by default. Empty for parts of one byte.
        skip_empty: whether parts without bytes are left out.
        delimiter: the same as `sep`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.string_split(["to be or", "not"]).values)
    array([b'to', b'be', b'or', b'not'], dtype=object)
    """
    if sep is not None and delimiter is not None:
        raise ValueError("Cannot specify both 'sep' and 'delimiter'.")
    given = delimiter if sep is None else sep
    ends = b" " if given is None else given.encode()
    pattern = re.compile(b"[" + re.escape(ends) + b"]") if ends else None

    def parts(text: bytes) -> list[bytes]:
        if not text:
            return []
        found = [text[place : place + 1] for place in range(len(text))] if pattern is None else pattern.split(text)
        return [each for each in found if each or not skip_empty]

    return _sparse_parts("StringSplit", source, parts)


def split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None
) -> Any:
    """The parts of each string of a vector between separators (`tf.strings.split`), as a `SparseTensor`.

    Args:
        input: a vector of strings.
        sep: the separator, as a whole; any white space by default.
        maxsplit: how many separators count, at most; all for -1.
        result_type: "SparseTensor".
        source: the same as `input`.
    """
    if result_type != "SparseTensor":
        raise ValueError(f"result_type must be 'SparseTensor', but is {result_type!r}: there are no ragged tensors")
    between = None if sep is None or sep in ("", b"") else sep.encode() if isinstance(sep, str) else bytes(sep)

    def parts(text: bytes) -> list[bytes]:
        if not maxsplit:
            return [text]
        found = text.split(between, maxsplit)
        rest_is_empty = between is None and len(found) == maxsplit  # and yet a part, as in TensorFlow
        return [*found, b""] if rest_is_empty else found

    return _sparse_parts("StringSplitV2", source if input is None else input, parts)


def _sparse_parts(kind: str, source: Any, parts: Callable[[bytes], list[bytes]]) -> Any:
    from unspool.tf1.sparse.tensor import SparseTensor

    given = as_tensor(source, string)
    if given.dims is not None and len(given.dims) != 1:
        raise ValueError(f"{kind}: strings must be a vector, but {given!r} has rank {len(given.dims)}")

    def compute(x: Strings) -> Any:
        rows = [parts(each) for each in x.tolist()]
        places = [(row, place) for row, words in enumerate(rows) for place in range(len(words))]
        shape = [len(rows), max((len(words) for words in rows), default=0)]
        return (
            torch.tensor(places, dtype=torch.int64).reshape(-1, 2),
            Strings.of([word for words in rows for word in words]),
            torch.tensor(shape),
        )

    outputs = [(int64, (None, 2)), (string, (None,)), (int64, (2,))]
    return SparseTensor(*apply(kind, compute, given, outputs=outputs))


def string_to_number(string_tensor: Any, out_type: Any = float32, name: str | None = None) -> Tensor:
    """The numbers that strings spell; `InvalidArgumentError` in a run if one spells none.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.string_to_number(["1.5", "-2"]))
    array([ 1.5, -2. ], dtype=float32)
    """
    given, wanted = as_tensor(string_tensor, string), as_dtype(out_type)
    if wanted not in (float32, as_dtype("float64"), int32, int64):
        raise TypeError(f"out_type must be float32, float64, int32 or int64, but is {wanted.name}")

    def number(text: bytes) -> Any:
        plain = text.strip().decode("utf-8", "replace")
        try:
            if "_" in plain:
                raise ValueError(plain)
            return int(plain) if wanted.is_integer else float(plain)
        except ValueError:
            raise ValueError(f"StringToNumberOp could not correctly convert string: {text.decode()}") from None

    def compute(x: Strings) -> torch.Tensor:
        return torch.from_numpy(x.mapped(number).astype(wanted.as_numpy_dtype))

    return apply("StringToNumber", compute, given, name=name, outputs=[(wanted, given.dims)])


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """The strings at each place, joined; scalars are stretched."""
    given = [as_tensor(each, string) for each in inputs]
    between = separator.encode()
    shape: Dims = None if any(each.dims is None for each in given) else ()
    for each in given:
        if each.dims:
            if not fit(shape or None, each.dims):
                raise ValueError(f"StringJoin: inputs have shapes {described(shape)} and {described(each.dims)}")
            shape = merged(shape or None, each.dims)

    def compute(*values: Strings) -> Strings:
        if len({each.shape for each in values if each.dim()}) > 1:
            raise ValueError(f"StringJoin: inputs have shapes {[list(each.shape) for each in values]}")
        columns = np.broadcast_arrays(*(each.array() for each in values))
        made = np.empty(columns[0].shape, object)
        made.reshape(-1)[:] = [between.join(row) for row in zip(*(each.reshape(-1) for each in columns), strict=True)]
        return Strings.of(made)

    return apply("StringJoin", compute, *given, name=name, outputs=[(string, shape)])


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool = False,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
) -> Tensor:
    """The strings along an axis, joined; along all of them by default."""
    given = as_tensor(inputs, string)
    chosen = axis if reduction_indices is None else reduction_indices
    named = None if chosen is None else [chosen] if isinstance(chosen, int) else list(chosen)
    between = separator.encode()

    def places(rank: int) -> list[int]:
        listed = range(rank)[::-1] if named is None else named
        for each in listed:
            check_axis("ReduceJoin", each, rank)
        return [each % rank for each in listed]

    def reduced(sizes: Any) -> Any:
        axes = places(len(sizes))
        if keep_dims:
            return tuple(1 if place in axes else size for place, size in enumerate(sizes))
        return tuple(size for place, size in enumerate(sizes) if place not in axes)

    def compute(x: Strings) -> Strings:
        try:
            axes, array = places(x.dim()), x.array()
        except ValueError as error:
            raise OutOfRangeError(None, None, str(error)) from None
        others = [place for place in range(array.ndim) if place not in axes]
        sizes = [array.shape[place] for place in others]
        joined = array.transpose([*others, *reversed(axes)])  # the first of the axes is joined first
        rows = joined.reshape(int(np.prod(sizes)), -1 if array.size else 0)
        made = np.empty(len(rows), object)
        made[:] = [between.join(row) for row in rows]
        return Strings.of(made.reshape(reduced(array.shape)))

    dims = None if given.dims is None else reduced(given.dims)
    return apply("ReduceJoin", compute, given, name=name, outputs=[(string, dims)])


def _each(kind: str, function: Callable[[bytes], bytes], input: Any, name: str | None) -> Tensor:
    given = as_tensor(input, string)
    compute = lambda x: Strings.of(x.mapped(function))  # noqa: E731
    return apply(kind, compute, given, name=name, outputs=[(string, given.dims)])


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Strings without white space at their ends."""
    return _each("StringStrip", bytes.strip, input, name)


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Strings in small letters: those of ASCII, or all if `encoding` is "utf-8"."""
    return _each("StringLower", _cased(bytes.lower, str.lower, encoding), input, name)


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Strings in capital letters: those of ASCII, or all if `encoding` is "utf-8"."""
    return _each("StringUpper", _cased(bytes.upper, str.upper, encoding), input, name)


def _cased(ascii: Any, unicode: Any, encoding: str) -> Callable[[bytes], bytes]:
    if encoding not in ("", "utf-8"):
        raise ValueError(f'encoding must be "" or "utf-8", but is {encoding!r}')
    return (lambda text: unicode(text.decode()).encode()) if encoding else ascii


def regex_replace(
    input: Any, pattern: str, rewrite: str, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Strings with matches of a regular expression rewritten; `\1` in `rewrite` is what the first group matched."""
    compiled, count = re.compile(pattern.encode()), 0 if replace_global else 1
    words = re.sub(rb"\\0", rb"\\g<0>", rewrite.encode())
    return _each("StaticRegexReplace", lambda text: compiled.sub(words, text, count=count), input, name)


def regex_full_match(input: Any, pattern: str, name: str | None = None) -> Tensor:
    """Whether a regular expression matches the whole of each string."""
    given, compiled = as_tensor(input, string), re.compile(pattern.encode())

    def compute(x: Strings) -> torch.Tensor:
        return torch.from_numpy(x.mapped(lambda text: compiled.fullmatch(text) is not None).astype(np.bool_))

    return apply("StaticRegexFullMatch", compute, given, name=name, outputs=[(bool_, given.dims)])


def _check_unit(unit: str) -> None:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f'unit must be "BYTE" or "UTF8_CHAR", but is {unit!r}')


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """How many bytes each string has; or characters, if `unit` is "UTF8_CHAR"."""
    given = as_tensor(input, string)
    _check_unit(unit)
    length: Any = len if unit == "BYTE" else lambda text: len(text.decode("utf-8", "replace"))  # pyright: ignore[reportUnknownLambdaType]

    def compute(x: Strings) -> torch.Tensor:
        return torch.from_numpy(x.mapped(length).astype(np.int32))

    return apply("StringLength", compute, given, name=name, outputs=[(int32, given.dims)])


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The bytes of each string from a place on, so many at most; negative places count from the end.

    Args:
        input: strings.
        pos: the place of the first byte of each.
        len: how many there are.
        name: the operation's name.
        unit: "BYTE", or "UTF8_CHAR" if characters are counted.

    Raises:
        InvalidArgumentError: in a run, if a place is outside of its string.
    """
    given, places, lengths = as_tensor(input, string), as_tensor(pos), as_tensor(len)
    _check_unit(unit)
    shape = broadcast("Substr", given.dims, places.dims, lengths.dims)

    def part(given: bytes, place: int, count: int) -> bytes:
        text = given.decode("utf-8", "replace") if unit == "UTF8_CHAR" else given
        size = text.__len__()
        if not -size <= place <= size or (unit == "UTF8_CHAR" and place < 0 and count < 0):
            raise ValueError(f"pos {place} out of range for string {given!r}")
        start = place + size if place < 0 else place
        rest = size if unit == "BYTE" else 0  # what a negative number of bytes or characters means
        found = text[start : start + (rest if count < 0 else count)]
        return found.encode() if isinstance(found, str) else found

    def compute(x: Strings, p: torch.Tensor, n: torch.Tensor) -> Strings:
        columns = np.broadcast_arrays(x.array(), p.numpy(), n.numpy())
        made = np.empty(columns[0].shape, object)
        flat = zip(*(each.reshape(-1).tolist() for each in columns), strict=True)
        made.reshape(-1)[:] = [part(*row) for row in flat]
        return Strings.of(made)

    return apply("Substr", compute, given, places, lengths, name=name, outputs=[(string, shape)])


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Numbers as strings, as C's printf writes them."""
    given = as_tensor(input)
    dtype = given.dtype
    flags = f"{fill}{width if width > -1 else ''}"
    places = f".{precision}" if precision > -1 else ""
    letter = "e" if scientific else "g" if shortest else "f"

    def spelled(value: Any) -> bytes:
        if dtype.is_bool:
            return b"true" if value else b"false"
        return (f"%{flags}{places}{letter}" % value if dtype.is_floating else f"%{flags}d" % value).encode()

    def compute(x: torch.Tensor) -> Any:
        if scientific and shortest:
            raise ValueError("Cannot select both scientific and shortest notation")
        if (scientific or shortest or precision > -1) and not dtype.is_floating:
            raise ValueError(f"precision, scientific and shortest are for fractions, but these are {dtype.name}")
        if isinstance(x, Strings):
            return x
        made = np.empty(tuple(x.shape), object)
        made.reshape(-1)[:] = [spelled(each) for each in x.reshape(-1).tolist()]
        return Strings.of(made)

    return apply("AsString", compute, given, name=name, outputs=[(string, given.dims)])


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Which of so many buckets each string belongs to, by its fingerprint."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, but is {num_buckets}")
    given = as_tensor(input, string)

    def compute(x: Strings) -> torch.Tensor:
        return torch.from_numpy(x.mapped(lambda text: bucket_of(text, num_buckets)).astype(np.int64))

    return apply("StringToHashBucketFast", compute, given, name=name, outputs=[(int64, given.dims)])
