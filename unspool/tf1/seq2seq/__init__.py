"""`tf.contrib.seq2seq`: decoding, attention and losses, with unspool's inside."""

from __future__ import annotations

from typing import Any

from unspool.decode import (
    AttentionWrapperState,
    BasicDecoderOutput,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from unspool.tf1.namespace import missing
from unspool.tf1.seq2seq.attention import (
    AttentionWrapper,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
)
from unspool.tf1.seq2seq.decoders import (
    BasicDecoder,
    BeamSearchDecoder,
    dynamic_decode,
)
from unspool.tf1.seq2seq.functions import (
    gather_tree,
    sequence_loss,
    tile_batch,
)
from unspool.tf1.seq2seq.helpers import (
    CustomHelper,
    GreedyEmbeddingHelper,
    Helper,
    InferenceHelper,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    TrainingHelper,
)

__all__ = [
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "CustomHelper",
    "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "LuongAttention",
    "LuongMonotonicAttention",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "sequence_loss",
    "tile_batch",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.seq2seq", name, globals())
