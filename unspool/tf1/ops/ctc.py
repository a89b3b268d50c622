"""Connectionist temporal classification (Graves et al., 2006): the loss of labels that say no times."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from unspool.flags import checks_flags
from unspool.tf1.operations import FRACTIONS, apply, as_tensor, check_takes
from unspool.tf1.shapes import Dims, described, merged
from unspool.tf1.sparse.dense import flat_places
from unspool.tf1.sparse.tensor import SparseTensor, SparseTensorValue

IMPOSSIBLE = -1e30
"""The logarithm of no chance: finite, so that gradients of sums of it are numbers."""


@checks_flags
def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Any:
    """Minus the log-probability of each row's labels, summed over all ways to place them in time.

    Args:
        labels: an int32 `SparseTensor`; `values` of the indices `[b, k]` are row b's labels, in `[0, classes - 1)`.
        inputs: logits `[time, batch, classes]`, of which the last class is the blank; `softmax` is taken inside.
        sequence_length: `[batch]` ints, how many steps each row has.
        preprocess_collapse_repeated: whether repeated labels count as one.
        ctc_merge_repeated: whether a class that is repeated in time is one label; else each time is one.
        ignore_longer_outputs_than_inputs: whether rows with more labels than steps have the loss 0, without a
            gradient, instead of being an error.
        time_major: False for inputs `[batch, time, classes]`.
        logits: another name of `inputs`.

    Raises:
        TypeError: if the labels are not sparse.
        InvalidArgumentError: in a run, if a row has no labels, more of them than steps, or one that is no class.

    >>> from unspool import tf1 as tf
    >>> labels = tf.SparseTensor([[0, 0]], [0], [1, 1])
    >>> tf.Session().run(tf.nn.ctc_loss(labels, tf.zeros([1, 1, 2]), [1]))
    array([0.6931472], dtype=float32)
    """
    if not isinstance(labels, SparseTensor | SparseTensorValue):
        raise TypeError(f"Expected labels (first argument) to be a SparseTensor, but it is a {type(labels).__name__}")
    if (inputs is None) == (logits is None):
        raise ValueError("one of inputs and logits must be given, and only one")
    if sequence_length is None:
        raise ValueError("sequence_length must be given: how many steps each row has")
    wanted, given, steps = (
        SparseTensor.from_value(labels),
        as_tensor(logits if inputs is None else inputs),
        as_tensor(sequence_length),
    )
    check_takes("CTCLoss", given, FRACTIONS)
    rows = _rows("CTCLoss", given.dims, steps.dims, time_major)

    def compute(
        scores: torch.Tensor, places: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        scores = scores if time_major else scores.transpose(0, 1)
        if wrong := wrong_lengths(scores, lengths):
            raise ValueError(wrong)
        targets = _targets(places, values, scores, preprocess_collapse_repeated)
        skipped = _too_long(targets, lengths.tolist(), ignore_longer_outputs_than_inputs)
        scores = _ended(scores, lengths)
        return _loss(scores, targets, lengths.long(), torch.tensor(skipped, device=scores.device), ctc_merge_repeated)

    return apply("CTCLoss", compute, given, wanted.indices, wanted.values, steps, outputs=[(given.dtype, (rows,))])


@checks_flags
def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Any:
    """`ctc_loss` of labels that may be dense, and with the blank at any class.

    Args:
        labels: `[batch, labels]` ints, or a `SparseTensor`.
        logits: `[time, batch, classes]`.
        label_length: `[batch]` ints, how many labels each row has; None if they are sparse.
        logit_length: `[batch]` ints, how many steps each row has.
        logits_time_major: False for logits `[batch, time, classes]`.
        unique: accepted; it saves TensorFlow time, and changes no number.
        blank_index: the class of the blank, which may count from the end; needed for sparse labels, else 0.
        name: the operation's name.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.ctc_loss_v2([[1]], tf.zeros([1, 1, 2]), [1], [1]))
    array([0.6931472], dtype=float32)
    """
    given, steps = as_tensor(logits), as_tensor(logit_length)
    check_takes("ctc_loss_v2", given, FRACTIONS)
    rows = _rows("ctc_loss_v2", given.dims, steps.dims, logits_time_major)
    if isinstance(labels, SparseTensor | SparseTensorValue):
        if blank_index is None:
            raise ValueError("blank_index must be given when using SparseTensor labels.")
        sparse = SparseTensor.from_value(labels)
        moved = apply("CTCBlankLast", lambda x: _blank_last(x, blank_index), given, outputs=[(given.dtype, given.dims)])
        before = lambda x, v: torch.where(v < blank_index % x.shape[2], v, v - 1)  # noqa: E731
        values = apply("CTCLabels", before, given, sparse.values, outputs=[(sparse.dtype, sparse.values.dims)])
        return ctc_loss(sparse.with_values(values), moved, steps, time_major=logits_time_major)

    def compute(
        scores: torch.Tensor, wanted: torch.Tensor, counts: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        scores = scores if logits_time_major else scores.transpose(0, 1)
        if wrong := wrong_lengths(scores, lengths):
            raise ValueError(wrong)
        blank = (blank_index or 0) % scores.shape[2]
        logs = _ended(scores, lengths).log_softmax(2)
        return F.ctc_loss(logs, wanted.long(), lengths.long(), counts.long(), blank, reduction="none")

    outputs = [(given.dtype, (rows,))]
    return apply("ctc_loss_dense", compute, given, labels, label_length, steps, name=name, outputs=outputs)


def _blank_last(scores: torch.Tensor, blank: int) -> torch.Tensor:
    place = blank % scores.shape[2]
    return torch.cat([scores[..., :place], scores[..., place + 1 :], scores[..., place : place + 1]], -1)


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Any, Any]:
    """The labels of each row without those that repeat the one before them, zeros after them, and how many are left.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.collapse_repeated([[1, 1, 2]], [3]))
    (array([[1, 2]], dtype=int32), array([2], dtype=int32))
    """
    given, lengths = as_tensor(labels), as_tensor(seq_length)

    def compute(rows: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.ones_like(rows[:, :1], dtype=torch.bool)
        kept = torch.cat([first, rows[:, 1:] != rows[:, :-1]], 1) & (torch.arange(rows.shape[1]) < n[:, None])
        counts = kept.sum(1)
        made = rows.new_zeros(len(rows), int(counts.max()) if len(rows) else 0)
        made[torch.arange(made.shape[1]) < counts[:, None]] = rows[kept]
        return made, counts.to(n.dtype)

    outputs = [(given.dtype, (None if given.dims is None else given.dims[0], None)), (lengths.dtype, lengths.dims)]
    return tuple(apply("collapse_repeated", compute, given, lengths, name=name, outputs=outputs))


def _rows(kind: str, scores: Dims, lengths: Dims, time_major: bool) -> int | None:
    """How many rows there are, as far as it is known."""
    if scores is not None and len(scores) != 3:
        raise ValueError(f"{kind}: Shape must be rank 3 but is {described(scores)}")
    if lengths is not None and len(lengths) != 1:
        raise ValueError(f"{kind}: sequence_length must be a vector, but has shape {described(lengths)}")
    own = None if scores is None else (scores[1 if time_major else 0],)
    found = merged(own, lengths)
    return None if found is None else found[0]


def rows_of(kind: str, scores: Dims, lengths: Dims) -> int | None:
    """How many rows inputs `[time, batch, classes]` have, as far as it is known; `ValueError` if shapes do not fit."""
    return _rows(kind, scores, lengths, True)


def wrong_lengths(scores: torch.Tensor, lengths: torch.Tensor) -> str | None:
    """What is wrong, if there is not a length for each row within the inputs `[time, batch, classes]`."""
    if scores.dim() != 3:
        return f"inputs is not a 3-Tensor, but has shape {list(scores.shape)}"
    if list(lengths.shape) != [scores.shape[1]]:
        return f"len(sequence_length) != batch_size: {list(lengths.shape)} for {scores.shape[1]} rows"
    if not len(lengths):
        return "batch_size must not be 0"
    for row, each in enumerate(lengths.tolist()):
        if not 0 <= each <= scores.shape[0]:
            return f"sequence_length({row}) is {each}, but must be in [0, {scores.shape[0]}]"
    return None


def _targets(places: torch.Tensor, values: torch.Tensor, scores: torch.Tensor, collapse: bool) -> list[list[int]]:
    """The labels of each row; a blank among them ends the row."""
    rows, blank = scores.shape[1], scores.shape[2] - 1
    sizes = (
        torch.cat([places.new_tensor([rows]), places[:, 1:].amax(0) + 1]) if len(places) else places.new_tensor([rows])
    )
    flat_places(places[:, : len(sizes)], sizes, ordered=True)
    given: list[list[int]] = [[] for _ in range(rows)]
    for row, label in zip(places[:, 0].tolist(), values.tolist(), strict=True):
        given[row].append(label)
    found: list[list[int]] = []
    for row, labels in enumerate(given):
        if not labels:
            raise ValueError(f"Labels length is zero in batch {row}")
        if min(labels) < 0:
            raise ValueError(f"All labels must be nonnegative integers, batch: {row} labels: {labels}")
        kept = [x for k, x in enumerate(labels) if not (collapse and k and x == labels[k - 1])]
        count = next((k for k, x in enumerate(kept) if x >= blank), len(kept))
        if any(x < blank for x in kept[count:]):
            raise ValueError(
                f"Saw a non-null label (index >= num_classes - 1) following a null label, batch: {row} num_classes: "
                f"{blank + 1} labels: {labels}"
            )
        found.append(kept[:count])
    return found


def _too_long(targets: list[list[int]], lengths: list[int], ignored: bool) -> list[bool]:
    """Which rows have fewer steps than labels, or none; `ValueError` if that is not to be ignored."""
    for row, (labels, steps) in enumerate(zip(targets, lengths, strict=True)):
        if len(labels) > steps and not ignored:
            raise ValueError(
                f"Not enough time for target transition sequence (required: {len(labels)}, available: {steps}), batch: "
                f"{row}. ignore_longer_outputs_than_inputs=True makes the loss of such rows 0"
            )
    return [len(labels) > steps or not steps for labels, steps in zip(targets, lengths, strict=True)]


def _loss(
    scores: torch.Tensor, targets: list[list[int]], lengths: torch.Tensor, skipped: torch.Tensor, merged_repeats: bool
) -> torch.Tensor:
    """The losses of the rows that are not skipped, and 0 for those."""
    blank, deep = scores.shape[2] - 1, max(map(len, targets), default=0)
    padded = torch.tensor([each + [0] * (deep - len(each)) for each in targets], device=scores.device).reshape(-1, deep)
    sizes = torch.tensor([len(each) for each in targets], device=scores.device)
    logs = scores.log_softmax(2)
    if merged_repeats:
        found = F.ctc_loss(logs, padded, lengths, sizes, blank, reduction="none")
        impossible = torch.isinf(found.detach()) & ~skipped
        if bool((impossible | skipped).any()):  # their gradients would be no numbers
            found = F.ctc_loss(logs, padded, lengths, sizes, blank, reduction="none", zero_infinity=True)
    else:
        found, impossible = _without_merging(logs, padded, lengths, sizes), torch.zeros_like(skipped)
    if bool(impossible.any()):
        # No path: the loss is infinite, and TensorFlow's gradient the softmax alone.
        total = scores.logsumexp(2).sum(0)
        found = torch.where(impossible, total - total.detach() + torch.inf, found)
    return torch.where(skipped, torch.zeros_like(found), found)


def _ended(scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The logits, 0 after the end of a row: what is there may be anything, and has no gradient."""
    if bool((lengths == len(scores)).all()):
        return scores
    inside = torch.arange(len(scores), device=scores.device)[:, None] < lengths
    return torch.where(inside[:, :, None], scores, 0)


def _without_merging(
    logs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, sizes: torch.Tensor
) -> torch.Tensor:
    """The forward variables (Graves, 2012, equation 7.9) where every step with a class that is no blank is a label."""
    time, rows, classes = logs.shape
    places = logs.new_full((rows, 2 * targets.shape[1] + 1), classes - 1, dtype=torch.long)
    places[:, 1::2] = targets
    blank = torch.arange(places.shape[1], device=logs.device) % 2 == 0
    alpha = logs.new_full(places.shape, IMPOSSIBLE)
    alpha = torch.where(torch.arange(places.shape[1], device=logs.device) < 2, logs[0].gather(1, places), alpha)
    for t in range(1, time):
        before = F.pad(alpha, (2, 0), value=IMPOSSIBLE)
        stay = torch.where(blank, alpha, IMPOSSIBLE)
        skip = torch.where(blank, IMPOSSIBLE, before[:, :-2])
        reached = torch.stack([stay, before[:, 1:-1], skip]).logsumexp(0) + logs[t].gather(1, places)
        alpha = torch.where((t < lengths)[:, None], reached, alpha)
    ends = torch.stack([2 * sizes, (2 * sizes - 1).clamp_min(0)], 1)
    last = alpha.gather(1, ends)
    only_blanks = (sizes == 0)[:, None] & torch.tensor([False, True], device=logs.device)
    return -torch.where(only_blanks, IMPOSSIBLE, last).logsumexp(1)
