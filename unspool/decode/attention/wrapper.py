"""A cell that looks at a memory at every step."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool import sizes
from unspool.cells.layer import check_matrix, check_same_dtype, check_width
from unspool.cells.like import ensure_built_for, variables_of, zero_state_of
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.decode.attention.layers import AttentionFn, attention_layers, compute_attention, listed, width_of
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.decode.attention.state import AttentionWrapperState
from unspool.dtypes import as_dtype
from unspool.flags import checks_flags
from unspool.loops.tensors import as_tensors
from unspool.structure import Structure, describe, flatten, map_structure
from unspool.tensor_array import TensorArray
from unspool.tracers import static_shape


class AttentionWrapper(RNNCellWrapper):
    """A cell that looks at a memory at every step (Bahdanau et al., 2015; Luong et al., 2015).

        cell_output, cell_state     = cell(cat[inputs, attention], cell_state)
        alignments, attention_state = attention_mechanism(cell_output, attention_state)
        context                     = alignments @ attention_mechanism.values
        attention                   = attention_layer(cat[cell_output, context]), or the context itself
        output                      = attention, or cell_output

    Its state is an `AttentionWrapperState`. The memory of a batch is given to the mechanism by `setup_memory`; a state
    that starts from an encoder's is `wrapper.zero_state(batch_size, dtype).clone(cell_state=...)`.

    Args:
        cell: the cell to wrap; its output must be one matrix.
        attention_mechanism: an `AttentionMechanism`, or a list of several, whose attentions stand side by side.
        attention_layer_size: the width of the attention, made by a dense layer without bias; one for each mechanism.
            None, without an `attention_layer`, makes the context the attention.
        alignment_history: whether the state keeps the alignments of all steps, in a `TensorArray`; the loop then runs
            step by step. For a row that has ended it holds what the step computed all the same.
        cell_input_fn: `cell_input_fn(inputs, attention)`, to combine them otherwise than side by side.
        output_attention: whether to put out the attention (Luong) or the cell's output (Bahdanau).
        initial_cell_state: the cell's state in `zero_state`, for one batch; the cell's own by default.
        name: the name above its variables in TensorFlow; "attention_wrapper" by default.
        attention_layer: a module in the place of the dense layer, `nn.Linear` say, with `out_features`, or with a layer
            in it that has them; one for each mechanism.
        attention_fn: `attention_fn(mechanism, cell_output, attention_state, attention_layer)`, in the place of lines
            two to four above; returns the attention, the alignments and the next attention state.
        dtype: the dtype of the weights; by default that of the first inputs.

    Raises:
        TypeError: if an argument is not of its type.
        ValueError: if there is not one layer, or its size, for each mechanism, or both are given, or the rows of
            `initial_cell_state` are not those of the memory.

    >>> from unspool import LSTMCell, dynamic_rnn
    >>> from unspool.decode import LuongAttention
    >>> cell = AttentionWrapper(LSTMCell(4), LuongAttention(4), attention_layer_size=6)
    >>> cell.attention_mechanisms[0].setup_memory(torch.randn(2, 7, 5), memory_sequence_length=[7, 3])
    >>> outputs, state = dynamic_rnn(cell, torch.randn(2, 9, 3), [9, 4], dtype=torch.float32)
    >>> outputs.shape, state.alignments.shape, state.time
    (torch.Size([2, 9, 6]), torch.Size([2, 7]), tensor([9, 4]))
    """

    @checks_flags
    def __init__(
        self,
        cell: Any,
        attention_mechanism: AttentionMechanism | Sequence[AttentionMechanism],
        attention_layer_size: int | Sequence[int] | None = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Tensor], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Structure = None,
        name: str | None = None,
        attention_layer: nn.Module | Sequence[nn.Module] | None = None,
        attention_fn: AttentionFn | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(cell)
        mechanisms, self._several = listed(attention_mechanism)
        if not mechanisms:
            raise ValueError("attention_mechanism is empty: AttentionWrapper needs at least one mechanism")
        for mechanism in mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError(f"attention_mechanism must be an AttentionMechanism, but is {describe(mechanism)}")
        for argument, function in (("cell_input_fn", cell_input_fn), ("attention_fn", attention_fn)):
            if function is not None and not callable(function):
                raise TypeError(f"{argument} must be callable, but got {function!r}")
        if attention_layer is not None and attention_layer_size is not None:
            raise ValueError("only one of attention_layer_size and attention_layer may be given: both say the width")
        self.name = name or self.name
        self.dtype = self.weight_dtype = None if dtype is None else as_dtype(dtype)
        self.attention_mechanisms = nn.ModuleList(mechanisms)
        sizes_given = isinstance(attention_layer_size, list)
        self.attention_layer_size = tuple(attention_layer_size) if sizes_given else attention_layer_size
        self.alignment_history = alignment_history
        self.cell_input_fn = cell_input_fn
        self.output_attention = output_attention
        self.attention_fn = attention_fn
        self._own_layers = attention_layer is None
        layers = attention_layers(attention_layer_size, attention_layer, len(mechanisms), self.weight_dtype)
        self.attention_layers = nn.ModuleList(layers)
        self._layer_widths = tuple(map(width_of, layers))
        self.initial_cell_state = None
        if initial_cell_state is not None:
            self.initial_cell_state = as_tensors(initial_cell_state, "initial_cell_state")
            for mechanism in mechanisms:
                if mechanism.has_memory():
                    self._check_cell_state_rows(mechanism.batch_size)

    # -- sizes -------------------------------------------------------------------------------------------------------

    @property
    def mechanisms(self) -> list[AttentionMechanism]:
        """The mechanisms, in order."""
        return list(self.attention_mechanisms)  # pyright: ignore[reportReturnType]

    @property
    def row_buffers(self) -> list[str]:
        """The buffers that have one row per row of the batch, by their dotted names: all that mechanisms keep.

        A step reads what belongs to a batch from its inputs, its state and these buffers, and from nowhere else.
        """
        return [
            f"{path}.{name}"
            for path, module in named_modules(self)
            if isinstance(module, AttentionMechanism)
            for name in module.row_buffers
        ]

    @property
    def attention_size(self) -> int:
        """The width of the attention; -1, an unknown size, while it is that of a memory that was never given."""
        widths = self._layer_widths or tuple(mechanism.memory_depth for mechanism in self.mechanisms)
        return -1 if -1 in widths else sum(widths)

    @property
    def output_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The width of the attention, or the cell's output size."""
        return self.attention_size if self.output_attention else self.cell.output_size

    @property
    def state_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """An `AttentionWrapperState` of sizes; that of the alignments changes with the memory."""
        places = self._each([mechanism.alignments_size for mechanism in self.mechanisms])
        return AttentionWrapperState(
            cell_state=self.cell.state_size,
            attention=self.attention_size,
            time=torch.Size([]),
            alignments=places,
            alignment_history=places if self.alignment_history else (),
            attention_state=self._each([mechanism.state_size for mechanism in self.mechanisms]),
        )

    def _each(self, values: list[Any]) -> Any:
        """A tuple with an entry for each mechanism, or for a mechanism by itself its entry."""
        return tuple(values) if self._several else values[0]

    # -- building ----------------------------------------------------------------------------------------------------

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the mechanisms for the cell's output, the cell for inputs and attention, and the attention layers."""
        for mechanism in self.mechanisms:
            if mechanism.memory_depth < 0:
                mechanism.check_memory()
        query_size = check_width(self.cell.output_size, self.name)
        if self.cell_input_fn is None:
            cell_input_size: Any = check_width(input_size, self.name) + self.attention_size
        else:
            inputs, attention = sizes.zeros((input_size, self.attention_size), 1, **where)
            with torch.no_grad():
                cell_input_size = map_structure(sizes.size_of, self.cell_input_fn(inputs, attention))
        for mechanism in self.mechanisms:
            ensure_built_for(mechanism, query_size, **where)
        self.build_cell(cell_input_size, **where)
        for mechanism, layer in zip(self.mechanisms, self.attention_layers, strict=False):
            ensure_built_for(layer, query_size + mechanism.memory_depth, **where)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """Raises unless there is a memory, and inputs and state can be those of a step."""
        for mechanism in self.mechanisms:
            mechanism.check_memory()
        _check_state(state)
        if self.cell_input_fn is None:
            check_matrix(self.name, inputs)
            check_same_dtype(self.name, inputs, state)

    # -- one step ----------------------------------------------------------------------------------------------------

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> AttentionWrapperState:
        """The state before the first step, for the memory that is set up.

        Raises:
            ValueError: if a mechanism has no memory, or `batch_size` is not the number of its rows or of those of
                `initial_cell_state`.
        """
        rows, dtype = operator.index(batch_size), as_dtype(dtype)
        for mechanism in self.mechanisms:
            if mechanism.batch_size != rows:
                raise ValueError(
                    f"{self.name}: Non-matching batch sizes: the memory of {mechanism.name} has {mechanism.batch_size} "
                    f"rows, but batch_size is {rows}; for beams, give setup_memory tile_batch(memory, beam_width) and "
                    "zero_state batch_size * beam_width"
                )
        device = self.mechanisms[0].values.device if device is None else device
        if self.initial_cell_state is None:
            cell_state = zero_state_of(self.cell, rows, dtype, device)
        else:
            self._check_cell_state_rows(rows)
            cell_state = self.initial_cell_state
        alignments = [mechanism.initial_alignments(rows, dtype) for mechanism in self.mechanisms]
        history = [TensorArray(dtype, element_shape=each.shape) for each in alignments]
        return AttentionWrapperState(
            cell_state=cell_state,
            attention=torch.zeros(rows, self.attention_size, dtype=dtype, device=device),
            time=torch.zeros(rows, dtype=torch.int64, device=device),
            alignments=self._each(alignments),
            alignment_history=self._each(history) if self.alignment_history else (),
            attention_state=self._each([mechanism.initial_state(rows, dtype) for mechanism in self.mechanisms]),
        )

    def _check_cell_state_rows(self, rows: int) -> None:
        for leaf in flatten(self.initial_cell_state):
            if isinstance(leaf, Tensor) and leaf.dim() and static_shape(leaf)[0] != rows:
                raise ValueError(
                    f"{self.name}: Non-matching batch sizes: initial_cell_state has shape {list(leaf.shape)}, but the "
                    f"memory has {rows} rows; for beams, give tile_batch(initial_cell_state, beam_width)"
                )

    def forward(self, inputs: Structure, state: AttentionWrapperState) -> tuple[Any, AttentionWrapperState]:
        """One step of the cell, and a look at the memory."""
        _check_state(state)
        cell_inputs = (self.cell_input_fn or self._side_by_side)(inputs, state.attention)
        cell_output, cell_state = self.cell(cell_inputs, state.cell_state)
        layers: list[Any] = list(self.attention_layers) or [None] * len(self.mechanisms)
        before = self._entries(state, "attention_state")
        look = self.attention_fn or compute_attention
        looks = [look(*each) for each in zip(self.mechanisms, [cell_output] * len(layers), before, layers, strict=True)]
        attentions, alignments, attention_states = [[each[k] for each in looks] for k in range(3)]
        attention = torch.cat(attentions, 1) if self._several else attentions[0]
        history = state.alignment_history
        if self.alignment_history:
            # At the end: the time of a row that has ended is not the loop's.
            arrays = self._entries(state, "alignment_history")
            history = self._each([old.write(old.size(), new) for old, new in zip(arrays, alignments, strict=True)])
        new_state = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._each(alignments),
            alignment_history=history,
            attention_state=self._each(attention_states),
        )
        return attention if self.output_attention else cell_output, new_state

    def _entries(self, state: AttentionWrapperState, field: str) -> list[Any]:
        """A field of the state as a list with an entry for each mechanism."""
        values: Any = getattr(state, field)
        if not self._several:
            return [values]
        if not isinstance(values, tuple | list) or len(values) != len(self.mechanisms):  # pyright: ignore[reportUnknownArgumentType]
            what = f"a tuple with one entry for each of {len(self.mechanisms)} mechanisms"
            raise ValueError(f"{self.name}: the state's {field} must be {what}, but is {describe(values)}")
        return list(values)  # pyright: ignore[reportUnknownArgumentType]

    def _side_by_side(self, inputs: Any, attention: Tensor) -> Tensor:
        check_matrix(self.name, inputs)
        if static_shape(inputs)[0] != static_shape(attention)[0]:
            have, expected = inputs.shape[0], attention.shape[0]
            raise ValueError(f"{self.name}: inputs have {have} rows, but the state has {expected}")
        return torch.cat([inputs, attention], 1)

    # -- names, configuration, copies --------------------------------------------------------------------------------

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The memory layers, which TensorFlow leaves in the scope around; below the wrapper's name all others.

        As in TensorFlow, a second of the same name is numbered: `memory_layer`, `memory_layer_1`.
        """
        inside = [list(mechanism.variables()) for mechanism in self.mechanisms]
        numbered = _Numbered()
        for named in inside:
            yield f"{numbered('memory_layer')}/kernel", named[0][1]
        for name, weight in (*variables_of(self.cell_input_fn), *variables_of(self.cell)):
            yield f"{self.name}/{name}", weight
        for mechanism, named in zip(self.mechanisms, inside, strict=True):
            scope = numbered(mechanism.name)
            for name, weight in named[1:]:
                yield f"{self.name}/{scope}/{name.removeprefix(mechanism.name + '/')}", weight
        for layer in self.attention_layers:
            if hasattr(layer, "variables"):  # it names its weights itself
                yield from ((f"{self.name}/{name}", weight) for name, weight in variables_of(layer))
                continue
            scope = numbered("attention_layer")
            for name, weight in layer.named_parameters():
                yield f"{self.name}/{scope}/{name.replace('.', '/')}", weight

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another wrapper like this one; the cell and mechanisms as classes and arguments.

        What belongs to a batch is left out: `initial_cell_state` and the memory.
        """
        mechanisms = [
            {"class_name": type(mechanism).__name__, "config": mechanism.get_config()} for mechanism in self.mechanisms
        ]
        return {
            "cell": {"class_name": type(self.cell).__name__, "config": self.cell.get_config()},
            "attention_mechanism": mechanisms if self._several else mechanisms[0],
            "attention_layer_size": self.attention_layer_size,
            "alignment_history": self.alignment_history,
            "cell_input_fn": self.cell_input_fn,
            "output_attention": self.output_attention,
            "name": self.name,
            "attention_layer": None if self._own_layers else self._each(list(self.attention_layers)),
            "attention_fn": self.attention_fn,
            "dtype": self.dtype,
        }

    def __getstate__(self) -> dict[str, Any]:
        # A copy has the numbers of the initial state, not its history, which cannot be copied.
        state = map_structure(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, self.initial_cell_state)
        return {**self.__dict__, "initial_cell_state": state}


class _Numbered:
    """Names as TensorFlow makes them different: `layer`, `layer_1`, `layer_2`."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def __call__(self, name: str) -> str:
        self._seen[name] += 1
        return name if self._seen[name] == 1 else f"{name}_{self._seen[name] - 1}"


def named_modules(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """All modules in `module`, under every name they have."""
    return list(module.named_modules(remove_duplicate=False))  # pyright: ignore[reportUnknownArgumentType]


def _check_state(state: Any) -> None:
    if not isinstance(state, AttentionWrapperState):
        raise TypeError(f"Expected state to be an AttentionWrapperState, but it is {describe(state)}")
