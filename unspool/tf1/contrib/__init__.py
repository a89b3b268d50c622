"""`tf.contrib`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import seq2seq as seq2seq
from unspool.tf1.contrib import data as data
from unspool.tf1.contrib import layers as layers
from unspool.tf1.contrib import lookup as lookup
from unspool.tf1.contrib import rnn as rnn
from unspool.tf1.namespace import missing


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib", name, globals())
