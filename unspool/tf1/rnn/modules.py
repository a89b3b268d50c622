"""Cells of the graph as modules: what unspool's loops run, with a session's variables as their weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from unspool.cells.building import Initializer, witnessed_initializers
from unspool.cells.cell import RNNCell
from unspool.cells.layer import glorot_uniform
from unspool.cells.like import variables_of
from unspool.sizes import shape_of
from unspool.structure import Structure, flatten, map_structure, same_structure, unflatten_as
from unspool.tf1.dtypes import as_dtype
from unspool.tf1.functions import Function, Like
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.initializers import Initializer as GraphInitializer
from unspool.tf1.scopes import VariableScope, cell_scope, get_variable, resumed, variable_scope
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import Dimension, TensorShape
from unspool.tf1.tables import Reads, together, whole
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import Variable

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class Weights:
    """The variables of a graph that stand for the weights of modules."""

    def __init__(self) -> None:
        self._variables: dict[torch.Tensor, Variable] = {}

    def __contains__(self, weight: torch.Tensor) -> bool:
        return weight in self._variables

    def of(self, module: torch.nn.Module) -> dict[torch.Tensor, Variable]:
        """The variable of each weight of a module."""
        return {weight: self._variables[weight] for weight in module.parameters() if weight in self._variables}

    def absorb(self, other: Weights) -> None:
        """Adds those of another graph, whose operations came into this one."""
        self._variables.update(other._variables)

    def add(self, weight: torch.Tensor, variable: Variable) -> None:
        """Lets a variable stand for a weight."""
        self._variables[weight] = variable


class Late:
    """Something of a module that is only known when the graph runs: a keep probability, the memory of an attention.

    Args:
        owner: the module.
        inputs: the tensors that it depends on.
        put: called with the module and the values of the tensors.
    """

    def __init__(self, owner: torch.nn.Module, inputs: Sequence[Tensor], put: Callable[..., None]) -> None:
        self.owner, self.inputs, self.put = owner, list(inputs), put


class Naming(NamedTuple):
    """How a cell finds its variables by name."""

    module: torch.nn.Module
    reuse: Any
    """Whether they must be there already, or may be."""
    numbered: bool
    """Whether a second cell in the same scope gets a name of its own."""


class Sealed:
    """Hides a value from whoever walks through the attributes of a module, copies included."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: Any) -> Sealed:
        return self


class Traced(RNNCell):
    """A cell whose step is written with operations of the graph, as a module that runs on values.

    Args:
        cell: has `state_size`, `output_size` and a call that takes symbolic tensors.
    """

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self._cell = Sealed(cell)
        self._function = Sealed(None)
        self._run = Sealed(None)
        self._sources: tuple[int | str, ...] = ()
        self._outside: list[torch.Tensor] = []
        self.scope: Any = None
        """Where the cell's variables are made: a scope and a path below it, or None if the scope is the cell's own."""

    @property
    def state_size(self) -> Structure:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cell's."""
        return as_sizes(self._cell.value.state_size)

    @property
    def output_size(self) -> Structure:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cell's; what it puts out instead if that is another structure."""
        declared = as_sizes(self._cell.value.output_size)
        if self._function.value is None or self.puts_out_what_it_says():
            return declared
        return map_structure(_row_size, self.output)

    @property
    def output(self) -> Structure:
        """What a step puts out, as symbolic tensors, once it was traced."""
        return self._function.value.result[0]

    def puts_out_what_it_says(self) -> bool:
        """Whether a step's output has the structure of the cell's output size."""
        return same_structure(as_sizes(self._cell.value.output_size), self.output)

    def build(self, input_size: Any, **where: Any) -> None:
        """Calls the cell once, on symbolic tensors."""
        kind = as_dtype(where.get("dtype") or torch.float32)
        sizes = input_size, self.state_size
        self.trace(*map_structure(lambda size: Like(kind, (None, *shape_of(size))), sizes))

    def trace(self, inputs: Structure, state: Structure) -> None:
        """Calls the cell once, on tensors like these."""
        cell = self._cell.value
        scope, path = self.scope or (None, "")
        self.scope = None

        def call(x: Any, s: Any) -> Any:
            if scope is None:
                return cell(x, s)
            with resumed(scope):
                if path is None:
                    return cell(x, s, scope)
                if not path:
                    return cell(x, s)
                with variable_scope(path):
                    return cell(x, s)

        # Constants hang on the module, where the engine finds them.
        function = Function(call, inputs, state, lifts_constants=True)
        if function.has_effects:
            raise ValueError(
                f"the step of {type(cell).__name__} assigns to a variable: a loop may run what it does for many steps "
                "at once; carry what changes in the state"
            )
        self._function = Sealed(function)
        sources: list[int | str] = []
        weights: Weights = get_default_graph().kept(Weights)
        for tensor in function.captured:
            if tensor.op.type != "VariableV2":
                sources.append(sum(isinstance(each, int) for each in sources))
                continue
            (variable,), name = tensor.op.variables, f"weight_{len(sources)}"
            self._hang(name, variable, weights)
            sources.append(name)
        for number, bound in enumerate(
            function.modules
        ):  # its own, in every copy, so that the engine sees their weights
            self.add_module(f"cell_{number}", bound.module)
        known = set(weights.of(self).values())
        for number, variable in enumerate(function.variables):
            if variable not in known:  # a loop or a branch inside reads it: a gradient must find it all the same
                self._hang(f"inner_{number}", variable, weights)
        for constant in function.constants:
            name = f"constant_{len(sources)}"
            self.register_buffer(name, constant, persistent=False)
            sources.append(name)
        self._sources = tuple(sources)
        self.built = True

    def _hang(self, name: str, variable: Variable, weights: Weights) -> None:
        sizes = [size or 0 for size in variable.dims or ()]
        blank = torch.nn.Parameter(torch.empty(sizes, dtype=variable.dtype.torch), False)
        self.register_parameter(name, blank)
        weights.add(blank, variable)

    @property
    def outside(self) -> list[Tensor]:
        """What the step reads of the graph around it, besides variables."""
        pairs = zip(self._function.value.captured, self._sources, strict=False)
        return [tensor for tensor, source in pairs if isinstance(source, int)]

    @property
    def reads(self) -> Reads:
        """How the step reads variables."""
        return self._function.value.reads

    @property
    def draws(self) -> list[Draw]:
        """What the step draws from torch's own generators."""
        function: Function | None = self._function.value
        return function.draws if function is not None and function.is_closed else []

    @property
    def runs(self) -> bool:
        """Whether it is a session's copy, which has values."""
        return self._run.value is not None

    def put(self, run: Run, values: Sequence[torch.Tensor]) -> None:
        """Gives the step what it reads of the graph around it."""
        if not self.runs:
            function: Function = self._function.value
            self._run = Sealed(run.alone(function.variables) if function.is_closed else run)
        self._outside = list(values)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step."""
        function: Function = self._function.value
        around = [self._outside[each] if isinstance(each, int) else getattr(self, each) for each in self._sources]
        cells = {bound: getattr(self, f"cell_{number}") for number, bound in enumerate(function.modules)}
        values = function(self._run.value.inside(cells), [*flatten(inputs), *flatten(state), *around])
        return unflatten_as(function.result, values)

    def variables(self) -> Any:
        """Itself, in the place of the names that only a call of the cell can tell."""
        yield "", self


def as_sizes(sizes: Structure) -> Structure:
    """Sizes as unspool has them."""
    return map_structure(_as_size, sizes)


def _as_size(size: Any) -> Any:
    if isinstance(size, TensorShape):
        if not size.is_fully_defined():
            raise ValueError(f"a size must be fully defined, but is {size}")
        return torch.Size([int(each or 0) for each in size.as_list()])
    return int(size) if isinstance(size, Dimension) else size


class Bound:
    """A module whose weights are variables of the graph.

    Args:
        module: a cell of unspool, perhaps with `Traced` ones inside.
        late: what of it is only known when the graph runs.
        runs_steps: whether steps are run; one that never does needs nothing of what they read, and may come before it.
        names: how the module, and cells inside it, find their variables.
    """

    def __init__(
        self, module: Any, late: Sequence[Late], runs_steps: bool = True, names: Sequence[Naming] = ()
    ) -> None:
        self.module, self._runs_steps, self.names = module, runs_steps, list(names)
        self.late = list(late)
        self._owner: Graph | None = None

    def claim(self) -> None:
        """Belongs to the current graph, in which its variables are, from the first use on.

        Raises:
            ValueError: in another graph.
        """
        current = get_default_graph().root
        self._owner = self._owner or current
        if self._owner is not current:
            name = getattr(self.module, "name", type(self.module).__name__)
            raise ValueError(f"{name} has its variables in another graph: make a new one for this graph")

    def build(self, inputs: Structure, state: Structure, scope: Any = None) -> None:
        """Makes the variables, below the current scope or in the one given, for one step's symbolic `inputs`."""
        self.claim()
        if self.module.built:
            return
        scopes = {head: self._entered(head, scope) for head in _heads(self.module)}
        for path, owner in variables_of(self.module):
            if isinstance(owner, Traced):
                head, _, rest = path.partition("/")
                owner.scope = (scopes.get(head), rest.rstrip("/")) if head else None
                if not head and scope is not None:
                    with variable_scope(scope, auxiliary_name_scope=False) as entered:
                        owner.scope = entered, None
        leaves = [leaf for leaf in flatten((inputs, state)) if leaf.dtype.is_floating]
        dtype = leaves[0].dtype.torch if leaves else None
        if isinstance(self.module, Traced):
            self.module.trace(inputs, state)
            return
        with witnessed_initializers() as initializers, torch.random.fork_rng(devices=[]):
            self.module.build(map_structure(_row_size, inputs), dtype=dtype)
        self._name(scopes, initializers)

    def _entered(self, head: str, scope: Any) -> VariableScope:
        """The scope of the variables whose names begin with `head`."""
        paths = {owner: path for path, owner in variables_of(self.module)}

        def opens(cell: torch.nn.Module) -> bool:  # a cell deeper inside has other paths than the whole module
            return any(
                path.partition("/")[0] == head and paths.get(owner) == path for path, owner in variables_of(cell)
            )

        openers = [each for each in self.names if opens(each.module)]
        reuse = next((each.reuse for each in openers if each.reuse), None)
        with cell_scope(head, scope, reuse, all(each.numbered for each in openers), names_operations=False) as entered:
            return entered

    def _name(self, scopes: dict[str, VariableScope], initializers: dict[torch.Tensor, Initializer]) -> None:
        weights: Weights = get_default_graph().kept(Weights)
        reused: dict[torch.Tensor, Any] = {
            weight: each.reuse for each in reversed(self.names) if each.reuse for weight in each.module.parameters()
        }
        for path, weight in variables_of(self.module):
            if isinstance(weight, Traced) or weight in weights:
                continue
            head, slash, rest = path.partition("/")
            initializer = _as_graph_initializer(initializers.get(weight))
            details: dict[str, Any] = dict(
                shape=list(weight.shape), dtype=weight.dtype, initializer=initializer, trainable=weight.requires_grad
            )
            if not slash:
                weights.add(weight, get_variable(path, **details))
                continue
            with variable_scope(scopes[head], reuse=reused.get(weight), auxiliary_name_scope=False):
                weights.add(weight, get_variable(rest, **details))

    @property
    def variables(self) -> list[Variable]:
        """The variables that stand for the weights."""
        graph = self._owner or get_default_graph().root
        return list(dict.fromkeys(graph.kept(Weights).of(self.module).values()))

    @property
    def reads(self) -> Reads:
        """How its variables are read: by rows perhaps in a step that is traced, as a whole in any other."""
        modules: list[Any] = list(self.module.modules())
        weights: Weights = (self._owner or get_default_graph().root).kept(Weights)
        traced = [each for each in modules if isinstance(each, Traced)]
        own = [weight for each in modules if each not in traced for weight in each.parameters(recurse=False)]
        variables = weights.of(self.module)
        wholes = whole(variables[weight].value() for weight in own if weight in variables)
        return together([wholes, *(each.reads for each in traced if self._runs_steps)])

    @property
    def draws(self) -> list[Draw]:
        """What its steps draw by a seed of the graph's."""
        traced = [each for each in self.module.modules() if isinstance(each, Traced)] if self._runs_steps else []
        return [draw for each in traced for draw in each.draws if draw.seed is not None]

    @property
    def inputs(self) -> list[Tensor]:
        """What it needs of a run besides inputs and state."""
        return [tensor for late in self._all_late() for tensor in late.inputs]

    @property
    def fixed(self) -> bool:
        """Whether nothing about a session's copy changes between runs but the values of its weights."""
        return not self.inputs and not any(isinstance(each, Traced) for each in self.module.modules())

    def _all_late(self) -> list[Late]:
        modules = self.module.modules() if self._runs_steps else ()
        traced = [module for module in modules if isinstance(module, Traced)]
        return [*self.late, *(Late(each, each.outside, Traced.put) for each in traced)]

    def in_run(self, run: Run, values: Sequence[torch.Tensor]) -> Any:
        """The session's copy of the module, with the values of what it needs of the run."""
        assert self._owner is not None
        graph = self._owner

        def make() -> tuple[Any, list[tuple[Late, Any]]]:
            weights = graph.kept(Weights).of(self.module)
            memo: dict[int, Any] = {id(weight): run.state.place_of(variable) for weight, variable in weights.items()}
            module = copy.deepcopy(self.module, memo).to(run.state.device)
            _forget_initializers(module)
            return module, [(late, memo[id(late.owner)]) for late in self._all_late()]

        module, waiting = run.state.kept(self, make)
        remaining = iter(values)
        for late, owner in waiting:
            given = [next(remaining) for _ in late.inputs]
            if isinstance(owner, Traced):
                owner.put(run, given)
            else:
                late.put(owner, *given)
        return module


def _forget_initializers(module: torch.nn.Module) -> None:
    """Takes away what filled the weights: no step needs it, and no two copies would be planned alike with it."""
    for each in module.modules():
        for name, value in vars(each).items():
            if isinstance(value, GraphInitializer):
                setattr(each, name, None)


def _heads(module: Any) -> list[str]:
    """The first parts of the names of what has no variable yet."""
    weights: Weights = get_default_graph().kept(Weights)
    found = [path.partition("/")[0] for path, weight in variables_of(module) if "/" in path and weight not in weights]
    return list(dict.fromkeys(found))


def _row_size(leaf: Tensor) -> Any:
    sizes = (leaf.dims or ())[1:]
    if leaf.dims is None or None in sizes:
        raise ValueError(f"Input size (depth of inputs) must be accessible via shape inference, but saw {leaf!r}")
    known = [int(size or 0) for size in sizes]
    return known[0] if len(known) == 1 else torch.Size(known)


def _as_graph_initializer(initializer: Initializer | None) -> Any:
    """What fills a weight, as an initialiser of variables; None for the scope's."""
    if initializer is None or initializer is glorot_uniform:
        return None
    return initializer if isinstance(initializer, GraphInitializer) else _Filling(initializer)


class _Filling(GraphInitializer):
    """An initialiser of torch's kind, which fills the tensor it is given or returns another."""

    def __init__(self, fill: Initializer) -> None:
        super().__init__()
        self.fill = fill

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        with torch.random.fork_rng(devices=[], enabled=generator is not None):
            if generator is not None:  # what torch's own functions draw comes from its global generator
                torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            made = self.fill(blank)
        return made if isinstance(made, torch.Tensor) else blank
