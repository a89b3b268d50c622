"""Nested structures as text, since Dynamo takes constants of text from outside, and no classes of namedtuples."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

from torch import Tensor

from unspool.structure import Structure, describe


class Named:
    """What a text refers to by name: classes of namedtuples and keys of dicts, each an attribute.

    Dynamo guards the attributes that it reads, and does not mind that others come.
    """


def encode(structure: Structure) -> tuple[list[Tensor], str]:
    """The tensors of a structure, and how to make it of them: a program for a stack, a word an instruction.

    >>> import torch
    >>> encode((torch.zeros(2), [torch.ones(3), None]))
    ([tensor([0., 0.]), tensor([1., 1., 1.])], '0 1 none list:2 tuple:2')

    Raises:
        TypeError: if it holds something else than tensors and None.
    """
    leaves: list[Tensor] = []
    words: list[str] = []
    _visit(structure, leaves, words)
    return leaves, " ".join(words)


# Not a function inside the other: it would refer to itself, and keep the tensors until the collector finds it.
def _visit(part: Structure, leaves: list[Tensor], words: list[str]) -> None:
    kind: Any = part.__class__
    if isinstance(part, Tensor):
        words.append(str(len(leaves)))
        leaves.append(part)
    elif part is None:
        words.append("none")
    elif kind is dict or kind is OrderedDict:
        for each in part.values():
            _visit(each, leaves, words)
        words.append(f"{'dict' if kind is dict else 'ordered'}:{len(part)}:{_name(tuple(part))}")
    elif issubclass(kind, tuple) and hasattr(cast(Any, kind), "_fields"):
        for each in part:
            _visit(each, leaves, words)
        words.append(f"named:{len(part)}:{_name(kind)}")
    elif kind is tuple or kind is list:
        for each in part:
            _visit(each, leaves, words)
        words.append(f"{kind.__name__}:{len(part)}")
    else:
        raise TypeError(f"a result of the loop holds {describe(part)}, not only tensors")


def decode(program: str, leaves: list[Any]) -> Structure:
    """The structure that `encode` took apart, with these leaves; Dynamo traces it.

    >>> decode('0 1 none list:2 tuple:2', ["a", "b"])
    ('a', ['b', None])
    """
    stack: list[Any] = []
    for word in program.split():
        parts = word.split(":")
        kind = parts[0]
        if kind == "none":
            stack.append(None)
            continue
        if len(parts) == 1:
            stack.append(leaves[int(kind)])
            continue
        first = len(stack) - int(parts[1])
        children, stack = stack[first:], stack[:first]
        if kind == "list":
            stack.append(children)
        elif kind == "tuple":
            stack.append(tuple(children))
        elif kind == "named":
            stack.append(getattr(Named, parts[2])(*children))
        else:
            filled = dict(zip(getattr(Named, parts[2]), children, strict=True))
            stack.append(filled if kind == "dict" else OrderedDict(filled))
    return stack[0]


_names: dict[Any, str] = {}


def _name(thing: Any) -> str:
    if thing not in _names:
        _names[thing] = f"thing_{len(_names)}"
        setattr(Named, _names[thing], thing)
    return _names[thing]
