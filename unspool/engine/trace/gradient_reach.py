"""Gradient reachability through a loop: which results require gradients, which operands get some, which get None.

A source that no gradient reaches has none: None, not zeros. What that depends on is how autograd connects the results
of a step to what it is given, and how many steps there are: a state may need several to come through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from unspool.engine.execute.layout import Layout


@dataclass(frozen=True)
class Connections:
    """How autograd connects the results of a step to its sources: for each result, a bit for each source.

    Args:
        graph: where there is a way from one to the other, so that a result has a gradient if the source has.
        gradients: where a gradient comes out: a derivative written by hand may leave out some.
    """

    graph: Sequence[int]
    gradients: Sequence[int]

    @classmethod
    def of(cls, results: Sequence[Tensor], sources: Sequence[Tensor]) -> Connections:
        """Those of results that have just been computed from sources, which are leaves."""
        places = {id(source): 1 << number for number, source in enumerate(sources)}
        masks: dict[Any, int] = {None: 0}
        by_hand = False
        for result in results:
            waiting: list[Any] = [result.grad_fn]
            while waiting:
                node = waiting[-1]
                following = [] if node in masks else [each for each, _ in node.next_functions if each not in masks]
                waiting += following
                if not following:
                    waiting.pop()
                    if node not in masks:
                        by_hand |= isinstance(node, BackwardCFunction)
                        masks[node] = places.get(id(getattr(node, "variable", None)), 0)
                        for each, _ in node.next_functions:
                            masks[node] |= masks[each]
        graph = [masks[each.grad_fn] if each.grad_fn else _own(each, places) for each in results]
        return cls(graph, [_given_gradients(each, sources) for each in results] if by_hand else graph)


def _own(result: Tensor, places: dict[int, int]) -> int:
    return places.get(id(result), 0) if result.requires_grad else 0


def _given_gradients(result: Tensor, sources: Sequence[Tensor]) -> int:
    if not result.requires_grad:
        return 0
    starts = [source for source in sources if source.requires_grad]
    differentiate: Any = torch.autograd.grad  # whose annotations do not know of unused ones
    found = differentiate(result, starts, torch.empty_like(result), retain_graph=True, allow_unused=True)
    given = {id(start) for start, gradient in zip(starts, found, strict=True) if gradient is not None}
    return bits(id(source) in given for source in sources)


def bits(flags: Any) -> int:
    """A number with a bit for each flag that is set."""
    return sum(1 << number for number, flag in enumerate(flags) if flag)


class Reach:
    """Where gradients reach in loops of one step.

    Args:
        step: how results, outputs before states, are connected to sources: weights, inputs, states.
        outputs: how many outputs there are.
        fixed: how many sources are no states.
        row_buffers: how many of the last states are handed on as they are, and are no results of the loop.

    A step with two states, which hands the first on as the second, and puts the second out:

    >>> reach = Reach(Connections([0b10, 0b01, 0b01], [0b10, 0b01, 0b01]), outputs=1, fixed=0)
    >>> layout = Layout.full(batch_size=4, steps=1, device=torch.device("cpu"))
    >>> bin(reach.sources(layout, 0b001)), bin(reach.sources(layout, 0b100))
    ('0b10', '0b1')
    """

    def __init__(self, step: Connections, outputs: int, fixed: int, row_buffers: int = 0) -> None:
        self._step, self._outputs, self._fixed = step, outputs, fixed
        self._results = (1 << len(step.graph) - row_buffers) - 1
        self._results_of = lru_cache(maxsize=256)(self._find_results)
        self._sources_of = lru_cache(maxsize=256)(self._find_sources)

    def results(self, layout: Layout, requiring: int) -> int:
        """The results that have gradients, outputs before final states, if these sources require them."""
        return self._results_of(layout.steps, layout.shortest, requiring)

    def sources(self, layout: Layout, arrived: int) -> int:
        """The sources that gradients reach if these results have got some."""
        return self._sources_of(layout.steps, layout.shortest, arrived)

    def ever(self) -> int:
        """The sources that gradients reach if all results have got some, whatever the number of steps."""
        return self._sources_of(len(self._step.graph) + 1, 0, self._results)

    def _find_results(self, steps: int, shortest: int, requiring: int) -> int:
        fixed, outputs = requiring & ((1 << self._fixed) - 1), 0

        def step(state: int) -> int:
            nonlocal outputs
            given = fixed | state << self._fixed
            found = bits(given & mask for mask in self._step.graph)
            outputs |= found & ((1 << self._outputs) - 1)
            return found >> self._outputs

        state = _repeated(step, requiring >> self._fixed, shortest)
        state = _repeated(lambda old: step(old) | old, state, steps - shortest)
        return (outputs | state << self._outputs) & self._results

    def _find_sources(self, steps: int, shortest: int, arrived: int) -> int:
        outputs, fixed = arrived & ((1 << self._outputs) - 1), 0

        def step(state: int) -> int:
            nonlocal fixed
            given, found = outputs | state << self._outputs, 0
            for number, mask in enumerate(self._step.gradients):
                found |= mask if given >> number & 1 else 0
            fixed |= found & ((1 << self._fixed) - 1)
            return found >> self._fixed

        state = arrived >> self._outputs
        # At steps that some rows do not run, a state is connected to what it was.
        state = _repeated(lambda new: step(new) | new, state, steps - shortest)
        state = _repeated(step, state, shortest)
        return fixed | state << self._fixed


def _repeated(step: Callable[[int], int], state: int, times: int) -> int:
    """What `step` makes of a state when it is applied so often; each state that occurs is looked at once."""
    order: list[int] = []
    while len(order) < times and state not in order:
        order.append(state)
        state = step(state)
    if len(order) == times:
        return state
    start = order.index(state)
    return order[start + (times - start) % (len(order) - start)]
