"""Trees of beams: every step of a search names its beam at the step before, so a sequence is a path to the root."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.decode.tokens import as_token
from unspool.loops.tensors import as_tensor
from unspool.tracers import constant, has_values


def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Tensor:
    """The sequences of a beam search, from the ids and parents of its steps.

    It stands for

        for each row and beam:
            for time from max_sequence_lengths[row] - 1 down to 0:
                ids[time, row, beam] = step_ids[time, row, at]       # at first, at = beam
                at                   = parent_ids[time, row, at]
        everything past a row's length, and past the first end_token of a sequence, is end_token

    Args:
        step_ids: the ids of each step, `[time, batch, beam]`.
        parent_ids: the beam of the step before that each of them continues, `[time, batch, beam]`.
        max_sequence_lengths: the length of the longest sequence of each row, `[batch]`; more than there are steps
            means all of them.
        end_token: the id that ends a sequence.

    Returns:
        The ids along each path, `[time, batch, beam]`, of the dtype of `step_ids`.

    Raises:
        TypeError: if ids, lengths or `end_token` are no integers.
        ValueError: if the shapes do not fit, or a parent is none of the beams.

    >>> from unspool.decode import gather_tree
    >>> step_ids = torch.tensor([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]])
    >>> parent_ids = torch.tensor([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]])
    >>> gather_tree(step_ids, parent_ids, [3], end_token=10).squeeze(1).T  # one path a line
    tensor([[2, 6, 7],
            [2, 5, 8],
            [2, 6, 9]])
    """
    ids, parents = _integers(step_ids, "step_ids"), _parents(parent_ids)
    if ids.shape != parents.shape:
        raise ValueError(f"step_ids has shape {list(ids.shape)}, but parent_ids has {list(parents.shape)}")
    lengths = _integers(max_sequence_lengths, "max_sequence_lengths").to(parents.device)
    if lengths.shape != parents.shape[1:2]:
        have, batch = list(lengths.shape), parents.shape[1]
        raise ValueError(f"max_sequence_lengths must have one length per row, [{batch}], but has shape {have}")
    end = as_token(end_token, "end_token")
    _check_parents(parents, lengths)

    ids = ids.gather(2, paths(parents, lengths)).masked_fill(_times(parents) >= lengths.unsqueeze(1), end)
    is_end = ids == end
    ended = is_end.cumsum(0) > is_end.long()  # an end came before
    return ids.masked_fill(ended, end)


def gather_tree_from_array(array: Any, parent_ids: Any, sequence_length: Any) -> Tensor:
    """What the steps of a beam search wrote, such as alignments, put in the order of the sequences.

    It walks the parents from the longest of a row's lengths, as `gather_tree` does. What lies past a sequence's own
    length belongs to none and stays where it is.

    Args:
        array: `[time, batch, beam, ...]`, or `[time, batch * beam, ...]`.
        parent_ids: the beam of the step before that each step continues, `[time, batch, beam]`.
        sequence_length: the length of each sequence, `[batch, beam]`.

    Returns:
        A tensor of the shape of `array`.

    Raises:
        TypeError: if parents or lengths are no integers.
        ValueError: if the shapes do not fit, or a parent is none of the beams.

    >>> from unspool.decode import gather_tree_from_array
    >>> attended = torch.tensor([[[0.1, 0.2]], [[0.3, 0.4]]])
    >>> gather_tree_from_array(attended, torch.tensor([[[0, 0]], [[1, 0]]]), [[2, 2]])
    tensor([[[0.2000, 0.1000]],
    <BLANKLINE>
            [[0.3000, 0.4000]]])
    """
    parents = _parents(parent_ids)
    lengths = _integers(sequence_length, "sequence_length").to(parents.device)
    if lengths.shape != parents.shape[1:]:
        have, expected = list(lengths.shape), list(parents.shape[1:])
        raise ValueError(f"sequence_length must have one length per beam, {expected}, but has shape {have}")
    longest = lengths.amax(1)
    _check_parents(parents, longest)
    return reorder(as_tensor(array, "array"), paths(parents, longest), lengths)


def paths(parent_ids: Tensor, lengths: Tensor) -> Tensor:
    """The beam that each path goes through at each step, `[time, batch, beam]`.

    Path k of row b is in beam k at step `lengths[b] - 1`, in that one's parent at the step before, and so on; past its
    end it stays where it ends.
    """
    steps, batch, width = parent_ids.shape
    parents, lengths = parent_ids.long(), lengths.unsqueeze(1)
    beams = torch.arange(width, device=parents.device).expand(batch, width)
    path: list[Tensor] = []
    for time in reversed(range(steps)):
        path.append(beams)
        beams = torch.where(time < lengths, parents[time].gather(1, beams), beams)
    return torch.stack(path[::-1]) if path else parents


def reorder(array: Tensor, beams: Tensor, lengths: Tensor) -> Tensor:
    """`array` along `beams`, `[time, batch, beam]`, up to each sequence's length and as it is from there on."""
    check_has_beams(array, beams.shape)
    beams = torch.where(_times(beams) < lengths, beams, torch.arange(beams.shape[2], device=beams.device))
    depth = array.shape[3:] if array.shape[:3] == beams.shape else array.shape[2:]
    apart, picked = array.reshape(*beams.shape, *depth), beams.reshape(*beams.shape, *[1] * len(depth))
    return apart.take_along_dim(picked.to(array.device), 2).reshape(array.shape)


def check_has_beams(array: Tensor, shape: tuple[int, ...]) -> None:
    """Raises unless `array` has rows and beams of `shape`, `[time, batch, beam]`: apart, or side by side."""
    steps, batch, width = shape
    if array.shape[:3] != (steps, batch, width) and array.shape[:2] != (steps, batch * width):
        raise ValueError(
            f"the array has shape {list(array.shape)}, but expected [{steps}, {batch}, {width}, ...] or "
            f"[{steps}, {batch * width}, ...] for {steps} steps of {batch} rows with {width} beams"
        )


def _check_parents(parents: Tensor, lengths: Tensor) -> None:
    """Raises if a parent within the lengths is none of the beams. The first step's parent is the root: it has none."""
    times, width = _times(parents), parents.shape[2]
    bad = (times > 0) & (times < lengths.unsqueeze(1)) & ((parents < 0) | (parents >= width))
    if has_values(bad) and bool(bad.any()):
        time, row, beam = (int(index) for index in bad.nonzero()[0])
        raise ValueError(
            f"parent id {int(parents[time, row, beam])} at (batch, time, beam) == ({row}, {time}, {beam}), "
            f"but parent_ids must be beams, 0 to {width - 1}"
        )


def _times(steps: Tensor) -> Tensor:
    """The time of each step, `[time, 1, 1]`."""
    return torch.arange(len(steps), device=steps.device).reshape(-1, 1, 1)


def _parents(parent_ids: Any) -> Tensor:
    parents = _integers(parent_ids, "parent_ids")
    if parents.dim() != 3 or parents.shape[2] == 0:
        raise ValueError(f"parent_ids must be [time, batch, beam], but has shape {list(parents.shape)}")
    return parents


def _integers(value: Any, name: str) -> Tensor:
    tensor = constant(value) if type(value) in (list, tuple) else as_tensor(value, name)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, but is {tensor.dtype}")
    return tensor
