"""Encoders with decoders, over lists of steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from unspool.cells.like import assert_like_rnncell
from unspool.structure import Structure
from unspool.tf1.contrib.legacy_seq2seq.attention import embedding_attention_decoder
from unspool.tf1.contrib.legacy_seq2seq.decoders import (
    Decoded,
    check_projection,
    decoded,
    embedding_rnn_decoder,
    feeding,
    rnn_decoder,
)
from unspool.tf1.dtypes import DType, float32
from unspool.tf1.initializers import random_uniform_initializer
from unspool.tf1.ops.array import reshape
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.nn import embedding_lookup
from unspool.tf1.rnn.cells import OutputProjectionWrapper
from unspool.tf1.rnn.loops import static_rnn
from unspool.tf1.scopes import get_variable, get_variable_scope, variable_scope


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, dtype: Any = float32, scope: Any = None
) -> Decoded:
    """An encoder, whose last state a decoder starts from; both have cells like `cell`, with weights of their own.

    Args:
        encoder_inputs, decoder_inputs: the steps, each `[batch, depth]`.
        cell: a cell, which the decoder uses; the encoder's is a copy.
        dtype: of the encoder's first state.
        scope: of the variables, "basic_rnn_seq2seq" by default.

    Returns:
        The list of outputs of the decoder, and its final state.

    >>> from unspool import tf1 as tf
    >>> steps = [tf.placeholder(tf.float32, [None, 2]) for _ in range(3)]
    >>> outputs, state = tf.contrib.legacy_seq2seq.basic_rnn_seq2seq(steps, steps, tf.nn.rnn_cell.BasicRNNCell(4))
    >>> for variable in tf.trainable_variables():
    ...     print(variable.name)
    basic_rnn_seq2seq/rnn/basic_rnn_cell/kernel:0
    basic_rnn_seq2seq/rnn/basic_rnn_cell/bias:0
    basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/kernel:0
    basic_rnn_seq2seq/rnn_decoder/basic_rnn_cell/bias:0
    """
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: Any = None,
    dtype: Any = float32,
    scope: Any = None,
) -> Decoded:
    """An encoder and a decoder that share a cell and its weights; see `basic_rnn_seq2seq` and `rnn_decoder`."""
    with variable_scope("combined_tied_rnn_seq2seq"):
        name = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=name)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, name)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """An encoder and a decoder of symbols, each with an embedding.

    Args:
        encoder_inputs, decoder_inputs: the steps, each `[batch]` ints.
        cell: a cell, which the decoder uses; the encoder's is a copy.
        num_encoder_symbols, num_decoder_symbols: how many symbols each side has.
        embedding_size: how wide both embeddings are.
        output_projection: weights `[output, num_decoder_symbols]` and biases, for outputs to be fed; without them
            outputs are logits of symbols.
        feed_previous: whether the decoder reads the symbols that it finds most probable, from the second step on: a
            bool, or a scalar bool tensor, which decides in each run.
        dtype: of the states and variables; the scope's by default.
        scope: of the variables, "embedding_rnn_seq2seq" by default.

    Returns:
        The list of outputs of the decoder, and its final state.
    """
    with variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as own:
        _, state = _encoded(copy.deepcopy(cell), encoder_inputs, num_encoder_symbols, embedding_size, own.dtype)
        inner = cell if output_projection is not None else OutputProjectionWrapper(cell, num_decoder_symbols)

        def decoder(fed: bool) -> Decoded:
            return embedding_rnn_decoder(
                decoder_inputs,
                state,
                inner,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=fed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
            )

        return decoded(decoder, feed_previous, state, len(decoder_inputs))


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """An encoder and a decoder of symbols that share an embedding, a cell and its weights.

    Args:
        num_symbols: how many symbols there are.
        num_decoder_symbols: of how many of them outputs are logits; all by default.
        encoder_inputs, decoder_inputs, cell, embedding_size, output_projection, feed_previous, dtype, scope: see
            `embedding_rnn_seq2seq`.
    """
    with variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as own:
        kind = own.dtype
        check_projection(output_projection, num_symbols, kind)
        embedding = get_variable("embedding", [num_symbols, embedding_size], kind)
        read, written = ([embedding_lookup(embedding, x) for x in each] for each in (encoder_inputs, decoder_inputs))
        count = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        inner = cell if output_projection is not None else OutputProjectionWrapper(cell, count)

        def decoder(fed: bool) -> Decoded:
            following = feeding(embedding, output_projection, isinstance(feed_previous, bool)) if fed else None
            return tied_rnn_seq2seq(read, written, inner, following, kind)

        return decoded(decoder, feed_previous, inner.state_size, len(decoder_inputs))


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`embedding_rnn_seq2seq` with a decoder that attends to the outputs of the encoder; see `attention_decoder`.

    Args:
        num_heads: how often the decoder attends.
        initial_state_attention: whether its first step does.
        encoder_inputs, decoder_inputs, cell, num_encoder_symbols, num_decoder_symbols, embedding_size,
        output_projection, feed_previous, dtype, scope: see `embedding_rnn_seq2seq`.
    """
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as own:
        outputs, state = _encoded(copy.deepcopy(cell), encoder_inputs, num_encoder_symbols, embedding_size, own.dtype)
        memory = concat([reshape(each, [-1, 1, cell.output_size]) for each in outputs], 1)
        projected = output_projection is not None
        inner = cell if projected else OutputProjectionWrapper(cell, num_decoder_symbols)

        def decoder(fed: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                memory,
                inner,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=None if projected else num_decoder_symbols,
                output_projection=output_projection,
                feed_previous=fed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
            )

        return decoded(decoder, feed_previous, state, len(decoder_inputs))


def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs_dict: Mapping[Any, Sequence[Any]],
    enc_cell: Any,
    dec_cells_dict: Mapping[Any, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Mapping[Any, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[Any, list[Any]], dict[Any, Structure]]:
    """One encoder with several decoders, by name: each has its inputs, its cell and its symbols.

    Returns:
        The lists of outputs and the final states of the decoders, by name.

    Raises:
        TypeError: if a cell is none.
        ValueError: if the dicts have not the same names.
    """
    assert_like_rnncell("enc_cell", enc_cell)
    for what, given in (("dec_cells_dict", dec_cells_dict), ("num_decoder_symbols_dict", num_decoder_symbols_dict)):
        if given.keys() != decoder_inputs_dict.keys():
            raise ValueError(f"{what} has the keys {[*given]}, but decoder_inputs_dict {[*decoder_inputs_dict]}")
    for name, each in dec_cells_dict.items():
        assert_like_rnncell(f"dec_cells_dict[{name!r}]", each)
    outputs, states = dict[Any, list[Any]](), dict[Any, Structure]()
    with variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as own:
        _, state = _encoded(enc_cell, encoder_inputs, num_encoder_symbols, embedding_size, own.dtype)
        for name, inputs in decoder_inputs_dict.items():
            count = num_decoder_symbols_dict[name]
            with variable_scope(f"one2many_decoder_{name}"):
                inner = OutputProjectionWrapper(dec_cells_dict[name], count)

                def decoder(fed: bool, inputs: Any = inputs, inner: Any = inner, count: int = count) -> Decoded:
                    return embedding_rnn_decoder(inputs, state, inner, count, embedding_size, feed_previous=fed)

                outputs[name], states[name] = decoded(decoder, feed_previous, state, len(inputs))
    return outputs, states


def _encoded(cell: Any, inputs: Sequence[Any], symbols: int, size: int, dtype: DType) -> Decoded:
    """The outputs and the last state of a cell in TensorFlow's EmbeddingWrapper, whose names the variables have.

    The rows are looked up outside of the loop: so the gradient of the embedding is `IndexedSlices`.
    """
    with variable_scope("rnn"), variable_scope(None, "embedding_wrapper") as scope:
        limit = math.sqrt(3)  # uniform numbers of variance 1
        initializer = scope.initializer or random_uniform_initializer(-limit, limit)
        embedding = get_variable("embedding", [symbols, size], dtype, initializer)
        steps = [embedding_lookup(embedding, reshape(each, [-1])) for each in inputs]
        return static_rnn(cell, steps, dtype=dtype, scope=scope)
