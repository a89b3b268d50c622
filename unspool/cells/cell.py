"""The contract of a cell: one step of a recurrent network.

    output, new_state = cell(inputs, state)

Everything else in this package either is a cell or runs one through time.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unspool import sizes
from unspool.dtypes import as_dtype
from unspool.structure import Structure, flatten, map_structure

Initializer = Callable[[Tensor], Any]
"""Fills a new weight in place, as the functions of `torch.nn.init` do."""


class RNNCell(nn.Module):
    """One step of a recurrent network: `output, new_state = cell(inputs, state)`.

    A cell is a module with a `state_size` and an `output_size` (an int, a `torch.Size`, or any nested structure of
    these) whose `forward(inputs, state)` returns an output and a state of those sizes. Set the sizes in `__init__` or
    define them as properties.

    A cell that wants to know its input size before it makes its weights overrides `build(input_size, **where)`, which
    is called once, at first use; `where` holds the `dtype` and `device` of the first inputs. Weights that are declared
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
    ...     def build(self, input_size, **where):
    ...         self.mix = nn.Linear(input_size + self.state_size, self.output_size, **where)
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
    built: bool

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None) -> None:
        super().__init__()
        self.trainable = trainable
        self.name = name or snake_case(type(self).__name__)
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.built = False
        # What a weight is before anybody says otherwise: a difference at build time means `.to()` was called.
        blank = torch.empty(0)
        self._unmoved = (blank.dtype, blank.device)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = _build_once(cls.build)

    def __getattr__(self, name: str) -> Any:
        # Not properties, so that a subclass may assign them, yet a cell without them says so.
        if name in ("state_size", "output_size") and not hasattr(type(self), name):
            raise NotImplementedError(f"{type(self).__name__} must define {name}: set it in __init__")
        return super().__getattr__(name)

    def __call__(self, inputs: Structure, state: Structure, scope: str | None = None) -> tuple[Any, Any]:
        """Runs one step, building the cell first if it is new. `scope` names a profiler range."""
        self.ensure_built(inputs, state)
        if scope is None:
            return super().__call__(inputs, state)
        with torch.profiler.record_function(scope):
            return super().__call__(inputs, state)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Any, Any]:
        """One step: the output and the new state for `inputs` and `state`."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(inputs, state)")

    # -- building ----------------------------------------------------------------------------------------------------

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for inputs of `input_size`; override it for weights that depend on the input size.

        Args:
            input_size: the size of one row of the inputs, in their structure: an int for `[batch, n]` inputs.
            where: the `dtype` and `device` for new weights, as torch's own modules take them.
        """
        self.built = True

    def ensure_built(self, inputs: Structure, state: Structure = ()) -> None:
        """Builds the cell for one step's `inputs`, unless it is built already.

        New weights get the device of the inputs and their dtype, or the state's where the inputs are token ids.
        """
        if self.built:
            return
        self.check_inputs(inputs)
        leaves = [leaf for leaf in flatten(inputs) if isinstance(leaf, Tensor)]
        typed = [*leaves, *(leaf for leaf in flatten(state) if isinstance(leaf, Tensor))]
        dtype = next((leaf.dtype for leaf in typed if leaf.is_floating_point() or leaf.is_complex()), None)
        device = leaves[0].device if leaves else None
        self.build(map_structure(sizes.size_of, inputs), dtype=dtype, device=device)

    def check_inputs(self, inputs: Structure) -> None:
        """Raises if the cell cannot take `inputs`; called before the cell is built for them."""

    def declare_weights(self, *names: str) -> None:
        """Registers weights whose shapes `build` will know, in the order of TensorFlow's variables."""
        for name in names:
            weight: Any = UnbuiltWeight(requires_grad=self.trainable)  # a Parameter, whatever its annotations say
            self.register_parameter(name, weight)

    def add_weight(self, name: str, shape: Sequence[int], initializer: Initializer, **where: Any) -> None:
        """Makes the weight `name`, declared or not, and fills it.

        Its dtype is the cell's own, else what the cell was converted to, else the one in `where`; its device likewise.
        """
        if name not in self._parameters:
            self.declare_weights(name)
        self._materialize(name, shape, **where)
        with torch.no_grad():
            initializer(getattr(self, name))

    def has_uninitialized_params(self) -> bool:
        """Whether a declared weight is still without its shape (torch's name for it)."""
        return any(isinstance(weight, UnbuiltWeight) for weight in self._parameters.values())

    def _materialize(self, name: str, shape: Sequence[int], dtype: torch.dtype | None = None, device: Any = None):
        weight = self._parameters[name]
        if not isinstance(weight, UnbuiltWeight):
            raise ValueError(f"{type(self).__name__}: the weight {name!r} is made already")
        was_converted, was_moved = weight.dtype != self._unmoved[0], weight.device != self._unmoved[1]
        dtype = self.dtype or (weight.dtype if was_converted else dtype)
        weight.materialize(tuple(shape), dtype=dtype, device=weight.device if was_moved else device)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> RNNCell:
        unbuilt = [name for name, weight in self._parameters.items() if isinstance(weight, UnbuiltWeight)]
        super()._apply(fn, recurse)
        for name in unbuilt:
            # A move between kinds of devices, to "meta" say, makes torch put a new parameter in the place of the old.
            moved: Any = self._parameters[name]
            if not isinstance(moved, UnbuiltWeight):
                make: Any = UnbuiltWeight
                self._parameters[name] = make(moved.requires_grad, moved.device, moved.dtype)
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # Loading gives an unbuilt cell its shapes; it is built once every declared weight has one.
        was_unbuilt = self.has_uninitialized_params()
        for name, weight in self._parameters.items():
            loaded = state_dict.get(prefix + name)
            if isinstance(weight, UnbuiltWeight) and loaded is not None and not isinstance(loaded, UnbuiltWeight):
                self._materialize(name, loaded.shape, loaded.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if was_unbuilt and not self.has_uninitialized_params():
            self.built = True

    # -- states ------------------------------------------------------------------------------------------------------

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros in the structure of `state_size`, each leaf of shape `[batch_size] + size`.

        >>> from unspool import LSTMCell
        >>> LSTMCell(3).zero_state(2, "float32").h.shape
        torch.Size([2, 3])
        """
        if isinstance(batch_size, Tensor) and batch_size.dim() != 0:
            raise ValueError(f"batch_size must be a scalar, but has shape {list(batch_size.shape)}")
        if int(batch_size) < 0:
            raise ValueError(f"batch_size must not be negative, but is {int(batch_size)}")
        return sizes.zeros(self.state_size, int(batch_size), as_dtype(dtype), device)

    def get_initial_state(
        self, inputs: Tensor | None = None, batch_size: int | Tensor | None = None, dtype: Any = None
    ) -> Structure:
        """`zero_state` for the batch size and dtype of one step's `inputs`, or for those given.

        Raises:
            ValueError: if they contradict `inputs`, or if neither `inputs` nor both of them are given.
        """
        dtype = None if dtype is None else as_dtype(dtype)
        if inputs is not None:
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
        return {name: getattr(self, name) for name in constructor_arguments(type(self))}

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


class UnbuiltWeight(UninitializedParameter):
    """A weight without its shape; a torch `UninitializedParameter` that can also be saved, frozen and pickled.

    It becomes an ordinary parameter, the same object, when its cell is built: an optimiser that holds it goes on.
    """

    def detach(self) -> UnbuiltWeight:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Itself: there is nothing to cut off yet, and `state_dict` detaches what it stores."""
        return self

    def requires_grad_(self, mode: bool = True) -> UnbuiltWeight:
        """Freezes or thaws the weight before it is made."""
        self.requires_grad = mode
        return self

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


def assert_like_rnncell(name: str, cell: Any) -> None:
    """Raises `TypeError` unless `cell` (the argument `name`) has what a cell has: sizes, an initial state, a call.

    >>> assert_like_rnncell("cell", torch.nn.Linear(2, 3))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: The argument 'cell' (Linear...) is not an RNNCell: 'output_size' is missing, 'state_size' is missing, ...
    """
    missing = [f"{size!r} is missing" for size in ("output_size", "state_size") if not hasattr(cell, size)]
    if not (hasattr(cell, "get_initial_state") or hasattr(cell, "zero_state")):
        missing.append("'zero_state' or 'get_initial_state' is required")
    if not callable(cell):
        missing.append("it is not callable")
    if isinstance(cell, type):
        missing = [f"it is the class {cell.__name__}, not a cell made from it"]
    if missing:
        raise TypeError(f"The argument {name!r} ({cell!r}) is not an RNNCell: {', '.join(missing)}")


def initial_state_of(cell: Any, batch_size: Any, dtype: torch.dtype, device: Any) -> Structure:
    """The initial state of anything that looks like a cell; `get_initial_state` is preferred, as in TensorFlow."""
    if not hasattr(cell, "get_initial_state"):
        return zero_state_of(cell, batch_size, dtype, device)
    with _device(device):
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)


def zero_state_of(cell: Any, batch_size: Any, dtype: torch.dtype, device: Any) -> Structure:
    """`zero_state` of anything that looks like a cell."""
    with _device(device):
        return cell.zero_state(batch_size, dtype)


def _device(device: Any) -> AbstractContextManager[Any]:
    # Cells ported from TensorFlow have no `device` argument, so the device is set around the call.
    return nullcontext() if device is None else torch.device(device)


def start_sequence(cell: Any) -> None:
    """Tells `cell`, and every cell inside it, that a sequence begins."""
    modules: list[Any] = list(cell.modules()) if isinstance(cell, nn.Module) else [cell]
    for module in modules:
        if hasattr(module, "start_sequence"):
            module.start_sequence()


def variables_of(cell: Any) -> Iterator[tuple[str, Tensor]]:
    """`variables()` of anything that looks like a cell; a module that does not name its weights has torch's names."""
    if hasattr(cell, "variables"):
        yield from cell.variables()
    elif isinstance(cell, nn.Module):
        for name, weight in cell.named_parameters():
            yield f"{snake_case(type(cell).__name__)}/{name.replace('.', '/')}", weight


def snake_case(name: str) -> str:
    """TensorFlow's layer name of a class.

    >>> snake_case("BasicLSTMCell"), snake_case("GRUCell")
    ('basic_lstm_cell', 'gru_cell')
    """
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


def constructor_arguments(cls: type) -> list[str]:
    """The names of the arguments of a class, which its objects keep under the same names."""
    return list(inspect.signature(cls).parameters)


def _build_once(build: Callable[..., None]) -> Callable[..., None]:
    """Marks a cell as built when its outermost `build` returns, and refuses to build it again."""

    @functools.wraps(build)
    def wrapper(self: RNNCell, input_size: Any, **where: Any) -> None:
        if self.built:
            raise RuntimeError(f"{type(self).__name__} is built already; make a new cell for another input size")
        build(self, input_size, **where)
        self.built = True

    return wrapper
