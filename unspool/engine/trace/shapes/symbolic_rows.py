"""The symbolic batch size: a step that specialises on its value is refused."""

from __future__ import annotations

import inspect
import logging
import operator
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext, uninteresting_files

from unspool.engine.reasons import TORCH, CannotPlanError, Code, is_users
from unspool.engine.trace.graph import value
from unspool.engine.trace.user_lines import line_now

# The tracer asks for them with its first symbol, and imports half of torch's compiler then: now, where `entry` lets
# no interrupt leave it half imported.
uninteresting_files()

ROWS_HINT = 7919
"""What the tracer believes the number of rows to be: a prime that no other size is likely to share."""


class AnyRows(ShapeEnv):
    """What the tracer knows of sizes. It refuses at once what would make the number of rows known.

    At the end would be too late: a Python loop over the rows would have been traced for as many as `ROWS_HINT` of them.
    """

    _reason: CannotPlanError | None = None

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        """The value of an expression in sizes, if every number of rows gives the same.

        Raises:
            CannotPlanError: if it depends on the number of rows.
        """
        result: Any = super().evaluate_expr(*args, **kwargs)
        self.check()
        expression: Any = args[0] if args else kwargs["orig_expr"]
        # torch takes it for granted that there are at least two rows. It computes the same with one, but does the user?
        symbols = expression.free_symbols
        if symbols and _asked_by_the_user():
            alone = expression.xreplace(dict.fromkeys(symbols, sympy.Integer(1)))
            if alone != result:
                self._reason = _refusal(_told(expression))
                raise self._reason
        return result

    def check(self) -> None:
        """Raises if something has become known of the number of rows, once more if the step has caught it before."""
        if self._reason is None and self.guards:
            self._reason = _refusal(_told(self.guards[0].expr))
        if self._reason is None and self.replacements:
            symbol, found = next(iter(self.replacements.items()))
            self._reason = _refusal(f"{_told(symbol)} = {_told(found)}")
        if self._reason is not None:
            raise self._reason


@contextmanager
def without_reports() -> Generator[None, None, None]:
    """Keeps torch from logging errors of a step as its own: what stops a trace becomes a reason."""

    def is_worth_a_line(record: logging.LogRecord) -> bool:
        return not record.exc_info

    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.addFilter(is_worth_a_line)
    try:
        yield
    finally:
        log.removeFilter(is_worth_a_line)


def rows_symbol(mode: FakeTensorMode) -> Any:
    """The number of rows, as a size of tensors of `mode`."""
    make: Any = StatelessSymbolicContext
    context = make(dynamic_sizes=[DimDynamic.DUCK])
    rows = torch.empty(ROWS_HINT, device="cpu")
    return mode.from_tensor(rows, symbolic_context=context, source=ConstantSource("rows")).shape[0]


def size_of_rows(size: Any, rows: fx.Node) -> Any:
    """A number that is computed from the number of rows, as a node behind the placeholders; a plain number, if it is.

    Raises:
        CannotPlanError: if it is a size that is no multiple of the rows with something added.
    """
    expression: Any = size.node.expr
    row: Any = value(rows).node.expr
    if not expression.free_symbols:
        return int(expression) if expression.is_integer else float(expression)
    if expression.free_symbols != {row}:
        raise CannotPlanError(Code.VALUES, "the step's control flow or shapes depend on the values of tensors")
    times, added = expression.coeff(row, 1), expression.coeff(row, 0)
    if times.is_Integer and added.is_Integer and expression == times * row + added:
        several = rows if times == 1 else _computed(operator.mul, rows, int(times), value(rows) * int(times))
        return several if added == 0 else _computed(operator.add, several, int(added), size)
    if isinstance(size, torch.SymInt):
        raise _refusal(_told(expression))
    return _computed(_no_size, rows, _told(expression), size)


def _no_size(rows: int, number: str) -> Any:
    """Stands for a number that is no size. Whatever uses it is refused by the proof, which can say what that is."""
    raise AssertionError(f"a step that computes with {number} should have been refused")


def _computed(function: Any, of: fx.Node, number: int | str, size: Any) -> fx.Node:
    """A node that computes a size; the one that does already, if there is one."""
    for user in of.users:
        if user.target is function and user.args[1] == number:
            return user
    behind = of
    while behind.next.op == "placeholder":
        behind = behind.next
    with of.graph.inserting_after(behind):
        node = of.graph.call_function(function, (of, number))
    node.meta["val"] = size
    return node


def _told(expression: Any) -> str:
    return str(expression.xreplace(dict.fromkeys(expression.free_symbols, sympy.Symbol("rows"))))


def _refusal(condition: str) -> CannotPlanError:
    in_words = "" if str(ROWS_HINT) in condition else f" ({condition})"
    return CannotPlanError(Code.ROW_COUNT, f"the step depends on the number of rows{in_words}", line=line_now())


def _asked_by_the_user() -> bool:
    """Whether it is the user's own Python that wants to know, by an `if`, say, and not an operation of torch."""
    frame, name = inspect.currentframe(), ""
    while frame is not None and frame.f_code.co_filename.startswith((TORCH, __file__)):
        name, frame = frame.f_code.co_name, frame.f_back
    return (
        frame is not None
        and is_users(frame.f_code.co_filename)
        and name in ("__bool__", "__int__", "__index__", "__float__")
    )
