"""TensorFlow's `rnn_cell_test.py`, `LSTMTest` and `StateSaverRNNTest`: a state that is kept between calls."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import LSTMCell, MultiRNNCell, static_rnn, static_state_saving_rnn, tf_variables
from unspool.structure import flatten

BATCH, TIME, DEPTH, UNITS = 2, 6, 5, 3


class Saver:
    """Keeps states by name, and remembers who asked."""

    def __init__(self, **widths):
        self.kept = {name: torch.full((BATCH, width), 0.1, dtype=torch.float64) for name, width in widths.items()}
        self.asked, self.saved = [], []

    def state(self, name):
        self.asked.append(name)
        return self.kept[name]

    def save_state(self, name, value):
        self.saved.append(name)
        self.kept[name] = value


def lstm(units=UNITS, **options):
    return LSTMCell(units, dtype=torch.float64, **options)


def check_against_one_long_run(cell, saver, state_name):
    """Two calls of three steps each are one of six, and what is saved is what is returned."""
    cell.build(DEPTH)
    fill_all(cell, seed=1)
    steps = list(torch.randn(TIME, BATCH, DEPTH, dtype=torch.float64))
    names = flatten(state_name)
    start = [saver.kept[name] for name in names]
    outputs = []
    for part in (steps[:3], steps[3:]):
        part_outputs, state = static_state_saving_rnn(cell, part, saver, state_name)
        outputs += part_outputs
        assert all(torch.equal(saver.kept[name], leaf) for name, leaf in zip(names, flatten(state), strict=True))
    whole, final = static_rnn(cell, steps, initial_state=_in_place_of(cell.state_size, iter(start)))
    assert_same(outputs, whole)
    assert_same(state, final)


def _in_place_of(sizes, leaves):
    if isinstance(sizes, int):
        return next(leaves)
    parts = [_in_place_of(size, leaves) for size in sizes]
    return type(sizes)(*parts) if hasattr(sizes, "_fields") else tuple(parts)


def test_no_proj_no_sharding_simple_state_saver():
    saver = Saver(save_lstm=2 * UNITS)
    check_against_one_long_run(lstm(state_is_tuple=False), saver, "save_lstm")
    assert saver.saved == ["save_lstm"] * 2


@pytest.mark.parametrize("state_name", [("c", "m"), ["c", "m"]], ids=["tuple", "list"])
def test_no_proj_no_sharding_tuple_state_saver(state_name):
    saver = Saver(c=UNITS, m=UNITS)
    check_against_one_long_run(lstm(), saver, state_name)
    assert saver.saved == ["c", "m"] * 2


def test_no_proj_no_sharding_nested_tuple_state_saver():
    stack = MultiRNNCell([lstm(UNITS + k) for k in range(4)])
    saver = Saver(**{f"{part}{k}": UNITS + k for k in range(4) for part in "cm"})
    check_against_one_long_run(stack, saver, tuple((f"c{k}", f"m{k}") for k in range(4)))
    assert saver.saved[:8] == ["c0", "m0", "c1", "m1", "c2", "m2", "c3", "m3"]


@pytest.mark.parametrize("state_name", ["c", ("c",), ("c", "m", "c")])
def test_no_proj_no_sharding_tuple_state_saver_needs_every_name(state_name):
    steps = [torch.zeros(BATCH, DEPTH, dtype=torch.float64)]
    with pytest.raises(ValueError, match="state_name must name each of the 2 tensors"):
        static_state_saving_rnn(lstm(), steps, Saver(c=UNITS, m=UNITS), state_name)


@scopes(default="rnn")
def test_state_saver_rnn_scope(scope, prefix):
    cell, saver = lstm(state_is_tuple=False, input_size=DEPTH), Saver(s=2 * UNITS)
    steps = [torch.zeros(BATCH, DEPTH, dtype=torch.float64)]
    assert prefix in profiler_ranges(lambda: static_state_saving_rnn(cell, steps, saver, "s", scope=scope))
    assert list(tf_variables(cell, scope=prefix)) == [f"{prefix}/lstm_cell/kernel", f"{prefix}/lstm_cell/bias"]


def test_state_saver_calls_save_state():
    saver, steps = Saver(c=UNITS, m=UNITS), [torch.zeros(BATCH, DEPTH, dtype=torch.float64)] * TIME
    cell = lstm()
    for calls in (1, 2, 3):
        static_state_saving_rnn(cell, steps, saver, ("c", "m"))
        assert saver.asked == saver.saved == ["c", "m"] * calls
