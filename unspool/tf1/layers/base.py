"""What layers share: a scope for their variables, which are made at the first call and shared by the others."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unspool.flags import checks_flags
from unspool.structure import flatten
from unspool.tf1.dtypes import as_dtype
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import as_tensor
from unspool.tf1.scopes import VariableScope, get_variable, variable_scope
from unspool.tf1.session import session_for
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Operators
from unspool.tf1.variables import GraphKeys, Variable, check_constraint


class Layer:
    """The base of layers, and of one's own: `build` makes variables, `call` computes.

    Args:
        trainable: whether optimisers change the variables by default.
        name: of the scope of its variables, made unique; by default the class's.
        dtype: of the variables; by default that of the first input.
        activity_regularizer: a function of the output whose result is added to the regularisation losses.
        _scope: a name that is not made unique, or a scope.
        _reuse: whether the variables must be there already.

    >>> from unspool import tf1 as tf
    >>> class Scale(tf.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_variable("factor", [input_shape[-1]], initializer=tf.ones_initializer())
    ...         super().build(input_shape)
    ...
    ...     def call(self, inputs):
    ...         return inputs * self.factor
    >>> layer = Scale(name="scaling")
    >>> made = layer(tf.zeros([2, 3]))
    >>> [variable.name for variable in layer.variables]
    ['scaling/factor:0']
    """

    least_rank: int | None = None
    """How many axes the input has at least."""

    @checks_flags
    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        activity_regularizer: Any = None,
        *,
        _scope: Any = None,
        _reuse: Any = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {', '.join(map(repr, unknown))}")
        self.trainable, self.built = trainable, False
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.activity_regularizer = activity_regularizer
        self._base_name = name or _snake_case(type(self).__name__)
        self._reuse = _reuse
        self._variables: list[Variable] = []
        self.losses: list[Any] = []
        """What regularisers made of its variables and outputs, and what `add_loss` was given."""
        self.updates: list[Any] = []
        """What has to run beside training, such as moving averages."""
        self._scope: VariableScope | None = None
        if _scope:
            with variable_scope(_scope) as entered:
                self._scope = entered

    @property
    def name(self) -> str:
        """Its name: that of its scope, once it has one."""
        return self._base_name if self._scope is None else self._scope.name

    scope_name = name

    @property
    def variables(self) -> list[Variable]:
        """All its variables."""
        return list(self._variables)

    weights = variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those of its variables that optimisers change."""
        return [each for each in self._variables if each.trainable]

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """Those of its variables that optimisers do not change."""
        return [each for each in self._variables if not each.trainable]

    non_trainable_weights = non_trainable_variables

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """The values of its variables in the default session, where those begin that have none yet.

        >>> from unspool import tf1 as tf
        >>> layer = tf.layers.Dense(2, use_bias=False)
        >>> _ = layer(tf.zeros([1, 3]))
        >>> with tf.Session():
        ...     layer.set_weights([[[1, 2], [3, 4], [5, 6]]])
        ...     layer.get_weights()
        [array([[1., 2.],
               [3., 4.],
               [5., 6.]], dtype=float32)]
        """
        session = session_for(None, get_default_graph())
        for each in self.variables:
            if not session.state.is_initialized(each):
                session.run(each.initializer)
        return [each.eval(session) for each in self.variables]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Gives its variables values in the default session.

        Raises:
            ValueError: if there are not as many values as variables, or one has another shape.
        """
        if len(weights) != len(self.variables):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self.name}" with a weight list of length '
                f"{len(weights)}, but the layer was expecting {len(self.variables)} weights."
            )
        for variable, value in zip(self.variables, weights, strict=True):
            if not variable.shape.is_compatible_with(np.shape(value)):
                raise ValueError(
                    f"Layer weight shape {variable.shape} not compatible with provided weight shape {np.shape(value)}"
                )
        for variable, value in zip(self.variables, weights, strict=True):
            variable.load(value)

    def count_params(self) -> int:
        """How many numbers its variables hold; `ValueError` before they are made."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer isn't built.")
        return sum(each.shape.num_elements() or 0 for each in self.variables)

    # -- what a layer says -------------------------------------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Makes the variables; called once, with the shape of the first input, or by hand before."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The output for an input."""
        return inputs

    def add_variable(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
    ) -> Any:
        """A variable in the layer's scope."""
        check_constraint(constraint)
        losses = get_default_graph().get_collection_ref(GraphKeys.REGULARIZATION_LOSSES)
        before = len(losses)
        with variable_scope(self._entered(), reuse=self.built or self._reuse, auxiliary_name_scope=False):
            made = get_variable(
                name, shape, dtype or self.dtype, initializer, regularizer, trainable=trainable and self.trainable
            )
        self.losses += losses[before:]
        self._variables.append(made)
        return made

    add_weight = add_variable

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds one loss or several to its own, and to the regularisation losses of the graph."""
        self._add(losses, self.losses, GraphKeys.REGULARIZATION_LOSSES)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds one update or several to its own, and to `tf.GraphKeys.UPDATE_OPS`."""
        self._add(updates, self.updates, GraphKeys.UPDATE_OPS)

    def _add(self, given: Any, own: list[Any], key: str) -> None:
        for each in given if isinstance(given, list | tuple) else [given]:  # pyright: ignore[reportUnknownVariableType]
            own.append(each)
            get_default_graph().add_to_collection(key, each)

    # -- calls -------------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The output for an input, with the variables of the first call."""
        given = inputs if isinstance(inputs, list | tuple | dict) else as_tensor(inputs)  # pyright: ignore[reportUnknownVariableType]
        scope = self._entered()
        with (
            variable_scope(scope, reuse=True if self.built else self._reuse, auxiliary_name_scope=False),
            get_default_graph().name_scope(scope.original_name_scope or None),
        ):
            self._build_once(given)
            made = self.call(given, *args, **kwargs)
            if self.activity_regularizer is not None:
                self.add_loss(self.activity_regularizer(made))
        return made

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as a call."""
        return self(inputs, *args, **kwargs)

    def _entered(self) -> VariableScope:
        """The scope of its variables, chosen the first time."""
        if self._scope is None:
            named = self._base_name if self._reuse else None
            with variable_scope(named, default_name=self._base_name) as entered:
                self._scope = entered
        return self._scope

    def _build_once(self, inputs: Any) -> None:
        tensors = [each for each in flatten(inputs) if isinstance(each, Operators)]
        first: Any = tensors[0] if tensors else None
        if first is not None:
            self._check_rank(first.shape)
        if self.built:
            return
        if self.dtype is None and first is not None and first.dtype.is_floating:
            self.dtype = first.dtype
        one = first is not None and inputs is first
        self.build(inputs.shape if one else [each.shape for each in tensors])  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self.built = True

    def _check_rank(self, shape: TensorShape) -> None:
        if self.least_rank is not None and shape.ndims is not None and shape.ndims < self.least_rank:
            raise ValueError(
                f"Input 0 of layer {self.name} is incompatible with the layer: expected min_ndim={self.least_rank}, "
                f"found ndim={shape.ndims}. Full shape received: {shape.as_list()}"
            )


def as_function(kind: Callable[..., Layer], name: str, what: str, *, shares: bool = True) -> Callable[..., Any]:
    """A layer as a function, which makes one and calls it: the inputs come first, then the layer's own arguments.

    Args:
        kind: the layer's class.
        name: the function's.
        what: its docstring.
        shares: whether it has variables, so that there is `reuse`, and a name is the scope's as it is.
    """
    own = [each for each in inspect.signature(kind).parameters.values() if each.kind is not each.VAR_KEYWORD]
    ends = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in ("inputs", "reuse")]
    signature = inspect.Signature([ends[0], *own, *([ends[1].replace(default=None)] if shares else [])])

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        inputs, reuse = given.pop("inputs"), given.pop("reuse", None)
        scope = {"_scope": given.get("name"), "_reuse": reuse} if shares else {}
        return kind(**given, **scope)(inputs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = what
    call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return call


def is_true(flag: Any) -> bool | None:
    """What a flag such as `training` says before anything runs; None if it is a tensor, whose value is not known."""
    if isinstance(flag, Operators):
        known = as_tensor(flag).known
        return None if known is None else bool(known[()])
    return bool(flag)


def listed(axes: Any) -> Sequence[int]:
    """One axis or several, as a list."""
    return [axes] if isinstance(axes, int) else [int(each) for each in axes]


def _snake_case(name: str) -> str:
    """The name of a class as that of a scope.

    >>> _snake_case("BatchNormalization"), _snake_case("Conv2DTranspose")
    ('batch_normalization', 'conv2d_transpose')
    """
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)).lower()
