"""Decoders over a list of steps, which may read their own outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unspool.structure import Structure, flatten, unflatten_as
from unspool.tf1.gradients import stop_gradient
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.control_flow import cond
from unspool.tf1.ops.nn import embedding_lookup, xw_plus_b
from unspool.tf1.ops.reductions import argmax
from unspool.tf1.scopes import get_variable, get_variable_scope, variable_scope
from unspool.tf1.shapes import described, fit

Decoded = tuple[list[Any], Structure]
"""The outputs of all steps, and the last state."""


def rnn_decoder(
    decoder_inputs: Iterable[Any],
    initial_state: Structure,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    scope: Any = None,
) -> Decoded:
    """Calls a cell once for each step.

        for i, inputs in enumerate(decoder_inputs):
            if i and loop_function: inputs = loop_function(output, i)
            output, state = cell(inputs, state)

    Args:
        decoder_inputs: the steps, each `[batch, depth]`; only the first is read if there is a `loop_function`.
        initial_state: the state to start from.
        cell: a cell.
        loop_function: makes the inputs of a step of the output before it and the step's number.
        scope: of the variables, "rnn_decoder" by default.

    Returns:
        The list of outputs, and the final state.

    >>> from unspool import tf1 as tf
    >>> steps, cell = [tf.zeros([2, 3])] * 4, tf.nn.rnn_cell.GRUCell(5)
    >>> outputs, state = tf.contrib.legacy_seq2seq.rnn_decoder(steps, cell.zero_state(2, tf.float32), cell)
    >>> len(outputs), state.shape, tf.trainable_variables()[0].name
    (4, TensorShape([2, 5]), 'rnn_decoder/gru_cell/gates/kernel:0')
    """
    with variable_scope(scope or "rnn_decoder"):
        state, outputs = initial_state, list[Any]()
        for number, given in enumerate(decoder_inputs):
            inputs = given
            if number and loop_function is not None:
                with variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], number)
            if number:
                get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


def embedding_rnn_decoder(
    decoder_inputs: Iterable[Any],
    initial_state: Structure,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Decoded:
    """`rnn_decoder` of symbols, which are looked up in a variable "embedding".

    Args:
        decoder_inputs: the steps, each `[batch]` ints.
        initial_state: the state to start from.
        cell: a cell.
        num_symbols: how many symbols there are.
        embedding_size: how wide their embedding is.
        output_projection: weights `[output, num_symbols]` and biases, which make logits of outputs to be fed.
        feed_previous: whether each step but the first reads the most probable symbol of the output before it.
        update_embedding_for_previous: whether the embedding gets a gradient from symbols that are read so.
        scope: of the variables, "embedding_rnn_decoder" by default.
    """
    with variable_scope(scope or "embedding_rnn_decoder") as own:
        check_projection(output_projection, num_symbols, own.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        following = feeding(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        inputs = (embedding_lookup(embedding, each) for each in decoder_inputs)
        return rnn_decoder(inputs, initial_state, cell, following)


def feeding(embedding: Any, output_projection: Any, update_embedding: bool) -> Callable[[Any, int], Any]:
    """A `loop_function` that embeds the most probable symbol of the output before."""

    def following(output: Any, number: int) -> Any:
        logits = output if output_projection is None else xw_plus_b(output, *output_projection)
        found = embedding_lookup(embedding, argmax(logits, 1))
        return found if update_embedding else stop_gradient(found)

    return following


def check_projection(output_projection: Any, num_symbols: int, dtype: Any) -> None:
    """Raises `ValueError` unless the weights and biases are for so many symbols."""
    if output_projection is None:
        return
    for each, dims in zip(output_projection, ((None, num_symbols), (num_symbols,)), strict=True):
        given = as_tensor(each, dtype)
        if not fit(given.dims, dims):
            raise ValueError(
                f"output_projection: Shapes {described(given.dims)} and {described(dims)} are incompatible; there are "
                f"{num_symbols} symbols"
            )


def decoded(decoder: Callable[[bool], Decoded], feed_previous: Any, like: Structure, steps: int) -> Decoded:
    """What a decoder makes with `feed_previous`, which may be known only in a run: then both ways are built.

    Args:
        decoder: takes whether it is fed its own outputs.
        feed_previous: a bool, or a scalar bool tensor.
        like: the structure of the state.
        steps: how many outputs there are.
    """
    if isinstance(feed_previous, bool):
        return decoder(feed_previous)

    def branch(fed: bool) -> list[Any]:
        with variable_scope(get_variable_scope(), reuse=None if fed else True):
            outputs, state = decoder(fed)
            return [*outputs, *flatten(state)]

    made = cond(feed_previous, lambda: branch(True), lambda: branch(False))
    return made[:steps], unflatten_as(like, made[steps:])
