"""`tf.contrib.layers`: the older layers, initialisers, regularisers, and `optimize_loss`."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.layers.convolutional import (
    avg_pool2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    convolution,
    convolution1d,
    convolution2d,
    convolution2d_transpose,
    convolution3d,
    max_pool2d,
    repeat,
    separable_conv2d,
    separable_convolution2d,
    stack,
)
from unspool.tf1.contrib.layers.dense import (
    dropout,
    elu,
    embed_sequence,
    embedding_lookup_unique,
    flatten,
    fully_connected,
    linear,
    one_hot_encoding,
    relu,
    relu6,
    softmax,
)
from unspool.tf1.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from unspool.tf1.contrib.layers.normalization import batch_norm, layer_norm
from unspool.tf1.contrib.layers.optimizers import (
    OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES,
    adaptive_clipping_fn,
    optimize_loss,
)
from unspool.tf1.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)
from unspool.tf1.namespace import missing
from unspool.tf1.sparse.embeddings import safe_embedding_lookup_sparse

__all__ = [
    "OPTIMIZER_CLS_NAMES",
    "OPTIMIZER_SUMMARIES",
    "adaptive_clipping_fn",
    "apply_regularization",
    "avg_pool2d",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "convolution",
    "convolution1d",
    "convolution2d",
    "convolution2d_transpose",
    "convolution3d",
    "dropout",
    "elu",
    "embed_sequence",
    "embedding_lookup_unique",
    "flatten",
    "fully_connected",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "linear",
    "max_pool2d",
    "one_hot_encoding",
    "optimize_loss",
    "relu",
    "relu6",
    "repeat",
    "safe_embedding_lookup_sparse",
    "separable_conv2d",
    "separable_convolution2d",
    "softmax",
    "stack",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.layers", name, __all__)
