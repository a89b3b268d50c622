"""Decisions by values: a step that only checks some is traced as if all is well; one that branches is refused.

While a step is traced there are no values. So whenever it asks a tensor for a yes or no, both answers are tried. If all
ways but one end in an error, what is asked are checks, and the way that is left is the step. If several come to an end,
the values decide what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor
from torch.overrides import TorchFunctionMode

from unspool.engine.reasons import DATA_DEPENDENT, CannotPlanError, Code
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

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asks = _is_question(func, args)
        try:
            result: Any = func(*args, **(kwargs or {}))
        except Exception as error:
            if not asks or type(error).__name__ not in DATA_DEPENDENT:
                raise
        else:
            if not asks or not isinstance(result, SymBool | SymInt):
                return result
        number = len(self.asked)
        self.asked.append(place_now())
        if number == MOST_QUESTIONS:  # it may go on until the answer is no
            raise CannotPlanError(Code.VALUES, DECIDES, line=line_at(self.asked[-1]))
        return self._answers[number] if number < len(self._answers) else True


def settle(run: Callable[[Decisions], Any]) -> list[bool]:
    """The answers with which a step comes to its end.

    Args:
        run: runs the step with these answers.

    Raises:
        CannotPlanError: if several do.
    """
    ways: list[list[bool]] = [[]]
    ends: list[tuple[list[bool], list[Place | None]]] = []
    failure: Exception | None = None
    for _ in range(MOST_WAYS):
        if not ways or len(ends) > 1:
            break
        answers = ways.pop()
        decisions = Decisions(answers)
        try:
            run(decisions)
        except CannotPlanError:
            raise
        except Exception as error:
            if type(error).__name__ in DATA_DEPENDENT or isinstance(error, NotImplementedError):
                raise
            failure = failure or error
            ended = False
        else:
            ended = True
        taken = answers + [True] * (len(decisions.asked) - len(answers))
        ways += [[*taken[:k], False] for k in range(len(answers), len(taken))]
        if ended:
            ends.append((taken, decisions.asked))
    if not ends and failure is not None:
        raise failure
    if ways or len(ends) != 1:
        raise CannotPlanError(Code.VALUES, DECIDES, line=line_at(_parting(ends)))
    return ends[0][0]


def _parting(ends: Sequence[tuple[list[bool], list[Place | None]]]) -> Place | None:
    """Where two ways part."""
    if len(ends) < 2:
        return ends[0][1][-1] if ends else None
    (one, asked), (other, _) = ends
    return next(place for place, a, b in zip(asked, one, other, strict=False) if a != b)


def _is_question(func: Any, args: Sequence[Any]) -> bool:
    """Whether the answer is yes or no."""
    if func in (Tensor.item, Tensor.tolist):
        return args[0].dtype is torch.bool and args[0].dim() == 0
    return func in QUESTIONS


QUESTIONS: set[Any] = {
    Tensor.__bool__,
    Tensor.is_nonzero,
    Tensor.equal,
    Tensor.allclose,
    torch.is_nonzero,
    torch.equal,
    torch.allclose,
}
