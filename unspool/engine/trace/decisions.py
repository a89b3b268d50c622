"""Decisions by values: a step that only checks some is traced as if all is well; one that branches, if rows can.

While a step is traced there are no values. So whenever it asks a tensor for a yes or no, or compares a number that it
reads from one, both answers are tried. If all
ways but one end in an error, what is asked are checks, and the way that is left is the step. If several come to an end,
one of them may serve all (branches.py); else the values decide what is computed for rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.overrides import TorchFunctionMode

from unspool.engine.reasons import DATA_DEPENDENT, CannotPlanError, Code, line_of
from unspool.engine.trace.branches import quantifier, serves
from unspool.engine.trace.recorder import Recorder
from unspool.engine.trace.user_lines import Place, line_at, place_now

MOST_WAYS, MOST_QUESTIONS = 64, 64
"""How many ways through a step are tried, and how many questions are answered on one."""
DECIDES = "the step's control flow or shapes depend on the values of tensors"


class Decisions(TorchFunctionMode):
    """Answers what a step asks of tensors without values.

    Args:
        answers: the first answers; those that follow are yes.
    """

    def __init__(self, answers: Sequence[bool]) -> None:
        super().__init__()
        self._answers = answers
        self.asked: list[Place | None] = []
        """Where something was asked."""
        self.predicates: list[Any] = []
        """The tensor that was asked about, or None if there were several."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asks, reads = _is_question(func, args), func in READS and args[0].dim() == 0
        try:
            result: Any = func(*args, **(kwargs or {}))
        except Exception as error:
            if not (asks or reads) or type(error).__name__ not in DATA_DEPENDENT:
                raise
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
        return self._answers[number] if number < len(self._answers) else True


class Number:
    """A number that a step reads from a tensor without values: it may be compared, which asks for a yes or no.

    Args:
        decisions: who answers.
        place: where it was read.
    """

    __array_ufunc__ = None  # so that NumPy's numbers leave it to this one what to do

    def __init__(self, decisions: Decisions, place: Place | None) -> None:
        self._decisions, self._place = decisions, place

    def __bool__(self) -> bool:
        return self._decisions.answer()

    def _computed(self, *others: Any) -> Number:
        if not all(isinstance(each, Number | int | float | SymInt | np.number) for each in others):
            raise _refused(self._place)
        return self

    def _used(self, *_: Any, **__: Any) -> Any:
        raise _refused(self._place)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __mod__ = __rmod__ = __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = _computed
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _computed  # pyright: ignore[reportAssignmentType]  # object says bool
    __float__ = __int__ = __index__ = __hash__ = __round__ = __array__ = _used

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given: list[Any] = [*args, *(kwargs or {}).values()]
        raise _refused(next((each._place for each in given if isinstance(each, Number)), place_now()))


@dataclass(frozen=True)
class Way:
    """A way through a step that comes to its end.

    Args:
        answers: what it was answered.
        asked: where it asked.
        recorded: all that it computed, what it asked about last.
    """

    answers: list[bool]
    asked: list[Place | None]
    recorded: Recorder


def settle(run: Callable[[Decisions], Recorder]) -> list[bool]:
    """The answers with which a step is traced.

    Args:
        run: records the step with these answers.

    Raises:
        CannotPlanError: if several come to an end, and none serves for all.
    """
    ways: list[list[bool]] = [[]]
    ends: list[Way] = []
    failure: Exception | None = None
    reached = (0, False)
    while ways:
        answers = ways.pop()
        decisions = Decisions(answers)
        try:
            recorded = run(decisions)
        except CannotPlanError:
            raise
        except Exception as error:
            if type(error).__name__ in DATA_DEPENDENT or isinstance(error, NotImplementedError):
                raise
            # Of several, the one that came furthest: others are answers to checks that must fail.
            furthest = (len(decisions.asked), _place_of(error) not in decisions.asked[-1:])
            if furthest >= reached:
                failure, reached = error, furthest
            recorded = None
        taken = answers + [True] * (len(decisions.asked) - len(answers))
        ways += [[*taken[:k], False] for k in range(len(answers), len(taken))]
        if recorded is not None:
            ends.append(Way(taken, decisions.asked, recorded))
        if len(ways) > MOST_WAYS or len(ends) > MOST_WAYS:
            raise _refused(decisions.asked[0])
    if not ends and failure is not None:
        raise failure
    return _serving(ends, 0).answers


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


def _place_of(error: Exception) -> Place | None:
    line = line_of(error)
    return line and (line.file, line.number)


def _refused(place: Place | None) -> CannotPlanError:
    return CannotPlanError(Code.VALUES, DECIDES, line=line_at(place))


def _is_question(func: Any, args: Sequence[Any]) -> bool:
    """Whether the answer is yes or no."""
    if func in (Tensor.item, Tensor.tolist):
        return args[0].dtype is torch.bool and args[0].dim() == 0
    return func in QUESTIONS


READS: set[Any] = {Tensor.item, Tensor.tolist}
QUESTIONS: set[Any] = {
    Tensor.__bool__,
    Tensor.is_nonzero,
    Tensor.equal,
    Tensor.allclose,
    torch.is_nonzero,
    torch.equal,
    torch.allclose,
}
