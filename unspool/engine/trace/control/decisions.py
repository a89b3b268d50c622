"""Data-dependent control flow of a traced step: checks on values are dropped, branches that rows cannot take refused.

While a step is traced there are no values. So whenever it asks a tensor for a yes or no, or compares a number that it
reads from one, both answers are tried. If all ways but one end in an error, what is asked are checks, and the way that
is left is the step. If several come to an end, one of them may serve all (branches.py); else the values decide what is
computed for rows together. What is asked of constants alone has one answer, and what is read from them is a number, as
long as these are what they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode

from unspool.engine.reasons import DATA_DEPENDENT, CannotPlanError, Code, line_of
from unspool.engine.trace.control.branches import quantifier, serves
from unspool.engine.trace.control.constants import Constants
from unspool.engine.trace.recorder import Recorder
from unspool.engine.trace.user_lines import Place, line_at, place_now

MOST_WAYS, MOST_QUESTIONS = 64, 64
"""How many ways through a step are tried, and how many questions are answered on one."""
DECIDES = "the step's control flow or shapes depend on the values of tensors"


class Decisions(TorchFunctionMode):
    """Answers what a step asks of tensors without values.

    Args:
        answers: the first answers; those that follow are yes, or what constants say.
        settled: all answers, if they are settled: constants must give the same for any number of rows.
    """

    def __init__(self, answers: Sequence[bool], settled: Settled | None = None) -> None:
        super().__init__()
        self._answers, self._settled = answers, settled
        self.constants: Constants | None = None
        """Who knows values that are the same for all rows; None if nobody does."""
        self.given: list[bool] = []
        """The answers."""
        self.computed: set[int] = set()
        """Those that constants gave, by number."""
        self.numbers: list[Any] = []
        """What was read from constants, in order; None for each read of something else."""
        self.asked: list[Place | None] = []
        """Where something was asked."""
        self.predicates: list[Any] = []
        """The tensor that was asked about, or None if there were several."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asks, reads = _is_question(func, args), func in READS and args[0].dim() == 0
        if func in NUMBERS and not asks and (number := self.number(args[0], func)) is not None:
            return number
        try:
            result: Any = func(*args, **(kwargs or {}))
        except Exception as error:
            if (name := type(error).__name__) not in DATA_DEPENDENT:
                raise
            if not (asks or reads or name == PICKED):  # it needs a size or a place, which constants may say
                if (given := self._with_numbers((args, kwargs or {}))) is None:
                    raise
                return func(*given[0], **given[1])
        else:
            if not (asks or reads) or not isinstance(result, SymBool | SymInt | SymFloat):
                return result
        return self.answer(args[0] if len(args) == 1 else None) if asks else Number(self, place_now())

    def answer(self, predicate: Tensor | None = None) -> bool:
        """The answer to the next question."""
        number = len(self.asked)
        self.asked.append(place_now())
        self.predicates.append(predicate)
        if number == MOST_QUESTIONS:  # it may go on until the answer is no
            raise _refused(self.asked[-1])
        known = None if self.constants is None or predicate is None else self.constants.tell(predicate, bool)
        answer = self._answers[number] if number < len(self._answers) else known is None or known
        if known is not None:
            self.computed.add(number)
        by_constants = self._settled is not None and number in self._settled.computed
        if by_constants and self.constants is not None and known is not answer:
            raise _refused(self.asked[-1])  # it was that of a few rows
        self.given.append(answer)
        return answer

    def number(self, tensor: Tensor, read: Callable[[Tensor], Any]) -> Any:
        """What is read from a constant: a number, or numbers in lists. None if rows have a part in it."""
        found = None if self.constants is None else self.constants.tell(tensor, read)
        if self._settled is not None:
            settled = self._settled.numbers[len(self.numbers)]
            if self.constants is not None and repr(found) != repr(settled):  # it was that of a few rows
                raise _refused(place_now())
            found = copy.deepcopy(settled)
        self.numbers.append(found)
        return found

    def _with_numbers(self, given: Any) -> Any:
        """Arguments with numbers for the constants among them that may be sizes or places; None if there are none."""
        before = len(self.numbers)
        found: Any = map_aggregate(given, self._as_number)
        return None if all(each is None for each in self.numbers[before:]) else found

    def _as_number(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dim() > 0 or value.dtype not in WHOLE:
            return value
        return value if (number := self.number(value, Tensor.__index__)) is None else number


class Number:
    """A number that a step reads from a tensor without values, or as many as it picks from one by values.

    It may be computed with, reduced and compared, which asks for a yes or no: checks do no more.

    Args:
        decisions: who answers.
        place: where it was read.
    """

    __array_ufunc__ = None  # so that NumPy's numbers leave it to this one what to do

    def __init__(self, decisions: Decisions, place: Place | None) -> None:
        self._decisions, self._place = decisions, place

    def __bool__(self) -> bool:
        return self._decisions.answer()

    def _computed(self, *others: Any, **options: Any) -> Number:
        given = [*others, *options.values()]
        if not all(isinstance(each, Number | int | float | SymInt | np.number | None) for each in given):
            raise _refused(self._place)
        return self

    def _used(self, *_: Any, **__: Any) -> Any:
        raise _refused(self._place)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __mod__ = __rmod__ = __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = _computed
    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _computed
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _computed  # pyright: ignore[reportAssignmentType]  # object says bool
    __float__ = __int__ = __index__ = __hash__ = __round__ = __array__ = __len__ = __iter__ = __getitem__ = _used

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._computed if name in CHECKS else self._used()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first, *others = args or (None,)
        if isinstance(first, Number) and func.__name__ in CHECKS:
            return first._computed(*others, **(kwargs or {}))
        given: list[Any] = [*args, *(kwargs or {}).values()]
        raise _refused(next((each._place for each in given if isinstance(each, Number)), place_now()))


@dataclass(frozen=True)
class Settled:
    """What a step is answered in a trace.

    Args:
        answers: the answers.
        computed: those that constants give, by number.
        numbers: what is read from constants, in order; None for each read of something else.
        read: the tensors whose values gave them.
    """

    answers: list[bool]
    computed: set[int]
    numbers: list[Any]
    read: list[Tensor]


@dataclass(frozen=True)
class Way:
    """A way through a step that comes to its end.

    Args:
        answers: what it was answered.
        computed: which of it by constants.
        numbers: what it read.
        asked: where it asked.
        recorded: all that it computed, what it asked about last.
    """

    answers: list[bool]
    computed: set[int]
    numbers: list[Any]
    asked: list[Place | None]
    recorded: Recorder


def settle(run: Callable[[Decisions], Recorder]) -> Settled:
    """The answers with which a step is traced.

    Args:
        run: records the step with these answers.

    Raises:
        CannotPlanError: if several come to an end, and none serves for all.
    """
    ways: list[list[bool]] = [[]]
    ends: list[Way] = []
    failure: BaseException | None = None
    reached = (0, False)
    read: dict[int, Tensor] = {}
    while ways:
        answers = ways.pop()
        decisions = Decisions(answers)
        try:
            recorded = run(decisions)
        except CannotPlanError:
            raise
        except (Exception, SystemExit) as error:
            if type(error).__name__ in DATA_DEPENDENT or isinstance(error, NotImplementedError):
                raise
            # Of several, the one that came furthest: others are answers to checks that must fail.
            furthest = (len(decisions.asked), _place_of(error) not in decisions.asked[-1:])
            if furthest >= reached:
                failure, reached = error, furthest
            recorded = None
        taken, computed = decisions.given, decisions.computed
        ways += [[*taken[:k], False] for k in range(len(answers), len(taken)) if k not in computed]
        if decisions.constants is not None:
            read |= decisions.constants.read
        if recorded is not None:
            ends.append(Way(taken, computed, decisions.numbers, decisions.asked, recorded))
        if len(ways) > MOST_WAYS or len(ends) > MOST_WAYS:
            raise _refused(decisions.asked[0])
    if not ends and failure is not None:
        raise failure if isinstance(failure, Exception) else _refused(_place_of(failure))
    found = _serving(ends, 0)
    return Settled(found.answers, found.computed, found.numbers, list(read.values()))


def _serving(ends: list[Way], number: int) -> Way:
    """The way that serves for all of some, which part at the question of this number or later.

    Rows for which the answer is the other one get the same from it, and so does, by induction, a batch of these alone.
    """
    first = ends[0]
    if len(ends) == 1:
        return first
    sides = {answer: [way for way in ends if way.answers[number] is answer] for answer in (True, False)}
    if not sides[True] or not sides[False]:  # a check
        return _serving(ends, number + 1)
    ways = {answer: _serving(side, number + 1) for answer, side in sides.items()}
    for answer in (True, False):
        asked = quantifier(ways[answer].recorded.results[-1][number])
        if asked and asked.serving is answer and serves(ways[answer].recorded, asked, ways[not answer].recorded):
            return ways[answer]
    raise _refused(first.asked[number])


def _place_of(error: BaseException) -> Place | None:
    line = line_of(error)
    return line and (line.file, line.number)


def _refused(place: Place | None) -> CannotPlanError:
    return CannotPlanError(Code.VALUES, DECIDES, line=line_at(place))


def _is_question(func: Any, args: Sequence[Any]) -> bool:
    """Whether the answer is yes or no."""
    if func in (Tensor.item, Tensor.tolist):
        return args[0].dtype is torch.bool and args[0].dim() == 0
    return func in QUESTIONS


PICKED = "DynamicOutputShapeException"
"""What torch raises where values decide how many elements a result has: `x[x > 0]`."""
CHECKS = {
    *("sum", "any", "all", "max", "min", "mean", "abs", "isnan", "isinf", "isfinite", "count_nonzero", "numel", "item"),
    *("eq", "ne", "lt", "le", "gt", "ge", "equal", "allclose"),
}
"""What checks do with numbers."""
READS: set[Any] = {Tensor.item, Tensor.tolist}
NUMBERS: set[Any] = {*READS, Tensor.__int__, Tensor.__index__, Tensor.__float__}
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
QUESTIONS: set[Any] = {
    Tensor.__bool__,
    Tensor.is_nonzero,
    Tensor.equal,
    Tensor.allclose,
    torch.is_nonzero,
    torch.equal,
    torch.allclose,
}
