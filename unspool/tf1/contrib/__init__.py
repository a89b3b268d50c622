"""`tf.contrib`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import seq2seq as seq2seq
from unspool.tf1.contrib import crf as crf
from unspool.tf1.contrib import layers as layers
from unspool.tf1.contrib import legacy_seq2seq as legacy_seq2seq
from unspool.tf1.contrib import rnn as rnn
from unspool.tf1.namespace import missing


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib", name, globals())
