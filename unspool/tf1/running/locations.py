"""Where TensorFlow's modules are: the public ones under their own names, those inside TensorFlow in the public ones.

Programs reach into TensorFlow, `from tensorflow.python.ops import rnn_cell_impl`; what they look for is mostly public.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

from unspool.tf1.namespace import missing, module_at

PACKAGES = frozenset(
    {
        *("models", "models.rnn", "examples", "examples.tutorials", "python", "python.lib", "python.lib.io"),
        *("core", "core.example", "core.framework", "core.protobuf"),
        *(f"python.{each}" for each in ("framework", "ops", "layers", "util", "platform", "client")),
    }
)
"""Packages without names of their own."""

_CELLS = "internals:rnn_cell_impl nn.rnn_cell contrib.rnn"
_SEQ2SEQ = "contrib.legacy_seq2seq internals:rnn_cell_impl"

INSIDE: dict[str, str] = {
    # Before the rule for a package, `package.*`, the modules that are looked into elsewhere.
    "python.ops.rnn": "internals:rnn nn contrib.rnn",
    "python.ops.rnn_cell": _CELLS,
    "python.ops.rnn_cell_impl": _CELLS,
    "python.ops.seq2seq": _SEQ2SEQ,
    "python.ops.nn": "nn",
    "python.ops.losses": "losses",
    "python.ops.losses.*": "losses",
    "python.ops.metrics": "metrics",
    "python.ops.metrics_impl": "metrics",
    "python.ops.distributions": "distributions",
    "python.ops.distributions.*": "distributions",
    "python.ops.lookup_ops": "contrib.lookup .",
    "python.ops.*": ". nn image internals:ops",
    "python.framework.errors": "errors",
    "python.framework.errors_impl": "errors",
    "python.framework.graph_util": "graph_util",
    "python.framework.graph_util_impl": "graph_util",
    "python.framework.tensor_util": "internals:ops contrib.util .",
    "python.framework.*": ". internals:ops",
    "python.layers.*": "layers",
    "python.util.nest": "internals:nest",
    "python.util.compat": "compat",
    "python.platform.gfile": "gfile",
    "python.platform.tf_logging": "logging",
    "python.platform.flags": "flags",
    "python.platform.app": "app",
    "python.platform.test": "test",
    "python.client.session": ".",
    "python.client.device_lib": "internals:device_lib",
    "python.client.timeline": "internals:timeline",
    "python.debug": "internals:debug",
    "python.debug.*": "internals:debug",
    "python.training": "train",
    "python.training.*": "train .",
    "python.lib.io.file_io": "gfile",
    "python.summary": "summary",
    "python.summary.*": "summary",
    "python.data": "data",
    "python.data.*": "data",
    "python.estimator": "estimator",
    "python.estimator.*": "estimator",
    "python.saved_model": "saved_model",
    "python.saved_model.*": "saved_model saved_model.signature_constants saved_model.tag_constants",
    "core.example.*": "train",
    "core.framework.graph_pb2": ".",
    "core.framework.summary_pb2": "summary",
    "core.protobuf.config_pb2": ".",
    "contrib.rnn.python.ops.rnn_cell": _CELLS,
    "contrib.rnn.python.ops.core_rnn_cell": _CELLS,
    "contrib.rnn.python.ops.core_rnn_cell_impl": _CELLS,
    "contrib.rnn.python.ops.core_rnn": "internals:rnn contrib.rnn nn",
    "models.rnn.rnn": "internals:rnn nn contrib.rnn",
    "models.rnn.rnn_cell": _CELLS,
    "models.rnn.seq2seq": _SEQ2SEQ,
    "examples.tutorials.mnist": "examples:mnist",
    "examples.tutorials.mnist.input_data": "examples:mnist",
}
"""The public modules, and our own, that hold the names of a module inside TensorFlow; `.` is `tf` itself."""


def sources(path: str) -> list[tuple[str, ModuleType]] | None:
    """The modules that hold the names of `tensorflow.<path>`, with their public paths, which are empty for what is not
    public; None if there is no such module.

    >>> [public for public, module in sources("contrib.rnn")], sources("contrib.rnnn")
    (['tf.contrib.rnn'], None)
    """
    if path == "compat.v1" or path.startswith("compat.v1."):
        return sources(path.removeprefix("compat.v1").lstrip("."))
    module = module_at(path)
    if module is not None:
        return [(f"tf.{path}".rstrip("."), module)]
    places = _places(path)
    return None if places is None else list(_found(places))


def absent(path: str, name: str) -> str:
    """What to say of a name that `tensorflow.<path>` does not have.

    >>> absent("python.ops.rnn", "dynamic_rrn")
    'tensorflow.python.ops.rnn.dynamic_rrn: unspool.tf1 has no tf.nn.dynamic_rrn; did you mean tf.nn.dynamic_rnn?'
    """
    written = f"tf.{path}".rstrip(".").replace("tf.compat.v1", "tf")
    found = [(public, module) for public, module in sources(path) or [] if public]
    place = found[0][0] if found else written
    names = [each for _, module in found for each in module.__all__]
    return f"{'' if place == written else f'tensorflow.{path}.{name}: '}{missing(place, name, names)}"


def _places(path: str) -> str | None:
    if path in INSIDE:
        return INSIDE[path]
    package = path.rpartition(".")[0]
    if f"{package}.*" in INSIDE:
        return INSIDE[f"{package}.*"]
    first, _, rest = path.partition(".python")
    if first.startswith("contrib.") and path != first and not rest.strip(".").startswith("python"):
        return first if module_at(first) is not None else None  # all that is below contrib.x.python is in contrib.x
    return "" if path in PACKAGES else None


def _found(places: str) -> Iterator[tuple[str, ModuleType]]:
    for place in places.split():
        room, colon, name = place.partition(":")
        if colon:
            yield "", importlib.import_module(f"unspool.tf1.{room}.{name}")
        elif (module := module_at("" if place == "." else place)) is not None:
            yield "tf" if place == "." else f"tf.{place}", module
