"""`tf.parse_single_example` and its kind: tensors of what examples hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from unspool.tf1.data.batching import padded
from unspool.tf1.dtypes import DType, as_dtype, int64, string
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.records.messages import Example, Feature, SequenceExample
from unspool.tf1.shapes import Dims, TensorShape
from unspool.tf1.sparse.tensor import SparseTensor
from unspool.tf1.string_values import Strings

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "VarLenFeature",
    "parse_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

_LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


class FixedLenFeature(NamedTuple):
    """A feature of known shape, with a value for examples that lack it."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any length: a `SparseTensor`."""

    dtype: Any


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any number of values of known shape, which batches pad; it may be missing if so said."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


Read = Callable[[str, "Feature | None"], torch.Tensor]


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Tensors of what an example holds, by name.

    Args:
        serialized: the example as a string.
        features: what each is: `FixedLenFeature`, `VarLenFeature` or `FixedLenSequenceFeature`.
        name: the operation's name.
        example_names: accepted.

    Raises:
        InvalidArgumentError: in a run, if something is missing, or of another dtype or length.

    >>> from unspool import tf1 as tf
    >>> feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))
    >>> text = tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
    >>> tf.Session().run(tf.parse_single_example(text, {"x": tf.FixedLenFeature([2], tf.float32)}))
    {'x': array([1., 2.], dtype=float32)}
    """
    given = as_tensor(serialized, string)
    if given.dims not in (None, ()):
        raise ValueError(f"serialized must be a scalar, but is {given!r}; tf.parse_example takes several")
    plans = _plans(features)

    def parse(text: Strings) -> list[torch.Tensor]:
        found = Example.FromString(text.item()).features.feature
        return [part for name, plan in plans.items() for part in plan.single(name, found.get(name))]

    outputs = [each for plan in plans.values() for each in plan.outputs(())]
    return _returned(plans, _applied("ParseSingleExample", parse, given, name, outputs))


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The same for a vector of examples, whose features are stacked; see `parse_single_example`."""
    given = as_tensor(serialized, string)
    if given.dims is not None and len(given.dims) != 1:
        raise ValueError(f"serialized must be a vector, but is {given!r}; tf.parse_single_example takes one")
    plans = _plans(features)

    def parse(texts: Strings) -> list[torch.Tensor]:
        rows = [Example.FromString(text).features.feature for text in texts.tolist()]
        return [
            part
            for name, plan in plans.items()
            for part in plan.stacked([plan.single(name, row.get(name)) for row in rows])
        ]

    count = None if given.dims is None else given.dims[0]
    outputs = [each for plan in plans.values() for each in plan.outputs((count,))]
    return _returned(plans, _applied("ParseExample", parse, given, name, outputs))


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors of what a sequence holds: of the whole, and of its steps, along the first axis.

    Args:
        serialized: the `SequenceExample` as a string.
        context_features: what the features of the whole are; see `parse_single_example`.
        sequence_features: what those of the steps are: `FixedLenSequenceFeature` or `VarLenFeature`.
        example_name: accepted.
        name: the operation's name.
    """
    if not context_features and not sequence_features:
        raise ValueError("Missing features.")
    given = as_tensor(serialized, string)
    context, steps = _plans(context_features or {}), _plans(sequence_features or {})
    for each, plan in steps.items():
        if isinstance(plan, _Fixed):
            raise ValueError(f"sequence_features must not have FixedLenFeature, but '{each}' is one")

    def parse(text: Strings) -> list[torch.Tensor]:
        found = SequenceExample.FromString(text.item())
        made = [part for name, plan in context.items() for part in plan.single(name, found.context.feature.get(name))]
        for name, plan in steps.items():
            listed = found.feature_lists.feature_list.get(name)
            made += plan.sequence(name, None if listed is None else listed.feature)
        return made

    outputs = [each for plan in context.values() for each in plan.outputs(())]
    outputs += [each for plan in steps.values() for each in plan.sequence_outputs()]
    made = _applied("ParseSingleSequenceExample", parse, given, name, outputs)
    count = sum(len(plan.outputs(())) for plan in context.values())
    return _returned(context, made[:count]), _returned(steps, made[count:])


class _Plan:
    """How one feature is read."""

    def __init__(self, dtype: Any) -> None:
        self.dtype: DType = as_dtype(dtype)
        if self.dtype.name not in _LISTS:
            raise ValueError(f"features are float32, int64 or string, but not {self.dtype.name}")

    def values(self, name: str, feature: Feature) -> list[Any]:
        """The values of a feature; `ValueError` if it is of another dtype."""
        kind = feature.WhichOneof()
        if kind not in (None, _LISTS[self.dtype.name]):
            raise ValueError(
                f"Key: {name}. Data types don't match. Expected type: {self.dtype.name}, but it has a {kind}"
            )
        return getattr(feature, _LISTS[self.dtype.name]).value

    def tensor(self, values: Sequence[Any], shape: Sequence[int]) -> torch.Tensor:
        """Values as a tensor."""
        if self.dtype is string:
            array = np.empty(len(values), object)
            array[:] = list(values)
            return Strings.of(array.reshape(tuple(shape)))
        return torch.tensor(list(values), dtype=self.dtype.torch).reshape(tuple(shape))

    def blank(self) -> torch.Tensor:
        """What batches are padded with."""
        return Strings.of("") if self.dtype is string else torch.zeros((), dtype=self.dtype.torch)

    def outputs(self, front: tuple[int | None, ...]) -> list[tuple[DType, Dims]]:
        """The dtypes and shapes of the tensors."""
        raise NotImplementedError

    def single(self, name: str, feature: Feature | None) -> list[torch.Tensor]:
        """The tensors of one example."""
        raise NotImplementedError

    def stacked(self, rows: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
        """Those of several."""
        raise NotImplementedError

    def sequence(self, name: str, features: Sequence[Feature] | None) -> list[torch.Tensor]:
        """Those of the steps of a sequence."""
        raise NotImplementedError

    def sequence_outputs(self) -> list[tuple[DType, Dims]]:
        """The dtypes and shapes of these."""
        raise NotImplementedError


class _Fixed(_Plan):
    def __init__(self, feature: FixedLenFeature) -> None:
        super().__init__(feature.dtype)
        self._shape: Any = TensorShape(feature.shape).as_list()
        if None in self._shape:
            raise ValueError(f"the shape of a FixedLenFeature must be known, but is {self._shape}")
        self._default = feature.default_value

    def outputs(self, front: tuple[int | None, ...]) -> list[tuple[DType, Dims]]:
        return [(self.dtype, (*front, *self._shape))]

    def single(self, name: str, feature: Feature | None) -> list[torch.Tensor]:
        count = int(np.prod(self._shape))
        if feature is None or feature.WhichOneof() is None:
            if self._default is None:
                raise ValueError(f"Feature: {name} (data type: {self.dtype.name}) is required but could not be found.")
            flat = np.asarray(self._default, object).reshape(-1)
            values = [each.encode() if isinstance(each, str) else each for each in flat]
            return [self.tensor(values * count if len(values) == 1 else values, self._shape)]
        values = self.values(name, feature)
        if len(values) != count:
            raise ValueError(
                f"Key: {name}. Number of {self.dtype.name} values != expected. values size: {len(values)} but output "
                f"shape: {self._shape}"
            )
        return [self.tensor(values, self._shape)]

    def stacked(self, rows: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
        return [torch.stack([each for (each,) in rows]) if rows else self.tensor([], [0, *self._shape])]


class _Var(_Plan):
    def __init__(self, feature: VarLenFeature) -> None:
        super().__init__(feature.dtype)

    def outputs(self, front: tuple[int | None, ...]) -> list[tuple[DType, Dims]]:
        rank = len(front) + 1
        return [(int64, (None, rank)), (self.dtype, (None,)), (int64, (rank,))]

    def single(self, name: str, feature: Feature | None) -> list[torch.Tensor]:
        values = [] if feature is None else self.values(name, feature)
        return [torch.arange(len(values))[:, None], self.tensor(values, [len(values)]), torch.tensor([len(values)])]

    def stacked(self, rows: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
        places = [(number, place) for number, (_, values, _) in enumerate(rows) for place in range(len(values))]
        widest = max((len(values) for _, values, _ in rows), default=0)
        return [
            torch.tensor(places, dtype=torch.int64).reshape(-1, 2),
            torch.cat([values for _, values, _ in rows]) if rows else self.tensor([], [0]),
            torch.tensor([len(rows), widest]),
        ]

    def sequence(self, name: str, features: Sequence[Feature] | None) -> list[torch.Tensor]:
        return self.stacked([self.single(name, each) for each in features or ()])

    def sequence_outputs(self) -> list[tuple[DType, Dims]]:
        return self.outputs((None,))


class _Several(_Plan):
    def __init__(self, feature: FixedLenSequenceFeature) -> None:
        super().__init__(feature.dtype)
        self._shape: Any = TensorShape(feature.shape).as_list()
        self._missing = feature.allow_missing

    def outputs(self, front: tuple[int | None, ...]) -> list[tuple[DType, Dims]]:
        return [(self.dtype, (*front, None, *self._shape))]

    def single(self, name: str, feature: Feature | None) -> list[torch.Tensor]:
        self._check(name, feature is None)
        values = [] if feature is None else self.values(name, feature)
        one = int(np.prod(self._shape))
        if len(values) % one:
            raise ValueError(f"Key: {name}. {len(values)} values are no whole number of {self._shape}")
        return [self.tensor(values, [len(values) // one, *self._shape])]

    def stacked(self, rows: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
        return [padded([each for (each,) in rows], [None, *self._shape], self.blank())]

    def sequence(self, name: str, features: Sequence[Feature] | None) -> list[torch.Tensor]:
        self._check(name, features is None)
        values = [value for each in features or () for value in self.values(name, each)]
        return [self.tensor(values, [len(features or ()), *self._shape])]

    def sequence_outputs(self) -> list[tuple[DType, Dims]]:
        return self.outputs(())

    def _check(self, name: str, missing: bool) -> None:
        if missing and not self._missing:
            raise ValueError(f"Feature list '{name}' is required but could not be found, and allow_missing is False")


def _plans(features: Mapping[str, Any]) -> dict[str, _Plan]:
    made: dict[str, _Plan] = {}
    for name in sorted(features):
        each = features[name]
        if isinstance(each, FixedLenFeature):
            made[name] = _Fixed(each)
        elif isinstance(each, VarLenFeature):
            made[name] = _Var(each)
        elif isinstance(each, FixedLenSequenceFeature):
            made[name] = _Several(each)
        else:
            raise ValueError(f"Invalid feature {name}:{each!r}.")
    return made


def _applied(kind: str, parse: Callable[..., list[torch.Tensor]], given: Any, name: Any, outputs: Any) -> list[Any]:
    if not outputs:
        raise ValueError("Missing features.")

    def compute(text: Strings) -> Any:
        made = parse(text)
        return made[0] if len(made) == 1 else made

    made = apply(kind, compute, given, name=name, outputs=outputs)
    return made if isinstance(made, list) else [made]


def _returned(plans: Mapping[str, _Plan], tensors: Sequence[Any]) -> dict[str, Any]:
    remaining = iter(tensors)
    return {
        name: SparseTensor(next(remaining), next(remaining), next(remaining))
        if isinstance(plan, _Var)
        else next(remaining)
        for name, plan in plans.items()
    }
