"""Labels out of what CTC has learnt: the best path, the best labels by beam search, and how far they are off."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.flags import checks_flags
from unspool.tf1.dtypes import DType, float32, int64
from unspool.tf1.errors import FailedPreconditionError
from unspool.tf1.operations import FRACTIONS, apply, as_tensor, check_takes
from unspool.tf1.ops.ctc import rows_of, wrong_lengths
from unspool.tf1.shapes import Dims
from unspool.tf1.sparse.tensor import SparseTensor, as_sparse


@checks_flags
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Any]:
    """The labels of the best path: the best class at every step, without blanks.

    Args:
        inputs: logits `[time, batch, classes]`, of which the last class is the blank.
        sequence_length: `[batch]` ints, how many steps each row has.
        merge_repeated: whether a class that is repeated in time is one label.

    Returns:
        A list of one int64 `SparseTensor` of labels, and minus the sum of the logits on the path, `[batch, 1]`.

    >>> from unspool import tf1 as tf
    >>> (labels,), _ = tf.nn.ctc_greedy_decoder([[[2.0, 0.0, 1.0]], [[0.0, 5.0, 1.0]]], [2])
    >>> tf.Session().run(labels).values
    array([0, 1])
    """
    given, steps = as_tensor(inputs), as_tensor(sequence_length)
    check_takes("CTCGreedyDecoder", given, FRACTIONS)
    rows = rows_of("CTCGreedyDecoder", given.dims, steps.dims)

    def compute(scores: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if wrong := wrong_lengths(scores, lengths):
            raise FailedPreconditionError(None, None, wrong)
        best, classes = scores.detach().max(2)
        inside = torch.arange(len(scores), device=scores.device)[:, None] < lengths
        kept = inside & (classes != scores.shape[2] - 1)
        if merge_repeated:
            kept[1:] &= classes[1:] != classes[:-1]
        found = [column[mask].tolist() for column, mask in zip(classes.T, kept.T, strict=True)]
        return *_as_sparse(found), -torch.where(inside, best, 0).sum(0)[:, None]

    outputs = [(int64, (None, 2)), (int64, (None,)), (int64, (2,)), (given.dtype, (rows, 1))]
    made = apply("CTCGreedyDecoder", compute, given, steps, outputs=outputs)
    return [SparseTensor(*made[:3])], made[3]


@checks_flags
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Any]:
    """The most probable labels, summed over the ways to place them in time, as a beam search finds them.

    Args:
        inputs: logits `[time, batch, classes]`, of which the last class is the blank.
        sequence_length: `[batch]` ints, how many steps each row has.
        beam_width: how many prefixes are kept.
        top_paths: how many results there are.
        merge_repeated: whether labels that are repeated in a *result* are one: TensorFlow's default, which loses
            double letters; False keeps them.

    Returns:
        A list of `top_paths` int64 `SparseTensor`s of labels, and their log-probabilities `[batch, top_paths]`.

    Raises:
        InvalidArgumentError: in a run, if there are fewer prefixes than results.

    >>> from unspool import tf1 as tf
    >>> (labels,), _ = tf.nn.ctc_beam_search_decoder([[[2.0, 0.0, 1.0]], [[0.0, 5.0, 1.0]]], [2], merge_repeated=False)
    >>> tf.Session().run(labels).values
    array([0, 1])
    """
    given, steps = as_tensor(inputs), as_tensor(sequence_length)
    check_takes("CTCBeamSearchDecoder", given, FRACTIONS)
    rows = rows_of("CTCBeamSearchDecoder", given.dims, steps.dims)
    if beam_width < 1 or top_paths < 1:
        raise ValueError(f"beam_width and top_paths must be at least 1, but are {beam_width} and {top_paths}")

    def compute(scores: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if wrong := wrong_lengths(scores, lengths):
            raise FailedPreconditionError(None, None, wrong)
        if top_paths > beam_width:
            raise ValueError(f"requested more paths than the beam width: {top_paths} > {beam_width}")
        logs: np.ndarray[Any, Any] = scores.detach().log_softmax(2).cpu().numpy()
        found = [_search(logs[:n, b], beam_width, top_paths, merge_repeated) for b, n in enumerate(lengths.tolist())]
        sparse = [_as_sparse([paths[k] for paths, _ in found]) for k in range(top_paths)]
        chances = torch.from_numpy(np.array([each for _, each in found], logs.dtype).reshape(-1, top_paths))
        return *(part[k] for k in range(3) for part in sparse), chances

    kinds: list[tuple[DType, Dims]] = [(int64, (None, 2)), (int64, (None,)), (int64, (2,))]
    outputs = [each for each in kinds for _ in range(top_paths)] + [(given.dtype, (rows, top_paths))]
    made = apply("CTCBeamSearchDecoder", compute, given, steps, outputs=outputs)
    return [SparseTensor(*(made[part * top_paths + k] for part in range(3))) for k in range(top_paths)], made[-1]


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Any]:
    """`ctc_beam_search_decoder` that keeps labels which are repeated."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def _search(
    logs: np.ndarray[Any, Any], width: int, count: int, merge_repeated: bool
) -> tuple[list[list[int]], list[float]]:
    """The best prefixes of one row with log-probabilities `[time, classes]`, and their logarithms."""
    blank = logs.shape[1] - 1
    tree = _Tree()
    beam = [0]
    none = np.full(1, -np.inf, logs.dtype)
    ends_blank, ends_label = np.zeros(1, logs.dtype), none
    for step in logs:
        size = len(beam)
        total = np.logaddexp(ends_blank, ends_label)
        last = np.array([tree.labels[each] for each in beam])
        place = {node: k for k, node in enumerate(beam)}
        parent = np.array([place.get(tree.parents[each], -1) for each in beam])
        inner = (parent >= 0).nonzero()[0]
        # A label is repeated by its prefix, or added to the one before it: after a blank, if it is the same again.
        again = np.where(last[inner] == last[parent[inner]], ends_blank[parent[inner]], total[parent[inner]])
        label = ends_label.copy()
        label[inner] = np.logaddexp(label[inner], again)
        kept_label, kept_blank = label + step[last], total + step[blank]
        grown = total[:, None] + step[:blank]
        rooted = (last >= 0).nonzero()[0]
        grown[rooted, last[rooted]] = ends_blank[rooted] + step[last[rooted]]
        grown[parent[inner], last[inner]] = -np.inf  # they are in the beam
        everything = np.concatenate([np.logaddexp(kept_label, kept_blank), grown.reshape(-1)])
        chosen = _largest(everything, width)
        left = np.setdiff1d(inner, chosen)
        if np.isin(left, (chosen[chosen >= size] - size) // blank).any():
            grows = zip(parent[inner].tolist(), last[inner].tolist(), strict=True)
            chosen = _in_turn(everything, total, dict(zip(grows, inner.tolist(), strict=True)), width)
        old, new = chosen[chosen < size], chosen[chosen >= size] - size
        added = [tree.child(beam[k // blank], k % blank) for k in new.tolist()]
        ends_blank = np.concatenate([kept_blank[old], np.full(len(new), -np.inf, logs.dtype)])
        ends_label = np.concatenate([kept_label[old], grown.reshape(-1)[new]])
        beam = [*(beam[k] for k in old.tolist()), *added]
    total = np.logaddexp(ends_blank, ends_label)
    if len(beam) < count:
        raise ValueError(f"Less leaves in the beam search than requested: {len(beam)} < {count}")
    best = np.argsort(-total, kind="stable")[:count].tolist()
    return [tree.sequence(beam[k], merge_repeated) for k in best], [float(total[k]) for k in best]


def _largest(values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The places of the largest values that are possible at all."""
    chosen = np.argpartition(-values, count - 1)[:count] if len(values) > count else np.arange(len(values))
    return chosen[values[chosen] > -np.inf]


def _in_turn(
    values: np.ndarray[Any, Any], total: np.ndarray[Any, Any], members: dict[tuple[int, int], int], width: int
) -> np.ndarray[Any, Any]:
    """`_largest`, as TensorFlow finds it where a prefix leaves the beam and would grow into it again.

    The prefixes grow one after the other, the most probable first, and a prefix that has left the beam does not grow
    any more if the one before it, which would bring it back, has had its turn.

    Args:
        values: of the prefixes in the beam, then of each with one more label.
        total: of the prefixes, before this step.
        members: the prefixes in the beam that another one in it would grow into, by its place and the label.
        width: of the beam.
    """
    size = len(total)
    labels = (len(values) - size) // size
    beam = [(value, place) for place, value in enumerate(values[:size].tolist()) if value > -np.inf]
    heapq.heapify(beam)
    gone, stopped = set[int](), set[int]()
    for place in np.argsort(-total, kind="stable").tolist():
        if place in stopped or (len(beam) == width and total[place] <= beam[0][0]):
            continue
        for label in range(labels):
            member = members.get((place, label))
            if member is not None:
                stopped |= {member} & gone
                continue
            entry = float(values[size + place * labels + label]), size + place * labels + label
            if len(beam) < width and entry[0] > -np.inf:
                heapq.heappush(beam, entry)
            elif len(beam) == width and entry[0] > beam[0][0]:
                gone.add(heapq.heapreplace(beam, entry)[1])
    return np.array([place for _, place in beam])


class _Tree:
    """All prefixes that a search has met: each is a node, which knows the one before it and its last label."""

    def __init__(self) -> None:
        self.parents, self.labels = [-1], [-1]
        self._children: dict[tuple[int, int], int] = {}

    def child(self, node: int, label: int) -> int:
        """The prefix with one more label: always the same node."""
        found = self._children.setdefault((node, label), len(self.parents))
        if found == len(self.parents):
            self.parents.append(node)
            self.labels.append(label)
        return found

    def sequence(self, node: int, merge_repeated: bool) -> list[int]:
        """The labels of a prefix."""
        found: list[int] = []
        before = -1
        while node:
            label = self.labels[node]
            if not merge_repeated or label != before:
                found.append(label)
            before, node = label, self.parents[node]
        return found[::-1]


def _as_sparse(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Indices, values and shape of rows of labels."""
    places = [[row, k] for row, labels in enumerate(rows) for k in range(len(labels))]
    values = [label for labels in rows for label in labels]
    shape = [len(rows), max(map(len, rows), default=0)]
    return torch.tensor(places).long().reshape(-1, 2), torch.tensor(values).long(), torch.tensor(shape)


@checks_flags
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Any:
    """How many labels have to be inserted, deleted or replaced to make the truth of a hypothesis (Levenshtein, 1966).

    Args:
        hypothesis, truth: `SparseTensor`s of one dtype; sequences are along the last axis.
        normalize: whether it is divided by the length of the truth; infinite where that is 0 and the other is not.

    >>> from unspool import tf1 as tf
    >>> one = tf.SparseTensor([[0, 0], [0, 1]], [3, 4], [1, 2])
    >>> other = tf.SparseTensor([[0, 0]], [3], [1, 1])
    >>> tf.Session().run(tf.edit_distance(other, one))
    array([0.5], dtype=float32)
    """
    one, other = as_sparse(hypothesis, "Hypothesis"), as_sparse(truth, "Truth")
    if one.dtype is not other.dtype:
        raise TypeError(f"hypothesis is {one.dtype.name}, but truth is {other.dtype.name}; use tf.cast")

    ranks = {each.dense_shape.dims[0] for each in (one, other) if each.dense_shape.dims} - {None}
    if len(ranks) > 1:
        raise ValueError(f"hypothesis and truth must have the same number of axes, but have {sorted(ranks)}")  # pyright: ignore[reportArgumentType]

    def compute(*parts: torch.Tensor) -> torch.Tensor:
        sizes = parts[2], parts[5]
        if len(sizes[0]) != len(sizes[1]) or len(sizes[0]) < 2:
            raise ValueError(f"hypothesis has the shape {sizes[0].tolist()}, but truth {sizes[1].tolist()}")
        whole = torch.maximum(sizes[0][:-1], sizes[1][:-1]).tolist()
        made = np.zeros(whole, np.float32)
        guesses, truths = _sequences(parts[0], parts[1]), _sequences(parts[3], parts[4])
        for place in {*guesses, *truths}:
            guess, right = guesses.get(place, []), truths.get(place, [])
            distance = float(_distance(guess, right))
            made[place] = distance / len(right) if normalize and right else np.inf if normalize else distance
        return torch.from_numpy(made)

    dims: Dims = None
    if one.dims is not None and other.dims is not None and len(one.dims) == len(other.dims):
        pairs = zip(one.dims[:-1], other.dims[:-1], strict=True)
        dims = tuple(None if a is None or b is None else max(a, b) for a, b in pairs)
    return apply("EditDistance", compute, *one.parts(), *other.parts(), name=name, outputs=[(float32, dims)])


def _sequences(places: torch.Tensor, values: torch.Tensor) -> dict[tuple[int, ...], list[Any]]:
    """The sequence at each place of the other axes."""
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(places[:, :-1].tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(place), []).append(value)
    return found


def _distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    row = list(range(len(other) + 1))
    for number, a in enumerate(one, 1):
        before, row = row, [number]
        for k, b in enumerate(other):
            row.append(min(before[k + 1] + 1, row[k] + 1, before[k] + (a != b)))
    return row[-1]
