"""`tf.nn`: activations, losses on logits, and recurrent loops."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import rnn_cell as rnn_cell
from unspool.tf1.namespace import missing
from unspool.tf1.ops.candidates import all_candidate_sampler as all_candidate_sampler
from unspool.tf1.ops.candidates import compute_accidental_hits as compute_accidental_hits
from unspool.tf1.ops.candidates import fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler
from unspool.tf1.ops.candidates import learned_unigram_candidate_sampler as learned_unigram_candidate_sampler
from unspool.tf1.ops.candidates import log_uniform_candidate_sampler as log_uniform_candidate_sampler
from unspool.tf1.ops.candidates import uniform_candidate_sampler as uniform_candidate_sampler
from unspool.tf1.ops.ctc import ctc_loss as ctc_loss
from unspool.tf1.ops.ctc_decoding import ctc_beam_search_decoder as ctc_beam_search_decoder
from unspool.tf1.ops.ctc_decoding import ctc_greedy_decoder as ctc_greedy_decoder
from unspool.tf1.ops.math import log_sigmoid as log_sigmoid
from unspool.tf1.ops.math import sigmoid as sigmoid
from unspool.tf1.ops.math import tanh as tanh
from unspool.tf1.ops.nn import (
    batch_normalization as batch_normalization,
)
from unspool.tf1.ops.nn import (
    bias_add as bias_add,
)
from unspool.tf1.ops.nn import (
    dropout as dropout,
)
from unspool.tf1.ops.nn import (
    elu as elu,
)
from unspool.tf1.ops.nn import (
    embedding_lookup as embedding_lookup,
)
from unspool.tf1.ops.nn import (
    in_top_k as in_top_k,
)
from unspool.tf1.ops.nn import (
    l2_loss as l2_loss,
)
from unspool.tf1.ops.nn import (
    l2_normalize as l2_normalize,
)
from unspool.tf1.ops.nn import (
    leaky_relu as leaky_relu,
)
from unspool.tf1.ops.nn import (
    log_softmax as log_softmax,
)
from unspool.tf1.ops.nn import (
    moments as moments,
)
from unspool.tf1.ops.nn import (
    relu as relu,
)
from unspool.tf1.ops.nn import (
    relu6 as relu6,
)
from unspool.tf1.ops.nn import (
    selu as selu,
)
from unspool.tf1.ops.nn import (
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
)
from unspool.tf1.ops.nn import (
    softmax as softmax,
)
from unspool.tf1.ops.nn import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from unspool.tf1.ops.nn import (
    softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2,
)
from unspool.tf1.ops.nn import (
    softplus as softplus,
)
from unspool.tf1.ops.nn import (
    softsign as softsign,
)
from unspool.tf1.ops.nn import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
)
from unspool.tf1.ops.nn import (
    swish as swish,
)
from unspool.tf1.ops.nn import (
    top_k as top_k,
)
from unspool.tf1.ops.nn import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from unspool.tf1.ops.nn import (
    xw_plus_b as xw_plus_b,
)
from unspool.tf1.ops.nn import (
    zero_fraction as zero_fraction,
)
from unspool.tf1.ops.sampled_losses import nce_loss as nce_loss
from unspool.tf1.ops.sampled_losses import sampled_softmax_loss as sampled_softmax_loss
from unspool.tf1.rnn.loops import (
    bidirectional_dynamic_rnn as bidirectional_dynamic_rnn,
)
from unspool.tf1.rnn.loops import (
    dynamic_rnn as dynamic_rnn,
)
from unspool.tf1.rnn.loops import (
    static_bidirectional_rnn as static_bidirectional_rnn,
)
from unspool.tf1.rnn.loops import (
    static_rnn as static_rnn,
)
from unspool.tf1.rnn.raw import raw_rnn as raw_rnn


def __getattr__(name: str) -> Any:
    raise missing("tf.nn", name, globals())
