"""`Session.partial_run`: some fetches now, others later, with what was computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unspool.structure import Structure, flatten
from unspool.tf1.errors import InvalidArgumentError
from unspool.tf1.operation import Operation
from unspool.tf1.program import needed
from unspool.tf1.tables import VARIABLE
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Session


class PartialRun:
    """A run in several calls.

    Args:
        session: that runs.
        fetches: what will be fetched, each once.
        feeds: what will be fed, each once.
    """

    def __init__(self, session: Session, fetches: Structure, feeds: Structure) -> None:
        self._session, self._graph = session, session.graph
        self._fetches = set(map(self._tensor, flatten(fetches)))
        if not self._fetches:
            raise InvalidArgumentError(None, None, "Must specify at least one target to fetch or execute.")
        self._feeds = set(map(self._tensor, flatten([] if feeds is None else feeds)))
        self._waiting = set(self._fetches)
        self._values: dict[Tensor, Any] = {}
        """What was fed, and what must not be computed twice: draws, and changes of variables."""

    @property
    def finished(self) -> bool:
        """Whether all was fetched."""
        return not self._waiting

    def run(self, fetches: Structure, feed_dict: Any) -> Any:
        """What is fetched in this call, from all that was fed so far.

        Raises:
            InvalidArgumentError: for a fetch or feed that was not set up or comes twice, or that needs another feed.
        """
        wanted = [self._tensor(each) for each in flatten(fetches)]
        fed = {self._tensor(key): value for key, value in (feed_dict or {}).items()}
        for what, given, allowed, left in (
            ("fetch", wanted, self._fetches, self._waiting),
            ("feed", fed, self._feeds, self._feeds - self._values.keys()),
        ):
            for each in given:
                if each not in allowed:
                    self._refuse(f"The {what} {each.name} was not specified in partial_run_setup.")
                if each not in left:
                    self._refuse(f"The {what} {each.name} has already been {'fetched' if what == 'fetch' else 'fed'}.")
        self._values.update(fed)
        feed, kept = self._known(wanted)
        values, made = self._session.run([fetches, kept], feed)
        self._values.update(zip(kept, made, strict=True))
        self._waiting -= set(wanted)
        return values

    def _known(self, wanted: list[Tensor]) -> tuple[dict[Tensor, Any], list[Tensor]]:
        """What is fed, of all that is known, and what to keep of what is computed."""
        operations = needed(wanted, self._values)
        absent = [each for each in operations if each.type == "Placeholder"]
        if absent:
            names = ", ".join(f"{each.name}:0" for each in absent)
            self._refuse(
                f"Fetch can't be computed from the feeds that have been fed so far: {names} is not among them."
            )
        if not any(each.watches for each in operations):
            return dict(self._values), _drawn(operations, set())
        # A gradient is taken of what this run computes: between its ends nothing can be fed.
        every = needed(wanted, [each for each in self._values if each in self._feeds])
        between = {tensor for each in every for tensor in each.watches}
        for each in every:
            if any(read in between for read in each.inputs):
                between.update(each.outputs)
        feed = {each: value for each, value in self._values.items() if each not in between or each in self._feeds}
        return feed, _drawn(every, between | feed.keys())

    def _tensor(self, element: Any) -> Tensor:
        found = self._graph.as_graph_element(element)
        if isinstance(found, Operation):
            raise RuntimeError(f"partial_run() fetches and feeds tensors, but got the operation {found.name}")
        return found

    def _refuse(self, message: str) -> None:
        raise InvalidArgumentError(None, None, message)


def _drawn(operations: list[Operation], others: set[Tensor]) -> list[Tensor]:
    """The outputs that another run might make otherwise: those of operations that see the session."""
    there = [
        each for each in operations if each.takes_run and not each.watches and each.type not in (VARIABLE, "Const")
    ]
    return [output for each in there for output in each.outputs if output.dtype.torch and output not in others]
