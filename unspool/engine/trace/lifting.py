"""Lifting: a cell is run on weights that are given to it, wherever it has its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unspool.structure import Structure


class Lifted:
    """A cell that reads the weights it is given, within `stand_ins`. `output` is what it put out last.

    Args:
        cell: the cell.
        weights: what it reads instead of its parameters and buffers, by their names.
        reached: the weights that it has not itself, but reaches, by their names.
    """

    def __init__(self, cell: Any, weights: dict[str, Tensor], reached: dict[str, Tensor]) -> None:
        self._cell, self.output_size = cell, cell.output_size
        own = {**weights_of(cell), **reached}
        self.stand_ins = StandIns({id(each): weights[name] for name, each in own.items() if name in weights})
        by_name = {name for name, each in _registered(cell).items() if each is reached.get(name, each)}
        by_name -= _of_recurrent_layers(cell)
        # A module that is in two places is given its weights in one: what was there before is kept once for each name.
        paths = {path for path, _ in _modules(cell)}
        by_name = {name for name in by_name if name.rpartition(".")[0] in paths}
        self._weights = {name: weight for name, weight in weights.items() if name in by_name}
        self.output: Structure = None

    def __call__(self, inputs: Structure, state: Structure) -> Any:
        """One step."""
        if not isinstance(self._cell, nn.Module):
            returned: Any = self._cell(inputs, state)
        else:
            seen = dict(self._weights)
            returned = torch.func.functional_call(self._cell, seen, (inputs, state), tie_weights=False)
            self._keep({name: each for name, each in seen.items() if each is not self._weights[name]})
        if issubclass(type(returned), tuple | list) and len(returned):  # else the caller says what is wrong
            self.output = returned[0]
        return returned

    def _keep(self, rebound: dict[str, Tensor]) -> None:
        """Leaves buffers that the step has replaced as a call of the cell would."""
        for name, each in rebound.items():
            owner, _, own = name.rpartition(".")
            self._cell.get_submodule(owner)._buffers[own] = each


class StandIns(TorchFunctionMode):
    """Lets operations see the lifted weights where they are given the cell's own.

    Names are not the only way to a weight: it may also be kept in a dict or a list.
    """

    def __init__(self, by_identity: dict[int, Tensor]) -> None:
        super().__init__()
        self._by_identity = by_identity

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options: Any = kwargs or {}
        return func(*map(self._seen, args), **{name: self._seen(each) for name, each in options.items()})

    def _seen(self, given: Any) -> Any:
        if isinstance(given, Tensor):
            return self._by_identity.get(id(given), given)
        if type(given) in (list, tuple):
            return type(given)(map(self._seen, given))
        return given


def weights_of(cell: Any) -> dict[str, Tensor]:
    """The weights of a cell, read through the module now, under every name they have.

    Those are parameters and buffers, and tensors with gradients that modules have as attributes: what is made of
    parameters once a sequence.
    """
    found = _registered(cell)
    for path, module in _modules(cell):
        for name, value in vars(module).items():
            if isinstance(value, Tensor) and value.requires_grad:
                found[f"{path}.{name}" if path else name] = value
    return found


def reached_weights(tensors: Sequence[Tensor], known: Iterable[Tensor]) -> dict[str, Tensor]:
    """Tensors with gradients among those that a step reaches, by number: a function may read weights of others."""
    others = set(map(id, known))
    named = by_number(tensors).items()
    return {name: each for name, each in named if each.requires_grad and id(each) not in others}


def by_number(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """Tensors that a step reaches, under the names that they have if they have no others."""
    return {f"reached {number}": each for number, each in enumerate(tensors)}


def may_have_rows(cell: Any, tensors: Sequence[Tensor], rows: int, known: Collection[Tensor]) -> dict[str, Tensor]:
    """Tensors among those that a step reaches with as many rows as the batch, as the memory of an attention has.

    Args:
        cell: the cell. Its parameters, and those of others, have none; buffers have only if nothing else has.
        tensors: what the step reaches.
        rows: the rows of the batch.
        known: those that are known to have them.
    """
    found = {
        name: each
        for name, each in by_number(tensors).items()
        if each.dim() and each.shape[0] == rows and not isinstance(each, nn.Parameter) and not is_among(each, known)
    }
    buffers = _registered(cell).values()
    return {name: each for name, each in found.items() if not is_among(each, buffers)} or found


def is_among(value: Any, tensors: Iterable[Tensor]) -> bool:
    """Whether it is one of these, by identity."""
    return any(value is each for each in tensors)


def _registered(cell: Any) -> dict[str, Tensor]:
    if not isinstance(cell, nn.Module):
        return {}
    return {**dict(cell.named_parameters(remove_duplicate=False)), **dict(cell.named_buffers(remove_duplicate=False))}


def _modules(cell: Any) -> Iterator[tuple[str, nn.Module]]:
    return cast("Iterator[tuple[str, nn.Module]]", cell.named_modules()) if isinstance(cell, nn.Module) else iter(())


def _of_recurrent_layers(cell: Any) -> set[str]:
    """Weights of torch's recurrent layers, which also keep them in a list that follows what is put in their place."""
    layers = {path for path, module in _modules(cell) if isinstance(module, nn.RNNBase)}
    return {name for name in _registered(cell) if name.rpartition(".")[0] in layers}
