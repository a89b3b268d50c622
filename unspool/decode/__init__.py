"""Outputs whose length is not known in advance: decoding until the model says that it is at the end."""

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
from unspool.decode.tiling import tile_batch
from unspool.decode.trees import gather_tree, gather_tree_from_array

__all__ = [
    "DEFAULT_BOUND",
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
    "NBest",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "SequenceLoss",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "gather_tree_from_array",
    "sequence_loss",
    "sequence_mask",
    "tile_batch",
]
