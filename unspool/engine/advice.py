"""What to change in a cell that cannot be planned."""

from __future__ import annotations

import re

ADVICE: dict[str, str] = {
    r"^there is nothing to run": "",
    r"must match the size of tensor|must match the existing size": (
        "A tensor with a row for each of the batch belongs to the inputs, repeated over time by expand(), which takes "
        "no memory, or to the state."
    ),
    r"^the step cannot be traced": (
        "Keep the step to operations of torch on its arguments and weights: no NumPy, no .item(), no printing."
    ),
    r"^the cell cannot be copied": "Let copy.deepcopy copy the cell: keep files and locks out of its attributes.",
    r"^the cell cannot be referred to weakly": "Derive the cell from RNNCell, or give its class a __weakref__ slot.",
    r"lazy": "Run the cell once, or give its layers their input sizes: lazy layers have no weights before that.",
    r"control flow or shapes depend on the values": (
        "Choose with torch.where instead of an `if` on tensors, and keep .item(), .tolist() and boolean indexing "
        "out of the step."
    ),
    r"the step changes|have changed more than": (
        "Carry what changes in the state. What is drawn once a sequence is set in start_sequence()."
    ),
    r"depends on the number of rows|computes with the number of rows|no multiple of the number": (
        "Use x.shape[0] as a size only, never len(x) or a comparison with a number of rows."
    ),
    r"hooks": "Remove the hooks while the loop runs, or let the cell put out what they look at.",
    r"draws": (
        "Draw numbers for every row in front, such as torch.rand_like(h). What is drawn once a sequence is drawn in "
        "start_sequence()."
    ),
    r"no parameter of the cell": "Make that tensor an nn.Parameter of the cell, or a part of its state.",
    r"does not hang on the cell": "Make that tensor a buffer or an attribute of the cell, or a part of its inputs.",
    r"it is not known whether it keeps rows apart": (
        "Write it with other operations of torch; common ones are known. If it is common, please report it."
    ),
    r"meet|across rows|rows apart and puts|joins different rows|appends rows|multiplies different rows|in each other"
    r"|indexe[sd] rows|sums? over rows|axis of the rows|two of its axes|rows from what|rows in front|interleaved"
    r"|occurs in the batch|indices for every row|adds to|several entries for": (
        "Let the step treat every row of the batch by itself: no statistics over the batch (LayerNorm, not BatchNorm), "
        "and no indexing, reshaping or multiplying along its first axis."
    ),
    r"compiled by torch.compile": "Give the loop the cell itself; compile what is around the loop, if anything.",
    r"wants to see every operation": "Nothing in the cell: outside of the tracer or the mode, the loop has its plan.",
    r"torch.func|forward-mode": "Nothing in the cell: the loop is differentiated in a way that only the plain loop is.",
    r"has not been given": "Give the module its memory first, as setup_memory of an attention does.",
    r"meta device": "Nothing in the cell: give inputs that have values.",
    r"different devices": "Move the cell, its inputs and its state to one device.",
    r"special kind": "Use ordinary dense tensors for weights, inputs and states.",
    r"not only tensors|no row for each": "Let every part of the state be a tensor with a row for each of the batch.",
}
"""For each kind of reason, by a pattern in its text, what helps. The first that fits is taken."""


def advice(reason: str) -> str | None:
    """What to do about a reason, if anything is known to help.

    >>> advice("the step changes the cell: time")
    'Carry what changes in the state. What is drawn once a sequence is set in start_sequence().'
    """
    return next((text for pattern, text in ADVICE.items() if re.search(pattern, reason)), None) or None
