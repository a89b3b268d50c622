"""Cells from papers, each written from its equations, with its citation and its published initialisation.

An import of its own: `from unspool.gallery import MogrifierLSTMCell`. docs/gallery.md shows them.
"""

from unspool.gallery.continuous import CfCCell, GRUDCell, LTCCell, ODERNNCell, PhasedLSTMCell, TLSTMCell
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
    "BahdanauDecoderCell",
    "CfCCell",
    "ClockworkCell",
    "CoRNNCell",
    "ConvGRUCell",
    "ConvLSTMCell",
    "DNCCell",
    "FastWeightsCell",
    "GRUDCell",
    "HiPPOLegSCell",
    "HiPPOLegTCell",
    "HyperLSTMCell",
    "IndRNNCell",
    "LEMCell",
    "LIFCell",
    "LMUCell",
    "LRUCell",
    "LTCCell",
    "LayerNormGRUCell",
    "LayerNormLSTMCell",
    "LipschitzRNNCell",
    "MGUCell",
    "MLSTMCell",
    "MinGRUCell",
    "MinLSTMCell",
    "MogrifierLSTMCell",
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
    "TimeMixingCell",
    "VRNNCell",
    "ZoneoutLSTMCell",
]
