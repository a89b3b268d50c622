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
    "synchronization colocate_gradients_with_ops colocate_with_first_write_call gate_gradients aggregation_method "
    "clear_devices use_cudnn_on_gpu",
    "steps of the graph run one after another": "swap_memory parallel_iterations back_prop use_locking stateful",
    "how a graph is optimised, stored or shown": "optimize a_is_sparse b_is_sparse import_scope values summarize var "
    "sorted unique tensor_array_name handle clear_after_read infer_shape shift preferred_dtype strict stable "
    "save_graph_def summary_name example_name example_names",
    "checked in any case": "validate_indices validate_shape expected_shape",
    "of servers and files of TensorFlow's": "target config sharded builder saver_def write_version filename "
    "restore_sequentially shared_name is_chief max_wait_secs recovery_wait_secs local_init_run_options "
    "ready_for_local_init_op queue_runner_def",
    "told by the values": "dtype tensor_dtype shape conjugate",
    "not there yet": "unconnected_gradients",
    "of what has no operation of its own": "name _",
    "said of the variables": "trainable",
}
"""Arguments of TensorFlow's that are accepted and do nothing, by the reason."""

ALLOWED = {
    "unspool.raw_rnn": {"swap_memory"},  # steps that ask for the next one's input cannot be worked on together
    "tf.nn.all_candidate_sampler": {"seed"},  # all of them: nothing is drawn
    "tf.nn.compute_accidental_hits": {"seed"},
    "tf.contrib.rnn.LayerNormBasicLSTMCell": {"input_size"},  # TensorFlow warns of it, and does not look at it
    "tf.contrib.layers.batch_norm": {"renorm_clipping", "renorm_decay"},  # renorm itself is refused
    "tf.contrib.layers.one_hot_encoding": {"scope"},  # it has no variables
}
"""The same, of single functions."""


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
    assert unread(function) <= known | ALLOWED.get(name, set())


def test_what_is_listed_is_nowhere_read():
    functions = [each for each in public() if each[0].startswith("tf.")]
    found = {each for name, function in functions for each in unread(function) - ALLOWED.get(name, set())}
    assert {each for names in NO_EFFECT.values() for each in names.split()} == found


def test_an_argument_that_no_line_reads_is_found():
    def example(read: int, unread: int) -> int:
        return read

    assert unread(example) == {"unread"}
