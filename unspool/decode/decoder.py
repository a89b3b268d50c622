"""Decoders: what one step of decoding is. `dynamic_decode` takes one after another until all rows are finished."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool import sizes
from unspool.cells.rows_first import as_decoded_cell
from unspool.decode.blocks import Blocks
from unspool.decode.free_running import FreeRunning
from unspool.decode.helpers.helper import Helper, as_shape
from unspool.decode.helpers.training import TrainingHelper
from unspool.decode.models import ClosedModel, Layered, Model
from unspool.dtypes import as_dtype
from unspool.engine import CannotPlanError, Code, Options, Reason, Request, entry, fall_back
from unspool.flags import checks_flags
from unspool.loops.arguments import begin, check_state_rows
from unspool.loops.tensors import as_tensors
from unspool.step import gradient_sources, step
from unspool.structure import Structure, check_namedtuples, describe, flatten, map_structure
from unspool.tracers import recorder
from unspool.wrapped import run_wrapped

IN_BLOCKS = ("cuda",)
"""Devices on which launching a step takes longer than the step."""


class Decoder(ABC):
    """What `dynamic_decode` runs: where decoding starts, one step of it, and what becomes of the result.

    A decoder says how many rows there are (`batch_size`) and what a step puts out for one of them (`output_size` and
    `output_dtype`, structures with the containers of the outputs).

    >>> class CountDown(Decoder):
    ...     batch_size, output_size, output_dtype = 2, torch.Size([]), torch.int64
    ...     def initialize(self):
    ...         start = torch.tensor([3, 1])
    ...         return start == 0, start, ()
    ...     def step(self, time, inputs, state):
    ...         return inputs, state, inputs - 1, inputs == 1
    >>> from unspool.decode import dynamic_decode
    >>> outputs, _, lengths = dynamic_decode(CountDown())
    >>> outputs
    tensor([[3, 2, 1],
            [1, 0, 0]])
    >>> lengths
    tensor([3, 1], dtype=torch.int32)
    """

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many rows are decoded."""

    @property
    @abstractmethod
    def output_size(self) -> Structure:
        """The size of one row of what a step puts out."""

    @property
    @abstractmethod
    def output_dtype(self) -> Structure:
        """The dtype of each tensor that a step puts out."""

    @abstractmethod
    def initialize(self) -> tuple[Any, Structure, Structure]:
        """`(finished, inputs, state)` before the first step; `finished` has a bool for every row."""

    @abstractmethod
    def step(self, time: int, inputs: Structure, state: Structure) -> tuple[Structure, Structure, Structure, Any]:
        """`(outputs, next_state, next_inputs, finished)` for step number `time`, from 0."""

    def finalize(self, outputs: Structure, final_state: Structure, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """The result of the loop, from its outputs, time-major, its last state and the lengths of its rows."""
        return outputs, final_state

    def sequence_lengths(self, final_state: Structure) -> Tensor | None:
        """The lengths of the rows, where steps reorder them; None where the loop can count them."""
        return None

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `finished` is all there is to say. If not, a row that was finished once stays finished."""
        return False

    @property
    def bound(self) -> int | None:
        """The number of steps after which all rows are surely finished; None where only the model can tell."""
        return None

    @property
    def output_padding(self) -> Structure:
        """What stands past the end of a row: a number for each tensor of the outputs; None for zeros."""
        return None

    def weights(self) -> list[Tensor]:
        """What a step sends gradients to besides inputs and state; without any step, the gradients are zero."""
        return []

    def known_steps(self, steps: int, options: Options) -> tuple[Structure, Structure, Tensor] | None:
        """At most so many steps in one go, if all inputs are known: time-major outputs, final state, lengths."""
        return None

    def in_blocks(self, inputs: Structure) -> Blocks | None:
        """A decode from the start, where no row is finished, by blocks of steps, if there is such a way."""
        return None

    def free_running(self, inputs: Structure, state: Structure) -> FreeRunning | None:
        """A decode from there that leaves finished rows out, if there is such a way; None if all rows have to run."""
        return None


class BasicDecoderOutput(NamedTuple):
    """What a `BasicDecoder` puts out: the model's output, such as logits, and what the helper made of it.

    >>> BasicDecoderOutput(rnn_output=torch.zeros(2, 5), sample_id=torch.zeros(2)).sample_id
    tensor([0., 0.])
    """

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell, a layer over its outputs, and a helper that samples from these and says what is read next.

        output, state = cell(inputs, state)
        output = output_layer(output)
        sample_id = helper.sample(time, output, state)
        finished, inputs, state = helper.next_inputs(time, output, state, sample_id)

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call.
        helper: a `Helper`: what the samples and the next inputs are.
        initial_state: where the cell starts.
        output_layer: applied to the cell's output before anything is sampled: any function, such as `nn.Linear`. It is
            run once on zeros to find the size of its output.
        keep_outputs: whether the model's outputs are returned. If only the samples matter, `rnn_output` can be left
            empty: the logits of a whole decode take far more memory than its ids.

    Raises:
        TypeError: if `cell` is no cell, `helper` no `Helper`, or `output_layer` cannot be called.
        ValueError: if the state does not fit.

    >>> from unspool import GRUCell
    >>> from unspool.decode import GreedyEmbeddingHelper, dynamic_decode
    >>> helper = GreedyEmbeddingHelper(nn.Embedding(10, 4), start_tokens=[1, 1, 1], end_token=2)
    >>> cell = GRUCell(8)
    >>> decoder = BasicDecoder(cell, helper, cell.zero_state(3, torch.float32), nn.Linear(8, 10))
    >>> outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=5)
    >>> outputs.rnn_output.shape[2], outputs.sample_id.shape[0], lengths.shape
    (10, 3, torch.Size([3]))
    """

    @checks_flags
    def __init__(
        self,
        cell: Any,
        helper: Helper,
        initial_state: Structure,
        output_layer: Callable[[Any], Any] | None = None,
        *,
        keep_outputs: bool = True,
    ) -> None:
        cell = as_decoded_cell("cell", cell)
        is_helper = isinstance(helper, Helper)  # pyright: ignore[reportUnnecessaryIsInstance]
        _check_instance("helper", helper, is_helper, "a Helper")
        if output_layer is not None:
            _check_instance("output_layer", output_layer, callable(output_layer), "a module or a function")
        if isinstance(initial_state, torch.dtype):
            raise TypeError(f"initial_state is {initial_state}, but must be a state, such as cell.zero_state(...)")
        state = as_tensors(initial_state, "initial_state")
        check_namedtuples(cell.state_size, state, name="initial_state", like="cell.state_size")
        self.cell, self.helper, self.output_layer = cell, helper, output_layer
        self.initial_state, self.keep_outputs = state, bool(keep_outputs)
        self._output: Structure = None
        self.models: dict[Any, Any] = {}
        """What was made of the cell and the layer to be planned. Plans of cells that are not like any other are found
        again only by these, so whoever makes a decoder of the same parts again and again shares them."""

    @property
    def batch_size(self) -> int:
        """The helper's."""
        return self.helper.batch_size

    @property
    def output_size(self) -> Structure:
        """The size of the output layer's output, or of the cell's without one, and of the helper's samples."""
        return BasicDecoderOutput(
            map_structure(sizes.size_of, self._zeros_out()) if self.keep_outputs else (),
            as_shape("helper.sample_ids_shape", self.helper.sample_ids_shape),
        )

    @property
    def output_dtype(self) -> Structure:
        """The dtype of the output layer's output, or of the state without one, and of the helper's samples."""
        return BasicDecoderOutput(
            map_structure(lambda leaf: leaf.dtype, self._zeros_out()) if self.keep_outputs else (),
            as_dtype(self.helper.sample_ids_dtype),
        )

    @property
    def output_padding(self) -> Structure:
        """Zeros, and the end token where the helper knows one."""
        zeros = map_structure(lambda _: 0, self._zeros_out()) if self.keep_outputs else ()
        return BasicDecoderOutput(zeros, self.helper.end_token or 0)

    @property
    def bound(self) -> int | None:
        """The helper's."""
        return self.helper.bound

    def weights(self) -> list[Tensor]:
        """Those of the cell and of the output layer."""
        return [*gradient_sources(self.cell), *gradient_sources(self.output_layer)]

    def initialize(self) -> tuple[Any, Structure, Structure]:
        """The helper's start and the initial state; the cell is built, for a new sequence."""
        finished, inputs = self.helper.initialize()
        inputs = as_tensors(inputs, "inputs")
        check_state_rows(self.initial_state, self.batch_size, "initial_state")
        self._output = None
        self.helper.check_outputs(map_structure(sizes.size_of, self._zeros_out()))
        begin(self.cell, inputs, self.initial_state)
        return finished, inputs, self.initial_state

    def step(self, time: int, inputs: Structure, state: Structure) -> tuple[Structure, Structure, Structure, Any]:
        """One step of the cell, its output layer and the helper."""
        output, cell_state = step(self.cell, inputs, state)
        if self.output_layer is not None:
            output = self.output_layer(output)
        sample_ids = self.helper.sample(time=time, outputs=output, state=cell_state)
        finished, next_inputs, next_state = self.helper.next_inputs(
            time=time, outputs=output, state=cell_state, sample_ids=sample_ids
        )
        return self.as_output(output, sample_ids), next_state, next_inputs, finished

    def as_output(self, output: Structure, sample_ids: Tensor) -> BasicDecoderOutput:
        """What a step puts out."""
        return BasicDecoderOutput(output if self.keep_outputs else (), sample_ids)

    def known_steps(self, steps: int, options: Options) -> tuple[Structure, Structure, Tensor] | None:
        """With teacher forcing, a decode is a loop over known inputs, and the engine runs it as such."""
        if not self._steps_are_own or type(self.helper) is not TrainingHelper or self.helper.bound is None:
            return None
        zeros = self._zeros_out()
        steps, cell = min(steps, self.helper.longest), self.cell
        if self.output_layer is not None:
            cell = self._model(Layered, map_structure(sizes.size_of, zeros))
        lengths = self.helper.lengths.clamp(max=steps)
        inputs = map_structure(lambda leaf: leaf[:steps], self.helper.inputs)
        dtype = flatten(zeros)[0].dtype
        request = Request(cell, inputs, lengths, self.initial_state, dtype, options, self.cell)
        outputs, state = run_wrapped(request, lambda each: entry.run(each))
        running = torch.arange(steps, device=lengths.device)[:, None] < lengths
        ids = torch.where(running, outputs.argmax(-1), self.helper.end_token or 0).int()
        return self.as_output(outputs, ids), state, lengths.int()

    def _model(self, kind: Callable[..., Any], *details: Any) -> Any:
        """The cell and the layer as one cell, always the same for the same details."""
        if recorder() is not None:  # sizes are no numbers then
            return kind(self.cell, self.output_layer, *details)
        key = (kind, id(self.cell), id(self.output_layer), repr(details))
        if key not in self.models:
            self.models[key] = kind(self.cell, self.output_layer, *details)
        return self.models[key]

    @property
    def _steps_are_own(self) -> bool:
        """Whether no subclass has another idea of a step."""
        return type(self).step is BasicDecoder.step and type(self).initialize is BasicDecoder.initialize

    def in_blocks(self, inputs: Structure) -> Blocks | None:
        """On a GPU, where the largest logit is what is read next."""
        helper = self.helper.of_rows()
        if not self._steps_are_own or helper is None or not helper.takes_largest:
            return None
        zeros, start = self._zeros_out(), self.initial_state
        device = flatten(zeros)[0].device
        if device.type not in IN_BLOCKS or not self.batch_size or self._wants_gradients(inputs, start):
            return None
        size = map_structure(sizes.size_of, zeros) if self.keep_outputs else ()
        embedding, tokens, end_token = helper.vocabulary()
        model = ClosedModel(self.cell, self.output_layer, embedding, size, end_token)
        ids = tokens.long()
        nothing, state = torch.empty(len(ids), 0, device=device), (start, ids, torch.zeros_like(ids, dtype=torch.bool))
        try:
            said = len(flatten(start))
            stepper = entry.Stepper(model, nothing, state, flatten(zeros)[0].dtype, self.cell, watched=[said])
        except CannotPlanError as error:
            fall_back(self.cell, "is not decoded in blocks of steps", error.reason)
            return None
        padding = self.output_padding
        paddings = [0] * (len(flatten(size)) + 1) if padding is None else flatten(padding)
        return Blocks(stepper, self.as_output, paddings, state, end_token)

    def _wants_gradients(self, inputs: Structure, state: Structure) -> bool:
        """Whether somebody may ask for gradients."""
        tensors = [each for each in [*flatten(inputs), *flatten(state)] if isinstance(each, Tensor)]
        if isinstance(self.cell, nn.Module):
            tensors += self.cell.buffers()  # the memory of an attention is one
        return torch.is_grad_enabled() and any(each.requires_grad for each in [*self.weights(), *tensors])

    def free_running(self, inputs: Structure, state: Structure) -> FreeRunning | None:
        """By planned steps, where the helper follows rows, the cell can be planned, and nobody wants gradients."""
        helper = self.helper.of_rows()
        if helper is None or not self._steps_are_own or self._wants_gradients(inputs, state):
            whose = self if helper is not None else self.helper
            why = Reason(Code.DECODER, f"a {type(whose).__qualname__} says itself what a step is")
            if helper is not None and self._steps_are_own:
                why = Reason(Code.ASKED, "somebody may want gradients: torch.no_grad() says that nobody does")
            fall_back(self.cell, "is decoded with all rows at every step", why)
            return None
        zeros = self._zeros_out()
        size = map_structure(sizes.size_of, zeros) if self.keep_outputs or not helper.takes_largest else ()
        model = self._model(Model, size, helper.takes_largest)
        ids = torch.zeros(self.batch_size, dtype=torch.int64, device=flatten(zeros)[0].device)
        try:
            stepper = entry.Stepper(model, inputs, (state, ids), flatten(zeros)[0].dtype, self.cell)
        except CannotPlanError as error:
            fall_back(self.cell, "is decoded with all rows at every step", error.reason)
            return None
        return FreeRunning(stepper, helper, self.keep_outputs, inputs, state)

    def _zeros_out(self) -> Structure:
        """What zeros in the place of the cell's output come to: tensors with the sizes and dtypes of the outputs."""
        if self._output is None:
            found = [leaf for leaf in flatten(self.initial_state) if isinstance(leaf, Tensor)]
            like = next((leaf for leaf in found if leaf.is_floating_point()), found[0] if found else None)
            if like is None:
                raise ValueError("initial_state has no tensor, so the dtype of the cell's output is unknown")
            self._output = sizes.zeros(self.cell.output_size, self.batch_size, like.dtype, like.device)
            if self.output_layer is not None:
                with torch.no_grad(), _evaluating(self.output_layer):
                    self._output = self.output_layer(self._output)
        return self._output


@contextmanager
def _evaluating(layer: Any) -> Generator[None]:
    """A layer that is only asked for its size shall not count that as training."""
    modules = list(layer.modules()) if isinstance(layer, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _check_instance(name: str, value: Any, fits: bool, expected: str) -> None:
    if isinstance(value, type):
        raise TypeError(f"{name} must be {expected}, but is the class {value.__name__}, not something made from it")
    if not fits:
        raise TypeError(f"{name} must be {expected}, but is {describe(value)}: {value!r}")
