"""`tf.nn`: activations, losses on logits, and recurrent loops."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import rnn_cell
from unspool.tf1.namespace import missing
from unspool.tf1.ops.math import log_sigmoid, sigmoid, tanh
from unspool.tf1.ops.nn import (
    batch_normalization,
    bias_add,
    dropout,
    elu,
    embedding_lookup,
    in_top_k,
    l2_loss,
    l2_normalize,
    leaky_relu,
    log_softmax,
    moments,
    relu,
    relu6,
    selu,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    softplus,
    softsign,
    sparse_softmax_cross_entropy_with_logits,
    swish,
    top_k,
    weighted_cross_entropy_with_logits,
    xw_plus_b,
    zero_fraction,
)
from unspool.tf1.rnn.loops import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
)
from unspool.tf1.rnn.raw import raw_rnn

__all__ = [
    "batch_normalization",
    "bias_add",
    "bidirectional_dynamic_rnn",
    "dropout",
    "dynamic_rnn",
    "elu",
    "embedding_lookup",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "moments",
    "raw_rnn",
    "relu",
    "relu6",
    "rnn_cell",
    "selu",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy_with_logits",
    "static_bidirectional_rnn",
    "static_rnn",
    "swish",
    "tanh",
    "top_k",
    "weighted_cross_entropy_with_logits",
    "xw_plus_b",
    "zero_fraction",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.nn", name, globals())
