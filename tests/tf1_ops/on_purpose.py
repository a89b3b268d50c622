"""Calls that `unspool.tf1` takes otherwise than TensorFlow 2.21's `compat.v1`, and why."""

from __future__ import annotations

from tests.tf1_ops.arithmetic import ARITHMETIC, COMPARISONS

ON_PURPOSE: dict[tuple[str, str], str] = {}
SOONER = "what can never be right is said when the graph is built"


def _note(why: str, subject: str, *names: str) -> None:
    ON_PURPOSE.update({(subject, name): why for name in names})


_note(
    "a number takes the dtype of the tensor beside it, wherever it stands; TensorFlow does so for operators alone",
    "arithmetic",
    *(f"{each} after a number" for each in [*ARITHMETIC, *COMPARISONS] if each not in ("divide", "div_no_nan")),
)
_note("tensors of two dtypes are always a TypeError", "arithmetic", "div of two dtypes")
_note("TensorFlow has no kernel for uint8; torch has", "arithmetic", "squared_difference of small integers")
_note(SOONER, "slicing", "x[..., ...]", "x[::0]")
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
_note("an axis can be chosen of a tensor of any rank", "keras", "keras activation softmax")
_note("TensorFlow 1.15 wants labels and logits named", "neural", "sparse_softmax_cross_entropy by position")
_note("the sizes of parts are to be known when the graph is built", "neural", "embedding_lookup in parts")
_note(
    "a dilated window may be of any size",
    "images",
    "atrous_conv2d SAME",
    "atrous_conv2d VALID",
    "depthwise_conv2d SAME dilated",
    "convolution of images",
)
_note("of no rows too, the channels are the filter's", "images", "conv2d of no rows")
_note("an image that is smaller than the filter is an error", "images", "conv2d of a small image")
_note("TensorFlow aborts", "images", "conv2d_transpose of other channels", "conv2d_transpose to another size")
_note(SOONER, "images", "conv2d_transpose to other channels")
_note("a body may return a list of one, however it was given", "control", "while_loop over one alone")
_note("what may be a scalar is taken as one", "control", "while_loop of a fed number of turns")
_note("a loop that never runs has no slices, whatever their shape", "control", "map_fn of nothing")
_note("what is carried may be known better than what comes", "control", "scan of a structure", "scan of two")
_note(SOONER, "scattering", "cumprod past the end", "cumprod of a scalar")
_note(SOONER, "scattering", "scatter_nd too deep", "scatter_nd_update too deep")
_note("what is held is held in gradients of gradients too", "scattering", "gradients of gradients with a part held")

_note("a shape may be of any rank until it runs", "sparse", "sparse_reset_shape to another")
_note(SOONER, "sampling", *(f"{each} of another number" for each in ("uniform", "log_uniform", "learned_unigram")))
_note("TensorFlow's table is too small for no label", "ctc", "ctc_loss of blanks alone")
_note("TensorFlow's table is too small for no label", "ctc", "ctc_loss of blanks alone, not merged")

LOST = "what the dtype cannot hold is an error, where TensorFlow makes something else of it"
MISTAKES_ON_PURPOSE = {
    "iterate_over_a_tensor": "TensorFlow 2's own kind of TypeError",
    "gradient_of_integers": SOONER,
    "loop_that_changes_a_dtype": SOONER,
    "array_of_another_dtype": SOONER,
    "feed_none": LOST,
    "feed_fractions_for_integers": LOST,
    "feed_an_array_of_fractions_for_integers": LOST,
    "feed_an_array_of_integers_for_truths": LOST,
    "feed_complex_numbers": LOST,
}
