"""`replace_`: torch's recurrent modules inside a model become unspool's, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple, cast

from torch import nn

from unspool.nn.layers import GRU, LSTM, RNN
from unspool.structure import describe

KINDS: dict[type[nn.RNNBase], type[nn.RNNBase]] = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


class Replaced(NamedTuple):
    """A module that was replaced: its name in the model, "" for the model itself, and its kind.

    >>> from unspool import replace_
    >>> replace_(nn.GRU(3, 4))
    [Replaced(name='', kind='GRU')]
    """

    name: str
    kind: str


def replace_(model: nn.Module) -> list[Replaced]:
    """Makes an `unspool.nn.LSTM`, `GRU` or `RNN` of every `torch.nn.LSTM`, `GRU` or `RNN` in a model, in place.

    A module stays the object that it is, and changes its class: its parameters are the same, so that optimisers go on
    with them, and so are its mode, its hooks, and whoever else has it. One with several names is listed by the first.

    Args:
        model: any module; it may be an `nn.LSTM` itself.

    Returns:
        What was replaced: pairs of name and kind.

    Raises:
        TypeError: if `model` is no module.

    A module of a subclass stays as it is, since its `forward` may be its own, and so does a parametrized one: a
    `UserWarning` names it, and says what to do.

    >>> model = nn.ModuleDict({"encoder": nn.LSTM(3, 4), "head": nn.Linear(4, 2)})
    >>> replace_(model)
    [Replaced(name='encoder', kind='LSTM')]
    >>> type(model["encoder"]) is LSTM
    True
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]  # whatever a caller gives
        raise TypeError(f"model must be an nn.Module, but is {describe(model)}")
    replaced: list[Replaced] = []
    modules = list(cast("Iterator[tuple[str, nn.Module]]", model.named_modules()))
    for name, module in modules:
        kind = cast("type[nn.RNNBase]", type(module))
        if kind in KINDS:
            module.__class__ = KINDS[kind]
            replaced.append(Replaced(name, kind.__name__))
        elif isinstance(module, nn.RNNBase) and not isinstance(module, tuple(KINDS.values())):
            _say_why_not(name, module)
    return replaced


def _say_why_not(name: str, module: nn.RNNBase) -> None:
    base = next((each.__name__ for each in KINDS if isinstance(module, each)), "RNNBase")
    if hasattr(module, "parametrizations"):
        hint = "it is parametrized: call replace_ first, and parametrize it then"
    else:
        hint = f"it is a {type(module).__qualname__}: derive that class from unspool.nn.{base} instead of nn.{base}"
    warnings.warn(f"replace_ leaves {name or 'the model'!r} as it is, since {hint}", UserWarning, stacklevel=3)
