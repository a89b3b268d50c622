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

from typing import Any

from unspool.tf1 import contrib as contrib
from unspool.tf1 import dtypes, operations
from unspool.tf1 import errors as errors
from unspool.tf1 import layers as layers
from unspool.tf1 import losses as losses
from unspool.tf1 import metrics as metrics
from unspool.tf1 import nn as nn
from unspool.tf1 import summary as summary
from unspool.tf1 import train as train
from unspool.tf1.dtypes import (
    DType as DType,
)
from unspool.tf1.dtypes import (
    as_dtype as as_dtype,
)
from unspool.tf1.dtypes import (
    bfloat16 as bfloat16,
)
from unspool.tf1.dtypes import (
    complex64 as complex64,
)
from unspool.tf1.dtypes import (
    complex128 as complex128,
)
from unspool.tf1.dtypes import (
    double as double,
)
from unspool.tf1.dtypes import (
    float16 as float16,
)
from unspool.tf1.dtypes import (
    float32 as float32,
)
from unspool.tf1.dtypes import (
    float64 as float64,
)
from unspool.tf1.dtypes import (
    half as half,
)
from unspool.tf1.dtypes import (
    int8 as int8,
)
from unspool.tf1.dtypes import (
    int16 as int16,
)
from unspool.tf1.dtypes import (
    int32 as int32,
)
from unspool.tf1.dtypes import (
    int64 as int64,
)
from unspool.tf1.dtypes import (
    string as string,
)
from unspool.tf1.dtypes import (
    uint8 as uint8,
)
from unspool.tf1.gradients import (
    gradients as gradients,
)
from unspool.tf1.gradients import (
    stop_gradient as stop_gradient,
)
from unspool.tf1.graph import (
    Graph as Graph,
)
from unspool.tf1.graph import (
    Operation as Operation,
)
from unspool.tf1.graph import (
    get_default_graph as get_default_graph,
)
from unspool.tf1.graph import (
    reset_default_graph as reset_default_graph,
)
from unspool.tf1.graph_functions import (
    add_to_collection as add_to_collection,
)
from unspool.tf1.graph_functions import (
    control_dependencies as control_dependencies,
)
from unspool.tf1.graph_functions import (
    device as device,
)
from unspool.tf1.graph_functions import (
    get_collection as get_collection,
)
from unspool.tf1.graph_functions import (
    get_collection_ref as get_collection_ref,
)
from unspool.tf1.indexed_slices import (
    IndexedSlices as IndexedSlices,
)
from unspool.tf1.indexed_slices import (
    IndexedSlicesValue as IndexedSlicesValue,
)
from unspool.tf1.initializers import (
    constant_initializer as constant_initializer,
)
from unspool.tf1.initializers import (
    glorot_normal_initializer as glorot_normal_initializer,
)
from unspool.tf1.initializers import (
    glorot_uniform_initializer as glorot_uniform_initializer,
)
from unspool.tf1.initializers import (
    ones_initializer as ones_initializer,
)
from unspool.tf1.initializers import (
    orthogonal_initializer as orthogonal_initializer,
)
from unspool.tf1.initializers import (
    random_normal_initializer as random_normal_initializer,
)
from unspool.tf1.initializers import (
    random_uniform_initializer as random_uniform_initializer,
)
from unspool.tf1.initializers import (
    truncated_normal_initializer as truncated_normal_initializer,
)
from unspool.tf1.initializers import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from unspool.tf1.initializers import (
    zeros_initializer as zeros_initializer,
)
from unspool.tf1.named_initializers import initializers as initializers
from unspool.tf1.namespace import missing
from unspool.tf1.operations import (
    constant as constant,
)
from unspool.tf1.ops import control_flow, creation, math, slicing
from unspool.tf1.ops.array import (
    expand_dims as expand_dims,
)
from unspool.tf1.ops.array import (
    identity as identity,
)
from unspool.tf1.ops.array import (
    placeholder as placeholder,
)
from unspool.tf1.ops.array import (
    placeholder_with_default as placeholder_with_default,
)
from unspool.tf1.ops.array import (
    rank as rank,
)
from unspool.tf1.ops.array import (
    reshape as reshape,
)
from unspool.tf1.ops.array import (
    shape as shape,
)
from unspool.tf1.ops.array import (
    size as size,
)
from unspool.tf1.ops.array import (
    squeeze as squeeze,
)
from unspool.tf1.ops.array import (
    transpose as transpose,
)
from unspool.tf1.ops.control_flow import (
    case as case,
)
from unspool.tf1.ops.control_flow import (
    cond as cond,
)
from unspool.tf1.ops.control_flow import (
    while_loop as while_loop,
)
from unspool.tf1.ops.creation import (
    eye as eye,
)
from unspool.tf1.ops.creation import (
    fill as fill,
)
from unspool.tf1.ops.creation import (
    linspace as linspace,
)
from unspool.tf1.ops.creation import (
    one_hot as one_hot,
)
from unspool.tf1.ops.creation import (
    ones as ones,
)
from unspool.tf1.ops.creation import (
    ones_like as ones_like,
)
from unspool.tf1.ops.creation import (
    sequence_mask as sequence_mask,
)
from unspool.tf1.ops.creation import (
    zeros as zeros,
)
from unspool.tf1.ops.creation import (
    zeros_like as zeros_like,
)
from unspool.tf1.ops.joining import (
    broadcast_to as broadcast_to,
)
from unspool.tf1.ops.joining import (
    concat as concat,
)
from unspool.tf1.ops.joining import (
    pad as pad,
)
from unspool.tf1.ops.joining import (
    reverse as reverse,
)
from unspool.tf1.ops.joining import (
    reverse_sequence as reverse_sequence,
)
from unspool.tf1.ops.joining import (
    split as split,
)
from unspool.tf1.ops.joining import (
    stack as stack,
)
from unspool.tf1.ops.joining import (
    tile as tile,
)
from unspool.tf1.ops.joining import (
    unstack as unstack,
)
from unspool.tf1.ops.mapping import (
    foldl as foldl,
)
from unspool.tf1.ops.mapping import (
    map_fn as map_fn,
)
from unspool.tf1.ops.mapping import (
    scan as scan,
)
from unspool.tf1.ops.math import (
    acos as acos,
)
from unspool.tf1.ops.math import (
    add as add,
)
from unspool.tf1.ops.math import (
    add_n as add_n,
)
from unspool.tf1.ops.math import (
    asin as asin,
)
from unspool.tf1.ops.math import (
    atan as atan,
)
from unspool.tf1.ops.math import (
    atan2 as atan2,
)
from unspool.tf1.ops.math import (
    cast as cast,
)
from unspool.tf1.ops.math import (
    ceil as ceil,
)
from unspool.tf1.ops.math import (
    clip_by_global_norm as clip_by_global_norm,
)
from unspool.tf1.ops.math import (
    clip_by_norm as clip_by_norm,
)
from unspool.tf1.ops.math import (
    clip_by_value as clip_by_value,
)
from unspool.tf1.ops.math import (
    cos as cos,
)
from unspool.tf1.ops.math import (
    cosh as cosh,
)
from unspool.tf1.ops.math import (
    div as div,
)
from unspool.tf1.ops.math import (
    div_no_nan as div_no_nan,
)
from unspool.tf1.ops.math import (
    divide as divide,
)
from unspool.tf1.ops.math import (
    equal as equal,
)
from unspool.tf1.ops.math import (
    erf as erf,
)
from unspool.tf1.ops.math import (
    exp as exp,
)
from unspool.tf1.ops.math import (
    expm1 as expm1,
)
from unspool.tf1.ops.math import (
    floor as floor,
)
from unspool.tf1.ops.math import (
    floordiv as floordiv,
)
from unspool.tf1.ops.math import (
    floormod as floormod,
)
from unspool.tf1.ops.math import (
    global_norm as global_norm,
)
from unspool.tf1.ops.math import (
    greater as greater,
)
from unspool.tf1.ops.math import (
    greater_equal as greater_equal,
)
from unspool.tf1.ops.math import (
    is_finite as is_finite,
)
from unspool.tf1.ops.math import (
    is_inf as is_inf,
)
from unspool.tf1.ops.math import (
    is_nan as is_nan,
)
from unspool.tf1.ops.math import (
    less as less,
)
from unspool.tf1.ops.math import (
    less_equal as less_equal,
)
from unspool.tf1.ops.math import (
    lgamma as lgamma,
)
from unspool.tf1.ops.math import (
    log as log,
)
from unspool.tf1.ops.math import (
    log1p as log1p,
)
from unspool.tf1.ops.math import (
    log_sigmoid as log_sigmoid,
)
from unspool.tf1.ops.math import (
    logical_and as logical_and,
)
from unspool.tf1.ops.math import (
    logical_not as logical_not,
)
from unspool.tf1.ops.math import (
    logical_or as logical_or,
)
from unspool.tf1.ops.math import (
    logical_xor as logical_xor,
)
from unspool.tf1.ops.math import (
    maximum as maximum,
)
from unspool.tf1.ops.math import (
    minimum as minimum,
)
from unspool.tf1.ops.math import (
    mod as mod,
)
from unspool.tf1.ops.math import (
    multiply as multiply,
)
from unspool.tf1.ops.math import (
    negative as negative,
)
from unspool.tf1.ops.math import (
    not_equal as not_equal,
)
from unspool.tf1.ops.math import (
    realdiv as realdiv,
)
from unspool.tf1.ops.math import (
    reciprocal as reciprocal,
)
from unspool.tf1.ops.math import (
    rsqrt as rsqrt,
)
from unspool.tf1.ops.math import (
    saturate_cast as saturate_cast,
)
from unspool.tf1.ops.math import (
    sigmoid as sigmoid,
)
from unspool.tf1.ops.math import (
    sign as sign,
)
from unspool.tf1.ops.math import (
    sin as sin,
)
from unspool.tf1.ops.math import (
    sinh as sinh,
)
from unspool.tf1.ops.math import (
    sqrt as sqrt,
)
from unspool.tf1.ops.math import (
    square as square,
)
from unspool.tf1.ops.math import (
    squared_difference as squared_difference,
)
from unspool.tf1.ops.math import (
    subtract as subtract,
)
from unspool.tf1.ops.math import (
    tan as tan,
)
from unspool.tf1.ops.math import (
    tanh as tanh,
)
from unspool.tf1.ops.math import (
    to_double as to_double,
)
from unspool.tf1.ops.math import (
    to_float as to_float,
)
from unspool.tf1.ops.math import (
    to_int32 as to_int32,
)
from unspool.tf1.ops.math import (
    to_int64 as to_int64,
)
from unspool.tf1.ops.math import (
    truediv as truediv,
)
from unspool.tf1.ops.products import (
    einsum as einsum,
)
from unspool.tf1.ops.products import (
    matmul as matmul,
)
from unspool.tf1.ops.products import (
    tensordot as tensordot,
)
from unspool.tf1.ops.random import (
    multinomial as multinomial,
)
from unspool.tf1.ops.random import (
    random_normal as random_normal,
)
from unspool.tf1.ops.random import (
    random_shuffle as random_shuffle,
)
from unspool.tf1.ops.random import (
    random_uniform as random_uniform,
)
from unspool.tf1.ops.random import (
    truncated_normal as truncated_normal,
)
from unspool.tf1.ops.reductions import (
    argmax as argmax,
)
from unspool.tf1.ops.reductions import (
    argmin as argmin,
)
from unspool.tf1.ops.reductions import (
    cumsum as cumsum,
)
from unspool.tf1.ops.reductions import (
    norm as norm,
)
from unspool.tf1.ops.reductions import (
    reduce_all as reduce_all,
)
from unspool.tf1.ops.reductions import (
    reduce_any as reduce_any,
)
from unspool.tf1.ops.reductions import (
    reduce_logsumexp as reduce_logsumexp,
)
from unspool.tf1.ops.reductions import (
    reduce_max as reduce_max,
)
from unspool.tf1.ops.reductions import (
    reduce_mean as reduce_mean,
)
from unspool.tf1.ops.reductions import (
    reduce_min as reduce_min,
)
from unspool.tf1.ops.reductions import (
    reduce_prod as reduce_prod,
)
from unspool.tf1.ops.reductions import (
    reduce_sum as reduce_sum,
)
from unspool.tf1.ops.slicing import (
    boolean_mask as boolean_mask,
)
from unspool.tf1.ops.slicing import (
    gather as gather,
)
from unspool.tf1.ops.slicing import (
    gather_nd as gather_nd,
)
from unspool.tf1.ops.slicing import (
    matrix_band_part as matrix_band_part,
)
from unspool.tf1.ops.slicing import (
    strided_slice as strided_slice,
)
from unspool.tf1.ops.slicing import (
    unique as unique,
)
from unspool.tf1.ops.slicing import (
    where as where,
)
from unspool.tf1.scopes import (
    AUTO_REUSE as AUTO_REUSE,
)
from unspool.tf1.scopes import (
    VariableScope as VariableScope,
)
from unspool.tf1.scopes import (
    get_variable as get_variable,
)
from unspool.tf1.scopes import (
    get_variable_scope as get_variable_scope,
)
from unspool.tf1.scopes import (
    name_scope as name_scope,
)
from unspool.tf1.scopes import (
    no_regularizer as no_regularizer,
)
from unspool.tf1.scopes import (
    variable_scope as variable_scope,
)
from unspool.tf1.seeds import (
    set_random_seed as set_random_seed,
)
from unspool.tf1.session import (
    InteractiveSession as InteractiveSession,
)
from unspool.tf1.session import (
    Session as Session,
)
from unspool.tf1.session import (
    get_default_session as get_default_session,
)
from unspool.tf1.session_options import ConfigProto as ConfigProto
from unspool.tf1.session_options import GPUOptions as GPUOptions
from unspool.tf1.shapes import (
    Dimension as Dimension,
)
from unspool.tf1.shapes import (
    TensorShape as TensorShape,
)
from unspool.tf1.tensor import (
    Tensor as Tensor,
)
from unspool.tf1.tensor_array import (
    TensorArray as TensorArray,
)
from unspool.tf1.variables import (
    GraphKeys as GraphKeys,
)
from unspool.tf1.variables import (
    Variable as Variable,
)
from unspool.tf1.variables import (
    assign as assign,
)
from unspool.tf1.variables import (
    assign_add as assign_add,
)
from unspool.tf1.variables import (
    assign_sub as assign_sub,
)
from unspool.tf1.variables import (
    global_variables as global_variables,
)
from unspool.tf1.variables import (
    global_variables_initializer as global_variables_initializer,
)
from unspool.tf1.variables import (
    group as group,
)
from unspool.tf1.variables import (
    is_variable_initialized as is_variable_initialized,
)
from unspool.tf1.variables import (
    local_variables as local_variables,
)
from unspool.tf1.variables import (
    local_variables_initializer as local_variables_initializer,
)
from unspool.tf1.variables import (
    no_op as no_op,
)
from unspool.tf1.variables import (
    report_uninitialized_variables as report_uninitialized_variables,
)
from unspool.tf1.variables import (
    trainable_variables as trainable_variables,
)
from unspool.tf1.variables import (
    variables_initializer as variables_initializer,
)

bool = dtypes.bool_
convert_to_tensor = operations.convert_to_tensor
range = creation.range_
slice = slicing.slice_
Assert = control_flow.assert_
tuple = control_flow.tuple_
abs = math.abs_
pow = math.pow_
round = math.round_
newaxis = None
mul, sub, neg = multiply, subtract, negative
initialize_all_variables, all_variables = global_variables_initializer, global_variables
__version__ = "1.15.0"
"""Of TensorFlow, whose names these are."""


def __getattr__(name: str) -> Any:
    raise missing("tf", name, globals())
