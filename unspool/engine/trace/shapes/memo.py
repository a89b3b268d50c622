"""Shapes and dtypes of results, remembered by operation and arguments for all traces of this process.

With a symbol for the number of rows, torch takes half a millisecond to tell what an operation makes of its arguments. A
step asks the same for each of its gates, and one cell much the same as another.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import optree
import torch
from torch import SymInt, Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from unspool.engine.trace.shapes.likes import Like, Size, made_of, pointwise
from unspool.engine.trace.shapes.symbolic_rows import rows_symbol

MOST = 50_000
"""How many results are remembered."""

_remembered: dict[Any, Any] = {}


class _UnknownError(Exception):
    """Nothing to be remembered."""


class RememberingMode(FakeTensorMode):
    """A `FakeTensorMode` for at most one symbol, the number of rows, that asks torch only once what comes of what."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.cache_enabled = False  # torch's own has to look at symbols one by one
        self._rows: Any = None
        self._templates: dict[Like, Tensor] = {}

    def make_rows(self) -> SymInt:
        """The symbol."""
        self._rows = rows_symbol(self)
        return self._rows

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            key = self._key(func, args, kwargs or {})
        except _UnknownError:
            result: Any = super().__torch_dispatch__(func, types, args, kwargs)
            if is_mutable(func):
                _forget((args, kwargs))
            return result
        known = _remembered.get(key)
        if known is not None:
            return self._made(known)
        made = made_of(func, *key[1])
        if made is not None:
            return self._made(made)
        stretched, dtypes = pointwise(func, *key[1:])
        if dtypes in _remembered:  # for other sizes
            return self._made(stretched._replace(dtype=_remembered[dtypes]))
        result = super().__torch_dispatch__(func, types, args, kwargs)
        try:
            known = self._told(result)
        except _UnknownError:
            return result
        if len(_remembered) >= MOST:
            _remembered.clear()
        _remembered[key] = known
        if stretched is not None and known == stretched._replace(dtype=known.dtype):
            _remembered[dtypes] = known.dtype
        return result

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, OpOverload) or _is_special(cast(Any, func)):
            raise _UnknownError
        return func, self._told_all(args), tuple((name, self._told(each)) for name, each in kwargs.items())

    def _told_all(self, several: Any) -> tuple[Any, ...]:
        return tuple([self._told(each) for each in several])

    def _told(self, each: Any) -> Any:
        """Something as a part of a key.

        Raises:
            _UnknownError: if it may be more than can be told.
        """
        if isinstance(each, Tensor):
            return self._like(each)
        if isinstance(each, SymInt):
            return self._size(each)
        if isinstance(each, list | tuple):
            return self._told_all(each)
        if each is None or isinstance(each, PLAIN):
            return each
        if type(each) in NUMBERS:
            return type(each), each  # 1, 1.0 and True are equal, but not to torch
        raise _UnknownError

    def _like(self, tensor: Tensor) -> Like:
        if type(tensor) is not FakeTensor or tensor.fake_mode is not self or tensor.constant is not None:
            raise _UnknownError
        known = tensor.__dict__.get("_like")
        if known is None:
            if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
                raise _UnknownError
            shape = tuple([self._size(size) for size in tensor.shape])
            stride = tuple([self._size(size) for size in tensor.stride()])
            known = Like(shape, stride, self._size(tensor.storage_offset()), tensor.dtype, tensor.device)
            _attributes(tensor)["_like"] = known
        return known

    def _size(self, size: Any) -> Any:
        if type(size) is int:
            return size
        if self._rows is None:
            raise _UnknownError
        expression, row = size.node.expr, self._rows.node.expr
        if expression == row:
            return ROWS
        if not expression.free_symbols:
            return int(expression)
        times, added = expression.coeff(row, 1), expression.coeff(row, 0)
        if not (times.is_Integer and added.is_Integer and expression == times * row + added):
            raise _UnknownError
        return Size(int(times), int(added))

    # -- what is answered ---------------------------------------------------------------------------------------------

    def _made(self, known: Any) -> Any:
        if not isinstance(known, Like):
            return tuple(None if each is None else self._made(each) for each in known)
        template = self._templates.get(known)
        if template is None:
            shape, stride = [[*map(self._real, sizes)] for sizes in (known.shape, known.stride)]
            template = torch.empty_strided(shape, stride, dtype=known.dtype, device="meta")
            if known.offset != 0:
                template = template.as_strided(shape, stride, self._real(known.offset))
            self._templates[known] = template
        made = FakeTensor(self, template.data, known.device)
        _attributes(made)["_like"] = known
        return made

    def _real(self, size: Any) -> Any:
        return size if type(size) is int else self._rows * size.times + size.added


def _forget(arguments: Any) -> None:
    """Forgets what tensors were like, which may have been changed."""
    for each in optree.tree_leaves(arguments):
        if isinstance(each, FakeTensor):
            _attributes(each).pop("_like", None)


def _attributes(tensor: Any) -> dict[str, Any]:
    return tensor.__dict__


def _schema(func: Any) -> Any:
    return func._schema


def is_mutable(func: Any) -> bool:
    """Whether an operation changes one of its arguments in place."""
    return isinstance(func, OpOverload) and _schema(func).is_mutable


@cache
def _is_special(func: OpOverload[Any, Any]) -> bool:
    """Whether a result is more than its shape and dtype: an argument, a number, or whatever torch's default is."""
    schema = _schema(func)
    if schema.is_mutable or not schema.returns or func in SPECIAL:
        return True
    values = torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
    tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    results = all(str(each.type) in ("Tensor", "Optional[Tensor]", "List[Tensor]") for each in schema.returns)
    return values or not tensors or not results


aten = torch.ops.aten
ROWS = Size(1, 0)
PLAIN = (str, torch.dtype, torch.device, torch.layout, torch.memory_format)
NUMBERS = (int, float, bool, complex)
SPECIAL = (aten.lift_fresh.default, aten.set_data.default)
