"""Where elements come from: tensors, numbers, Python generators, lines of text files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unspool.structure import Structure, flatten
from unspool.tf1.data.elements import Reading, Stage, as_element, leaves_up_to, spec_from, specs_of, with_dims
from unspool.tf1.dtypes import int64, string
from unspool.tf1.errors import NotFoundError, of_python
from unspool.tf1.functions import Like
from unspool.tf1.operations import as_tensor
from unspool.tf1.records.files import compression_of, records_of
from unspool.tf1.shapes import described, fit, merged
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor


class Tensors(Stage):
    """One element, which is given."""

    def __init__(self, tensors: Any) -> None:
        made = as_element(tensors)
        super().__init__(specs_of(made), tensors=flatten(made))
        self._order: list[Tensor] = flatten(made)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """The element."""
        return iter([[reading.values[each] for each in self._order]])


class Slices(Stage):
    """The slices of tensors along their first axis."""

    def __init__(self, tensors: Any) -> None:
        made = as_element(tensors)
        self._order: list[Tensor] = flatten(made)
        count: Any = (None,)
        for each in self._order:
            if each.dims == ():
                raise ValueError(f"Unbatching a tensor is only supported for rank >= 1, but {each!r} is a scalar")
            count = merged(count, None if each.dims is None else each.dims[:1])
        element = with_dims(specs_of(made), lambda dims: None if dims is None else dims[1:])
        super().__init__(element, tensors=self._order)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """A slice of each tensor after the other."""
        values = [reading.values[each] for each in self._order]
        if len({len(each) for each in values}) > 1:
            raise ValueError(f"tensors must have one number of slices, but have {[len(each) for each in values]}")
        return ([each[place] for each in values] for place in range(len(values[0])))


class Numbers(Stage):
    """The numbers of a range."""

    def __init__(self, *arguments: Any) -> None:
        if not 1 <= len(arguments) <= 3:
            raise ValueError(f"range takes 1 to 3 numbers, but got {len(arguments)}")
        self._order = [as_tensor(each, int64) for each in arguments]
        super().__init__(Like(int64, ()), tensors=self._order)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Each number."""
        bounds = [int(reading.values[each]) for each in self._order]
        return ([torch.tensor(each)] for each in range(*bounds))


class Generated(Stage):
    """What a Python generator yields.

    Args:
        generator: called when a reading begins, with the values of `args`; returns what to iterate over.
        output_types: dtypes in the structure of what it yields.
        output_shapes: shapes in the same, unknown by default.
        args: tensors whose values it takes.
    """

    def __init__(self, generator: Callable[..., Any], output_types: Any, output_shapes: Any, args: Any) -> None:
        if not callable(generator):
            raise TypeError("`generator` must be callable.")
        self._generator, self._args = generator, [as_tensor(each) for each in args or ()]
        super().__init__(spec_from(output_types, output_shapes), tensors=self._args)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """What is yielded, as tensors."""
        leaves: list[Like] = flatten(self.element)
        given = [reading.values[each].numpy()[()] for each in self._args]
        try:
            yielded = iter(self._generator(*given))
        except Exception as error:
            raise of_python(error) from error
        while True:
            try:
                value = next(yielded)
            except StopIteration:
                return
            except Exception as error:
                raise of_python(error) from error
            yield [_converted(part, leaf) for part, leaf in zip(self._parts(value), leaves, strict=True)]

    def _parts(self, value: Any) -> list[Any]:
        try:
            return leaves_up_to(self.element, value, "an element of `generator`", "output_types")
        except ValueError as error:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The expected structure was "
                f"{self._types()}, but the yielded element was {value!r}: {error}"
            ) from None

    def _types(self) -> Structure:
        from unspool.tf1.data.elements import types_of

        return types_of(self.element)


def _converted(part: Any, leaf: Like) -> torch.Tensor:
    if leaf.dtype is string:
        made: torch.Tensor = Strings.of(part)
    else:
        array = np.asarray(part)
        if array.dtype.kind not in "biufc":
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. The expected type "
                f"was {leaf.dtype.name}, but the yielded element was {part!r}."
            )
        made = torch.from_numpy(np.array(array, order="C")).to(leaf.dtype.torch)
    if not fit(leaf.dims, tuple(made.shape)):
        raise TypeError(
            f"`generator` yielded an element of shape {tuple(made.shape)} where an element of shape "
            f"{described(leaf.dims)} was expected."
        )
    return made


class TextLines(Stage):
    """The lines of text files, without their ends.

    Args:
        filenames: one name or several.
        compression_type: None, "", "GZIP" or "ZLIB".
    """

    def __init__(self, filenames: Any, compression_type: str | None) -> None:
        names = as_tensor(filenames, string)
        if compression_type not in (None, "", "GZIP", "ZLIB"):
            raise ValueError(f'compression_type must be "", "GZIP" or "ZLIB", but is {compression_type!r}')
        super().__init__(Like(string, ()), tensors=[names])
        self._compression = compression_type or ""

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Each line of each file."""
        for name in reading.values[self.tensors[0]].reshape(-1).tolist():
            for line in lines_of(name, self._compression):
                yield [Strings.of(line)]


class Records(Stage):
    """The records of files.

    Args:
        filenames: one name or several.
        compression_type: None, "", "GZIP" or "ZLIB".
    """

    def __init__(self, filenames: Any, compression_type: str | None) -> None:
        super().__init__(Like(string, ()), tensors=[as_tensor(filenames, string)])
        self._compression = compression_of(compression_type)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Each record of each file."""
        for name in reading.values[self.tensors[0]].reshape(-1).tolist():
            for record in records_of(name.decode(), self._compression):
                yield [Strings.of(record)]


def lines_of(name: bytes, compression: str = "") -> Iterator[bytes]:
    """The lines of a file; `NotFoundError` if there is none."""
    path = Path(name.decode())
    if not path.is_file():
        raise NotFoundError(None, None, f"{path}; No such file or directory")
    if compression == "ZLIB":
        yield from _ended(zlib.decompress(path.read_bytes()).split(b"\n"))
        return
    with gzip.open(path) if compression == "GZIP" else path.open("rb") as file:
        for line in file:
            yield line.rstrip(b"\n").replace(b"\r", b"")


def _ended(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Lines that newlines end, not part: after the last there is none."""
    return (line.replace(b"\r", b"") for line in (lines[:-1] if not lines[-1] else lines))
