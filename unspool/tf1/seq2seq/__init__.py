"""`tf.contrib.seq2seq`: decoding, attention and losses, with unspool's inside."""

from __future__ import annotations

from typing import Any

from unspool.decode import AttentionWrapperState as AttentionWrapperState
from unspool.decode import BasicDecoderOutput as BasicDecoderOutput
from unspool.decode import BeamSearchDecoderOutput as BeamSearchDecoderOutput
from unspool.decode import BeamSearchDecoderState as BeamSearchDecoderState
from unspool.decode import FinalBeamSearchDecoderOutput as FinalBeamSearchDecoderOutput
from unspool.tf1.namespace import missing
from unspool.tf1.seq2seq.attention import (
    AttentionWrapper as AttentionWrapper,
    BahdanauAttention as BahdanauAttention,
    BahdanauMonotonicAttention as BahdanauMonotonicAttention,
    LuongAttention as LuongAttention,
    LuongMonotonicAttention as LuongMonotonicAttention,
)
from unspool.tf1.seq2seq.decoders import (
    BasicDecoder as BasicDecoder,
    BeamSearchDecoder as BeamSearchDecoder,
    dynamic_decode as dynamic_decode,
)
from unspool.tf1.seq2seq.functions import (
    gather_tree as gather_tree,
    sequence_loss as sequence_loss,
    tile_batch as tile_batch,
)
from unspool.tf1.seq2seq.helpers import (
    CustomHelper as CustomHelper,
    GreedyEmbeddingHelper as GreedyEmbeddingHelper,
    Helper as Helper,
    InferenceHelper as InferenceHelper,
    SampleEmbeddingHelper as SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper as ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper as ScheduledOutputTrainingHelper,
    TrainingHelper as TrainingHelper,
)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.seq2seq", name, globals())
