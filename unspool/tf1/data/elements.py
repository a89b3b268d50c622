"""What the elements of a dataset are like, and functions of them.

An element is a tensor, or tensors in tuples, namedtuples and dicts; lists become tensors, as everywhere in `tf.data`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unspool.structure import Structure, describe, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import variant
from unspool.tf1.functions import Function, Like
from unspool.tf1.operations import as_tensor
from unspool.tf1.shapes import Dims, TensorShape
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


@dataclass(frozen=True)
class Nested:
    """What an element is like that is a dataset itself, such as a window."""

    element: Structure


@dataclass
class Reading:
    """One way through a dataset: the run that began it, and the values of the tensors that the dataset reads.

    `kept` has what outlives an epoch of it, such as a cache.
    """

    run: Run
    values: Mapping[Tensor, Any]
    kept: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def inside(self, values: Mapping[Tensor, Any]) -> Reading:
        """The same, for a dataset that a function made of an element."""
        return Reading(self.run, values)


def as_element(value: Any) -> Structure:
    """Tensors in the tuples, namedtuples and dicts of a value."""
    return _mapped(as_tensor, value)


def as_result(value: Any) -> Structure:
    """The same for what a function returns: a list of tensors is meant as a tuple there."""
    return as_element(tuple(value) if isinstance(value, list) else value)  # pyright: ignore[reportUnknownArgumentType]


def _mapped(function: Callable[[Any], Any], value: Any) -> Structure:
    if isinstance(value, dict):
        made = {key: _mapped(function, each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return type(value)(made)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, tuple):
        parts = [_mapped(function, each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return function(value)


def specs_of(tensors: Structure) -> Structure:
    """What each tensor is like."""
    return map_structure(lambda each: Like(each.dtype, each.dims), tensors)


def with_dims(spec: Structure, change: Callable[[Dims], Dims]) -> Structure:
    """The same with other shapes."""
    return map_structure(lambda each: Like(each.dtype, change(each.dims)), spec)


def types_of(spec: Structure) -> Structure:
    """The dtypes in the structure of an element."""
    return map_structure(lambda each: each.dtype if isinstance(each, Like) else variant, spec)


def shapes_of(spec: Structure) -> Structure:
    """The shapes in the structure of an element."""
    return map_structure(lambda each: TensorShape(each.dims if isinstance(each, Like) else ()), spec)


def spec_from(output_types: Any, output_shapes: Any) -> Structure:
    """What elements of such dtypes and shapes are like; without shapes they are unknown."""
    from unspool.tf1.dtypes import as_dtype

    kinds = _mapped(as_dtype, output_types)
    if output_shapes is None:
        return map_structure(lambda kind: Like(kind, None), kinds)
    shapes = leaves_up_to(kinds, output_shapes, "output_shapes", "output_types")
    made = [Like(kind, TensorShape(shape).sizes) for kind, shape in zip(flatten(kinds), shapes, strict=True)]
    return unflatten_as(kinds, made)


def leaves_up_to(like: Structure, value: Any, name: str, of: str) -> list[Any]:
    """What stands in `value` at the leaves of another structure, containers or not: shapes may be tuples.

    Raises:
        ValueError: if `value` has no such parts.
    """
    if isinstance(like, dict):
        if not isinstance(value, dict) or like.keys() != value.keys():  # pyright: ignore[reportUnknownMemberType]
            raise ValueError(f"{name} must have the structure of {of}, {describe(like)}, but is {value!r}")
        return [leaf for key in sorted(like) for leaf in leaves_up_to(like[key], value[key], name, of)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(like, tuple):
        if not isinstance(value, tuple | list) or len(like) != len(value):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{name} must have the structure of {of}, {describe(like)}, but is {value!r}")
        return [
            leaf
            for one, other in zip(like, value, strict=True)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            for leaf in leaves_up_to(one, other, name, of)
        ]
    return [value]


class Stage(ABC):
    """One stage of a pipeline: what its elements are like, where they come from, and how to go through them.

    Args:
        element: what elements are like.
        inputs: the stages before it.
        tensors: the tensors of the graph that it reads itself, when a reading begins.
    """

    def __init__(self, element: Structure, inputs: Sequence[Stage] = (), tensors: Sequence[Tensor] = ()) -> None:
        self.element, self.inputs, self.tensors = element, tuple(inputs), tuple(tensors)

    def reads(self) -> list[Tensor]:
        """The tensors that this stage and those before it read."""
        own = [*self.tensors, *(each for stage in self.inputs for each in stage.reads())]
        return list(dict.fromkeys(own))

    @abstractmethod
    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """The values of the tensors of each element."""


class FromVariant(Stage):
    """The elements of a dataset that is itself part of an element: a tensor's value is the list of them."""

    def __init__(self, tensor: Tensor, element: Structure) -> None:
        super().__init__(element, tensors=[tensor])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """What the list has."""
        return iter(reading.values[self.tensors[0]])


class ElementFunction:
    """A Python function of the parts of an element, called once with symbolic tensors.

    Args:
        function: takes the element, or its parts one by one if it is a tuple.
        element: what elements are like.
        makes: takes what the function returned to the structure of tensors that is computed.
    """

    def __init__(
        self, function: Callable[..., Any], element: Structure, makes: Callable[[Any], Structure] = as_result
    ) -> None:
        leaves: list[Any] = flatten(element)
        entries = [Like(variant, ()) if isinstance(each, Nested) else each for each in leaves]

        def called(*inside: Tensor) -> Structure:
            given = unflatten_as(element, map(_presented, inside, leaves))
            return makes(function(*given) if type(given) is tuple else function(given))  # pyright: ignore[reportUnknownArgumentType]

        self._function = Function(called, *entries)
        made = [Like(each.dtype, each.dims) for each in self._function.outputs]
        self.element: Structure = unflatten_as(self._function.result, made)
        """What the results are like."""
        self.tensors: Sequence[Tensor] = self._function.captured
        """The tensors from around that it reads."""

    def __call__(self, reading: Reading, values: Sequence[Any]) -> list[Any]:
        """The values of the results for those of an element."""
        around = [reading.values[each] for each in self.tensors]
        return self._function(reading.run, [*values, *around])


class DatasetFunction(ElementFunction):
    """A Python function that makes a dataset of an element.

    Args:
        function: takes the element, or its parts one by one if it is a tuple.
        element: what elements are like.
        name: what errors call the function.
    """

    def __init__(self, function: Callable[..., Any], element: Structure, name: str) -> None:
        self.stage: Stage

        def tensors(made: Any) -> Structure:
            stage = getattr(made, "stage", None)
            if not isinstance(stage, Stage):
                raise TypeError(f"`{name}` must return a `Dataset` object, but returned {made!r}")
            self.stage = stage
            return tuple(stage.reads())

        super().__init__(function, element, tensors)

    def elements(self, reading: Reading, values: Sequence[Any]) -> Iterator[list[Any]]:
        """The elements of the dataset for an element."""
        read = self(reading, values)
        return self.stage.elements(reading.inside(dict(zip(self.stage.reads(), read, strict=True))))


def _presented(tensor: Tensor, leaf: Any) -> Any:
    """A part of an element as functions see it."""
    if not isinstance(leaf, Nested):
        return tensor
    from unspool.tf1.data.dataset import Dataset

    return Dataset(FromVariant(tensor, leaf.element))
