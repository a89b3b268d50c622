"""What an attention wrapper carries from step to step."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from unspool.structure import Structure, check_same_structure, children, flatten


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`.

    With several mechanisms, `alignments`, `alignment_history` and `attention_state` are tuples with one entry each.

    Args:
        cell_state: the state of the wrapped cell.
        attention: `[batch, width]`, what the wrapper put out at the last step, or would have.
        time: `[batch]`, int64: the steps that each row has run. TensorFlow has one number for the whole batch; a row
            that has ended stops counting here, as everything else about it stops.
        alignments: `[batch, places]`, how much of each place of the memory was looked at in the last step.
        alignment_history: a `TensorArray` of the alignments of all steps; `()` if they are not kept.
        attention_state: the state of the mechanism: for those of this package, the alignments again.

    >>> import torch
    >>> state = AttentionWrapperState((), torch.zeros(2, 3), torch.zeros(2), (), (), ())
    >>> state.clone(attention=torch.ones(2, 3)).attention.sum()
    tensor(6.)
    """

    cell_state: Structure
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **replaced: Any) -> AttentionWrapperState:
        """The same state with some fields replaced, most often `cell_state` by the final state of an encoder.

        Raises:
            TypeError: if what replaces a field has other containers.
            ValueError: if there is no such field, or what replaces it has another structure or shape.
        """
        unknown = [name for name in replaced if name not in self._fields]
        if unknown:
            raise ValueError(f"an AttentionWrapperState has no field {unknown[0]!r}: it has {', '.join(self._fields)}")
        fields = children(self)
        for name, new in replaced.items():
            old = fields[name]
            check_same_structure(old, new, name=name, like=f"the {name} of the state")
            for before, now in zip(flatten(old), flatten(new), strict=True):
                if isinstance(before, Tensor) and isinstance(now, Tensor) and before.shape != now.shape:
                    have, expected = list(now.shape), list(before.shape)
                    raise ValueError(f"{name} has shape {have}, but the {name} of the state has {expected}")
        return self._replace(**replaced)
