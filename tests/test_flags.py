"""What is true or false is a bool and nothing else: numbers that slip into such a place are refused by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from unspool import tf1 as tf

NAMESPACES: dict[str, Any] = {
    "unspool": unspool,
    "tf.nn": tf.nn,
    "tf.nn.rnn_cell": tf.nn.rnn_cell,
    "tf.contrib.rnn": tf.contrib.rnn,
    "tf.contrib.seq2seq": tf.contrib.seq2seq,
    "tf.layers": tf.layers,
    "tf.train": tf.train,
}

AS_TENSORFLOW = {
    "tf.nn.embedding_lookup": "TensorFlow never looks at validate_indices",
    "tf.nn.top_k": "an operation, not a layer or a loop",
    "tf.nn.moments": "an operation, not a layer or a loop",
    "tf.train.Saver": "TensorFlow takes any truth",
    "tf.train.update_checkpoint_state": "TensorFlow takes any truth",
}
"""What is left as TensorFlow has it, and why."""

FLAGS = ("bool", "bool | None")


def flags() -> Iterator[Any]:
    """Every argument of a public function or class that is a flag."""
    for space, names in NAMESPACES.items():
        for name in sorted(vars(names)):
            function = getattr(names, name)
            if name.startswith("_") or not callable(function) or f"{space}.{name}" in AS_TENSORFLOW:
                continue
            if not getattr(function, "__module__", "").startswith("unspool") or _is_error(function):
                continue
            kind: Any = getattr(function, "kind", None) if isinstance(function, type) else None
            # A front end's cell takes the arguments of the one that it is made of, unless it says its own.
            kind = kind if isinstance(kind, type) and "__init__" not in vars(function) else None
            for each in inspect.signature(kind or function).parameters.values():
                if each.annotation in FLAGS and not (kind and each.name == "reuse"):  # which tf.AUTO_REUSE may be
                    yield pytest.param(function, kind or function, each.name, id=f"{space}.{name}.{each.name}")


def _is_error(function: Any) -> bool:
    return isinstance(function, type) and issubclass(function, BaseException)


@pytest.mark.parametrize(("function", "like", "flag"), list(flags()))
@pytest.mark.parametrize("value", [8, 1, 0, 0.5, "yes", torch.tensor(True)], ids=repr)
def test_what_is_no_bool_is_refused_by_name(
    function: Callable[..., Any], like: Callable[..., Any], flag: str, value: Any
):
    parameters = inspect.signature(like).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {each.name: 3 for each in parameters if each.default is each.empty and each.kind not in variadic}
    with pytest.raises(TypeError, match=rf"^{flag} must be True or False, but is {re.escape(repr(value))}"):
        function(**{**needed, flag: value})


def test_all_kinds_of_public_things_are_looked_at():
    found = {each.id for each in flags()}
    assert len(found) > 80
    assert {
        "unspool.LSTMCell.use_peepholes",
        "unspool.dynamic_rnn.time_major",
        "unspool.DropoutWrapper.variational_recurrent",
        "unspool.dynamic_decode.swap_memory",
        "tf.nn.rnn_cell.LSTMCell.state_is_tuple",
        "tf.train.RMSPropOptimizer.centered",
        "tf.layers.dense.use_bias",
    } <= found


def test_the_habit_of_torch_is_told_what_to_write():
    with pytest.raises(TypeError, match=r"use_peepholes must be True or False, but is 8; .*\(8, input_size=4\)"):
        unspool.LSTMCell(4, 8)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"LSTMCell\(8, input_size=4\)"):
        tf.nn.rnn_cell.LSTMCell(4, 8)


def test_a_bool_of_numpy_is_a_bool():
    assert unspool.LSTMCell(4, np.bool_(True), input_size=3).w_f_diag.shape == (4,)  # pyright: ignore[reportArgumentType]
    outputs, _ = unspool.dynamic_rnn(
        unspool.GRUCell(4),
        torch.zeros(5, 2, 3),
        dtype=torch.float32,
        time_major=np.bool_(True),  # pyright: ignore[reportArgumentType]
    )
    assert outputs.shape == (5, 2, 4)


def test_what_may_be_missing_may_be_none():
    assert unspool.GRUCell(4, reuse=None).num_units == 4


@pytest.mark.parametrize("cell", [unspool.LSTMCell(4), unspool.BasicLSTMCell(4)], ids=lambda cell: cell.name)
@pytest.mark.parametrize("container", [tuple, list])
def test_a_cell_that_is_called_refuses_a_plain_tuple_as_loops_do(cell: Any, container: type):
    x, state = torch.zeros(2, 3), container([torch.zeros(2, 4), torch.ones(2, 4)])
    wanted = r"is a (tuple|list), but cell.state_size is an LSTMStateTuple\(c, h\); write LSTMStateTuple\(c=..., h=.*"
    with pytest.raises(TypeError, match=f"^state {wanted}$"):
        cell(x, state)
    with pytest.raises(TypeError, match=f"^initial_state {wanted}$"):
        unspool.dynamic_rnn(cell, x[:, None], initial_state=state)
    with pytest.raises(TypeError, match=f"^state {wanted}$"):
        unspool.MultiRNNCell([cell])(x, (state,))


def test_a_cell_of_the_graph_takes_a_plain_tuple_in_tensorflows_order():
    cell = tf.nn.rnn_cell.LSTMCell(4)
    c, h, x = np.full((2, 4), 0.5, "f"), np.full((2, 4), -0.25, "f"), np.ones((2, 3), "f")
    plain, named = cell(x, (c, h)), cell(x, tf.nn.rnn_cell.LSTMStateTuple(c, h))
    stacked = tf.nn.rnn_cell.MultiRNNCell([cell])(x, ((c, h),))
    assert isinstance(plain[1], tf.nn.rnn_cell.LSTMStateTuple)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other, third = session.run([plain, named, stacked])
    assert np.array_equal(one[1].c, other[1].c)
    assert np.array_equal(one[1].h, other[1].h)
    assert np.array_equal(one[0], third[0])
