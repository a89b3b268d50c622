"""Drawing specs: which loop runs which cells on what, so that every loop, cell and option comes up again and again.

What unspool does otherwise than TensorFlow on purpose is left out: lengths out of range, NaN in the padding, nested
outputs of bidirectional_dynamic_rnn, and a state without rows where no row runs.
"""

from __future__ import annotations

from typing import Any

from conformance.cell_specs import draw_cell, draw_nested_cell, output_width, walk
from conformance.dealer import Dealer
from conformance.structures import CONTAINERS

Spec = dict[str, Any]

LOOPS = {
    "dynamic_rnn": 4,
    "static_rnn": 2,
    "bidirectional_dynamic_rnn": 2,
    "static_bidirectional_rnn": 2,
    "raw_rnn": 3,
    "static_state_saving_rnn": 2,
    "stack_bidirectional_dynamic_rnn": 1,
    "stack_bidirectional_rnn": 1,
}
"""How often each loop comes up in a round."""


def draw_specs(count: int, seed: int) -> list[Spec]:
    """`count` specs; the same for the same seed."""
    dealer = Dealer(seed)
    loops = [name for name, weight in LOOPS.items() for _ in range(weight)]
    return [draw_spec(dealer, dealer.deal("loop", loops)) for _ in range(count)]


def draw_spec(dealer: Dealer, loop: str) -> Spec:
    """One spec for `loop`."""
    spec: Spec = {
        "loop": loop,
        "dtype": dealer.deal("dtype", ["float64", "float64", "float32"]),
        "scope": dealer.deal("scope", [None, None, "", "enc", "tower_1", "enc/deep"]),
        "outer": dealer.deal("outer", [None, None, "model"]),
        **_draw_cells(dealer, loop),
    }
    spec.update(_draw_rows(dealer, spec))
    spec.update(_draw_call(dealer, spec))
    return spec


def takes_steps(loop: str) -> bool:
    """Whether a loop takes a list of steps, not whole sequences."""
    return loop.startswith("static") or loop == "stack_bidirectional_rnn"


def has_cell(spec: Spec, kind: str) -> bool:
    """Whether a cell of that kind is anywhere in the spec."""
    return any(cell["kind"] == kind for cell in walk(spec["cells"]))


def _draw_cells(dealer: Dealer, loop: str) -> Spec:
    """The depth of the inputs and the cells for it: for each layer the forward cell, then the backward one."""
    if not loop.startswith("stack") and dealer.one_in(8, "nested inputs"):
        return _draw_nested_cells(dealer, loop)
    depth = dealer.deal("D", [1, 2, 3, 4, 1, 2, 3, 4, 2, 0])
    spec: Spec = {"D": depth, "cells": []}
    directions = 2 if "bidirectional" in loop else 1
    for _ in range(dealer.integer(2, 3) if loop.startswith("stack") else 1):
        layer = [draw_cell(dealer, depth) for _ in range(directions)]
        spec["cells"] += layer
        depth = sum(map(output_width, layer))
    if len(spec["cells"]) == 2 and dealer.one_in(4, "share"):
        spec.update(share=True, cells=spec["cells"][:1])
    return spec


def _draw_nested_cells(dealer: Dealer, loop: str) -> Spec:
    cells = [draw_nested_cell(dealer) for _ in range(2 if "bidirectional" in loop else 1)]
    if loop == "bidirectional_dynamic_rnn":
        cells = [{**cell, "outputs": "leaf"} for cell in cells]
    if loop == "static_bidirectional_rnn":  # fw and bw outputs are concatenated leaf by leaf
        cells = [{**cell, "outputs": cells[0]["outputs"]} for cell in cells]
    # static_rnn looks for its first tensor by index, which a dict does not have.
    inputs = dealer.deal("inputs", CONTAINERS, lambda container: container != "dict" or not takes_steps(loop))
    return {"D": dealer.integer(1, 3), "inputs": inputs, "cells": cells}


def _draw_rows(dealer: Dealer, spec: Spec) -> Spec:
    """Batch size, number of steps, lengths within the steps or None, and how the lengths are passed."""
    loop, counting = spec["loop"], has_cell(spec, "CountingCell")
    # Lists of steps make large graphs.
    steps = dealer.deal(f"T {takes_steps(loop)}", range(1, 5) if takes_steps(loop) else range(1, 9))
    # TensorFlow runs one step even for no rows at all, which a state without rows can tell; and raw_rnn has no
    # gradient where nothing runs.
    must_run = counting or loop == "raw_rnn"
    rows = dealer.deal("B", [1, 2, 3, 4, 5, 2, 3, 4, 5, 0], lambda rows: rows > 0 or not must_run)
    kind = dealer.deal("lengths", ["int32", "int64", "list", "int32", "int64", None])
    # A loop without a dtype argument takes that of its padding from the state, which must then have only one.
    if kind is None or (counting and loop == "static_state_saving_rnn"):
        return {"B": rows, "T": steps, "lengths": None}
    fill = dealer.deal("fill", ["any", "any", "any", "ends", "ends", "short", "full", "zero"])
    highest = {"zero": 0, "short": steps - 1}.get(fill, steps)
    lengths = dealer.rng.integers(steps if fill == "full" else 0, highest + 1, rows).tolist()
    if fill == "ends" and rows >= 2:
        lengths[:2] = dealer.rng.permutation([0, steps]).tolist()
    if must_run and max(lengths) == 0:
        lengths[0] = steps
    # TensorFlow takes an empty list for floats.
    return {"B": rows, "T": steps, "lengths": lengths, "lengths_dtype": kind if rows else "int32"}


def _draw_call(dealer: Dealer, spec: Spec) -> Spec:
    """The other arguments of the call."""
    loop = spec["loop"]
    saving, raw = loop == "static_state_saving_rnn", loop == "raw_rnn"
    starts = [saving or dealer.one_in(2, "initial_state") for _ in range(2 if "bidirectional" in loop else 1)]
    # The dtype may be left out where every initial state is given and has only one.
    may_omit = all(starts) and not has_cell(spec, "CountingCell")
    call: Spec = {"initial_state": starts, "pass_dtype": not (may_omit and dealer.one_in(2, "no dtype"))}
    if saving:
        call["names"] = dealer.deal("names", ["list", "tuple"])
    if not takes_steps(loop):
        call["time_major"] = raw or dealer.one_in(2, "time_major")
        call["parallel_iterations"] = dealer.deal("parallel_iterations", [None, 0, 1, 32])
        call["swap_memory"] = dealer.one_in(2, "swap_memory")
    if raw:
        nested = "inputs" in spec
        loop_fns = ["until_lengths", "other_emits", "feedback"]
        call["loop_fn"] = dealer.deal("loop_fn", loop_fns, lambda name: not nested or name == "until_lengths")
        if call["loop_fn"] == "other_emits":
            call.update(emits=dealer.deal("emits", CONTAINERS), emit_width=output_width(spec["cells"][0]))
    return call
