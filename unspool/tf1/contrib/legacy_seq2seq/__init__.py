"""`tf.contrib.legacy_seq2seq`: encoders and decoders over lists of steps, one call of a cell for each."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.legacy_seq2seq.attention import attention_decoder, embedding_attention_decoder
from unspool.tf1.contrib.legacy_seq2seq.decoders import embedding_rnn_decoder, rnn_decoder
from unspool.tf1.contrib.legacy_seq2seq.losses import model_with_buckets, sequence_loss, sequence_loss_by_example
from unspool.tf1.contrib.legacy_seq2seq.models import (
    basic_rnn_seq2seq,
    embedding_attention_seq2seq,
    embedding_rnn_seq2seq,
    embedding_tied_rnn_seq2seq,
    one2many_rnn_seq2seq,
    tied_rnn_seq2seq,
)
from unspool.tf1.namespace import missing

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.legacy_seq2seq", name, __all__)
