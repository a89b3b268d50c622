"""The forms in which a batch of sequences comes: padded, unbatched, packed, jagged; outputs have the form of inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unspool.loops.packed import Sorted
from unspool.structure import Structure, flatten, map_tensors


class Padded:
    """A batch as loops take it: tensors `[batch, time, ...]` or `[time, batch, ...]`, and lengths.

    Args:
        inputs: a tensor or a structure of tensors.
        lengths: the length of each row, or None.
        batch_first: whether rows are on the first axis, and time on the second.
    """

    unbatched = False

    def __init__(self, inputs: Structure, lengths: Any, batch_first: bool) -> None:
        self.inputs, self.lengths, self.batch_first = inputs, lengths, batch_first

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return flatten(self.inputs)[0].shape[0 if self.batch_first else 1]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return flatten(self.inputs)[0].device

    def outputs(self, padded: Structure) -> Structure:
        """Outputs of a loop over `inputs` in the form of the batch."""
        return padded


class Unbatched(Padded):
    """One sequence, `[time, depth]`."""

    unbatched = True

    def __init__(self, inputs: Tensor, batch_first: bool) -> None:
        super().__init__(inputs.unsqueeze(0 if batch_first else 1), None, batch_first)

    def outputs(self, padded: Structure) -> Structure:
        """Without the axis of rows."""
        return map_tensors(lambda leaf: leaf.squeeze(0 if self.batch_first else 1), padded)


class Rows(Padded):
    """A `PackedSequence` whose rows loops take as they are."""

    def __init__(self, inputs: PackedSequence) -> None:
        super().__init__(inputs.data, None, batch_first=False)
        self.sorted = Sorted(inputs)

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return self.sorted.batch_size

    def outputs(self, padded: Structure) -> Structure:
        """Packed in the same order; these are rows, too."""
        return self.sorted.packed(padded)


class Packed(Padded):
    """A `PackedSequence` that is padded, for whoever wants to see every step."""

    def __init__(self, inputs: PackedSequence, batch_first: bool) -> None:
        padded, lengths = pad_packed_sequence(inputs, batch_first)
        super().__init__(padded, lengths, batch_first)
        self._like = inputs

    def outputs(self, padded: Structure) -> Structure:
        """Packed in the same order."""

        def packed(leaf: Tensor) -> PackedSequence:
            order = self._like.sorted_indices
            rows, axis = (leaf, self.lengths), 0 if self.batch_first else 1
            if order is not None:
                rows = (leaf.index_select(axis, order), self.lengths[order.cpu()])
            data = pack_padded_sequence(*rows, self.batch_first).data
            return PackedSequence(data, self._like.batch_sizes, order, self._like.unsorted_indices)

        return map_tensors(packed, padded)


class Jagged(Padded):
    """A nested tensor of jagged layout, `[batch, (time), ...]`."""

    def __init__(self, inputs: Any, batch_first: bool) -> None:
        self._offsets: Tensor = inputs.offsets()
        values, lengths = inputs.values(), self._offsets.diff()
        steps = int(lengths.max()) if len(lengths) else 0
        self._inside = torch.arange(steps, device=values.device) < lengths[:, None]
        padded = values.new_zeros((*self._inside.shape, *values.shape[1:])).index_put((self._inside,), values)
        super().__init__(padded if batch_first else padded.transpose(0, 1), lengths, batch_first)

    def outputs(self, padded: Structure) -> Structure:
        """Jagged, with the offsets of the inputs."""

        def jagged(leaf: Tensor) -> Tensor:
            values = (leaf if self.batch_first else leaf.transpose(0, 1))[self._inside]
            return torch.nested.nested_tensor_from_jagged(values, self._offsets)

        return map_tensors(jagged, padded)


def as_batch(inputs: Structure, lengths: Any, batch_first: bool) -> Padded:
    """Inputs in whichever form they come.

    Raises:
        ValueError: if lengths are given with something that has its own.
        TypeError: if a nested tensor has not the jagged layout, or is jagged along another axis than the second.
    """
    packed = isinstance(inputs, PackedSequence)
    nested = isinstance(inputs, Tensor) and inputs.is_nested
    unbatched = isinstance(inputs, Tensor) and not nested and inputs.dim() == 2 and inputs.is_floating_point()
    if lengths is not None and (packed or nested or unbatched):
        what = "a PackedSequence" if packed else "a nested tensor" if nested else "one sequence, [time, depth]"
        raise ValueError(f"lengths must be None where x is {what}, which has its own length{'s' * (not unbatched)}")
    if packed:
        return Packed(inputs, batch_first)
    if nested:
        ragged = getattr(inputs, "_ragged_idx", None)
        if inputs.layout is not torch.jagged or ragged != 1:
            raise TypeError(
                "x is a nested tensor that is not jagged along its second axis: make it by "
                "torch.nested.nested_tensor(sequences, layout=torch.jagged)"
            )
        return Jagged(inputs, batch_first)
    if unbatched:
        return Unbatched(inputs, batch_first)
    for leaf in flatten(inputs) if not isinstance(inputs, Tensor) else ():
        if isinstance(leaf, Tensor) and leaf.is_nested:
            raise TypeError("x is a structure with a nested tensor in it: give padded tensors, and lengths")
    return Padded(inputs, lengths, batch_first)
