"""The contract of a cell: one step of a recurrent network.

    output, new_state = cell(inputs, state)

Everything else in this package either is a cell or runs one through time.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from unspool import sizes
from unspool.cells import fresh
from unspool.cells.building import Buildable
from unspool.cells.like import snake_case, zero_state_of
from unspool.dtypes import as_dtype, may_mix
from unspool.flags import checks_flags
from unspool.structure import Structure, flatten, map_structure

_MISSING: Any = object()
"""A state that was not given; None may be one."""


class RNNCell(Buildable):
    """One step of a recurrent network: `output, new_state = cell(inputs, state)`.

    A cell is a module with a `state_size` and an `output_size` (an int, a `torch.Size`, or any nested structure of
    these) whose `forward(inputs, state)` returns an output and a state of those sizes. Set the sizes in `__init__` or
    define them as properties.

    A cell that wants to know its input size before it makes its weights overrides `build(input_size)`, which is called
    once, at first use; what it makes is moved to the dtype and device of the first inputs. (Written as
    `build(input_size, **where)`, it gets them as `where`, to make the weights there at once.) Weights that are declared
    in `__init__` with `declare_weights` and made in `build` with `add_weight` follow torch's conventions for lazy
    modules: the cell can be moved, copied, pickled, loaded and given to an optimiser before it is built.

    Args:
        trainable: whether the weights require gradients.
        name: the cell's name among TensorFlow's variables; by default its class in snake case.
        dtype: the dtype of the weights; by default that of the first inputs.

    >>> class Leaky(RNNCell):
    ...     def __init__(self, units):
    ...         super().__init__()
    ...         self.state_size = self.output_size = units
    ...     def build(self, input_size):
    ...         self.mix = torch.nn.Linear(input_size + self.state_size, self.output_size)
    ...     def forward(self, x, h):
    ...         h = 0.9 * h + 0.1 * torch.tanh(self.mix(torch.cat([x, h], 1)))
    ...         return h, h
    >>> cell = Leaky(3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, cell.mix.weight.shape
    (torch.Size([2, 3]), torch.Size([3, 8]))
    """

    state_size: Any
    output_size: Any

    @checks_flags
    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None) -> None:
        weight_dtype = None if dtype is None else as_dtype(dtype)
        super().__init__(trainable, weight_dtype)
        self.dtype = weight_dtype  # TensorFlow's name for it; a wrapper may mean another by it
        self.name = name or snake_case(type(self).__name__)

    def __getattr__(self, name: str) -> Any:
        modules = vars(self).get("_modules", ())
        if name in modules:  # which is what wrappers ask for, again and again
            return modules[name]
        # Not properties, so that a subclass may assign them, yet a cell without them says so.
        if name in ("state_size", "output_size") and not hasattr(type(self), name):
            raise NotImplementedError(f"{type(self).__name__} must define {name}: set it in __init__")
        if name == "built":
            raise AttributeError(f"{type(self).__name__} must call super().__init__() before anything else")
        return super().__getattr__(name)

    def __call__(self, inputs: Structure, state: Structure = _MISSING, scope: str | None = None) -> tuple[Any, Any]:
        """Runs one step, building the cell first if it is new. `scope` names a profiler range."""
        if state is _MISSING:
            raise TypeError(
                f"a {type(self).__name__} is one step, cell(inputs, state), and the state is missing: cell.zero_state("
                "batch_size, dtype) is a first one. Over whole sequences, unspool.RNN(cell)(inputs) runs it, or "
                "dynamic_rnn(cell, inputs)"
            )
        self.ensure_built(inputs, state)
        if scope is None:
            return super().__call__(inputs, state)
        with torch.profiler.record_function(scope):
            return super().__call__(inputs, state)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Any, Any]:
        """One step: the output and the new state for `inputs` and `state`."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(inputs, state)")

    def ensure_built(self, inputs: Structure, state: Structure = ()) -> None:
        """Builds the cell for one step's `inputs`, unless it is built already.

        New weights get the device of the inputs and their dtype, or the state's where the inputs are token ids. What
        autocast has made of inputs is not theirs: weights are then of torch's default dtype, as layers' are.
        """
        if self.built:
            return
        self.check_inputs(inputs, state)
        leaves = [leaf for leaf in flatten(inputs) if isinstance(leaf, Tensor)]
        typed = [*leaves, *(leaf for leaf in flatten(state) if isinstance(leaf, Tensor))]
        dtype = next((leaf.dtype for leaf in typed if leaf.is_floating_point() or leaf.is_complex()), None)
        device = leaves[0].device if leaves else None
        if device is not None and may_mix(device) and dtype == torch.get_autocast_dtype(device.type):
            dtype = torch.get_default_dtype()
        self.build(map_structure(sizes.size_of, inputs), dtype=dtype, device=device)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """Raises if the cell cannot take `inputs` and `state`; called before the cell is built for them."""

    # -- states ------------------------------------------------------------------------------------------------------

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros in the structure of `state_size`, each leaf of shape `[batch_size] + size`.

        >>> from unspool import LSTMCell
        >>> LSTMCell(3).zero_state(2, "float32").h.shape
        torch.Size([2, 3])
        """
        if isinstance(batch_size, Tensor) and batch_size.dim() != 0:
            raise ValueError(f"batch_size must be a scalar, but has shape {list(batch_size.shape)}")
        rows: Any = batch_size if isinstance(batch_size, torch.SymInt) else int(batch_size)  # a symbol stays one
        if rows < 0:
            raise ValueError(f"batch_size must not be negative, but is {rows}")
        return sizes.zeros(self.state_size, rows, as_dtype(dtype), device)

    def get_initial_state(
        self, inputs: Tensor | None = None, batch_size: int | Tensor | None = None, dtype: Any = None
    ) -> Structure:
        """`zero_state` for the batch size and dtype of one step's `inputs`, or for those given.

        Raises:
            ValueError: if they contradict `inputs`, or if neither `inputs` nor both of them are given.
        """
        dtype = None if dtype is None else as_dtype(dtype)
        if inputs is not None:
            inputs = torch.as_tensor(inputs)
            if batch_size is not None and int(batch_size) != inputs.shape[0]:
                raise ValueError(
                    f"batch size from input tensor is different from the argument: inputs have {inputs.shape[0]} rows, "
                    f"batch_size is {int(batch_size)}"
                )
            if dtype is not None and dtype != inputs.dtype:
                raise ValueError(
                    f"dtype from input tensor is different from the argument: inputs are {inputs.dtype}, "
                    f"dtype is {dtype}"
                )
            batch_size, dtype = inputs.shape[0], inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                f"batch_size and dtype cannot be None without inputs: batch_size is {batch_size}, dtype is {dtype}"
            )
        return zero_state_of(self, batch_size, dtype, None if inputs is None else inputs.device)

    def start_sequence(self) -> None:
        """Called by every loop before its first step: what is drawn once a sequence is drawn anew."""

    def reset_parameters(self) -> None:
        """Draws the weights anew, in place, as they were drawn when they were made.

        A cell whose weights are made in `__init__` and that does not keep the arguments of that as attributes, so that
        another like it could be made, overrides this.

        Raises:
            NotImplementedError: if it would have to.

        >>> from unspool import GRUCell
        >>> cell = GRUCell(4, input_size=3)
        >>> before = cell.gates_kernel.detach().clone()
        >>> cell.reset_parameters()
        >>> bool((cell.gates_kernel == before).any())
        False
        """
        fresh.reset(self)

    # -- names -------------------------------------------------------------------------------------------------------

    variable_names: dict[str, str] = {}
    """TensorFlow's name, below the cell's own, of each weight that does not bear it already."""

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The cell's weights by TensorFlow's names below the loop's scope, in the order TensorFlow makes them."""
        for name, weight in self.named_parameters(remove_duplicate=False):
            yield f"{self.name}/{self.variable_names.get(name, name.replace('.', '/'))}", weight

    # -- configuration -----------------------------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another cell like this one, without its weights."""
        arguments = inspect.signature(type(self)).parameters
        for name in arguments:
            if not hasattr(self, name):
                kind = type(self).__name__
                raise NotImplementedError(f"{kind} does not keep its argument {name!r}: it must override get_config")
        return {name: getattr(self, name) for name in arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> RNNCell:
        """A new cell from what `get_config` returned."""
        return cls(**config)

    def extra_repr(self) -> str:
        """The arguments that were given, for `print(cell)`."""
        arguments = inspect.signature(type(self)).parameters.values()
        values = [(each, getattr(self, each.name, each.default)) for each in arguments]
        plain = (int, float, str, bool, torch.dtype, torch.device)
        given = [(each, value) for each, value in values if isinstance(value, plain) and value != each.default]
        default_name = snake_case(type(self).__name__)
        return ", ".join(f"{each.name}={value!r}" for each, value in given if value != default_name)
