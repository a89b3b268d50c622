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

from unspool.tf1 import dtypes, errors as errors, operations
from unspool.tf1.ops import array, control_flow, math
from unspool.tf1.dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    complex128 as complex128,
    complex64 as complex64,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int8 as int8,
    string as string,
    uint8 as uint8,
)
from unspool.tf1.gradients import (
    gradients as gradients,
    stop_gradient as stop_gradient,
)
from unspool.tf1.graph import (
    Graph as Graph,
    Operation as Operation,
    get_default_graph as get_default_graph,
    reset_default_graph as reset_default_graph,
)
from unspool.tf1.indexed_slices import (
    IndexedSlices as IndexedSlices,
    IndexedSlicesValue as IndexedSlicesValue,
)
from unspool.tf1.initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    ones_initializer as ones_initializer,
    orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from unspool.tf1.operations import (
    constant as constant,
)
from unspool.tf1.ops.array import (
    boolean_mask as boolean_mask,
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    eye as eye,
    fill as fill,
    gather as gather,
    gather_nd as gather_nd,
    identity as identity,
    linspace as linspace,
    matrix_band_part as matrix_band_part,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    pad as pad,
    placeholder as placeholder,
    placeholder_with_default as placeholder_with_default,
    rank as rank,
    reshape as reshape,
    reverse as reverse,
    reverse_sequence as reverse_sequence,
    sequence_mask as sequence_mask,
    shape as shape,
    size as size,
    split as split,
    squeeze as squeeze,
    stack as stack,
    strided_slice as strided_slice,
    tile as tile,
    transpose as transpose,
    unique as unique,
    unstack as unstack,
    where as where,
    zeros as zeros,
    zeros_like as zeros_like,
)
from unspool.tf1.ops.control_flow import (
    case as case,
    cond as cond,
    foldl as foldl,
    map_fn as map_fn,
    scan as scan,
    while_loop as while_loop,
)
from unspool.tf1.ops.math import (
    acos as acos,
    add as add,
    add_n as add_n,
    argmax as argmax,
    argmin as argmin,
    asin as asin,
    atan as atan,
    atan2 as atan2,
    cast as cast,
    ceil as ceil,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    clip_by_value as clip_by_value,
    cos as cos,
    cosh as cosh,
    cumsum as cumsum,
    div as div,
    div_no_nan as div_no_nan,
    divide as divide,
    einsum as einsum,
    equal as equal,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    floordiv as floordiv,
    floormod as floormod,
    global_norm as global_norm,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    less as less,
    less_equal as less_equal,
    lgamma as lgamma,
    log as log,
    log1p as log1p,
    log_sigmoid as log_sigmoid,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    matmul as matmul,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    multiply as multiply,
    negative as negative,
    norm as norm,
    not_equal as not_equal,
    realdiv as realdiv,
    reciprocal as reciprocal,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    rsqrt as rsqrt,
    saturate_cast as saturate_cast,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    squared_difference as squared_difference,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    tensordot as tensordot,
    to_double as to_double,
    to_float as to_float,
    to_int32 as to_int32,
    to_int64 as to_int64,
    truediv as truediv,
)
from unspool.tf1.ops.random import (
    multinomial as multinomial,
    random_normal as random_normal,
    random_shuffle as random_shuffle,
    random_uniform as random_uniform,
    truncated_normal as truncated_normal,
)
from unspool.tf1.scopes import (
    AUTO_REUSE as AUTO_REUSE,
    VariableScope as VariableScope,
    get_variable as get_variable,
    get_variable_scope as get_variable_scope,
    name_scope as name_scope,
    no_regularizer as no_regularizer,
    variable_scope as variable_scope,
)
from unspool.tf1.seeds import (
    set_random_seed as set_random_seed,
)
from unspool.tf1.session import (
    InteractiveSession as InteractiveSession,
    Session as Session,
    get_default_session as get_default_session,
)
from unspool.tf1.shapes import (
    Dimension as Dimension,
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
    Variable as Variable,
    assign as assign,
    assign_add as assign_add,
    assign_sub as assign_sub,
    global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    group as group,
    is_variable_initialized as is_variable_initialized,
    local_variables as local_variables,
    local_variables_initializer as local_variables_initializer,
    no_op as no_op,
    report_uninitialized_variables as report_uninitialized_variables,
    trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from unspool.tf1 import contrib as contrib, nn as nn, train as train
from unspool.tf1.graph_functions import (
    add_to_collection as add_to_collection,
    control_dependencies as control_dependencies,
    device as device,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
)
from unspool.tf1.named_initializers import initializers as initializers
from unspool.tf1.namespace import missing
from unspool.tf1.session_options import ConfigProto as ConfigProto, GPUOptions as GPUOptions

bool = dtypes.bool_
convert_to_tensor = operations.as_tensor
range = array.range_
slice = array.slice_
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
