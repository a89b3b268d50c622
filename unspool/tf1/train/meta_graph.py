"""Graphs in files: `export_meta_graph` writes one, and `import_meta_graph` reads what unspool wrote."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.graph import Graph, get_default_graph

MAGIC = b"unspool graph\n"
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class MetaGraphDef:
    """A graph as bytes, and which of its variables a saver saves.

    Args:
        data: the operations, the collections, and what else a graph has.
        saved: the names of variables in a checkpoint, and of theirs in the graph; None without a saver.
    """

    data: bytes
    saved: dict[str, str] | None = None

    def SerializeToString(self) -> bytes:  # noqa: N802
        """What a file holds."""
        return MAGIC + json.dumps({"python": _VERSION, "saved": self.saved}).encode() + b"\n" + self.data


def export_meta_graph(
    filename: str | os.PathLike[str] | None = None, graph: Graph | None = None, saver: Any = None, **unused: Any
) -> MetaGraphDef:
    """The default graph, or another, in a form that `import_meta_graph` reads; written to a file if one is named.

    It is for the same version of Python, and for files that one trusts: reading one runs code that it holds.

    Args:
        filename: the file.
        graph: the graph.
        saver: a `Saver`, for the one that `import_meta_graph` returns.
        unused: TensorFlow's other arguments.

    Raises:
        TypeError: if a part of the graph cannot be written.

    >>> import tempfile
    >>> from unspool import tf1 as tf
    >>> double = tf.multiply(tf.placeholder(tf.float32, name="x"), 2.0, name="double")
    >>> file = tempfile.mkdtemp() + "/graph.meta"
    >>> _ = tf.train.export_meta_graph(file)
    >>> tf.reset_default_graph()
    >>> tf.train.import_meta_graph(file)
    >>> tf.Session().run("double:0", {"x:0": 4.0})
    np.float32(8.0)
    """
    from unspool.tf1.pickling import dumps

    source = (graph or get_default_graph()).root
    saved = None if saver is None else {key: each.op.name for key, each in saver.named_variables().items()}
    made = MetaGraphDef(dumps(source.contents(), source), saved)
    if filename is not None:
        Path(filename).parent.mkdir(parents=True, exist_ok=True)
        Path(filename).write_bytes(made.SerializeToString())
    return made


@checks_flags
def import_meta_graph(
    meta_graph_or_file: MetaGraphDef | str | os.PathLike[str],
    clear_devices: bool = False,
    import_scope: str | None = None,
    **unused: Any,
) -> Any:
    """Adds the operations of a graph that unspool wrote to the default graph.

    Args:
        meta_graph_or_file: the graph, or its file, which `Saver.save` writes beside a checkpoint.
        clear_devices: unused; nothing is placed.
        import_scope: before all names.
        unused: TensorFlow's other arguments.

    Returns:
        A `Saver` for the variables that the graph's saver saved; None if it had none.

    Raises:
        OSError: if there is no such file.
        ValueError: if the file is TensorFlow's own, or for another version of Python; or if a name is taken.
    """
    from unspool.tf1.pickling import loads
    from unspool.tf1.train.saver import Saver

    found = meta_graph_or_file if isinstance(meta_graph_or_file, MetaGraphDef) else _read(Path(meta_graph_or_file))
    graph = get_default_graph().root
    prefix = (import_scope or "").rstrip("/")
    graph.take(loads(found.data, graph), prefix)
    if found.saved is None:
        return None
    before = f"{prefix}/" if prefix else ""
    variables = {each.op.name: each for each in graph.get_collection("variables")}
    return Saver({key: variables[before + name] for key, name in found.saved.items()}, allow_empty=True)


def _read(file: Path) -> MetaGraphDef:
    if not file.exists():
        raise OSError(f"File {file} does not exist.")
    return parsed(file.read_bytes(), str(file))


def parsed(data: bytes, what: str) -> MetaGraphDef:
    """What `SerializeToString` wrote; `ValueError` if it is TensorFlow's own, or for another version of Python."""
    if not data.startswith(MAGIC):
        raise ValueError(
            f"{what} was not written by unspool, and graphs of TensorFlow's own cannot be loaded. Build the graph with "
            "the program that made it, and load the checkpoint: "
            f"tf.train.Saver().restore(session, {os.path.splitext(what)[0]!r})"
        )
    header, _, rest = data.removeprefix(MAGIC).partition(b"\n")
    said: dict[str, Any] = json.loads(header)
    if said["python"] != _VERSION:
        raise ValueError(
            f"{what} is for Python {said['python']}, but this is {_VERSION}: build the graph with its program"
        )
    return MetaGraphDef(rest, said["saved"])
