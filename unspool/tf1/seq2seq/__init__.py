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
)
from unspool.tf1.seq2seq.attention import (
    BahdanauAttention as BahdanauAttention,
)
from unspool.tf1.seq2seq.attention import (
    BahdanauMonotonicAttention as BahdanauMonotonicAttention,
)
from unspool.tf1.seq2seq.attention import (
    LuongAttention as LuongAttention,
)
from unspool.tf1.seq2seq.attention import (
    LuongMonotonicAttention as LuongMonotonicAttention,
)
from unspool.tf1.seq2seq.decoders import (
    BasicDecoder as BasicDecoder,
)
from unspool.tf1.seq2seq.decoders import (
    BeamSearchDecoder as BeamSearchDecoder,
)
from unspool.tf1.seq2seq.decoders import (
    dynamic_decode as dynamic_decode,
)
from unspool.tf1.seq2seq.functions import (
    gather_tree as gather_tree,
)
from unspool.tf1.seq2seq.functions import (
    sequence_loss as sequence_loss,
)
from unspool.tf1.seq2seq.functions import (
    tile_batch as tile_batch,
)
from unspool.tf1.seq2seq.helpers import (
    CustomHelper as CustomHelper,
)
from unspool.tf1.seq2seq.helpers import (
    GreedyEmbeddingHelper as GreedyEmbeddingHelper,
)
from unspool.tf1.seq2seq.helpers import (
    Helper as Helper,
)
from unspool.tf1.seq2seq.helpers import (
    InferenceHelper as InferenceHelper,
)
from unspool.tf1.seq2seq.helpers import (
    SampleEmbeddingHelper as SampleEmbeddingHelper,
)
from unspool.tf1.seq2seq.helpers import (
    ScheduledEmbeddingTrainingHelper as ScheduledEmbeddingTrainingHelper,
)
from unspool.tf1.seq2seq.helpers import (
    ScheduledOutputTrainingHelper as ScheduledOutputTrainingHelper,
)
from unspool.tf1.seq2seq.helpers import (
    TrainingHelper as TrainingHelper,
)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.seq2seq", name, globals())
