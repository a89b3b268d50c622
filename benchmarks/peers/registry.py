"""Who takes part: `dynamic_rnn` first, then every registered peer that fits the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import unspool
from benchmarks.harness import Case, Contender
from benchmarks.problem import Problem

Peer = Callable[[Problem], "Contender | None"]
"""Makes a contender for a problem; None if the problem is not for it, `ImportError` if it is not installed here."""

PEERS: list[Peer] = []


def peer(make: Peer) -> Peer:
    """Registers a peer."""
    PEERS.append(make)
    return make


def dynamic_rnn(problem: Problem, name: str = "dynamic_rnn", lengths: Any = None, **options: Any) -> Contender:
    """`unspool.dynamic_rnn` with `options`; `lengths` instead of the problem's own."""
    lengths = problem.lengths if lengths is None else lengths

    def forward() -> Any:
        return unspool.dynamic_rnn(
            problem.cell, problem.inputs, lengths, dtype=problem.dtype, time_major=True, **options
        )[0]

    return Contender(name, problem.on_torch(forward, list(problem.cell.parameters())), "unspool")


def case(problem: Problem, ours: Sequence[Contender] = (), peers: Iterable[Peer] | None = None) -> Case:
    """The contenders for a problem.

    Args:
        problem: what they compute.
        ours: variants of `dynamic_rnn`, the reference first; the plain call by default.
        peers: those to ask; all by default.
    """
    contenders, absent = list(ours) or [dynamic_rnn(problem)], dict[str, str]()
    for make in PEERS if peers is None else peers:
        try:
            contender = make(problem)
        except ImportError as error:
            absent[make.__name__] = str(error)
        else:
            contenders += [contender] if contender else []
    return Case(problem.title, problem.shape.steps, contenders, problem.tolerance, absent)
