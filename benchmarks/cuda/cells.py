"""Training cells that users write: `dynamic_rnn` against itself with the built-in LSTM, and the Python loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.cuda.problems import differs, planned, problem_of
from benchmarks.cuda.timing import Settings, in_turns
from benchmarks.peers import dynamic_rnn, loops


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """A line for a cell."""
    shape, dtype = settings.shape(options["shape"]), options["dtype"]
    problem, built_in = (problem_of(kind, shape, dtype, settings.device) for kind in (case, "LSTM"))
    told, ours, loop = planned(problem), dynamic_rnn(problem), loops.plain(problem)
    line: dict[str, Any] = {"what": "training", **told}
    line |= {"differs": differs(ours.run(), loop.run()), "tolerance": problem.tolerance}
    runs = {"ours": ours.run, "lstm": dynamic_rnn(built_in).run, "loop": loop.run}
    times = in_turns(runs, settings)
    line |= {name: each.medians(shape[1]) for name, each in times.items()}
    line |= {"of_lstm": times["ours"].over(times["lstm"]), "ratio": times["loop"].over(times["ours"])}
    yield line
