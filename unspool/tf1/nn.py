"""`tf.nn`: activations, losses on logits, convolutions, and recurrent loops."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import rnn_cell
from unspool.tf1.namespace import missing
from unspool.tf1.ops.candidates import (
    all_candidate_sampler,
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from unspool.tf1.ops.convolutions import (
    atrous_conv2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    convolution,
    depthwise_conv2d,
    separable_conv2d,
)
from unspool.tf1.ops.ctc import collapse_repeated, ctc_loss, ctc_loss_v2
from unspool.tf1.ops.ctc_decoding import ctc_beam_search_decoder, ctc_beam_search_decoder_v2, ctc_greedy_decoder
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
from unspool.tf1.ops.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    local_response_normalization,
    lrn,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pool,
)
from unspool.tf1.ops.sampled_losses import nce_loss, sampled_softmax_loss
from unspool.tf1.rnn.loops import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
)
from unspool.tf1.rnn.raw import raw_rnn
from unspool.tf1.sparse.embeddings import embedding_lookup_sparse, safe_embedding_lookup_sparse

__all__ = [
    "all_candidate_sampler",
    "atrous_conv2d",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_normalization",
    "bias_add",
    "bidirectional_dynamic_rnn",
    "collapse_repeated",
    "compute_accidental_hits",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "convolution",
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_v2",
    "ctc_greedy_decoder",
    "ctc_loss",
    "ctc_loss_v2",
    "depthwise_conv2d",
    "dropout",
    "dynamic_rnn",
    "elu",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "fixed_unigram_candidate_sampler",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "learned_unigram_candidate_sampler",
    "local_response_normalization",
    "log_sigmoid",
    "log_softmax",
    "log_uniform_candidate_sampler",
    "lrn",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "moments",
    "nce_loss",
    "pool",
    "raw_rnn",
    "relu",
    "relu6",
    "rnn_cell",
    "safe_embedding_lookup_sparse",
    "sampled_softmax_loss",
    "selu",
    "separable_conv2d",
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
    "uniform_candidate_sampler",
    "weighted_cross_entropy_with_logits",
    "xw_plus_b",
    "zero_fraction",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.nn", name, globals())
