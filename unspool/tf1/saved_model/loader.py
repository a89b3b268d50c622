"""`tf.saved_model.loader`: a saved model in a session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.saved_model.builder import FILE, MAGIC, VARIABLES
from unspool.tf1.saved_model.signatures import SignatureDef
from unspool.tf1.train.checkpoint_state import checkpoint_exists
from unspool.tf1.train.meta_graph import import_meta_graph, parsed

__all__ = ["load", "maybe_saved_model_directory"]


@dataclass(frozen=True)
class LoadedGraph:
    """What is known of a graph that was loaded."""

    tags: tuple[str, ...]
    signature_def: dict[str, SignatureDef]


def load(
    sess: Any, tags: Iterable[str], export_dir: str | os.PathLike[str], import_scope: str | None = None, **unused: Any
) -> LoadedGraph:
    """Adds the graph with these tags to the session's graph, and gives its variables their values.

    Args:
        sess: the session.
        tags: what the graph was saved with, all of them.
        export_dir: the folder.
        import_scope: before all names.
        unused: TensorFlow's other arguments.

    Returns:
        Its signatures, as `signature_def`.

    Raises:
        OSError: if there is no saved model.
        RuntimeError: if there is no graph with these tags.
        ValueError: if the saved model is TensorFlow's own, or for another version of Python.
    """
    wanted = [tags] if isinstance(tags, str) else list(tags)
    graphs = _read(Path(export_dir))
    found = next((each for each in graphs if set(each[0]["tags"]) == set(wanted)), None)
    if found is None:
        raise RuntimeError(
            f"MetaGraphDef associated with tags {wanted} could not be found in SavedModel; there are "
            f"{[each['tags'] for each, _ in graphs]}"
        )
    said, data = found
    with sess.graph.as_default():
        saver = import_meta_graph(parsed(data, str(export_dir)), import_scope=import_scope)
    prefix = os.path.join(os.fspath(export_dir), VARIABLES)
    if saver is not None and checkpoint_exists(prefix):
        saver.restore(sess, prefix)
    if said["main_op"] is not None:
        scope = f"{import_scope}/" if import_scope else ""
        sess.run(sess.graph.get_operation_by_name(scope + said["main_op"].partition(":")[0]))
    signatures = {key: SignatureDef.read(*each) for key, each in said["signatures"].items()}
    if import_scope:
        for info in (info for each in signatures.values() for info in (*each.inputs.values(), *each.outputs.values())):
            info.name = f"{import_scope}/{info.name}"
    return LoadedGraph(tuple(said["tags"]), signatures)


def maybe_saved_model_directory(export_dir: str | os.PathLike[str]) -> bool:
    """Whether there is a saved model in a folder."""
    return Path(export_dir, FILE).is_file()


def _read(folder: Path) -> list[tuple[dict[str, Any], bytes]]:
    path = folder / FILE
    if not path.is_file():
        raise OSError(f"SavedModel file does not exist at: {folder}/{{saved_model.pbtxt|saved_model.pb}}")
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(
            f"{path} was not written by unspool, and graphs of TensorFlow's own cannot be loaded. Build the graph with "
            "the program that made it, and load the variables: "
            f"tf.train.Saver().restore(session, {str(folder / VARIABLES)!r})"
        )
    header, _, rest = data.removeprefix(MAGIC).partition(b"\n")
    graphs: list[tuple[dict[str, Any], bytes]] = []
    for said in json.loads(header):
        graphs.append((said, rest[: said["bytes"]]))
        rest = rest[said["bytes"] :]
    return graphs


def __getattr__(name: str) -> Any:
    raise missing("tf.saved_model.loader", name, __all__)
