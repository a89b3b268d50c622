"""Decoders that attend to the outputs of an encoder (Vinyals et al., 2015, "Grammar as a foreign language")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.structure import Structure, flatten
from unspool.tf1.contrib.legacy_seq2seq.decoders import Decoded, feeding
from unspool.tf1.dtypes import DType
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import shape, zeros
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.math import cast, matmul
from unspool.tf1.ops.nn import bias_add, embedding_lookup
from unspool.tf1.scopes import get_variable, get_variable_scope, variable_scope
from unspool.tf1.shapes import described, fit


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Structure,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Callable[[Any, int], Any] | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`rnn_decoder` with attention: the cell reads inputs and what was attended to, and its state asks anew.

        x = linear([inputs, *attended])
        output, state = cell(x, state)
        attended = [attend(state) for each head]
        output = linear([output, *attended])

    Args:
        decoder_inputs: the steps, each `[batch, depth]`.
        initial_state: the state to start from.
        attention_states: `[batch, length, size]`, what is attended to.
        cell: a cell.
        output_size: how wide outputs are; the cell's by default.
        num_heads: how often it attends.
        loop_function: see `rnn_decoder`.
        dtype: of the variables; the scope's by default.
        scope: of the variables, "attention_decoder" by default.
        initial_state_attention: whether the first step reads what the initial state attends to, and not zeros.

    Returns:
        The list of outputs, and the final state.

    Raises:
        ValueError: if there is no step or no head, or a size is not known that a variable needs.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    memory = as_tensor(attention_states)
    width = memory.shape[2].value
    if width is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {described(memory.dims)}")
    wide = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "attention_decoder", dtype=dtype) as own:
        kind = own.dtype
        attend = _Attention(memory, width, num_heads, kind)
        rows = shape(decoder_inputs[0])[0]
        attended = attend(initial_state) if initial_state_attention else [zeros([rows, width], kind)] * num_heads
        state, outputs, weights = initial_state, list[Any](), ()
        for number, given in enumerate(decoder_inputs):
            inputs = given
            if number:
                get_variable_scope().reuse_variables()
            if number and loop_function is not None:
                with variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], number)
            depth = as_tensor(inputs).shape.with_rank(2)[1].value
            if depth is None:
                raise ValueError(f"Could not infer input size from input: {as_tensor(inputs).name}")
            output, state = cell(_linear([inputs, *attended], depth, kind), state)
            with variable_scope(get_variable_scope(), reuse=True if initial_state_attention else None):
                attended = attend(state)
            with variable_scope("AttnOutputProjection"):
                parts = [output, *attended]
                weights = _weights(parts, wide, kind)
            outputs.append(parts if loop_function is None else _dense(parts, *weights))
        if loop_function is None:  # nobody waits for an output: one product for all of them is faster
            outputs = _for_all(outputs, *weights)
    return outputs, state


class _Attention:
    """Additive attention: `softmax(v . tanh(W1 memory + W2 state))`, for each head.

    Args:
        memory: `[batch, length, width]`.
        width: of the memory.
        heads: how many there are.
        dtype: of the variables.
    """

    def __init__(self, memory: Any, width: int, heads: int, dtype: DType) -> None:
        self._memory, self._width, self._dtype = memory, width, dtype
        self._features: list[tuple[Any, Any]] = []
        project = lambda x, w: x @ w[0, 0]  # noqa: E731 (a convolution of 1 by 1, as which TensorFlow keeps it)
        for head in range(heads):
            weights = get_variable(f"AttnW_{head}", [1, 1, width, width], dtype)
            features = apply("AttentionFeatures", project, memory, weights, outputs=[(memory.dtype, memory.dims)])
            self._features.append((features, get_variable(f"AttnV_{head}", [width], dtype)))

    def __call__(self, state: Structure) -> list[Any]:
        """What each head reads for a state, `[batch, width]`."""
        query = concat(flatten(state), 1) if len(flatten(state)) > 1 else flatten(state)[0]
        found: list[Any] = []
        for head, (features, vector) in enumerate(self._features):
            with variable_scope(f"Attention_{head}"):
                asked = cast(_linear([query], self._width, as_tensor(query).dtype), self._dtype)
            rows = None if asked.dims is None else asked.dims[0]
            outputs = [(self._dtype, (rows, self._width))]
            found.append(apply("Attention", _attend, asked, features, vector, self._memory, outputs=outputs))
        return found


def _attend(query: torch.Tensor, features: torch.Tensor, vector: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    scores = torch.tanh(features + query[:, None]) @ vector
    return (scores.softmax(1)[:, None] @ memory)[:, 0]


def _linear(parts: Sequence[Any], size: int, dtype: DType) -> Any:
    """A dense layer on parts side by side, with the variables "kernel" and "bias" of the current scope."""
    given = [cast(each, dtype) for each in parts]
    return _dense(given, *_weights(given, size, dtype))


def _weights(parts: Sequence[Any], size: int, dtype: DType) -> tuple[Any, Any]:
    total = 0
    for each in map(as_tensor, parts):
        depth = each.dims[1] if each.dims is not None and len(each.dims) == 2 else None
        if depth is None:
            shape = described(each.dims)
            raise ValueError(f"linear expects [batch, depth] with a known depth, but {each.name} has {shape}")
        total += depth
    return get_variable("kernel", [total, size], dtype), get_variable("bias", [size], dtype, zeros_initializer())


def _dense(parts: Sequence[Any], kernel: Any, bias: Any) -> Any:
    given = [cast(each, kernel.dtype) for each in parts]
    return bias_add(matmul(given[0] if len(given) == 1 else concat(given, 1), kernel), bias)


def _for_all(steps: Sequence[Sequence[Any]], kernel: Any, bias: Any) -> list[Any]:
    """`_dense` of the parts of every step."""
    if len(steps) == 1:
        return [_dense(steps[0], kernel, bias)]
    flat = [cast(part, kernel.dtype) for parts in steps for part in parts]
    count = len(steps[0])

    def compute(w: torch.Tensor, b: torch.Tensor, *parts: torch.Tensor) -> list[torch.Tensor]:
        rows = [torch.cat(parts[k : k + count], 1) for k in range(0, len(parts), count)]
        return list(torch.addmm(b, torch.cat(rows), w).split(len(rows[0])))

    outputs = [(kernel.dtype, (as_tensor(parts[0]).shape[0].value, kernel.dims[1])) for parts in steps]
    return apply("BiasAdd", compute, kernel, bias, *flat, outputs=outputs)


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Structure,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`attention_decoder` of symbols, which are looked up in a variable "embedding"; see `embedding_rnn_decoder`."""
    wide = cell.output_size if output_size is None else output_size
    if output_projection is not None:
        biases = as_tensor(output_projection[1], dtype)
        if not fit(biases.dims, (num_symbols,)):
            raise ValueError(f"output_projection: there are {num_symbols} symbols, but biases {described(biases.dims)}")
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        following = feeding(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        return attention_decoder(
            [embedding_lookup(embedding, each) for each in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=wide,
            num_heads=num_heads,
            loop_function=following,
            initial_state_attention=initial_state_attention,
        )
