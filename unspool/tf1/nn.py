"""`tf.nn`: activations, losses on logits, and recurrent loops."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import rnn_cell as rnn_cell
from unspool.tf1.namespace import missing
from unspool.tf1.ops.math import log_sigmoid as log_sigmoid, sigmoid as sigmoid, tanh as tanh
from unspool.tf1.ops.nn import (
    batch_normalization as batch_normalization,
    bias_add as bias_add,
    dropout as dropout,
    elu as elu,
    embedding_lookup as embedding_lookup,
    in_top_k as in_top_k,
    l2_loss as l2_loss,
    l2_normalize as l2_normalize,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    moments as moments,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
    softmax as softmax,
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2,
    softplus as softplus,
    softsign as softsign,
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
    swish as swish,
    top_k as top_k,
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
    xw_plus_b as xw_plus_b,
    zero_fraction as zero_fraction,
)
from unspool.tf1.rnn.loops import (
    bidirectional_dynamic_rnn as bidirectional_dynamic_rnn,
    dynamic_rnn as dynamic_rnn,
    static_bidirectional_rnn as static_bidirectional_rnn,
    static_rnn as static_rnn,
)
from unspool.tf1.rnn.raw import raw_rnn as raw_rnn


def __getattr__(name: str) -> Any:
    raise missing("tf.nn", name, globals())
