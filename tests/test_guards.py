"""A plan is used again only while everything that the step reads is as it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.cell_changes import CHANGES, Stage
from tests.cell_changes.table import Leaky
from tests.guards import assert_equal, by_the_engine, differ, plainly, reason_of, stages_of
from tests.profiles import cases
from unspool.engine.plans import cache


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_runs_counts(name: str) -> None:
    """Every stage of the entry is run twice: after the change, and once more by what was remembered of that run."""
    entry = CHANGES[name]
    before = None
    with stages_of(entry) as stages:
        for number, stage in enumerate(stages):
            expected = plainly(stage)
            if before is not None:
                assert differ(before, expected) is not stage.alike, f"change {number} has no effect to be missed"
            before = expected
            assert_equal(by_the_engine(stage), expected, stage, f"after change {number}")
            traces = cache.traces
            assert_equal(by_the_engine(stage), expected, stage, f"after change {number}, again")
            assert cache.traces == traces, f"after change {number} the same call is traced again"
            if number == 0 and not entry.may_refuse:
                assert reason_of(stage) is None
        assert number > 0


READS = {
    "attribute": "self.number",
    "class attribute": "self.class_number",
    "default": "default",
    "keyword default": "keyword",
    "closure": "closed",
    "global": "GLOBAL",
    "container": "self.held['a'][0]",
    "tuple": "self.pair[0]",
    "array": "self.array[0]",
    "slot": "self.slot.number",
    "nested object": "self.options.inner.number",
    "function": "self.function()",
    "module": "self.below.number",
}
"""The places that a step reads a number from."""

TEXT = """
class Options: pass
class Slot: __slots__ = ("number",)

def read(value):
    # Tells 1, True and 1.0 apart, and 0.0 and -0.0.
    return {{int: 1.0, bool: 3.0, float: 5.0}}[type(value)] + math.copysign(0.5, value) + value

def class_of(closed):
    class Cell(Leaky):
        def act(self, t, default=0.5, *, keyword=0.5):
            closed  # is closed over whether it is read below or not
            return torch.tanh(t) * sum((1 + k) * read(each) for k, each in enumerate([{reads}]))
    return Cell

GLOBAL = 0.5
Cell = class_of(0.5)
Cell.class_number = 0.5
"""


def put(cell: Any, place: str, number: Any) -> None:
    """Puts a number into one of the places; what is there already is changed in place where that can be."""
    act = type(cell).act
    if place == "class attribute":
        type(cell).class_number = number
    elif place == "default":
        act.__defaults__ = (number,)
    elif place == "keyword default":
        act.__kwdefaults__["keyword"] = number
    elif place == "closure":
        act.__closure__[0].cell_contents = number
    elif place == "global":
        act.__globals__["GLOBAL"] = number
    elif place == "container":
        vars(cell).setdefault("held", {"a": [0]})["a"][0] = number
    elif place == "array":
        vars(cell).setdefault("array", np.empty(1, dtype=object))[0] = number
    elif place == "slot":
        vars(cell).setdefault("slot", act.__globals__["Slot"]()).number = number
    elif place == "nested object":
        options = vars(cell).setdefault("options", act.__globals__["Options"]())
        vars(options).setdefault("inner", act.__globals__["Options"]()).number = number
    elif place == "module":
        if not hasattr(cell, "below"):
            cell.below = nn.Identity()
        cell.below.number = number
    else:
        name = {"attribute": "number", "tuple": "pair", "function": "function"}[place]
        value = {"attribute": number, "tuple": (number,), "function": lambda: number}[place]
        setattr(cell, name, value)


NUMBERS = st.sampled_from([0.5, 0, 0.0, -0.0, False, 1, 1.0, True, -1.5])
# Without shrinking: an example is a few traces, and what was drawn says enough.
QUICK = settings(max_examples=cases(8, 100), deadline=None, derandomize=True, phases=[Phase.generate])


@QUICK
@given(st.data())
def test_cells_of_one_class_get_the_numbers_of_the_places_they_read(data: st.DataObject) -> None:
    """Two cells of one class read some places; numbers there are changed, and both run after each change."""
    places = data.draw(st.lists(st.sampled_from(list(READS)), min_size=1, max_size=3, unique=True), label="places")
    own: dict[str, Any] = {"torch": torch, "math": math, "Leaky": Leaky}
    exec(TEXT.format(reads=", ".join(READS[place] for place in places)), own)
    torch.manual_seed(0)
    stages = [Stage(own["Cell"]()) for _ in range(2)]
    for stage in stages:
        for place in places:
            put(stage.cell, place, data.draw(NUMBERS, label=f"{place} at first"))
    for _ in range(3):
        for k in data.draw(st.permutations([0, 1, 0]), label="order"):
            assert_equal(by_the_engine(stages[k]), plainly(stages[k]), stages[k], f"cell {k}")
        which, place = data.draw(st.sampled_from([0, 1])), data.draw(st.sampled_from(places))
        put(stages[which].cell, place, data.draw(NUMBERS, label=f"{place} of cell {which}"))
