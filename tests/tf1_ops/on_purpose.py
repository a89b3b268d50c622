"""Calls that `unspool.tf1` takes otherwise than TensorFlow 2.21's `compat.v1`, and why."""

from __future__ import annotations

from tests.tf1_ops.arithmetic import ARITHMETIC, COMPARISONS

ON_PURPOSE: dict[tuple[str, str], str] = {}


def _note(why: str, subject: str, *names: str) -> None:
    ON_PURPOSE.update({(subject, name): why for name in names})


_note(
    "a number takes the dtype of the tensor beside it, wherever it stands; TensorFlow does so for operators alone",
    "arithmetic",
    *(f"{each} after a number" for each in [*ARITHMETIC, *COMPARISONS] if each not in ("divide", "div_no_nan")),
)
_note("tensors of two dtypes are always a TypeError", "arithmetic", "div of two dtypes")
_note("TensorFlow has no kernel for uint8; torch has", "arithmetic", "squared_difference of small integers")
_note("what can never be right is said when the graph is built", "slicing", "x[..., ...]", "x[::0]")
_note("how many axes are cut is to be known when the graph is built", "slicing", "strided_slice by tensors")
_note("a mask that is too short is an error, where TensorFlow takes it", "slicing", "boolean_mask of another size")
_note("TensorFlow 1's own error for the order of TensorFlow 0", "joining", "concat in the old order")
_note("an axis can be chosen of a tensor of any rank", "neural", "softmax along 0", "softmax along 1")
_note("an axis can be chosen of a tensor of any rank", "neural", "log_softmax along 0", "log_softmax along 1")
_note(
    "an axis can be chosen of a tensor of any rank",
    "neural",
    *(f"{name} {what}" for name in ("softmax", "log_softmax") for what in ("by the old name", "past the end")),
)
_note("TensorFlow aborts", "neural", "softmax of a scalar")
_note("TensorFlow 1.15 wants labels and logits named", "neural", "sparse_softmax_cross_entropy by position")
_note("the sizes of parts are to be known when the graph is built", "neural", "embedding_lookup in parts")
