"""Scripted modules, operation by operation: TorchScript's own interpreter knows no symbol for the number of rows.

It also keeps what it has once optimised, for tensors with values. So what is scripted is run from its graph, in Python.
"""

from __future__ import annotations

import builtins
import operator
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import SymBool, SymFloat, SymInt, Tensor

from unspool.engine.reasons import CannotPlanError, Code
from unspool.forking import ForkSafeLock, after_fork
from unspool.once import repeats_warnings

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]  # no public names
Graph = Any
Node = Any
NUMBERS = (int, float, bool, str, list, tuple, dict, type(None), SymInt, SymFloat, SymBool)


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _set_item(values: Any, key: Any, value: Any) -> Any:
    values[key] = value
    return values


def _slice(values: Any, start: Any, stop: Any, step: Any) -> Any:
    return values[start:stop:step]


def _format(text: str, *values: Any) -> str:
    return text.format(*values)


def _size(tensor: Any, *axis: int) -> Any:
    return tensor.size(*axis) if axis else [*tensor.size()]


def _item(tensor: Tensor) -> Any:
    return tensor.item()


def _together(*values: Any) -> tuple[Any, ...]:
    return values


def _listed(*values: Any) -> list[Any]:
    return [*values]


def _same(value: Any = None) -> Any:
    return value


def _warn(text: str, _: int) -> None:
    if repeats_warnings():
        raise CannotPlanError(Code.IMPURE, "the step warns, which a plan would do once, not at every step")
    warnings.warn(text, stacklevel=2)


ON_NUMBERS: dict[str, Callable[..., Any]] = {
    **{f"aten::{name}": getattr(operator, name) for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")},
    **{f"aten::{name}": getattr(builtins, name) for name in ("len", "list", "abs", "round", "pow", "str")},
    "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::neg": operator.neg,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__not__": operator.not_,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__contains__": operator.contains,
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::append": _append,
    "aten::slice": _slice,
    "aten::format": _format,
    "prim::min": min,
    "prim::max": max,
}
"""Operations on numbers, texts and lists; a list is changed in place."""
ON_ANYTHING: dict[str, Callable[..., Any]] = {
    "aten::size": _size,
    "aten::dim": Tensor.dim,
    "aten::numel": Tensor.numel,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::append": _append,
    "aten::len": len,
    "aten::__getitem__": operator.getitem,
    "aten::Bool": bool,
    "aten::Int": int,
    "aten::Float": float,
    "aten::IntImplicit": int,
    "aten::FloatImplicit": float,
    "aten::ScalarImplicit": _item,
    "prim::NumToTensor": torch.tensor,
    "prim::ListConstruct": _listed,
    "prim::TupleConstruct": _together,
    "prim::TupleIndex": operator.getitem,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
    "aten::_unwrap_optional": _same,
    "prim::Uninitialized": _same,
    "aten::warn": _warn,
}
"""Operations on values of any kind."""
SEVERAL = ("prim::TupleUnpack", "prim::ListUnpack")
READ = ("device", "is_cuda", "layout", "requires_grad", "shape", "is_sparse")
"""What is read of a tensor, under names of `prim::`."""


class FromGraphs:
    """Within it, this thread runs scripted functions and methods from their graphs.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     scripted = torch.jit.script(torch.nn.Softplus())
    >>> with FromGraphs():
    ...     found = scripted(torch.ones(2))
    >>> torch.equal(found, scripted(torch.ones(2)))
    True
    """

    def __enter__(self) -> None:
        with _lock.own:
            _threads.append(threading.get_ident())
            for kind in KINDS:
                kind.__call__ = _call

    def __exit__(self, *_: object) -> None:
        with _lock.own:
            _threads.remove(threading.get_ident())
            _put_back()


KINDS: dict[Any, Any] = {kind: kind.__dict__["__call__"] for kind in (_C.ScriptFunction, _C.ScriptMethod)}
"""What is called, and how torch calls it. While somebody traces, all threads' calls come by."""
_threads: list[int] = []
_lock = ForkSafeLock()


@after_fork
def _alone() -> None:
    _threads[:] = [each for each in _threads if each == threading.get_ident()]
    _put_back()


def _put_back() -> None:
    if not _threads:
        for kind, own in KINDS.items():
            kind.__call__ = own


def _call(scripted: Any, *args: Any, **kwargs: Any) -> Any:
    if threading.get_ident() not in _threads:
        return KINDS[type(scripted)](scripted, *args, **kwargs)
    owner = [scripted.raw_owner] if isinstance(scripted, _C.ScriptMethod) else []
    parameters = scripted.schema.arguments[len(owner) :]
    given = dict(zip((each.name for each in parameters), args, strict=False)) | kwargs
    values = [given.get(each.name, each.default_value) for each in parameters]
    graph = scripted.inlined_graph
    results = _run(graph, dict(zip((each.debugName() for each in graph.inputs()), [*owner, *values], strict=True)))
    return results[0] if len(results) == 1 else tuple(results)


def _run(block: Graph, known: dict[str, Any]) -> list[Any]:
    """Runs a block, with what is known so far by its name, and returns its outputs."""
    for node in block.nodes():
        given = [known[each.debugName()] for each in node.inputs()]
        results = _results(node, given, known)
        known.update(zip((each.debugName() for each in node.outputs()), results, strict=True))
    return [known[each.debugName()] for each in block.outputs()]


def _results(node: Node, given: list[Any], known: dict[str, Any]) -> Sequence[Any]:
    kind: str = node.kind()
    if kind == "prim::If":
        [chosen, other] = node.blocks()
        return _run(chosen if given[0] else other, known)
    if kind == "prim::Loop":
        return _loop(node, given, known)
    if kind == "prim::RaiseException":
        raise getattr(builtins, str(given[1]).rpartition(".")[2], RuntimeError)(given[0])
    if kind in SEVERAL:
        return given[0]
    result = _result(node, kind, given)
    count: int = node.outputsSize()
    return result if count > 1 else [result][:count]


def _loop(node: Node, given: list[Any], known: dict[str, Any]) -> list[Any]:
    most, going, *carried = given
    [block] = node.blocks()
    names = [each.debugName() for each in block.inputs()]
    turn = 0
    while going and turn < most:
        known.update(zip(names, [turn, *carried], strict=True))
        going, *carried = _run(block, known)
        turn += 1
    return carried


def _result(node: Node, kind: str, given: list[Any]) -> Any:
    if kind == "prim::Constant":
        return None if node.mustBeNone() else node.output().toIValue()
    if kind == "prim::GetAttr":
        return given[0].getattr(node.s("name"))
    if kind == "prim::TupleConstruct" and cast(str, node.output().type().annotation_str)[:5] not in ("Tuple", "tuple"):
        raise NotImplementedError("a scripted module makes a named tuple")
    plain = all(isinstance(each, NUMBERS) and not _has_tensors(each) for each in given)
    simple = (ON_NUMBERS.get(kind) if plain else None) or ON_ANYTHING.get(kind)
    if simple is not None:
        return simple(*given)
    namespace, _, name = kind.partition("::")
    if namespace == "prim" and name in READ:
        return getattr(given[0], name)
    schema = node.schema()
    if schema == "(no schema)" or (namespace == "prim" and not any(map(_has_tensors, given))):
        raise NotImplementedError(f"a scripted module calls {kind}")
    overload = schema.partition("(")[0].partition(".")[2] or "default"
    function: Any = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    named = [each.name if each.kwarg_only else None for each in function._schema.arguments]
    positional = [value for value, name in zip(given, named, strict=True) if name is None]
    return function(*positional, **{name: value for value, name in zip(given, named, strict=True) if name is not None})


def _has_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_has_tensors, cast(Any, value))))
