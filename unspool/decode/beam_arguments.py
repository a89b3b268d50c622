"""What a beam search is given, checked before any work is done."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from unspool.decode.tiling import has_rows
from unspool.decode.tokens import Embedding
from unspool.loops.tensors import as_tensor, as_tensors
from unspool.structure import Structure, check_same_structure, flatten
from unspool.tracers import has_values


def check_logits(output_layer: Any, cell: Any, rows: int | None) -> None:
    """Raises unless every logit, as far as one can tell how many there are, has one of the embedding's rows."""
    _, logits = _logits_of(output_layer, cell)
    if rows is None or not isinstance(logits, int) or logits <= rows:
        return
    if output_layer is not None:
        raise ValueError(f"output_layer puts out {logits} logits, but embedding is for {rows} tokens")
    raise ValueError(
        f"without output_layer, the cell's {logits} outputs are the logits, but embedding is for {rows} tokens: give "
        f"an output_layer from {logits} to {rows}"
    )


def _logits_of(output_layer: Any, cell: Any) -> tuple[str, Any]:
    if output_layer is None:
        return "cell.output_size", cell.output_size
    # nn.Linear has out_features, layers that are built at first use have units.
    return "output_layer", getattr(output_layer, "out_features", getattr(output_layer, "units", None))


def check_end_token(end_token: int, output_layer: Any, cell: Any, embedding: Embedding) -> None:
    """Raises unless the end token is in the vocabulary, as far as one can tell how large that is."""
    what, logits = _logits_of(output_layer, cell)
    known = {what: logits, "embedding": embedding.rows}
    if end_token < 0:
        raise ValueError(f"end_token must not be negative, but is {end_token}")
    for name, tokens in known.items():
        if isinstance(tokens, int) and end_token >= tokens > 0:  # a lazy layer has 0 units until it is built
            raise ValueError(f"end_token is {end_token}, but {name} is for {tokens} tokens, 0 to {tokens - 1}")


def check_start_tokens(start_tokens: Tensor, embedding: Embedding) -> None:
    """Raises unless there is an embedding for every start token."""
    if embedding.rows is None:
        return
    outside = (start_tokens < 0) | (start_tokens >= embedding.rows)
    if has_values(outside) and bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise ValueError(
            f"start_tokens[{row}] is {int(start_tokens[row])}, but embedding is for {embedding.rows} tokens"
        )


def as_initial_state(cell: Any, initial_state: Structure, batch_size: int, beam_width: int) -> Structure:
    """The initial state, if it is one of `cell` with a row for each beam."""
    state = as_tensors(initial_state, "initial_state")
    check_same_structure(cell.state_size, state, name="initial_state", like="cell.state_size", opaque=True)
    rows = batch_size * beam_width
    for leaf in flatten(state):
        if has_rows(leaf) and len(leaf) != rows:
            raise ValueError(
                f"initial_state has shape {list(leaf.shape)}, but expected {rows} rows, {batch_size} start tokens with "
                f"{beam_width} beams each: use tile_batch(initial_state, {beam_width})"
            )
    return state


def as_weight(weight: Any, name: str) -> float:
    """The weight of a penalty: a number."""
    tensor = as_tensor(weight, name)
    if tensor.dim():
        raise ValueError(f"{name} must be a scalar, but has shape {list(tensor.shape)}")
    if tensor.is_complex():
        raise TypeError(f"{name} must be real, but is {weight!r}")
    return float(weight)  # not of the tensor, which has fewer digits than a number
