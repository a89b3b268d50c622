"""Cells from papers, each written from its equations, with its citation and its published initialisation.

An import of its own: `from unspool.gallery import MogrifierLSTMCell`. docs/gallery.md shows them.
"""

from unspool.gallery.continuous import CfCCell, GRUDCell, LTCCell, ODERNNCell, PhasedLSTMCell, TLSTMCell
from unspool.gallery.contrib import (
    AttentionCellWrapper,
    BidirectionalGridLSTMCell,
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    CoupledInputForgetGateLSTMCell,
    CudnnCompatibleGRUCell,
    CudnnCompatibleLSTMCell,
    GLSTMCell,
    GridLSTMCell,
    GRUBlockCell,
    GRUBlockCellV2,
    IntersectionRNNCell,
    LayerNormBasicLSTMCell,
    LSTMBlockCell,
    NASCell,
    TimeFreqLSTMCell,
    UGRNNCell,
)
from unspool.gallery.deep import HyperLSTMCell, RHNCell
from unspool.gallery.dynamical import AntisymmetricRNNCell, CoRNNCell, LEMCell, LipschitzRNNCell
from unspool.gallery.exponential import MLSTMCell, SLSTMCell, TimeMixingCell
from unspool.gallery.gated import (
    LayerNormGRUCell,
    LayerNormLSTMCell,
    MGUCell,
    MogrifierLSTMCell,
    NestedLSTMCell,
    PeepholeLSTMCell,
    ZoneoutLSTMCell,
)
from unspool.gallery.images import ConvGRUCell, ConvLSTMCell, SpatioTemporalLSTMCell
from unspool.gallery.latent import RSSMCell, VRNNCell
from unspool.gallery.linear import (
    IndRNNCell,
    LRUCell,
    MinGRUCell,
    MinLSTMCell,
    QRNNPoolingCell,
    SelectiveStateCell,
    SRUCell,
)
from unspool.gallery.memory import BahdanauDecoderCell, DNCCell, FastWeightsCell, NTMCell
from unspool.gallery.ordered import ClockworkCell, ONLSTMCell, RIMCell, SkipRNNCell
from unspool.gallery.polynomial import HiPPOLegSCell, HiPPOLegTCell, LMUCell
from unspool.gallery.spiking import AdaptiveLIFCell, LIFCell

__all__ = [
    "AdaptiveLIFCell",
    "AntisymmetricRNNCell",
    "AttentionCellWrapper",
    "BahdanauDecoderCell",
    "BidirectionalGridLSTMCell",
    "CfCCell",
    "ClockworkCell",
    "CoRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvGRUCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "CudnnCompatibleGRUCell",
    "CudnnCompatibleLSTMCell",
    "DNCCell",
    "FastWeightsCell",
    "GLSTMCell",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUDCell",
    "GridLSTMCell",
    "HiPPOLegSCell",
    "HiPPOLegTCell",
    "HyperLSTMCell",
    "IndRNNCell",
    "IntersectionRNNCell",
    "LEMCell",
    "LIFCell",
    "LMUCell",
    "LRUCell",
    "LSTMBlockCell",
    "LTCCell",
    "LayerNormBasicLSTMCell",
    "LayerNormGRUCell",
    "LayerNormLSTMCell",
    "LipschitzRNNCell",
    "MGUCell",
    "MLSTMCell",
    "MinGRUCell",
    "MinLSTMCell",
    "MogrifierLSTMCell",
    "NASCell",
    "NTMCell",
    "NestedLSTMCell",
    "ODERNNCell",
    "ONLSTMCell",
    "PeepholeLSTMCell",
    "PhasedLSTMCell",
    "QRNNPoolingCell",
    "RHNCell",
    "RIMCell",
    "RSSMCell",
    "SLSTMCell",
    "SRUCell",
    "SelectiveStateCell",
    "SkipRNNCell",
    "SpatioTemporalLSTMCell",
    "TLSTMCell",
    "TimeFreqLSTMCell",
    "TimeMixingCell",
    "UGRNNCell",
    "VRNNCell",
    "ZoneoutLSTMCell",
]
