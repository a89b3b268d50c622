"""Variables by name, from a checkpoint or from anywhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unspool.checkpoints.bundle import TensorBundle


class Source:
    """The variables of a mapping: their names, without TensorFlow's `:0`, their shapes, and their values as tensors.

    Where `kernel` is there as `kernel/part_0`, `kernel/part_1` and so on, these are put together. (In a checkpoint they
    are already: only lists of variables have them apart.)
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._keys: dict[str, list[str]] = {}
        for key in arrays:
            name = key.removesuffix(":0")
            self._keys.setdefault(re.sub(r"/part_\d+$", "", name), []).append(key)
        for keys in self._keys.values():
            keys.sort(key=lambda key: (len(key), key))  # part_10 after part_9
        self.names = tuple(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a variable."""
        shapes = [self._shape(key) for key in self._keys[name]]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:]) if len(shapes) > 1 and all(shapes) else shapes[0]

    def _shape(self, key: str) -> tuple[int, ...]:
        return self._arrays.shape(key) if isinstance(self._arrays, TensorBundle) else tuple(np.shape(self._arrays[key]))

    def tensor(self, name: str) -> Tensor:
        """The values of a variable; `TypeError` if torch has no dtype for them."""
        tensors = [self._tensor(key) for key in self._keys[name]]
        return torch.cat(tensors) if len(tensors) > 1 else tensors[0]

    def _tensor(self, key: str) -> Tensor:
        values = self._arrays[key]
        return values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, order="C"))

    def is_slot(self, name: str) -> bool:
        """Whether a variable is what an optimiser or an average keeps of another: its name is below that one's."""
        parts = name.split("/")
        return any("/".join(parts[:k]) in self._keys for k in range(1, len(parts)))

    def below(self, scope: str) -> list[str]:
        """The variables in a scope, without slots."""
        prefix = f"{scope}/" if scope else ""
        return [name for name in self.names if name.startswith(prefix) and not self.is_slot(name)]
