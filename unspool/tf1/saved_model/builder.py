"""Writing saved models: graphs as `export_meta_graph` writes them, and the values of their variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.graph import get_default_graph
from unspool.tf1.saved_model.signatures import SignatureDef, predict_signature_def
from unspool.tf1.train.meta_graph import export_meta_graph
from unspool.tf1.train.saver import Saver

__all__ = ["SavedModelBuilder"]

MAGIC = b"unspool saved model\n"
FILE, VARIABLES = "saved_model.pb", os.path.join("variables", "variables")


class SavedModelBuilder:
    """Writes a saved model: one graph or several, by their tags, with the values of the variables.

    As of `export_meta_graph`, its graphs are unspool's own, for the same version of Python and for files that one
    trusts. The variables are a checkpoint, which TensorFlow reads as well.

    Args:
        export_dir: a folder that is new, or empty.

    Raises:
        AssertionError: if there is something in the folder.

    >>> import tempfile
    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None], name="x")
    >>> y = x * tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
    >>> folder = tempfile.mkdtemp()
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     tf.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    >>> with tf.Session(graph=tf.Graph()) as session:
    ...     model = tf.saved_model.loader.load(session, ["serve"], folder)
    ...     signature = model.signature_def["serving_default"]
    ...     session.run(signature.outputs["y"].name, {signature.inputs["x"].name: [1.0, 2.0]})
    array([3., 6.], dtype=float32)
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        self._folder = Path(export_dir)
        if self._folder.is_dir() and any(self._folder.iterdir()):
            raise AssertionError(
                "Export directory already exists, and isn't empty. Please choose a different export directory, or "
                f"delete all the contents of the specified directory: {export_dir}"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._graphs: list[tuple[dict[str, Any], bytes]] = []
        self._has_variables = False

    @checks_flags
    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Sequence[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
        **unused: Any,
    ) -> None:
        """Adds the graph of a session, and the values of its variables.

        Args:
            sess: the session.
            tags: what the graph is found by, such as `tf.saved_model.tag_constants.SERVING`.
            signature_def_map: its signatures by name.
            assets_collection: files that go with it; not supported.
            legacy_init_op: an operation that runs when it is loaded; `main_op` is the same.
            clear_devices, strip_default_attrs: accepted.
            saver: says which variables are written; all by default.

        Raises:
            AssertionError: if variables were added already.
            NotImplementedError: if there are assets.
        """
        if self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
                "instead."
            )
        with sess.graph.as_default():
            chosen = saver or Saver(allow_empty=True)
        self._add(sess.graph, tags, signature_def_map, assets_collection, main_op or legacy_init_op, chosen)
        chosen.save(sess, self._folder / VARIABLES, write_meta_graph=False, write_state=False)
        self._has_variables = True

    @checks_flags
    def add_meta_graph(
        self,
        tags: Sequence[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
        **unused: Any,
    ) -> None:
        """Adds the default graph, for the variables that another one was added with.

        Raises:
            AssertionError: if there was none.
        """
        if not self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        chosen = saver or Saver(allow_empty=True)
        main = main_op or legacy_init_op
        self._add(get_default_graph(), tags, signature_def_map, assets_collection, main, chosen)

    def _add(self, graph: Any, tags: Any, signatures: Any, assets: Any, main: Any, saver: Any) -> None:
        if assets:
            raise NotImplementedError("files that go with a graph are not kept: copy them beside the saved model")
        written = {key: each.written() for key, each in (signatures or {}).items()}
        said = {"tags": list(tags), "signatures": written, "main_op": None if main is None else main.name}
        self._graphs.append((said, export_meta_graph(graph=graph, saver=saver).SerializeToString()))

    @checks_flags
    def save(self, as_text: bool = False) -> str:
        """Writes the graphs; the path of their file.

        Args:
            as_text: accepted; the file is never text.
        """
        said = [{**each, "bytes": len(data)} for each, data in self._graphs]
        path = self._folder / FILE
        path.write_bytes(MAGIC + json.dumps(said).encode() + b"\n" + b"".join(data for _, data in self._graphs))
        return str(path)


def simple_save(
    session: Any,
    export_dir: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Any = None,
) -> None:
    """Writes the graph of a session for prediction: inputs and outputs are tensors by name."""
    builder = SavedModelBuilder(export_dir)
    signatures = {"serving_default": predict_signature_def(inputs, outputs)}
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=legacy_init_op, clear_devices=True)
    builder.save()
