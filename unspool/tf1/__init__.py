"""TensorFlow 1's graph-and-session front end: change the import line, and a recurrent program runs on PyTorch.

>>> import unspool.tf1 as tf
>>> x = tf.placeholder(tf.float32, [None, 5, 3])
>>> outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), x, dtype=tf.float32)
>>> with tf.Session() as session:
...     session.run(tf.global_variables_initializer())
...     session.run(outputs, {x: [[[0.0] * 3] * 5]}).shape
(1, 5, 4)
"""

from __future__ import annotations

import sys
from typing import Any

from unspool.tf1 import (
    app,
    compat,
    contrib,
    data,
    distributions,
    dtypes,
    errors,
    estimator,
    flags,
    gfile,
    graph_util,
    keras,
    layers,
    logging,
    lookup,
    losses,
    metrics,
    named_initializers,
    namespace,
    nn,
    operations,
    python_io,
    saved_model,
    sparse,
    strings,
    summary,
    test,
    train,
)
from unspool.tf1.compat import disable_v2_behavior
from unspool.tf1.custom_gradients import RegisterGradient, custom_gradient
from unspool.tf1.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    variant,
)
from unspool.tf1.gradients import AggregationMethod, gradients, stop_gradient
from unspool.tf1.graph import Graph, get_default_graph, reset_default_graph
from unspool.tf1.graph_def import GraphDef, import_graph_def
from unspool.tf1.graph_functions import (
    add_to_collection,
    colocate_with,
    container,
    control_dependencies,
    device,
    executing_eagerly,
    get_collection,
    get_collection_ref,
)
from unspool.tf1.grouped import linalg, math, random
from unspool.tf1.indexed_slices import IndexedSlices, IndexedSlicesValue
from unspool.tf1.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from unspool.tf1.internals import nest
from unspool.tf1.lookup import tables_initializer
from unspool.tf1.namespace import missing
from unspool.tf1.operation import Operation
from unspool.tf1.operations import constant
from unspool.tf1.ops import (
    array,
    checks,
    control_flow,
    creation,
    csv_fields,
    debugging,
    diagonals,
    joining,
    mapping,
    products,
    reductions,
    scattering,
    segments,
    slicing,
)
from unspool.tf1.ops import math as _math
from unspool.tf1.ops import random as _random
from unspool.tf1.ops import strings as string_operations
from unspool.tf1.ops.array import *
from unspool.tf1.ops.checks import *
from unspool.tf1.ops.control_flow import *
from unspool.tf1.ops.creation import *
from unspool.tf1.ops.csv_fields import *
from unspool.tf1.ops.ctc_decoding import edit_distance
from unspool.tf1.ops.debugging import *
from unspool.tf1.ops.diagonals import *
from unspool.tf1.ops.joining import *
from unspool.tf1.ops.mapping import *
from unspool.tf1.ops.math import *
from unspool.tf1.ops.products import *
from unspool.tf1.ops.random import *
from unspool.tf1.ops.reductions import *
from unspool.tf1.ops.scattering import *
from unspool.tf1.ops.segments import *
from unspool.tf1.ops.slicing import *
from unspool.tf1.ops.strings import *
from unspool.tf1.queues.producers import count_up_to
from unspool.tf1.queues.queue import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from unspool.tf1.queues.readers import ReaderBase, TextLineReader, TFRecordReader, WholeFileReader
from unspool.tf1.records import parsing as record_parsing
from unspool.tf1.records.parsing import *
from unspool.tf1.running.imports import Installation as Installation
from unspool.tf1.running.imports import install as install
from unspool.tf1.scopes import (
    AUTO_REUSE,
    VariableScope,
    get_variable,
    get_variable_scope,
    name_scope,
    no_regularizer,
    variable_scope,
)
from unspool.tf1.seeds import set_random_seed
from unspool.tf1.session import InteractiveSession, Session, get_default_session
from unspool.tf1.session_options import ConfigProto, GPUOptions, GraphOptions, OptimizerOptions, RunMetadata, RunOptions
from unspool.tf1.shapes import Dimension, TensorShape
from unspool.tf1.sparse import dense as _sparse_dense
from unspool.tf1.sparse import layout as _sparse_layout
from unspool.tf1.sparse import tensor as _sparse_tensor
from unspool.tf1.sparse.dense import *
from unspool.tf1.sparse.layout import *
from unspool.tf1.sparse.tensor import *
from unspool.tf1.templates import make_template
from unspool.tf1.tensor import Tensor
from unspool.tf1.tensor_array import TensorArray
from unspool.tf1.variables import (
    GraphKeys,
    Variable,
    assign,
    assign_add,
    assign_sub,
    global_variables,
    global_variables_initializer,
    group,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    no_op,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
)

# Names that are Python's own, or words of its.
bool = dtypes.bool_
convert_to_tensor = operations.convert_to_tensor
range = creation.range_
slice = slicing.slice_
Assert = control_flow.assert_
tuple = control_flow.tuple_
abs = _math.abs_
pow = _math.pow_
round = _math.round_
Print = debugging.print_
initializers = named_initializers
newaxis = None
mul, sub, neg = multiply, subtract, negative
lin_space, rint = linspace, _math.round_
OpError = errors.OpError
initialize_all_variables, all_variables = global_variables_initializer, global_variables
initialize_all_tables = tables_initializer
disable_eager_execution = disable_v2_behavior
__version__ = VERSION = "1.15.0"
"""Of TensorFlow, whose names these are."""

__all__ = [
    "AUTO_REUSE",
    "VERSION",
    "AggregationMethod",
    "Assert",
    "ConfigProto",
    "DType",
    "Dimension",
    "FIFOQueue",
    "GPUOptions",
    "Graph",
    "GraphDef",
    "GraphKeys",
    "GraphOptions",
    "IndexedSlices",
    "IndexedSlicesValue",
    "InteractiveSession",
    "OpError",
    "Operation",
    "OptimizerOptions",
    "PaddingFIFOQueue",
    "Print",
    "QueueBase",
    "RandomShuffleQueue",
    "ReaderBase",
    "RegisterGradient",
    "RunMetadata",
    "RunOptions",
    "Session",
    "TFRecordReader",
    "Tensor",
    "TensorArray",
    "TensorShape",
    "TextLineReader",
    "Variable",
    "VariableScope",
    "WholeFileReader",
    "abs",
    "add_to_collection",
    "all_variables",
    "app",
    "as_dtype",
    "assign",
    "assign_add",
    "assign_sub",
    "bfloat16",
    "bool",
    "colocate_with",
    "compat",
    "complex64",
    "complex128",
    "constant",
    "constant_initializer",
    "container",
    "contrib",
    "control_dependencies",
    "convert_to_tensor",
    "count_up_to",
    "custom_gradient",
    "data",
    "device",
    "disable_eager_execution",
    "disable_v2_behavior",
    "distributions",
    "double",
    "edit_distance",
    "errors",
    "estimator",
    "executing_eagerly",
    "flags",
    "float16",
    "float32",
    "float64",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "get_default_session",
    "get_variable",
    "get_variable_scope",
    "gfile",
    "global_variables",
    "global_variables_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "gradients",
    "graph_util",
    "group",
    "half",
    "import_graph_def",
    "initialize_all_tables",
    "initialize_all_variables",
    "initializers",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_variable_initialized",
    "keras",
    "layers",
    "lin_space",
    "linalg",
    "local_variables",
    "local_variables_initializer",
    "logging",
    "lookup",
    "losses",
    "make_template",
    "math",
    "metrics",
    "mul",
    "name_scope",
    "neg",
    "nest",
    "newaxis",
    "nn",
    "no_op",
    "no_regularizer",
    "ones_initializer",
    "orthogonal_initializer",
    "pow",
    "python_io",
    "random",
    "random_normal_initializer",
    "random_uniform_initializer",
    "range",
    "report_uninitialized_variables",
    "reset_default_graph",
    "rint",
    "round",
    "saved_model",
    "set_random_seed",
    "slice",
    "sparse",
    "stop_gradient",
    "string",
    "strings",
    "sub",
    "summary",
    "tables_initializer",
    "test",
    "train",
    "trainable_variables",
    "truncated_normal_initializer",
    "tuple",
    "uint8",
    "variable_scope",
    "variables_initializer",
    "variance_scaling_initializer",
    "variant",
    "zeros_initializer",
]
__all__ += array.__all__
__all__ += checks.__all__
__all__ += control_flow.__all__
__all__ += creation.__all__
__all__ += csv_fields.__all__
__all__ += debugging.__all__
__all__ += diagonals.__all__
__all__ += joining.__all__
__all__ += mapping.__all__
__all__ += _math.__all__
__all__ += products.__all__
__all__ += _random.__all__
__all__ += reductions.__all__
__all__ += scattering.__all__
__all__ += segments.__all__
__all__ += slicing.__all__
__all__ += _sparse_dense.__all__
__all__ += _sparse_layout.__all__
__all__ += _sparse_tensor.__all__
__all__ += string_operations.__all__
__all__ += record_parsing.__all__

LATER = ("Summary", "Event")
"""Names that need the tensorboard package, which others do without."""

# Programs import modules by TensorFlow's paths, such as unspool.tf1.contrib.seq2seq, wherever the files are.
for _path, _module in namespace.modules().items():
    sys.modules.setdefault(f"{__name__}.{_path}".rstrip("."), _module)


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(summary, name)
    raise missing("tf", name, __all__)
