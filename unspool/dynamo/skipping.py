"""Loops that `torch.compile` calls as they are, while it compiles what is around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch._C._dynamo import eval_frame  # pyright: ignore[reportPrivateUsage, reportMissingModuleSource]

P = ParamSpec("P")
R = TypeVar("R")

REASON = (
    "unspool compiles this loop itself, and only dynamic_rnn and its bidirectional relatives can be one operation of a "
    "graph: leave fullgraph=True away"
)


def called_as_it_is(function: Callable[P, R]) -> Callable[P, R]:
    """`function` itself, but `torch.compile` neither traces it nor anything below it: one break of the graph a call.

    This is `torch.compiler.disable` without a wrapper, which would cost every call a microsecond, and without importing
    the compiler, which takes a second.

    >>> @called_as_it_is
    ... def twice(x):
    ...     return 2 * x
    >>> twice(2)
    4
    """
    marked: Any = function
    try:
        actions = eval_frame._FrameAction  # pyright: ignore[reportPrivateUsage]
        skip = eval_frame._FrameExecStrategy(actions.SKIP, actions.SKIP)  # pyright: ignore[reportPrivateUsage]
        eval_frame.set_code_exec_strategy(marked.__code__, skip)
    except AttributeError:  # a torch that says it in another way
        disabled: Any = torch.compiler.disable(function, reason=REASON)
        return disabled
    marked._torchdynamo_disable = marked._torchdynamo_disable_recursive = True
    marked._torchdynamo_disable_msg = REASON
    return function
