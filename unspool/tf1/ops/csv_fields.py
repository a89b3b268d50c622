"""Records of comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import string
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.shapes import Dims
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

__all__ = ["decode_csv"]


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """The fields of records of comma-separated values, a tensor for each column.

    Args:
        records: strings, one for each record.
        record_defaults: for each column a list with the value of empty fields, or an empty tensor where fields must not
            be empty; its dtype is the column's.
        field_delim: what is between fields.
        use_quote_delim: whether double quotes keep a field together.
        name: the operation's name.
        na_value: a field that counts as empty.
        select_cols: the numbers of the columns that are wanted; all by default.

    Raises:
        InvalidArgumentError: in a run, if a record has another number of fields, or one that its dtype cannot be.
    """
    given = as_tensor(records, string)
    columns = [_default_of(each) for each in record_defaults]
    kinds = [kind for kind, _ in columns]
    chosen = None if select_cols is None else list(select_cols)
    quoting = csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE

    def fields(record: bytes, number: int) -> list[Any]:
        text = io.StringIO(record.decode(), newline="")
        found = next(csv.reader(text, delimiter=field_delim, quoting=quoting, strict=True), [])  # pyright: ignore[reportArgumentType]
        picked = found if chosen is None else [found[each] for each in chosen if each < len(found)]
        if len(picked) != len(columns):
            raise ValueError(f"Expect {len(columns)} fields but have {len(found)} in record {number}")
        return [
            _field(part, kind, default, place, number, na_value)
            for place, (part, (kind, default)) in enumerate(zip(picked, columns, strict=True))
        ]

    def compute(x: Strings) -> Any:
        rows = [fields(each, number) for number, each in enumerate(x.array().reshape(-1))]
        made: list[torch.Tensor] = []
        for place, kind in enumerate(kinds):
            column = np.empty(len(rows), object)
            column[:] = [row[place] for row in rows]
            shaped = column.reshape(tuple(x.shape))
            made.append(Strings.of(shaped) if kind is string else torch.from_numpy(shaped.astype(kind.as_numpy_dtype)))
        return made[0] if len(made) == 1 else made

    dims: Dims = given.dims
    found = apply("DecodeCSV", compute, given, name=name, outputs=[(kind, dims) for kind in kinds])
    return list(found) if isinstance(found, list) else [found]


def _default_of(default: Any) -> tuple[Any, Any]:
    """The dtype of a column, and the value of its empty fields; None if these are mistakes."""
    made = as_tensor(default)
    kept = made.op.constant
    if kept is None or kept.numel() > 1:
        raise ValueError(f"record_defaults must be values, or lists of one or none, but has {default!r}")
    return made.dtype, kept.reshape(-1)[0].item() if kept.numel() else None


def _field(part: str, kind: Any, default: Any, place: int, number: int, na_value: str) -> Any:
    if part in ("", na_value):
        if default is None:
            raise ValueError(f"Field {place} is required but missing in record {number}!")
        return default
    try:
        return part.encode() if kind is string else int(part) if kind.is_integer else float(part)
    except ValueError:
        raise ValueError(f"Field {place} in record {number} is not a valid {kind.name}: {part}") from None
