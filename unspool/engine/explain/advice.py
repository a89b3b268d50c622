"""What to change in a cell that cannot be planned, by the code of the reason."""

from __future__ import annotations

_ROWS = (
    "Let the step treat every row of the batch by itself: no statistics over the batch (LayerNorm, not BatchNorm), "
    "and no indexing, reshaping or multiplying along its first axis."
)

ADVICE: dict[str, str] = {
    "TRANSFORM": "Nothing in the cell: the loop is transformed in a way that only the plain loop is.",
    "TRACER": "Nothing in the cell: outside of the tracer or the mode, the loop has its plan.",
    "HOOKS": "Remove the hooks while the loop runs, or let the cell put out what they look at.",
    "GRADIENT_HOOKS": (
        "Let autograd do it: a torch.autograd.Function that changes gradients on their way is planned. What only looks "
        "at gradients belongs around the loop."
    ),
    "LAZY": "Run the cell once, or give its layers their input sizes: lazy layers have no weights before that.",
    "NO_VALUES": "Nothing in the cell: give inputs that have values.",
    "NOT_TRACED": (
        "Keep the step to operations of torch on its arguments and weights: no NumPy, no .item(), no printing. "
        "A tensor with a row for each of the batch belongs to the inputs, repeated over time by expand(), which takes "
        "no memory, or to the state."
    ),
    "VALUES": (
        "Choose with torch.where instead of an `if` on tensors, and keep .item(), .tolist() and boolean indexing "
        "out of the step. What a row picks where it says itself is `x[torch.arange(x.shape[0])[:, None], places]`."
    ),
    "ROW_COUNT": (
        "Use x.shape[0] as a size only, never len(x), a loop over rows or a comparison with a number of rows. A row's "
        "number is torch.arange(x.shape[0]), not NumPy's: `mask[torch.arange(x.shape[0])[:, None], places] = 1`."
    ),
    "MIXED_ROWS": _ROWS,
    "UNKNOWN_OPERATION": (
        "Write it with other operations of torch; common ones are known. If it is common, please report it."
    ),
    "DRAWS": (
        "Draw numbers for every row in front, such as torch.rand_like(h). What is drawn once a sequence is drawn in "
        "start_sequence()."
    ),
    "CHANGES": "Carry what changes in the state. What is drawn once a sequence is set in start_sequence().",
    "WRITES": (
        "Return it as an output: an output may be any nested tuple or dict of tensors, and the loop then has it for "
        "all steps, not for the last alone. What nobody looks at need not be written."
    ),
    "OVERWRITES": (
        "Compute a new tensor instead: `h = h * g + x`, not `h.copy_(h * g + x)`. The plain loop raises in backward, "
        "as torch does; without gradients the step is planned."
    ),
    "IMPURE": (
        "Draw with torch (torch.rand_like(h), torch.bernoulli), carry counters in the state, and leave clocks, files "
        "and printing to the code around the loop."
    ),
    "UNGUARDED": (
        "Let the step read numbers, strings, containers of these, functions and tensors; make a large array a buffer, "
        "and what is drawn or read one by one a part of the inputs."
    ),
    "VARIANTS": (
        "Give what changes from call to call as a tensor, of which the value is read at every call, and pad tensors "
        "to a few sizes."
    ),
    "FOREIGN_WEIGHT": "Make that tensor an nn.Parameter of the cell, or a part of its state.",
    "FOREIGN_TENSOR": "Make that tensor a buffer or an attribute of the cell, or a part of its inputs.",
    "NO_COPY": "Let copy.deepcopy copy the cell: keep files and locks out of its attributes.",
    "NO_REFERENCE": "Derive the cell from RNNCell, or give its class a __weakref__ slot.",
    "COMPILED_CELL": "Give the loop the cell itself; compile what is around the loop, if anything.",
    "OUTSIDE": (
        "Let the cell have the module: write the step as the forward of a module with this one as an attribute, and "
        "give that to unspool.cell. A function only closes over it."
    ),
    "NO_MEMORY": "Give the module its memory first, as setup_memory of an attention does.",
    "DEVICES": "Move the cell, its inputs and its state to one device.",
    "SPECIAL_TENSOR": "Use ordinary dense tensors for weights, inputs and states.",
    "STATE": "Let every part of the state be a tensor with a row for each of the batch.",
    "FAULT": "Nothing in the cell: please report it, with the cell.",
    "NO_FORM": (
        "Nothing has to change: the step is right and planned. Write it with other operations to have it compiled."
    ),
    "NO_COMPILER": "Install a C++ compiler (g++ or clang++), or name one in $CXX.",
    "OTHER_DEVICE": "Nothing: another emitter runs the core on this device.",
    "COMPILER_FAILED": "Look at the compiler's message; $CXX names another compiler.",
}
"""What helps, by the name of the code."""
