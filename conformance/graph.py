"""The TensorFlow graph of a spec: its loop, the loss, and every gradient, waiting for values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from conformance.build import build_cells
from conformance.on_tensorflow import TensorFlow, tf, tf1
from conformance.program import Call, Spec

Arrays = dict[str, np.ndarray]


class Graph:
    """The graph of one spec, in the dtype of the spec.

    `sources` are what it needs values for: inputs (`x` or `x_0`, ...), initial states (`init_0`, ...) and variables
    (`var:NAME`), as tensors by their names in a case.
    """

    def __init__(self, spec: Spec) -> None:
        library = TensorFlow()
        self._graph = tf.Graph()
        with self._graph.as_default():
            inputs = input_placeholders(spec)
            cells = build_cells(spec, library)
            starts = [
                _placeholders_like(cell.zero_state(spec["B"], spec["dtype"])) if given else None
                for cell, given in zip(cells, _repeat(spec["initial_state"], len(cells)), strict=True)
            ]
            with tf1.variable_scope(spec["outer"]) if spec["outer"] else nullcontext():
                outcome = Call(spec, library, cells, list(inputs.values()), starts).run()
            start_leaves = library.flatten([start for start in starts if start is not None])
            self.outlines = outcome.outlines()
            self.sources = {
                **inputs,
                **{f"init_{k}": leaf for k, leaf in enumerate(start_leaves)},
                **{f"var:{variable.op.name}": variable for variable in tf1.global_variables()},
            }
            self._results = outcome.named_leaves(library)
            self._results["loss"] = loss = loss_of(self._results)
            self._results.update(gradients(loss, self.sources))
            self._saved = {f"saved_{k}": variable for k, variable in enumerate(outcome.saved)}

    def run(self, values: Arrays) -> Arrays:
        """Everything TensorFlow computes for these values of the sources."""
        feeds: dict[Any, np.ndarray] = {}
        with tf1.Session(graph=self._graph, config=_session_config()) as session:
            for name, source in self.sources.items():
                value = values[name].astype(source.dtype.as_numpy_dtype)
                if name.startswith("var:"):
                    source.load(value, session)
                else:
                    feeds[source] = value
            results = session.run(self._results, feeds)
            # Not in the same run: it is that run which saves them.
            return {**results, **session.run(self._saved)}


def input_placeholders(spec: Spec) -> dict[str, Any]:
    """The leaves of the inputs: one of rank 3; or one of rank 3, one of rank 4 and one of token ids."""
    axes = [spec["T"], spec["B"]] if spec.get("time_major") else [spec["B"], spec["T"]]
    matrix = tf1.placeholder(spec["dtype"], [*axes, spec["D"]])
    if "inputs" not in spec:
        return {"x": matrix}
    cube = tf1.placeholder(spec["dtype"], [*axes, spec["D"], 2])
    return {"x_0": matrix, "x_1": cube, "x_2": tf1.placeholder(tf.int32, [*axes, 1])}


def loss_of(results: dict[str, Any]) -> Any:
    """A scalar that depends on every element of every floating leaf, on each in its own way."""
    terms: list[Any] = []
    for name, leaf in results.items():
        if leaf.dtype.is_floating:
            k = tf.cast(tf.range(tf.size(leaf)), tf.float64)
            weighted = tf.reshape(leaf, [-1]) * tf.cast(tf.cos(k), leaf.dtype)
            terms.append(tf.reduce_sum(weighted if name.startswith("out") else tf.sin(leaf)))
    return tf.add_n(terms)


def gradients(loss: Any, sources: dict[str, Any]) -> dict[str, Any]:
    """The gradient of each floating source; zeros where there is none."""
    floating = {name: source for name, source in sources.items() if source.dtype.base_dtype.is_floating}
    found = tf1.gradients(loss, list(floating.values()))
    return {
        gradient_name(name): tf.zeros_like(source) if gradient is None else tf.convert_to_tensor(gradient)
        for (name, source), gradient in zip(floating.items(), found, strict=True)
    }


def gradient_name(source: str) -> str:
    """The name of a source's gradient.

    >>> gradient_name("x"), gradient_name("var:rnn/lstm_cell/kernel")
    ('grad_x', 'grad:rnn/lstm_cell/kernel')
    """
    return f"grad:{source.removeprefix('var:')}" if source.startswith("var:") else f"grad_{source}"


def _placeholders_like(state: Any) -> Any:
    return tf.nest.map_structure(lambda leaf: tf1.placeholder(leaf.dtype, leaf.shape), state)


def _repeat(flags: Sequence[bool], count: int) -> list[bool]:
    return [flags[k % len(flags)] for k in range(count)]


def _session_config() -> Any:
    # Tiny graphs, each run once or twice: optimising them takes longer than running them.
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config
