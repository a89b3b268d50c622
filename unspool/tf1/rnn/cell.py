"""Cells of the graph: one step on symbolic tensors."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from unspool.cells.like import snake_case
from unspool.flags import checks_flags
from unspool.sizes import shape_of
from unspool.structure import Containers, Structure, describe, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import DType, as_dtype
from unspool.tf1.functions import Like
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import shape, zeros
from unspool.tf1.rerolling.chains import CellCall, noted
from unspool.tf1.rnn.callbacks import CALLED, as_callback, trace_callbacks
from unspool.tf1.rnn.modules import Bound, Late, Naming, Traced, as_sizes
from unspool.tf1.scopes import VariableScope, cell_scope, get_variable, variable_scope
from unspool.tf1.seeds import seeded
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tables import together, whole
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.tensor_array import TensorArray
from unspool.tf1.variables import Variable

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class RNNCell:
    """One step of a recurrent network, on symbolic tensors: `output, new_state = cell(inputs, state)`.

    A cell of one's own sets `state_size` and `output_size`, makes its variables in `build(inputs_shape)` or where it
    uses them, and defines `call(inputs, state)`. A loop calls it once, and runs what it did at every step.

    Args:
        trainable: unused; say it of the variables.
        name: its name among the variables; by default its class in snake case.
        dtype: of its variables.

    >>> from unspool import tf1 as tf
    >>> class Leaky(tf.nn.rnn_cell.RNNCell):
    ...     state_size = output_size = 4
    ...     def call(self, inputs, state):
    ...         kernel = tf.get_variable("kernel", [7, 4])
    ...         state = 0.9 * state + 0.1 * tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
    ...         return state, state
    >>> outputs, state = tf.nn.dynamic_rnn(Leaky(), tf.placeholder(tf.float32, [None, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, [variable.name for variable in tf.trainable_variables()]
    (TensorShape([None, 5, 4]), ['rnn/leaky/kernel:0'])
    """

    built = False
    reuse: Any = None
    _scope: VariableScope | None = None
    _bound: Bound | None = None
    _numbered = False
    """Whether a second cell in the same scope gets a name of its own, as layers do, or asks for the same variables."""

    @checks_flags
    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, _reuse: Any = None) -> None:
        self.reuse = self.reuse if _reuse is None else _reuse
        self._name, self._dtype = name, None if dtype is None else as_dtype(dtype)

    @property
    def name(self) -> str:
        """Its name among the variables."""
        return getattr(self, "_name", None) or snake_case(type(self).__name__)

    @property
    def state_size(self) -> Structure:
        """The size of the state: an int, a `TensorShape`, or a structure of these."""
        raise NotImplementedError(f"{type(self).__name__} must define state_size")

    @property
    def output_size(self) -> Structure:
        """The size of the output: an int, a `TensorShape`, or a structure of these."""
        raise NotImplementedError(f"{type(self).__name__} must define output_size")

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables; called once, before the first step."""

    def call(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step."""
        raise NotImplementedError(f"{type(self).__name__} must define call(inputs, state)")

    def __call__(self, inputs: Structure, state: Structure, scope: Any = None) -> tuple[Structure, Structure]:
        """One step, in the cell's scope, building it first if it is new."""
        with self._entered(scope):
            if not self.built:
                self.build(map_structure(lambda leaf: as_tensor(leaf).shape, inputs))
                self.built = True
            return self.call(inputs, state)

    def _entered(self, scope: Any) -> Any:
        """The scope of the cell's variables: the one that it was first called in."""
        if self._scope is None:
            with cell_scope(self.name, scope, self.reuse, self._numbered) as found:
                self._scope = found
            return variable_scope(found, auxiliary_name_scope=False)
        # Its variables are there; a cell that asks for them by name at every call means those.
        return variable_scope(self._scope, reuse=True if self.built else None, auxiliary_name_scope=False)

    def __deepcopy__(self, memo: Any) -> RNNCell:
        """A cell of its own like this one, with variables of its own, which it makes or finds where it is called."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        kept = {key: value for key, value in vars(self).items() if key not in ("_scope", "_bound", "built")}
        vars(made).update(copy.deepcopy(kept, memo))
        return made

    def add_variable(
        self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, trainable: bool = True
    ) -> Variable:
        """A variable of the cell, for use in `build`."""
        return get_variable(name, shape, dtype or getattr(self, "_dtype", None), initializer, trainable=trainable)

    add_weight = add_variable

    @property
    def variables(self) -> list[Variable]:
        """Its variables, once it was called."""
        if self._bound is not None:
            return self._bound.variables
        return [] if self._scope is None else self._scope.global_variables()

    weights = property(lambda self: self.variables)

    @property
    def trainable_variables(self) -> list[Variable]:
        """Its variables that optimisers change by default."""
        return [each for each in self.variables if each.trainable]

    trainable_weights = property(lambda self: self.trainable_variables)

    def zero_state(self, batch_size: Any, dtype: Any) -> Structure:
        """Zeros in the structure of `state_size`, with so many rows: a number, or a scalar tensor.

        >>> from unspool import tf1 as tf
        >>> tf.nn.rnn_cell.LSTMCell(3).zero_state(2, tf.float32).h.shape
        TensorShape([2, 3])
        """
        rows = int(batch_size) if not isinstance(batch_size, Operators) else as_tensor(batch_size)
        return map_structure(lambda size: zeros([rows, *shape_of(size)], dtype), as_sizes(self.state_size))

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Structure:
        """`zero_state` for the rows and the dtype of one step's inputs, or for those given."""
        if inputs is not None:
            given = as_tensor(inputs)
            known = given.dims[0] if given.dims else None
            if isinstance(batch_size, int) and known is not None and known != batch_size:
                raise ValueError(f"batch size from input tensor is different from the argument: {known}, {batch_size}")
            if dtype is not None and given.dtype is not as_dtype(dtype):
                raise ValueError(f"dtype from input tensor is different from the argument: {given.dtype!r}, {dtype!r}")
            batch_size, dtype = shape(given)[0] if known is None else known, given.dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype cannot be None while constructing initial state.")
        return self.zero_state(batch_size, dtype)


class ModuleCell(RNNCell):
    """A cell of unspool, in the graph. It takes the same arguments, with tensors of the graph where values may differ.

    Subclasses say whose arguments, as `kind`.
    """

    kind: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._given = args, kwargs
        bound = inspect.signature(self.kind).bind(*args, **kwargs)
        self.reuse = bound.arguments.pop("reuse", None)
        late: list[tuple[str, Tensor]] = []
        inner: list[Bound] = []
        for name, value in bound.arguments.items():
            if isinstance(value, Operators):
                late.append((name, as_tensor(value)))
            bound.arguments[name] = as_callback(value) if name in CALLED else _as_argument(value, inner)
        self.module: Any = self.kind(*bound.args, **bound.kwargs)
        own = [Late(self.module, [tensor], _setter(name)) for name, tensor in late]
        names = [*(each for bound in inner for each in bound.names), Naming(self.module, self.reuse, self._numbered)]
        self._bound = Bound(self.module, [*(each for bound in inner for each in bound.late), *own], names=names)
        super().__init__(name=self.module.name, dtype=bound.arguments.get("dtype"))

    def __deepcopy__(self, memo: Any) -> ModuleCell:
        """A cell of its own, made with the same arguments, of which cells are copied too."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        args, kwargs = copy.deepcopy(self._given, memo)
        ModuleCell.__init__(made, *args, **kwargs)
        more = {key: value for key, value in vars(self).items() if key not in vars(made) and key != "_scope"}
        vars(made).update(copy.deepcopy(more, memo))
        return made

    @property
    def state_size(self) -> Structure:
        """The size of the state."""
        return self.module.state_size

    @property
    def output_size(self) -> Structure:
        """The size of the output."""
        return self.module.output_size

    @property
    def built(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its variables are made."""
        return self.module.built

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("module")
        if module is None or name.startswith("_") or not hasattr(module, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(module, name)

    def __call__(self, inputs: Structure, state: Structure, scope: Any = None) -> tuple[Structure, Structure]:
        """One step, building the cell first if it is new."""
        inputs, state = (map_structure(as_leaf, each) for each in (inputs, packed(self.state_size, state)))
        bound = bound_cell(self, inputs, state, scope)
        leaves = [leaf for leaf in flatten((inputs, state)) if not isinstance(leaf, TensorArray)]
        rows = next((leaf.dims[0] for leaf in leaves if leaf.dims), None)
        kind = flatten(state)[0].dtype if flatten(state) else flatten(inputs)[0].dtype
        outputs, new_state = sized(self.output_size, (rows,), kind), state_like(state)
        made = run_module(
            self.name, [bound], lambda modules, x, s: modules[0](x, s), (inputs, state), (outputs, new_state)
        )
        operation = as_flow(flatten(made)[0]).op
        output, after = made
        if not bound.draws:  # which a loop in the place of calls would not seed
            noted(operation, CellCall(bound, inputs, state, output, after, tuple(bound.inputs)))
        return made


class LayerCell(ModuleCell):
    """A cell of unspool that is one of TensorFlow's layers, which get numbers where several are in one scope."""

    _numbered = True


def packed(sizes: Any, state: Any) -> Structure:
    """The state in the cell's tuples: programs write `(c, h)` for an `LSTMStateTuple`, and TensorFlow takes it."""
    if not isinstance(sizes, tuple) or not isinstance(state, list | tuple) or len(sizes) != len(state):  # pyright: ignore[reportUnknownArgumentType]
        return state  # pyright: ignore[reportUnknownVariableType]
    parts = [packed(size, each) for size, each in zip(sizes, state, strict=True)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    kind: Any = type(state) if hasattr(state, "_fields") else type(sizes)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def sized(sizes: Structure, before: tuple[Any, ...], dtype: DType) -> Structure:
    """What has these sizes, after other axes."""
    return map_structure(lambda size: Like(dtype, (*before, *shape_of(size))), as_sizes(sizes))


def state_like(state: Structure) -> Structure:
    """What has the dtypes and shapes of a state."""
    return map_structure(lambda leaf: leaf if isinstance(leaf, TensorArray) else Like(leaf.dtype, leaf.dims), state)


def run_module(
    name: str,
    bounds: Sequence[Bound],
    function: Any,
    arguments: Structure,
    results: Structure,
    *,
    takes_run: bool = False,
    loops: bool = False,
) -> Structure:
    """An operation that calls `function` with modules and the values of `arguments`.

    Args:
        name: the operation's.
        bounds: the modules, of which the session has its own copies.
        function: takes a list of modules, and the arguments.
        arguments: a tuple of structures of tensors; None among them stays.
        results: the structure of `Like` that the function's result has; an array stands for one like it.
        takes_run: whether the function wants the run after the modules.
        loops: whether TensorFlow runs a loop for it.
    """
    for bound in bounds:
        bound.claim()
    leaves = [as_flow(leaf) for leaf in flatten(arguments) if leaf is not None]
    around = [bound.inputs for bound in bounds]
    variables = list(dict.fromkeys(each for bound in bounds for each in bound.variables))
    draws = [each for bound in bounds for each in bound.draws]

    given, made = Containers(arguments), Containers(results)
    there = [leaf is not None for leaf in flatten(arguments)]

    def compute(run: Run, *values: Any) -> Any:
        for variable in variables:
            run.state.value_of(variable)  # or an error that names it
        remaining, rest = iter(values), list(values[len(leaves) :])
        modules: list[Any] = []
        for bound, needed in zip(bounds, around, strict=True):
            modules.append(run.module(bound, rest[: len(needed)]))
            rest = rest[len(needed) :]
        filled = given.fill([next(remaining) if each else None for each in there])
        with seeded(run, draws) if draws else nullcontext():
            found = made.leaves(function(modules, run, *filled) if takes_run else function(modules, *filled))
        return found[0] if len(found) == 1 else found

    outputs = [(leaf.dtype, () if isinstance(leaf, TensorArray) else leaf.dims) for leaf in flatten(results)]
    inputs = [*leaves, *(tensor for group in around for tensor in group)]
    read = together([whole(inputs), *(bound.reads for bound in bounds)], looped=loops)
    flow = apply("RNN", compute, *inputs, name=name, outputs=outputs, takes_run=True, variables=variables, reads=read)
    flows = [flow] if isinstance(flow, Tensor) else flow
    flows[0].op.modules = tuple(bounds)
    pairs = zip(flatten(results), flows, strict=True)
    return unflatten_as(results, [like.with_flow(x) if isinstance(like, TensorArray) else x for like, x in pairs])


def as_leaf(leaf: Any) -> Any:
    """A leaf of inputs or of a state: a tensor, or an array."""
    return leaf if isinstance(leaf, TensorArray) else as_tensor(leaf)


def as_flow(leaf: Any) -> Tensor:
    """What carries a leaf of a state through the graph."""
    return leaf.flow if isinstance(leaf, TensorArray) else as_tensor(leaf)


def bound_cell(cell: Any, inputs: Structure, state: Structure, scope: Any = None, any_output: bool = False) -> Bound:
    """The module of any cell, built for one step's symbolic `inputs`, its variables below the current scope.

    Args:
        cell: the cell.
        inputs, state: what a step reads.
        scope: of the variables, in the place of one named after the cell.
        any_output: whether the cell may put out another structure than its `output_size` says.

    Raises:
        ValueError: if it does so and may not.
    """
    bound = module_of(cell)
    bound.build(inputs, state, scope)
    leaves = [leaf for leaf in flatten((inputs, state)) if not isinstance(leaf, TensorArray)]
    rows = next((leaf.dims[0] for leaf in leaves if leaf.dims), None)
    kinds = (leaf.dtype.torch for leaf in leaves if leaf.dtype.is_floating)
    trace_callbacks(bound.module, rows, next(kinds, torch.float32))
    if isinstance(bound.module, Traced) and not any_output and not bound.module.puts_out_what_it_says():
        raise ValueError(
            f"the cell's output is {describe(bound.module.output)}, but its output_size is {cell.output_size!r}"
        )
    _probe(bound, inputs, state)
    return bound


def _probe(bound: Bound, inputs: Structure, state: Structure) -> None:
    """Tries a step on tensors without values, so that what does not fit is an error when the graph is built."""
    if bound.inputs or any(isinstance(each, Traced) for each in bound.module.modules()):
        return  # what is traced was tried, and what is only known in a run cannot be
    rows = next((leaf.dims[0] for leaf in flatten((inputs, state)) if leaf.dims and leaf.dims[0] is not None), 3)

    def blank(leaf: Tensor) -> torch.Tensor:
        sizes = [rows if place == 0 and size is None else size or 0 for place, size in enumerate(leaf.dims or ())]
        return torch.empty(sizes, dtype=leaf.dtype.torch, device="meta")

    try:
        with torch.no_grad():
            copy.deepcopy(bound.module).to("meta")(*(map_structure(blank, each) for each in (inputs, state)))
    except (NotImplementedError, RuntimeError):
        return  # not everything can be tried without values: the run will tell


def module_of(cell: Any) -> Bound:
    """A cell as a module: unspool's inside a `ModuleCell`, or one that runs what a cell's call does."""
    if getattr(cell, "_bound", None) is None:
        cell._bound = Bound(Traced(cell), [])
    return cell._bound


def _as_argument(value: Any, inner: list[Bound]) -> Any:
    """An argument as the cells of unspool take it; its cells are added to `inner`."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_as_argument(each, inner) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, RNNCell) or (
        hasattr(value, "state_size") and hasattr(value, "output_size") and not isinstance(value, torch.nn.Module)
    ):
        bound = module_of(value)
        inner.append(bound)
        return bound.module
    if isinstance(value, Operators):
        return torch.ones((), dtype=as_tensor(value).dtype.torch)
    if isinstance(value, DType):
        return value.torch
    return as_sizes(value) if isinstance(value, TensorShape) else value


def _setter(name: str) -> Any:
    return lambda module, value: setattr(module, name, value)
