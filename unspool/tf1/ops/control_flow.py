"""Loops and branches that are decided while the graph runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.flags import checks_flags
from unspool.structure import Structure, check_same_structure, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import bool_
from unspool.tf1.functions import Function
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.debugging import brief
from unspool.tf1.shapes import Dims, TensorShape, described
from unspool.tf1.tables import BRANCHES, current_lookups, together
from unspool.tf1.tensor import Tensor
from unspool.tf1.tensor_array import TensorArray

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = [
    "case",
    "cond",
    "while_loop",
]


@checks_flags
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Calls `body` on its own results as long as `cond` of them is true.

        while cond(*loop_vars):
            loop_vars = body(*loop_vars)

    Args:
        cond: takes the loop variables to a truth.
        body: takes the loop variables to new ones, in the same structure.
        loop_vars: a list or tuple of tensors, `TensorArray`s, or structures of these.
        shape_invariants: the shapes of loop variables that change from turn to turn, None where they do.
        maximum_iterations: how many turns at most.
        name: the operation's name.
        parallel_iterations, back_prop, swap_memory, return_same_structure: accepted; results never depend on them.

    Raises:
        TypeError: if `cond` or `body` cannot be called, or a loop variable changes its dtype.
        ValueError: if there are no loop variables, `body` returns another structure, or a shape changes that is not
            said to.

    >>> from unspool import tf1 as tf
    >>> total = tf.while_loop(lambda k, s: k < 5, lambda k, s: (k + 1, s + k), (0, 0))
    >>> tf.Session().run(total)
    (np.int32(5), np.int32(10))
    """
    if not callable(cond) or not callable(body):
        raise TypeError("cond and body must be callable.")
    variables: Any = (
        list(loop_vars) if isinstance(loop_vars, list | tuple) and not hasattr(loop_vars, "_fields") else [loop_vars]
    )  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not variables:
        raise ValueError("No loop variables provided")
    entered = map_structure(_entering, variables)
    first = entered if shape_invariants is None else _with_invariants(entered, shape_invariants)
    test = Function(lambda *now: cond(*now), *first)
    _check_truth(test.outputs, "cond")

    def one_turn(*now: Any) -> Any:
        made = body(*now)
        if len(variables) == 1 and not (
            isinstance(made, list | tuple) and len(made) == 1 and not hasattr(made, "_fields")
        ):  # pyright: ignore[reportUnknownArgumentType]
            return [made]
        return list(made) if isinstance(made, list | tuple) else [made]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    turn = Function(one_turn, *first)
    check_same_structure(_outline(variables), _outline(turn.result), name="the result of body", like="loop_vars")
    _check_turn(flatten(first), flatten(turn.result), turn.outputs)
    leaves = [_flow(leaf) for leaf in flatten(first)]
    most = [] if maximum_iterations is None else [as_tensor(maximum_iterations)]
    counts = len(leaves), len(test.captured), len(turn.captured)

    def run_loop(run: Run, *values: Any) -> Any:
        now, rest = list(values[: counts[0]]), values[counts[0] :]
        outside_test, outside_turn = rest[: counts[1]], rest[counts[1] : counts[1] + counts[2]]
        limit = int(values[-1]) if most else None
        turns = 0
        while (limit is None or turns < limit) and bool(test(run, [*now, *outside_test])[0]):
            now = turn(run, [*now, *outside_turn])
            turns += 1
        return now[0] if len(now) == 1 else now

    made = apply(
        "While",
        run_loop,
        *map(_flow, flatten(entered)),
        *test.captured,
        *turn.captured,
        *most,
        name=name or "while",
        outputs=[(each.dtype, each.dims) for each in leaves],
        takes_run=True,
        variables=(*test.variables, *turn.variables),
        effect=test.has_effects or turn.has_effects,
        changes=(*test.changes, *turn.changes),
        reads=together([turn.reads], looped=True),
    )
    flows = [made] if isinstance(made, Tensor) else list(made)
    ended = [
        leaf.with_flow(flow) if isinstance(leaf, TensorArray) else flow
        for leaf, flow in zip(flatten(turn.result), flows, strict=True)
    ]
    result = unflatten_as(variables, ended)
    if len(variables) == 1 and not return_same_structure:
        return result[0]
    return tuple(result) if isinstance(loop_vars, tuple) else result


def _entering(leaf: Any) -> Any:
    return leaf if isinstance(leaf, TensorArray) else as_tensor(leaf)


def _flow(leaf: Any) -> Tensor:
    return leaf.flow if isinstance(leaf, TensorArray) else leaf


def _outline(structure: Structure) -> Structure:
    return map_structure(lambda _: 0, structure)


def _with_invariants(first: list[Any], invariants: Any) -> list[Any]:
    """Loop variables that are known no better than their invariants say."""
    shapes = flatten(map_structure(lambda each: each, list(invariants)))
    made: list[Any] = []
    for leaf, invariant in zip(flatten(first), shapes, strict=True):
        dims = TensorShape(invariant).sizes if not isinstance(leaf, TensorArray) else None
        if isinstance(leaf, TensorArray) or (invariant is None and leaf.dims is None):
            made.append(leaf)
            continue
        if not _within(leaf.dims, dims):
            raise ValueError(
                f"The shape invariant specified for {leaf.name}, {described(dims)}, is not compatible with its shape "
                f"{described(leaf.dims)}"
            )
        loose = apply("Enter", lambda run, x: x, leaf, outputs=[(leaf.dtype, dims)], takes_run=True)
        made.append(loose)
    return unflatten_as(first, made)


def _within(dims: Dims, invariant: Dims) -> bool:
    """Whether all shapes that the first may be are among those that the second may be."""
    if dims is None or invariant is None:
        return invariant is None
    return len(dims) == len(invariant) and all(b is None or a == b for a, b in zip(dims, invariant, strict=True))


def _check_truth(outputs: Sequence[Tensor], what: str) -> None:
    if len(outputs) == 1 and outputs[0].dtype is bool_ and outputs[0].dims not in ((), None):
        raise ValueError(f"{what} must return a scalar, but returned shape {described(outputs[0].dims)}")
    if len(outputs) != 1 or outputs[0].dtype is not bool_:
        raise TypeError(f"{what} must return a boolean scalar, but returned {list(outputs)}")


def _check_turn(before: Sequence[Any], after: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    for old, new, made in zip(before, after, outputs, strict=True):
        if isinstance(old, TensorArray) != isinstance(new, TensorArray):
            raise TypeError(f"body makes {new!r} of {old!r}: an array must stay one")
        if isinstance(old, TensorArray):
            continue
        if old.dtype is not made.dtype:
            raise TypeError(f"{old.name} is {old.dtype.name}, but body makes it {made.dtype.name}")
        same = old.dims is None or (made.dims is not None and len(old.dims) == len(made.dims))
        if not same or any(
            size is not None and size != now for size, now in zip(old.dims or (), made.dims or (), strict=False)
        ):
            raise ValueError(
                f"The shape for {old.name} is not an invariant for the loop. It enters the loop with shape "
                f"{described(old.dims)}, but has shape {described(made.dims)} after one iteration. Provide shape "
                "invariants using either the `shape_invariants` argument of tf.while_loop or set_shape() on the loop "
                "variables."
            )


@checks_flags
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """The result of one function or of the other; only one of them runs.

    Args:
        pred: a scalar bool tensor.
        true_fn, false_fn: functions without arguments that return tensors of the same dtypes and structure.
        strict: accepted.
        name: the operation's name.
        fn1, fn2: older names of the functions.

    >>> from unspool import tf1 as tf
    >>> training = tf.placeholder(tf.bool, [])
    >>> chosen = tf.cond(training, lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    >>> tf.Session().run(chosen, {training: False})
    np.float32(2.0)
    """
    yes, no = true_fn or fn1, false_fn or fn2
    if not callable(yes) or not callable(no):
        raise TypeError("true_fn and false_fn must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    truth = as_tensor(pred)
    if truth.dtype is not bool_ or truth.dims not in ((), None):
        raise TypeError(f"pred must be a scalar bool tensor, but is {truth!r}")
    branches = Function(_branch(yes)), Function(_branch(no))
    results = [each.result for each in branches]
    if len(branches[0].outputs) != len(branches[1].outputs):
        raise ValueError("true_fn and false_fn must return the same number of outputs.")
    check_same_structure(_outline(results[0]), _outline(results[1]), name="the result of false_fn", like="true_fn's")
    outputs: list[Any] = []
    for one, other in zip(branches[0].outputs, branches[1].outputs, strict=True):
        if one.dtype is not other.dtype:
            raise ValueError(
                f"Outputs of true_fn and false_fn must have the same type: {one.dtype.name}, {other.dtype.name}"
            )
        agreed = one.dims == other.dims
        outputs.append((one.dtype, one.dims if agreed else _common(one, other)))
    count = len(branches[0].captured)
    tables = [[k for k, each in enumerate(branch.captured) if branch.reads.get(each)] for branch in branches]

    def run_branch(run: Run, chosen: torch.Tensor, *values: Any) -> Any:
        parts = values[:count], values[count:]
        taken = 0 if bool(chosen) else 1
        made = branches[taken](run, parts[taken])
        for place in tables[1 - taken]:
            current_lookups().pass_by(parts[1 - taken][place])
        return made[0] if len(made) == 1 else made

    made = apply(
        BRANCHES,
        run_branch,
        truth,
        *branches[0].captured,
        *branches[1].captured,
        name=name or "cond",
        outputs=outputs,
        takes_run=True,
        variables=(*branches[0].variables, *branches[1].variables),
        effect=branches[0].has_effects or branches[1].has_effects,
        changes=(*branches[0].changes, *branches[1].changes),
        reads=together(each.reads for each in branches),
    )
    flows = [made] if isinstance(made, Tensor) else list(made)
    return unflatten_as(results[0], flows)


def _branch(function: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        made = function()
        if made is None:
            raise ValueError("true_fn and false_fn must have a return value.")
        if isinstance(made, Operation):  # for what it does, not for what it returns
            with get_default_graph().control_dependencies([made]):
                return identity(0)
        with get_default_graph().control_dependencies([each for each in flatten(made) if isinstance(each, Operation)]):
            kept = map_structure(lambda each: identity(0) if isinstance(each, Operation) else as_tensor(each), made)
        return kept[0] if isinstance(kept, list) and len(kept) == 1 else kept  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    return call


def _common(one: Tensor, other: Tensor) -> Any:
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return None
    return tuple(a if a == b else None for a, b in zip(one.dims, other.dims, strict=True))


@checks_flags
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose truth holds, or of `default`."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not pairs:
        raise ValueError("tf.case needs at least one pair of a truth and a function")
    (pred, function), rest = pairs[0], pairs[1:]  # pyright: ignore[reportUnknownVariableType]
    if not rest and default is None:
        return function()  # pyright: ignore[reportUnknownVariableType]
    otherwise = default if not rest else lambda: case(rest, default, exclusive, strict, name)
    return cond(pred, function, otherwise, name=name)


def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The same tensors, none of which is ready before all are."""
    given = [each for each in tensors if each is not None]
    with get_default_graph().control_dependencies([*given, *(control_inputs or ())]):
        return [None if each is None else identity(each) for each in tensors]


def assert_(condition: Any, data: Any = None, summarize: int | None = None, name: str | None = None) -> Operation:
    """An operation that fails unless the condition holds.

    Args:
        condition: a scalar bool.
        data: what the error shows.
        summarize: how many numbers of each; 3 by default.
        name: the operation's name.

    Raises:
        ValueError: if the condition is no scalar.
        TypeError: if it is no bool.
        InvalidArgumentError: in a run, if it is false.
    """
    given, shown = as_tensor(condition), [as_tensor(each) for each in data or ()]
    if given.dtype is not bool_:
        raise TypeError(f"the condition of Assert must be bool, but is {given.dtype.name}")
    if given.dims:
        raise ValueError(f"Shape must be rank 0 but is rank {len(given.dims)} for Assert")

    def check(run: Run, truth: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        if truth.dim():
            raise ValueError(f"the condition of Assert must be a scalar, but has shape {list(truth.shape)}")
        if not bool(truth):
            words = " ".join(brief(each, 3 if summarize is None else summarize) for each in values)
            raise ValueError(f"assertion failed: {words}")
        return truth

    return apply("Assert", check, given, *shown, name=name, outputs=[(bool_, None)], takes_run=True).op
