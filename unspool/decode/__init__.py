"""Outputs whose length is not known in advance: decoding until the model says that it is at the end."""

from unspool.decode.attention.bahdanau import BahdanauAttention
from unspool.decode.attention.luong import LuongAttention
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.decode.attention.monotonic import BahdanauMonotonicAttention, LuongMonotonicAttention
from unspool.decode.attention.recurrence import monotonic_attention, safe_cumprod
from unspool.decode.attention.state import AttentionWrapperState
from unspool.decode.attention.wrapper import AttentionWrapper
from unspool.decode.beam import BeamSearchDecoder, FinalBeamSearchDecoderOutput
from unspool.decode.beam_step import BeamSearchDecoderOutput, BeamSearchDecoderState
from unspool.decode.decoder import BasicDecoder, BasicDecoderOutput, Decoder
from unspool.decode.dynamic_decode import DEFAULT_BOUND, dynamic_decode
from unspool.decode.helpers.embedding import GreedyEmbeddingHelper, SampleEmbeddingHelper
from unspool.decode.helpers.helper import CustomHelper, Helper
from unspool.decode.helpers.inference import InferenceHelper
from unspool.decode.helpers.scheduled import ScheduledEmbeddingTrainingHelper, ScheduledOutputTrainingHelper
from unspool.decode.helpers.training import TrainingHelper
from unspool.decode.loss import SequenceLoss, sequence_loss, sequence_mask
from unspool.decode.n_best import NBest
from unspool.decode.stream import Stream, StreamPosition, stream
from unspool.decode.tiling import tile_batch
from unspool.decode.trees import gather_tree, gather_tree_from_array

__all__ = [
    "DEFAULT_BOUND",
    "AttentionMechanism",
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
    "Decoder",
    "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "LuongAttention",
    "LuongMonotonicAttention",
    "NBest",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "SequenceLoss",
    "Stream",
    "StreamPosition",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "gather_tree_from_array",
    "monotonic_attention",
    "safe_cumprod",
    "sequence_loss",
    "sequence_mask",
    "stream",
    "tile_batch",
]
