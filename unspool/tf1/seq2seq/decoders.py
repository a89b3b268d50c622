"""Decoders of the graph, and the loop that runs them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

import unspool
from unspool.cells.like import assert_like_rnncell
from unspool.decode.beam_arguments import check_logits
from unspool.flags import check_flags, checks_flags
from unspool.loops.arguments import check_parallel_iterations
from unspool.sizes import shape_of
from unspool.structure import Structure, flatten, map_structure
from unspool.tf1.dtypes import DType, bool_, int32, int64
from unspool.tf1.functions import Like
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import as_tensor
from unspool.tf1.rnn.cell import as_leaf, bound_cell, run_module, sized, state_like
from unspool.tf1.rnn.modules import Bound, Weights, as_sizes
from unspool.tf1.scopes import variable_scope
from unspool.tf1.seq2seq.helpers import Helper, Traced, as_embedding
from unspool.tf1.tensor import Tensor
from unspool.tf1.tensor_array import TensorArray

if TYPE_CHECKING:
    from unspool.tf1.session import Run


@checks_flags
def dynamic_decode(
    decoder: Any,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Structure, Structure, Tensor]:
    """Runs a decoder until all rows are finished: `unspool.dynamic_decode` in the graph.

    Args:
        decoder: a `BasicDecoder` or a `BeamSearchDecoder`.
        output_time_major: whether the outputs are `[time, batch, ...]`.
        impute_finished: whether finished rows are left alone; if not, as by default in TensorFlow, they run on.
        maximum_iterations: the most steps to take, a number or a scalar tensor.
        parallel_iterations, swap_memory: as of `unspool.dynamic_decode`; they never change the result.
        scope: the scope of the variables, "decoder" by default.

    Returns:
        The outputs, the final state, and the lengths of the rows.

    Raises:
        TypeError: if `decoder` is no decoder of the graph.
        ValueError: if `maximum_iterations` is no scalar.
    """
    if not isinstance(decoder, _Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    check_parallel_iterations(parallel_iterations)
    most = None if maximum_iterations is None else as_tensor(maximum_iterations)
    if most is not None and most.dims not in ((), None):
        raise ValueError("maximum_iterations must be a scalar")
    with variable_scope(scope, default_name="decoder"):
        bounds, parts, results = decoder.prepared(output_time_major)

        def run_decoder(modules: list[Any], run: Any, limit: Any, *values: Any) -> Structure:
            made = decoder.on_values(run, modules, *values)
            bound = None if limit is None else int(limit)
            return unspool.dynamic_decode(
                made, output_time_major, impute_finished, bound, parallel_iterations, swap_memory
            )

        return run_module("dynamic_decode", bounds, run_decoder, (most, *parts), results, takes_run=True)


class _Decoder:
    """What `dynamic_decode` runs."""

    def prepared(self, time_major: bool) -> tuple[list[Bound], tuple[Structure, ...], Structure]:
        """The modules, what else it needs of a run, and what comes out."""
        raise NotImplementedError

    def on_values(self, run: Run, modules: list[Any], *values: Any) -> Any:
        """Unspool's decoder, in one run."""
        raise NotImplementedError


class BasicDecoder(_Decoder):
    """`unspool.BasicDecoder` in the graph.

    Args:
        cell: a cell.
        helper: says what is sampled and what is read next.
        initial_state: where the cell starts.
        output_layer: a `tf.layers.Dense` over its outputs, or None.

    Raises:
        TypeError: if `cell` is no cell, `helper` no helper, or `output_layer` no layer.

    >>> from unspool import tf1 as tf
    >>> cell = tf.nn.rnn_cell.GRUCell(8)
    >>> helper = tf.contrib.seq2seq.TrainingHelper(tf.zeros([3, 6, 4]), [6, 2, 4])
    >>> decoder = tf.contrib.seq2seq.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32), tf.layers.Dense(10))
    >>> outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(decoder)
    >>> outputs.rnn_output.shape, [each.name for each in tf.trainable_variables()][-2:]
    (TensorShape([3, None, 10]), ['decoder/dense/kernel:0', 'decoder/dense/bias:0'])
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Structure, output_layer: Any = None) -> None:
        assert_like_rnncell("cell", cell)
        if not isinstance(helper, Helper):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        _check_layer(output_layer)
        self._cell, self._helper, self._layer = cell, helper, output_layer
        self._state = map_structure(as_leaf, initial_state)

    @property
    def batch_size(self) -> int | None:
        """How many rows there are, if that is known."""
        return self._helper.rows

    def prepared(self, time_major: bool) -> tuple[list[Bound], tuple[Structure, ...], Structure]:
        """The cell and the layer; the state and what the helper reads; outputs, state and lengths."""
        helper, rows = self._helper, self._helper.rows
        bounds = [bound_cell(self._cell, helper.step_inputs, self._state)]
        kind = next(leaf.dtype for leaf in flatten(self._state) if leaf.dtype.is_floating)
        output = sized(self._cell.output_size, (rows,), kind)
        if self._layer is not None:
            bounds.append(_bound_layer(self._layer, self._cell.output_size, kind))
            output = Like(kind, (rows, self._layer.units))
        helper.trace(output, state_like(self._state))
        outputs = unspool.BasicDecoderOutput(output, helper.samples)
        results = map_structure(lambda leaf: _in_time(leaf, time_major), outputs), state_like(self._state)
        return bounds, (self._state, helper.inputs), (*results, Like(int32, (rows,)))

    def on_values(self, run: Run, modules: list[Any], *values: Any) -> Any:
        """Unspool's decoder, in one run."""
        state, read = values
        made = unspool.BasicDecoder(modules[0], self._helper.on_values(run, read), state, *modules[1:])
        made.models = run.state.kept((self, "models"), dict)
        return made


class BeamSearchDecoder(_Decoder):
    """`unspool.BeamSearchDecoder` in the graph; its lengths, the third result, are right for beams too.

    The arguments are those of unspool's, with tensors of the graph for values.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(unspool.BeamSearchDecoder).bind(*args, **kwargs).arguments
        check_flags(unspool.BeamSearchDecoder, given)
        assert_like_rnncell("cell", given["cell"])
        self._cell, self._layer = given.pop("cell"), given.pop("output_layer", None)
        _check_layer(self._layer)
        self._state = map_structure(as_leaf, given.pop("initial_state"))
        self._start = as_tensor(given.pop("start_tokens"))
        self._end = as_tensor(given.pop("end_token"))
        self._width = int(given["beam_width"])
        rows = None if self._start.dims is None else self._start.dims[0]
        self._rows: int | None = rows
        self._embedding, self._read = as_embedding(given.pop("embedding"), (rows, self._width))
        if not isinstance(self._embedding, Traced):
            check_logits(self._layer, self._cell, self._embedding.dims[0])
        self._options: dict[str, Any] = dict(given)

    def prepared(self, time_major: bool) -> tuple[list[Bound], tuple[Structure, ...], Structure]:
        """The cell and the layer; state, tokens and embedding; sequences, state and lengths."""
        rows, width, dims = self._rows, self._width, self._read.dims or (None, None)
        beams = None if rows is None else rows * width
        bounds = [bound_cell(self._cell, Like(self._read.dtype, (beams, *dims[2:])), self._state)]
        kind = next(leaf.dtype for leaf in flatten(self._state) if leaf.dtype.is_floating)
        if self._layer is not None:
            bounds.append(_bound_layer(self._layer, self._cell.output_size, kind))
        ids, scores = (_in_time(Like(each, (rows, width)), time_major) for each in (int32, kind))
        outputs = unspool.FinalBeamSearchDecoderOutput(ids, unspool.BeamSearchDecoderOutput(scores, ids, ids))  # pyright: ignore[reportArgumentType]
        state = unspool.BeamSearchDecoderState(
            map_structure(lambda leaf: self._beams_of(leaf), self._state),
            Like(kind, (rows, width)),  # pyright: ignore[reportArgumentType]
            Like(bool_, (rows, width)),  # pyright: ignore[reportArgumentType]
            Like(int64, (rows, width)),  # pyright: ignore[reportArgumentType]
            Like(kind, (rows, width, None)) if self._options.get("coverage_penalty_weight") else (),
        )
        embedding = self._embedding.inputs if isinstance(self._embedding, Traced) else [self._embedding]
        return bounds, (self._state, self._start, self._end, embedding), (outputs, state, Like(int32, (rows, width)))

    def _beams_of(self, leaf: Any) -> Any:
        if isinstance(leaf, TensorArray):
            return Like(leaf.dtype, None)  # stacked, in the order of the sequences
        return Like(leaf.dtype, leaf.dims if not leaf.dims else (self._rows, self._width, *leaf.dims[1:]))

    def on_values(self, run: Run, modules: list[Any], *values: Any) -> Any:
        """Unspool's decoder, in one run."""
        state, start, end, read = values
        embedding = self._embedding.on_values(run, read) if isinstance(self._embedding, Traced) else read[0]
        layer = modules[1] if len(modules) > 1 else None
        return unspool.BeamSearchDecoder(modules[0], embedding, start, end, state, output_layer=layer, **self._options)


def _in_time(leaf: Like, time_major: bool) -> Like:
    rows, *rest = leaf.dims or (None,)
    return Like(leaf.dtype, (None, rows, *rest) if time_major else (rows, None, *rest))


class OutputLayer(torch.nn.Module):
    """A dense layer whose weights are variables of the graph."""

    def __init__(self, kernel: torch.nn.Parameter, bias: torch.nn.Parameter | None, activation: Any) -> None:
        super().__init__()
        self.kernel, self.bias, self.activation = kernel, bias, activation

    @property
    def out_features(self) -> int:
        """The width of the result."""
        return self.kernel.shape[1]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The product, the bias and the activation."""
        made = inputs @ self.kernel
        made = made if self.bias is None else made + self.bias
        return made if self.activation is None else self.activation(made)


def _check_layer(layer: Any) -> None:
    if layer is not None and not hasattr(layer, "module_parts"):
        raise TypeError(f"output_layer must be a tf.layers.Dense, but is a {type(layer).__name__}")


def _bound_layer(layer: Any, size: Structure, kind: DType) -> Bound:
    """A `tf.layers.Dense` as a module."""
    if not layer.built:
        (width,) = shape_of(as_sizes(size))
        layer.dtype = layer.dtype or kind
        layer.build(width)
    kernel, bias, activation = layer.module_parts()
    weights: Weights = get_default_graph().kept(Weights)

    def weight(variable: Any) -> torch.nn.Parameter:
        blank = torch.nn.Parameter(torch.empty([int(each or 0) for each in variable.dims], dtype=variable.dtype.torch))
        weights.add(blank, variable)
        return blank

    module = OutputLayer(weight(kernel), None if bias is None else weight(bias), activation)
    return Bound(module, ())
