"""Whole calls of `dynamic_rnn` beside torch's own modules, which are cuDNN's, or beside JAX's `lax.scan`.

Two lines for each shape, forward and training: milliseconds of ours and of the peer, measured in turns in the same
process, as `timing.py` says, and by how much the peer takes longer. Lengths are on the device for us, and on the CPU
for packed sequences, which want them there; beside them are full length, and the longest sequence alone, which takes
all the steps that a batch does. Training asks for the gradients of weights and inputs, given a random one
of the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.cuda.problems import differs, planned, problem_of
from benchmarks.cuda.timing import Settings, in_turns, tensor_floats
from benchmarks.harness import Contender, reason
from benchmarks.peers import dynamic_rnn, vendor, xla
from benchmarks.problem import Problem


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """Forward, unless the peer is JAX, and training."""
    tf32, ragged = bool(options.get("tf32")), bool(options.get("ragged"))
    with tensor_floats(tf32):
        problem = problem_of(
            options["kind"], settings.shape(case), options["dtype"], settings.device, ragged=ragged, tf32=tf32
        )
        lengths = problem.lengths.to(settings.device) if problem.lengths is not None else None
        told = planned(problem, lengths)
        for what in ("training",) if options.get("peer") == "jax" else ("forward", "training"):
            try:
                yield {"what": what, **told, **beside(replace(problem, training=what == "training"), options, settings)}
            except Exception as error:
                yield {"what": what, **told, "failed": reason(error)}


def beside(problem: Problem, options: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Times of ours and of the peer, and how many times as long as ours the others take."""
    lengths = problem.lengths.to(settings.device) if problem.lengths is not None else None
    ours, peer = dynamic_rnn(problem, "ours", lengths), peer_of(problem, options)
    runs = {"ours": ours.run, "peer": peer.run}
    if lengths is not None:
        whole = problem.with_full_length()
        runs |= {"full": dynamic_rnn(whole).run, "longest": dynamic_rnn(first_row(whole)).run}
    line: dict[str, Any] = {"against": peer.name}
    if peer.same:
        line["differs"] = differs(ours.run(), peer.run())
        line["tolerance"] = problem.tolerance
    times = in_turns(runs, settings, walls=peer.framework != "torch")
    line |= {name: each.medians(problem.shape.steps) for name, each in times.items()}
    line["ratio"] = times["peer"].over(times["ours"])
    if lengths is not None:
        line["of_full"] = times["ours"].over(times["full"])
        line["of_longest"] = times["ours"].over(times["longest"])
    return line


def first_row(problem: Problem) -> Problem:
    """The same for one sequence, of full length."""
    inputs, gradient = problem.inputs[:, :1].detach().contiguous(), problem.gradient[:, :1].contiguous()
    inputs.requires_grad_(problem.inputs.requires_grad)
    return replace(problem, shape=problem.shape._replace(batch=1), inputs=inputs, gradient=gradient)


def peer_of(problem: Problem, options: Mapping[str, Any]) -> Contender:
    """Whom a part has ours measured beside."""
    make = xla.jax if options.get("peer") == "jax" else vendor.padded if problem.lengths is None else vendor.packed
    peer = make(problem)
    assert peer is not None, f"{make.__name__} does not compute {problem.kind}"
    return peer
