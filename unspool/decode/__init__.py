"""Variable-length outputs: decoding until a sequence says that it has ended."""

from unspool.decode.attention.bahdanau import BahdanauAttention
from unspool.decode.attention.luong import LuongAttention
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.decode.attention.monotonic import BahdanauMonotonicAttention, LuongMonotonicAttention
from unspool.decode.attention.recurrence import monotonic_attention, safe_cumprod
from unspool.decode.attention.state import AttentionWrapperState
from unspool.decode.attention.wrapper import AttentionWrapper

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "LuongAttention",
    "LuongMonotonicAttention",
    "monotonic_attention",
    "safe_cumprod",
]
