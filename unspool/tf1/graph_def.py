"""`tf.GraphDef`: a graph without its session, as bytes for a file, and back; variables that become constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.program import needed
from unspool.tf1.train.meta_graph import MetaGraphDef, parsed


@dataclass(frozen=True)
class Node:
    """What a `GraphDef` says of an operation."""

    name: str
    op: str
    input: tuple[str, ...]


class GraphDef:
    """The operations of a graph, as `Graph.as_graph_def` gives them and `import_graph_def` takes them.

    Its bytes are unspool's own, for the same version of Python, and for files that one trusts.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, name="x")
    >>> _ = tf.square(x, name="y")
    >>> data = tf.get_default_graph().as_graph_def().SerializeToString()
    >>> made = tf.GraphDef()
    >>> made.ParseFromString(data)
    >>> with tf.Graph().as_default():
    ...     y, = tf.import_graph_def(made, return_elements=["y:0"])
    ...     y.name, tf.Session().run(y, {"import/x:0": 3.0})
    ('import/y:0', np.float32(9.0))
    """

    def __init__(self) -> None:
        self.node: list[Node] = []
        self.data = b""

    @classmethod
    def of(cls, graph: Graph, names: Iterable[str] | None = None) -> GraphDef:
        """All operations of a graph, or those that some of them need."""
        from unspool.tf1.pickling import dumps

        made, contents = cls(), graph.contents()
        if names is not None:
            wanted = needed([graph.get_operation_by_name(each) for each in names], ())
            contents.update(operations=wanted, collections={})
        made.node = [Node(e.name, e.type, tuple(x.op.name for x in e.inputs)) for e in contents["operations"]]
        made.data = dumps(contents, graph)
        return made

    def SerializeToString(self) -> bytes:  # noqa: N802
        """What a file holds."""
        return MetaGraphDef(self.data).SerializeToString()

    def ParseFromString(self, serialized: bytes) -> None:  # noqa: N802
        """Reads what `SerializeToString` made; `ValueError` for a graph of TensorFlow's own."""
        self.data = parsed(serialized, "the GraphDef").data
        with Graph().as_default() as graph:
            self.node = GraphDef.of(_filled(graph, self.data)).node


def _filled(graph: Graph, data: bytes, prefix: str = "") -> Graph:
    from unspool.tf1.pickling import loads

    graph.take(loads(data, graph), prefix)
    return graph


def import_graph_def(
    graph_def: GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    **unused: Any,
) -> list[Any] | None:
    """Adds the operations of a `GraphDef` to the default graph.

    Args:
        graph_def: the operations.
        input_map: tensors in the place of some of its own, by their names there.
        return_elements: names of operations and tensors to return.
        name: before all names; "import" by default, "" for none.
        unused: TensorFlow's other arguments.

    Raises:
        TypeError: if it is no `GraphDef`.
        ValueError: if a name is taken, or what is asked for is not there.
    """
    if not isinstance(graph_def, GraphDef):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"graph_def must be a GraphDef proto, but is a {type(graph_def).__name__}")
    graph, prefix = get_default_graph().root, "import" if name is None else name.rstrip("/")
    before = f"{prefix}/" if prefix else ""
    _filled(graph, graph_def.data, prefix)
    if input_map:
        _replace(graph, [before + each.name for each in graph_def.node], {before + k: v for k, v in input_map.items()})
    try:
        return None if return_elements is None else [graph.as_graph_element(before + each) for each in return_elements]
    except KeyError as error:
        raise ValueError(f"Requested return_element is not in the graph_def: {error}") from None


def _replace(graph: Graph, names: list[str], given: Mapping[str, Any]) -> None:
    """Lets operations read other tensors."""
    full = {name if ":" in name else f"{name}:0": graph.as_graph_element(value) for name, value in given.items()}
    for name in names:
        operation = graph.get_operation_by_name(name)
        operation.inputs = tuple(full.get(each.name, each) for each in operation.inputs)


# -- tf.graph_util ---------------------------------------------------------------------------------------------------


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Any = None,
    variable_names_blacklist: Any = None,
) -> GraphDef:
    """The operations that some of them need, with the values that variables have in a session.

    Args:
        sess: the session.
        input_graph_def: the session's graph, as a `GraphDef`.
        output_node_names: the names of the operations.
        variable_names_whitelist: which variables become constants; all by default.
        variable_names_blacklist: which do not.
    """
    operations = needed([sess.graph.get_operation_by_name(each) for each in output_node_names], ())
    variables = dict.fromkeys(variable for each in operations for variable in each.variables)
    chosen = [
        each
        for each in variables
        if (variable_names_whitelist is None or each.op.name in variable_names_whitelist)
        and each.op.name not in (variable_names_blacklist or ())
    ]
    try:
        for each in chosen:
            each.frozen = sess.state.value_of(each).detach().cpu().clone()
        return GraphDef.of(sess.graph, output_node_names)
    finally:
        for each in chosen:
            each.frozen = None


def extract_sub_graph(graph_def: GraphDef, dest_nodes: Sequence[str]) -> GraphDef:
    """The operations that some of them need."""
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list.")
    graph = _filled(Graph(), graph_def.data)
    known = {each.name for each in graph.get_operations()}
    for name in dest_nodes:
        if name not in known:
            raise AssertionError(f"{name} is not in graph")
    return GraphDef.of(graph, dest_nodes)


def remove_training_nodes(input_graph: GraphDef, protected_nodes: Any = None) -> GraphDef:
    """The graph as it is: nothing in it is there for training alone."""
    return input_graph


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Writes a graph to a file, whose path is returned: the names of its operations as text, or all of it."""
    found = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    path = Path(logdir) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if as_text:
        path.write_text("".join(f'node {{\n  name: "{each.name}"\n  op: "{each.op}"\n}}\n' for each in found.node))
    else:
        path.write_bytes(found.SerializeToString())
    return str(path)
