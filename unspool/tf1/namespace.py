"""Modules by TensorFlow's names, such as `tf.nn`: a name that is not there says so, and what is nearest."""

from __future__ import annotations

import difflib
import sys
from types import ModuleType
from typing import Any

from unspool.tf1.renamed import RENAMED

_SERVERS = "there are no servers here: run the program in one process, with tf.Session() and without a target"
_INSTEAD = {
    "tf.keras": "there are layers for graphs; models that are fitted are for Keras 3 on torch",
    "tf.enable_eager_execution": "without a graph, use torch and plain unspool",
    "tf.GradientTape": "use tf.gradients, or torch and plain unspool",
    "tf.nn.rnn_cell.linear": "use tf.layers.dense",
    "tf.train.ClusterSpec": _SERVERS,
    "tf.train.Server": _SERVERS,
    "tf.train.SyncReplicasOptimizer": _SERVERS,
    "tf.contrib.ctc": "its functions are in tf.nn, such as tf.nn.ctc_loss",
}
"""What to do without names that many programs use, by how these begin."""


def missing(path: str, name: str, names: Any) -> AttributeError:
    """The error for a name that is not there: what to do instead, or which names are nearest.

    >>> missing("tf.nn", "rellu", ["relu", "elu"])
    AttributeError('unspool.tf1 has no tf.nn.rellu; did you mean tf.nn.relu or tf.nn.elu?')
    """
    advice = _advice(f"{path}.{name}")
    if advice is not None:
        return AttributeError(f"unspool.tf1 has no {path}.{name}; {advice}", name=name, obj=None)
    known = [each for each in names if not each.startswith("_")]
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(f'{path}.{each}' for each in near)}?" if near else ""
    # With an object of its own, so that Python does not add what it finds near.
    return AttributeError(f"unspool.tf1 has no {path}.{name}{hint}", name=name, obj=None)


def _advice(full: str) -> str | None:
    for old, new in RENAMED.items():
        if full == old or full.startswith(f"{old}."):
            inner = full.removeprefix(old)
            return f"it is {new}{inner if new.replace('.', '').isidentifier() else ''}"
    return next((advice for prefix, advice in _INSTEAD.items() if full.startswith(prefix)), None)


def public(module: ModuleType) -> list[str]:
    """The names of a module that are TensorFlow's: those in `__all__`, and those that wait to be asked for.

    >>> from unspool import tf1 as tf
    >>> "dynamic_rnn" in public(tf.nn), "Any" in public(tf.nn)
    (True, False)
    """
    return [*module.__all__, *getattr(module, "LATER", ())]


def module_at(path: str) -> ModuleType | None:
    """The module that `tf` has under a path, if it has one there.

    >>> module_at("contrib.seq2seq").__name__, module_at("nn.relu"), module_at("session")
    ('unspool.tf1.seq2seq', None, None)
    """
    found: Any = sys.modules["unspool.tf1"]
    for name in path.split(".") if path else ():
        found = getattr(found, name, None) if name in public(found) else None
        if not isinstance(found, ModuleType):
            return None
    return found


def modules(path: str = "", around: tuple[ModuleType, ...] = ()) -> dict[str, ModuleType]:
    """All modules that `tf` has, by their paths; `tf.compat.v1`, which is `tf` itself, once."""
    module = module_at(path)
    if module is None:
        return {}
    if module in around:
        return {path: module}
    found = {path: module}
    for name in filter(str.islower, public(module)):
        found |= modules(f"{path}.{name}".lstrip("."), (*around, module))
    return found
