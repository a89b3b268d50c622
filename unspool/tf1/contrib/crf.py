"""`tf.contrib.crf`: linear-chain conditional random fields (Lafferty et al., 2001)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import bool_, int32
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import expand_dims
from unspool.tf1.ops.math import cast, subtract
from unspool.tf1.ops.reductions import argmax, reduce_logsumexp, reduce_max
from unspool.tf1.rnn.cell import RNNCell
from unspool.tf1.scopes import get_variable
from unspool.tf1.shapes import Dim, described
from unspool.tf1.tensor import Tensor

__all__ = [
    "CrfDecodeBackwardRnnCell",
    "CrfDecodeForwardRnnCell",
    "CrfForwardRnnCell",
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


# -- scores ----------------------------------------------------------------------------------------------------------


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the potentials of a row's tags.

    Args:
        tag_indices: `[batch, time]` ints.
        sequence_lengths: `[batch]` ints, how many steps count.
        inputs: `[batch, time, tags]`, the unary potentials.
    """
    more = dict(tag_indices=tag_indices, sequence_lengths=sequence_lengths)
    return _scored("crf_unary_score", _unary, inputs=inputs, **more)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the potentials of the transitions between a row's tags; `transition_params[from, to]` holds these."""
    more = dict(tag_indices=tag_indices, sequence_lengths=sequence_lengths)
    return _scored("crf_binary_score", _binary, transition_params=transition_params, **more)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The score of a row's tags, which is no log-probability yet: unary and binary potentials.

    Args:
        inputs: `[batch, time, tags]`, the unary potentials.
        tag_indices: `[batch, time]` ints.
        sequence_lengths: `[batch]` ints; a row of length 0 has the score 0.
        transition_params: `[tags, tags]`, from a tag to the next.
    """

    def compute(x: torch.Tensor, tags: torch.Tensor, n: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return _unary(x, tags, n) + _binary(w, tags, n)

    more = dict(tag_indices=tag_indices, sequence_lengths=sequence_lengths, transition_params=transition_params)
    return _scored("crf_sequence_score", compute, inputs=inputs, **more)


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the summed scores of all sequences whose tags are among the allowed ones.

    Args:
        tag_bitmap: `[batch, time, tags]` bools, which tags are allowed.
        inputs, sequence_lengths, transition_params: see `crf_sequence_score`.
    """

    def compute(x: torch.Tensor, allowed: torch.Tensor, n: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        kept = torch.where(allowed, x, -torch.inf)
        if x.shape[1] == 1:  # as in TensorFlow, whose single step has no length
            return kept.logsumexp((1, 2))
        return _log_norm(kept, n, w)

    allowed = cast(as_tensor(tag_bitmap), bool_)
    more = dict(tag_bitmap=allowed, sequence_lengths=sequence_lengths, transition_params=transition_params)
    return _scored("crf_multitag_sequence_score", compute, inputs=inputs, **more)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the summed scores of all sequences, by the forward algorithm; 0 for rows of length 0."""
    more = dict(sequence_lengths=sequence_lengths, transition_params=transition_params)
    return _scored("crf_log_norm", _log_norm, inputs=inputs, **more)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The log-probability of each row's tags.

    Args:
        inputs: `[batch, time, tags]`, the unary potentials; the number of tags must be known.
        tag_indices: `[batch, time]` ints.
        sequence_lengths: `[batch]` ints.
        transition_params: `[tags, tags]`; by default a new variable "transitions".

    Returns:
        `[batch]` log-probabilities, and the transitions.

    >>> from unspool import tf1 as tf
    >>> chance, transitions = tf.contrib.crf.crf_log_likelihood(tf.zeros([1, 3, 2]), [[0, 1, 1]], [3], tf.zeros([2, 2]))
    >>> tf.Session().run(tf.exp(chance))
    array([0.125], dtype=float32)
    """
    transitions = _transitions(inputs, transition_params)
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transitions)
    return subtract(score, crf_log_norm(inputs, sequence_lengths, transitions)), transitions


def _transitions(inputs: Any, transition_params: Any) -> Any:
    if transition_params is not None:
        return transition_params
    count = as_tensor(inputs).shape[2].value
    if count is None:
        raise ValueError("inputs must have a known number of tags, as their last size, for the transitions to be made")
    return get_variable("transitions", [count, count])


_RANKS = {"inputs": 3, "tag_indices": 2, "tag_bitmap": 3, "sequence_lengths": 1, "transition_params": 2}


def _scored(kind: str, compute: Any, **given: Any) -> Tensor:
    """An operation that makes one number for each row of the arguments, which have their public names."""
    read = {name: as_tensor(value) for name, value in given.items()}
    rows: Dim = None
    for name, each in read.items():
        if each.dims is not None and len(each.dims) != _RANKS[name]:
            raise ValueError(f"{kind}: {name} must have rank {_RANKS[name]}, but have shape {described(each.dims)}")
        rows = each.dims[0] if rows is None and each.dims and name != "transition_params" else rows
    values = list(read.values())
    return apply(kind, compute, *values, outputs=[(values[0].dtype, (rows,))])


def _inside(lengths: torch.Tensor, steps: int) -> torch.Tensor:
    """`[batch, time]`: which steps count."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def _unary(x: torch.Tensor, tags: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    own = x.gather(2, tags.long()[:, :, None])[:, :, 0]
    return (own * _inside(lengths, x.shape[1])).sum(1)


def _binary(transitions: torch.Tensor, tags: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    own = transitions[tags[:, :-1].long(), tags[:, 1:].long()]
    return (own * _inside(lengths, tags.shape[1])[:, 1:]).sum(1)


def _log_norm(x: torch.Tensor, lengths: torch.Tensor, transitions: torch.Tensor) -> torch.Tensor:
    alphas = x[:, 0]
    inside = _inside(lengths, x.shape[1])
    whole = inside.all(0).tolist()
    for t in range(1, x.shape[1]):
        reached = (alphas[:, :, None] + transitions).logsumexp(1) + x[:, t]
        alphas = reached if whole[t] else torch.where(inside[:, t, None], reached, alphas)
    return torch.where(lengths <= 0, 0, alphas.logsumexp(1))


# -- decoding --------------------------------------------------------------------------------------------------------


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The tags of the highest score, by Viterbi's algorithm.

    Args:
        potentials: `[batch, time, tags]`, the unary potentials.
        transition_params: `[tags, tags]`.
        sequence_length: `[batch]` ints.

    Returns:
        `[batch, time]` int32 tags, 0 after a row's end, and their scores `[batch]`.

    >>> from unspool import tf1 as tf
    >>> tags, score = tf.contrib.crf.crf_decode([[[1.0, 0.0], [0.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]], [2])
    >>> tf.Session().run([tags, score])
    [array([[0, 1]], dtype=int32), array([3.], dtype=float32)]
    """
    given, weights, lengths = as_tensor(potentials), as_tensor(transition_params), as_tensor(sequence_length)
    if given.dims is not None and len(given.dims) != 3:
        raise ValueError(
            f"crf_decode: potentials must have shape [batch, time, tags], but have {described(given.dims)}"
        )
    dims = given.dims or (None, None)
    outputs = [(int32, dims[:2]), (given.dtype, dims[:1])]
    made = apply("crf_decode", _decode, given, weights, lengths, outputs=outputs)
    return made[0], made[1]


def _decode(x: torch.Tensor, transitions: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    steps, score = x.shape[1], x[:, 0]
    inside = _inside(lengths, steps)
    pointers: list[torch.Tensor] = []
    for t in range(1, steps):
        best, where = (score[:, :, None] + transitions).max(1)
        score = torch.where(inside[:, t, None], best + x[:, t], score)
        pointers.append(where)
    highest, tag = score.max(1)
    tags = torch.zeros(x.shape[:2], dtype=torch.int32, device=x.device)
    for t in range(steps - 1, 0, -1):
        tags[:, t] = torch.where(inside[:, t], tag, 0).int()
        tag = torch.where(inside[:, t], pointers[t - 1].gather(1, tag[:, None])[:, 0], tag)
    tags[:, 0] = tag.int()
    return tags, highest


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[Any], Any]:
    """The tags of the highest score of one sequence, and that score, with NumPy and outside of the graph.

    Args:
        score: `[time, tags]`, the unary potentials.
        transition_params: `[tags, tags]`.

    >>> tags, highest = viterbi_decode(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros([2, 2]))
    >>> [int(tag) for tag in tags], float(highest)
    ([0, 1], 3.0)
    """
    potentials, transitions = np.asarray(score), np.asarray(transition_params)
    best = potentials[0]
    pointers: list[np.ndarray[Any, Any]] = []
    for step in potentials[1:]:
        reached = best[:, None] + transitions
        pointers.append(reached.argmax(0))
        best = step + reached.max(0)
    tags = [best.argmax()]
    for where in reversed(pointers):
        tags.append(where[tags[-1]])
    return tags[::-1], best.max()


# -- cells, for loops of one's own -----------------------------------------------------------------------------------


class _Chain(RNNCell):
    """A cell of a chain with transitions, of which the state is a score for each tag."""

    def __init__(self, transition_params: Any) -> None:
        super().__init__()
        given = as_tensor(transition_params)
        self._transition_params = expand_dims(given, 0)
        count = given.shape[0].value
        if count is None:
            raise ValueError(f"transition_params must have a known size, but have shape {described(given.dims)}")
        self._num_tags: int = count

    @property
    def state_size(self) -> int:
        """The number of tags."""
        return self._num_tags

    @property
    def output_size(self) -> int:
        """The number of tags."""
        return self._num_tags

    def _reached(self, state: Any) -> Any:
        """`[batch, from, to]`."""
        return expand_dims(state, 2) + self._transition_params


class CrfForwardRnnCell(_Chain):
    """One step of the forward algorithm: `inputs + logsumexp(state + transitions)`, which is output and state.

    Args:
        transition_params: `[tags, tags]`.

    >>> from unspool import tf1 as tf
    >>> cell = tf.contrib.crf.CrfForwardRnnCell(tf.zeros([3, 3]))
    >>> _, alphas = tf.nn.dynamic_rnn(cell, tf.zeros([2, 4, 3]), initial_state=tf.zeros([2, 3]), dtype=tf.float32)
    >>> alphas.shape
    TensorShape([2, 3])
    """

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The scores of all ways to each tag."""
        alphas = inputs + reduce_logsumexp(self._reached(state), [1])
        return alphas, alphas


class CrfDecodeForwardRnnCell(_Chain):
    """One step of Viterbi's algorithm: the output is which tag came before, the state the score of the best way."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The tag before each tag, int32, and the scores."""
        reached = self._reached(state)
        return cast(argmax(reached, 1), int32), inputs + reduce_max(reached, [1])


class CrfDecodeBackwardRnnCell(RNNCell):
    """One step back: the inputs say which tag comes before each tag, the state `[batch, 1]` which tag it is.

    Args:
        num_tags: how many tags there are.
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self._num_tags = num_tags

    @property
    def state_size(self) -> int:
        """One tag."""
        return 1

    @property
    def output_size(self) -> int:
        """One tag."""
        return 1

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The tag before, twice."""
        given, tag = as_tensor(inputs), as_tensor(state)
        before = apply("GatherTag", lambda x, s: x.gather(1, s.long()), given, tag, outputs=[(given.dtype, tag.dims)])
        return before, before


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.crf", name, __all__)
