"""Samplers of candidates: some of many classes, with how often each is expected among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from unspool.flags import checks_flags
from unspool.tf1.dtypes import float32, int32, int64
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.math import cast
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import described, merged
from unspool.tf1.tensor import Tensor


class Candidates(NamedTuple):
    """What a sampler gives."""

    sampled_candidates: Any
    """`[num_sampled]` int64."""
    true_expected_count: Any
    """`[batch, num_true]`: how often each true class is expected among the candidates."""
    sampled_expected_count: Any
    """`[num_sampled]`: how often each candidate is."""


class _Distribution:
    """A distribution over classes: `draw` takes a number and a generator, `chances` classes to probabilities."""

    def draw(self, count: int, generator: torch.Generator | None) -> torch.Tensor:
        raise NotImplementedError

    def chances(self, classes: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def see(self, classes: torch.Tensor) -> None:
        """Learns from true classes."""


class _Uniform(_Distribution):
    def __init__(self, range_max: int) -> None:
        self._range = range_max

    def draw(self, count: int, generator: torch.Generator | None) -> torch.Tensor:
        return torch.randint(self._range, (count,), generator=generator)

    def chances(self, classes: torch.Tensor) -> torch.Tensor:
        return torch.full(classes.shape, 1 / self._range, dtype=torch.float64)


class _LogUniform(_Distribution):
    """`P(class) = log((class + 2) / (class + 1)) / log(range_max + 1)`: Zipf's law, for classes in order."""

    def __init__(self, range_max: int) -> None:
        self._range = range_max

    def draw(self, count: int, generator: torch.Generator | None) -> torch.Tensor:
        power = torch.rand(count, dtype=torch.float64, generator=generator) * math.log(self._range + 1)
        return (torch.exp(power).long() - 1) % self._range

    def chances(self, classes: torch.Tensor) -> torch.Tensor:
        return torch.log((classes + 2.0).double() / (classes + 1.0).double()) / math.log(self._range + 1)


class _Unigram(_Distribution):
    """In proportion to weights, which may grow by 1 with every true class."""

    def __init__(self, weights: torch.Tensor, *, learns: bool = False) -> None:
        self._weights, self._learns = weights.double(), learns

    def draw(self, count: int, generator: torch.Generator | None) -> torch.Tensor:
        return torch.multinomial(self._weights, count, replacement=True, generator=generator)

    def chances(self, classes: torch.Tensor) -> torch.Tensor:
        return self._weights[classes] / self._weights.sum()

    def see(self, classes: torch.Tensor) -> None:
        if self._learns:
            self._weights.index_add_(0, classes.reshape(-1), torch.ones(classes.numel(), dtype=torch.float64))


def _sampled(
    kind: str,
    make: Callable[[], _Distribution],
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None,
    name: str | None,
) -> Candidates:
    """Candidates of a distribution, which lives as long as the session."""
    given, draw, key = _true_classes(kind, true_classes, num_true), Draw(seed), object()
    for what, value in (("num_true", num_true), ("num_sampled", num_sampled), ("range_max", range_max)):
        if value < 1:
            raise ValueError(f"{kind}: {what} must be at least 1, but is {value}")

    def compute(run: Any, classes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if unique and num_sampled > range_max:
            raise ValueError(f"Sampler's range is too small: {num_sampled} different of {range_max} classes")
        _check_columns(classes, num_true)
        if classes.numel() and not (int(classes.min()) >= 0 and int(classes.max()) < range_max):
            raise ValueError(f"true_classes must be in [0, {range_max}), but are {classes.tolist()}")
        chosen: _Distribution = run.state.kept(key, make)
        generator = draw.generator(run)
        if unique:
            found, tries = _different(chosen, num_sampled, generator)
        else:
            found, tries = chosen.draw(num_sampled, generator), num_sampled
        counts = [_expected(chosen.chances(each), tries, num_sampled) for each in (classes.cpu(), found)]
        chosen.see(classes.cpu())
        return tuple(each.to(classes.device) for each in (found, *counts))

    outputs = [(int64, (num_sampled,)), (float32, merged(given.dims, (None, num_true))), (float32, (num_sampled,))]
    return Candidates(*apply(kind, compute, given, name=name, outputs=outputs, takes_run=True))


def _true_classes(kind: str, true_classes: Any, num_true: int) -> Tensor:
    given = cast(as_tensor(true_classes), int64)
    if given.dims is not None and (len(given.dims) != 2 or given.dims[1] not in (None, num_true)):
        raise ValueError(
            f"{kind}: true_classes must have shape [batch, num_true = {num_true}], but have {described(given.dims)}"
        )
    return given


def _check_columns(classes: torch.Tensor, num_true: int) -> None:
    if classes.dim() != 2 or classes.shape[1] != num_true:
        raise ValueError(f"true_classes must have {num_true} columns, but have shape {list(classes.shape)}")


def _different(chosen: _Distribution, count: int, generator: torch.Generator | None) -> tuple[torch.Tensor, int]:
    """Classes drawn until so many are different, and how often that was."""
    found: dict[int, None] = {}
    tries = 0
    while True:
        for each in chosen.draw(count, generator).tolist():
            found[each] = None
            tries += 1
            if len(found) == count:
                return torch.tensor(list(found)), tries


def _expected(chances: torch.Tensor, tries: int, count: int) -> torch.Tensor:
    """How often a class is expected among the candidates: at most once, if these are different."""
    found = chances * count if tries == count else -torch.expm1(tries * torch.log1p(-chances))
    return found.float()


@checks_flags
def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Candidates by Zipf's law, for classes that are in the order of how frequent they are.

    Args:
        true_classes: `[batch, num_true]` ints.
        num_true: how many true classes a row has.
        num_sampled: how many candidates there are, for all rows together.
        unique: whether they are all different.
        range_max: how many classes there are.
        seed: makes the draws repeatable.

    >>> from unspool import tf1 as tf
    >>> sampled, true_count, _ = tf.nn.log_uniform_candidate_sampler([[0]], 1, 4, False, 9)
    >>> tf.Session().run(true_count).round(3)
    array([[1.204]], dtype=float32)
    """
    make = lambda: _LogUniform(range_max)  # noqa: E731
    kind = "LogUniformCandidateSampler"
    return _sampled(kind, make, true_classes, num_true, num_sampled, unique, range_max, seed, name)


@checks_flags
def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Candidates of which all are equally likely; see `log_uniform_candidate_sampler`."""
    make = lambda: _Uniform(range_max)  # noqa: E731
    kind = "UniformCandidateSampler"
    return _sampled(kind, make, true_classes, num_true, num_sampled, unique, range_max, seed, name)


@checks_flags
def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Candidates as often as they were true classes before, in this session, plus 1."""
    make = lambda: _Unigram(torch.ones(range_max), learns=True)  # noqa: E731
    kind = "LearnedUnigramCandidateSampler"
    return _sampled(kind, make, true_classes, num_true, num_sampled, unique, range_max, seed, name)


@checks_flags
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Candidates in proportion to given counts.

    Args:
        vocab_file: lines whose last field, after a comma, is the count of a class.
        distortion: the power that the counts are raised to.
        num_reserved_ids: so many classes come before those with counts, and are never drawn.
        num_shards, shard: of the classes only each `num_shards`-th is used, from `shard` on.
        unigrams: the counts, in the place of `vocab_file`.
        true_classes, num_true, num_sampled, unique, range_max, seed: see `log_uniform_candidate_sampler`.

    Raises:
        ValueError: if not one of `vocab_file` and `unigrams` is given, or there are not `range_max` classes.
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise ValueError("Must provide either vocab_file or unigrams, and only one of them")
    if not 0 <= shard < num_shards:
        raise ValueError(f"shard must be in [0, num_shards = {num_shards}), but is {shard}")
    counts = list(unigrams) if not vocab_file else _counts_in(vocab_file)
    weights = [0.0] * num_reserved_ids + [float(each) ** distortion for each in counts]
    weights = weights[shard::num_shards]
    if len(weights) != range_max:
        raise ValueError(f"range_max is {range_max}, but there are {len(weights)} classes with counts")
    make = lambda: _Unigram(torch.tensor(weights))  # noqa: E731
    kind = "FixedUnigramCandidateSampler"
    return _sampled(kind, make, true_classes, num_true, num_sampled, unique, range_max, seed, name)


def _counts_in(vocab_file: str) -> list[float]:
    with open(vocab_file, encoding="utf-8") as lines:
        return [float(line.rsplit(",", 1)[-1]) for line in lines if line.strip()]


@checks_flags
def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Candidates:
    """All `num_sampled` classes as candidates, for tests: the loss is then not an estimate."""
    given = _true_classes("AllCandidateSampler", true_classes, num_true)
    compute = lambda x: (torch.arange(num_sampled), torch.ones(x.shape), torch.ones(num_sampled))  # noqa: E731
    outputs = [(int64, (num_sampled,)), (float32, merged(given.dims, (None, num_true))), (float32, (num_sampled,))]
    return Candidates(*apply("AllCandidateSampler", compute, given, name=name, outputs=outputs))


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> tuple[Any, Any, Any]:
    """Where a candidate is a true class of a row: the rows, the numbers of the candidates, and `-inf` almost, to add.

    >>> from unspool import tf1 as tf
    >>> rows, places, _ = tf.nn.compute_accidental_hits([[2], [7]], [5, 7, 9], 1)
    >>> tf.Session().run([rows, places])
    [array([1], dtype=int32), array([1])]
    """
    given = _true_classes("ComputeAccidentalHits", true_classes, num_true)
    sampled = cast(as_tensor(sampled_candidates), int64)

    def compute(classes: torch.Tensor, drawn: torch.Tensor) -> tuple[torch.Tensor, ...]:
        _check_columns(classes, num_true)
        place = {each: k for k, each in enumerate(drawn.tolist())}  # of a candidate that was drawn twice, the last
        hits = [(row, place[each]) for row, own in enumerate(classes.tolist()) for each in own if each in place]
        found = torch.tensor(hits, device=classes.device).long().reshape(-1, 2)
        lowest = torch.full((len(hits),), torch.finfo(torch.float32).min, device=classes.device)
        return found[:, 0].int(), found[:, 1], lowest

    outputs = [(int32, (None,)), (int64, (None,)), (float32, (None,))]
    return tuple(apply("ComputeAccidentalHits", compute, given, sampled, name=name, outputs=outputs))


def hit_mask(classes: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
    """`[batch, sampled]`: which candidates are true classes of a row; of one that was drawn twice the last counts."""
    again = (sampled[:, None] == sampled).triu(1).any(1)
    return (classes[:, :, None] == sampled).any(1) & ~again
