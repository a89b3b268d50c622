"""Every argument of a public function is read; what is TensorFlow's and has no effect here is listed, with why."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import unspool
from unspool import tf1 as tf

NAMESPACES: dict[str, Any] = {
    "unspool": unspool,
    "tf": tf,
    "tf.nn": tf.nn,
    "tf.nn.rnn_cell": tf.nn.rnn_cell,
    "tf.contrib.rnn": tf.contrib.rnn,
    "tf.contrib.seq2seq": tf.contrib.seq2seq,
    "tf.contrib.layers": tf.contrib.layers,
    "tf.layers": tf.layers,
    "tf.losses": tf.losses,
    "tf.train": tf.train,
}

NO_EFFECT = {
    "where a computation is placed, and how it is divided": "caching_device partitioner use_resource aggregation "
    "synchronization colocate_gradients_with_ops colocate_with_first_write_call gate_gradients aggregation_method",
    "steps of the graph run one after another": "swap_memory parallel_iterations back_prop use_locking stateful",
    "how a graph is optimised, stored or shown": "optimize a_is_sparse b_is_sparse import_scope values summarize var "
    "sorted unique tensor_array_name handle clear_after_read infer_shape shift preferred_dtype strict",
    "checked in any case": "validate_indices validate_shape expected_shape",
    "of servers and files of TensorFlow's": "target config sharded builder saver_def write_version filename "
    "restore_sequentially",
    "told by the values": "dtype shape conjugate",
    "not there yet": "unconnected_gradients data",
    "of what has no operation of its own": "name _",
    "said of the variables": "trainable",
}
"""Arguments of TensorFlow's that are accepted and do nothing, by the reason."""

ALLOWED = {
    "unspool.raw_rnn": {"swap_memory"},  # steps that ask for the next one's input cannot be worked on together
}
"""The same, of unspool's own functions."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function with its name, and for a class its constructor."""
    seen: set[Any] = set()
    for space, names in NAMESPACES.items():
        for name in sorted(vars(names)):
            found = getattr(names, name)
            if isinstance(found, type) and inspect.isfunction(found.__init__):
                found = found.__init__
            if name.startswith("_") or not inspect.isfunction(found) or found in seen:
                continue
            module = inspect.unwrap(found).__module__
            if module.startswith("unspool") and inspect.unwrap(found).__code__.co_filename != "<string>":
                seen.add(found)
                yield f"{space}.{name}", found


def unread(function: Callable[..., Any]) -> set[str]:
    """The arguments that no line of the function reads."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    if not isinstance(tree, ast.FunctionDef):  # a lambda is as short as its arguments
        return set()
    loaded = {node.id for line in tree.body for node in ast.walk(line) if isinstance(node, ast.Name)}
    given = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    return {each.arg for each in given} - loaded - {"self", "cls"}


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in public()])
def test_what_no_line_reads_is_listed(name: str, function: Callable[..., Any]):
    known = {each for names in NO_EFFECT.values() for each in names.split()} if name.startswith("tf.") else set[str]()
    assert unread(function) <= ALLOWED.get(name, known)


def test_what_is_listed_is_nowhere_read():
    found = {each for name, function in public() if name.startswith("tf.") for each in unread(function)}
    assert {each for names in NO_EFFECT.values() for each in names.split()} == found


def test_an_argument_that_no_line_reads_is_found():
    def example(read: int, unread: int) -> int:
        return read

    assert unread(example) == {"unread"}
