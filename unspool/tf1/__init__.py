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

from unspool.tf1 import errors
from unspool.tf1.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_ as bool,
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
)
from unspool.tf1.gradients import gradients, stop_gradient
from unspool.tf1.graph import Graph, Operation, get_default_graph, reset_default_graph
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
from unspool.tf1.namespace import missing
from unspool.tf1.operations import as_tensor as convert_to_tensor, constant
from unspool.tf1.ops.array import *
from unspool.tf1.ops.control_flow import *
from unspool.tf1.ops.math import *
from unspool.tf1.ops.random import *
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
from unspool.tf1.shapes import Dimension, TensorShape
from unspool.tf1.tensor import Tensor
from unspool.tf1.tensor_array import TensorArray
from unspool.tf1.variables import *


def __getattr__(name: str) -> Any:
    raise missing("tf", name, globals())


from unspool.tf1.nn import NN as nn
