"""Streamed values that a loop reads long before it needs them: memory is far away."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.strided import Ref
from unspool.engine.emit.text.spelling import TYPES


class Early:
    """What a loop needs of streamed values: it waits in registers from one step to the next.

    Args:
        places: where values are.
        number: which one of a step's loops this is.
    """

    def __init__(self, places: Places, number: int) -> None:
        self._places, self._number = places, number
        self._refs: dict[str, Ref] = {}
        self._posted: dict[str, None] = {}
        """Where the loop posts words: filled when a launch begins, they are far away by the time of their step."""

    def __bool__(self) -> bool:
        return bool(self._refs or self._posted)

    @property
    def reads(self) -> bool:
        """Whether the loop reads any."""
        return bool(self._refs)

    @property
    def reading(self) -> str:
        """The function that reads them, for the next step."""
        return f"read_for_{self._number}"

    @property
    def fetching(self) -> str:
        """The function that brings those of a later step nearer: one step is less than memory takes."""
        return f"fetch_for_{self._number}"

    def name_of(self, ref: Ref) -> str:
        """The array that an element waits in."""
        for name, known in self._refs.items():
            if known.same_elements(ref):
                return name
        name = f"{ref.root().buffer.name}_early{self._number}_{len(self._refs)}"
        self._refs[name] = ref
        return name

    def posts(self, address: str) -> None:
        """Notes down where the loop posts a word, by the `start` of a step and the `row`."""
        self._posted[address] = None

    def text(self, turns: int, own: str, place_of: Callable[[Ref], str]) -> str:
        """Both functions, as far as there is something to read.

        Args:
            turns: how many elements a thread has.
            own: the lines that say which element of which row a turn is.
            place_of: the text of where an element is in its row.
        """
        if not self:
            return ""
        names = reads = fetches = ""
        for name, ref in self._refs.items():
            buffer = ref.root().buffer
            place = f"{self._places.all_of(buffer)} + ((start + row) * {buffer.size} + {place_of(ref)})"
            names += f"{TYPES[buffer.dtype]} {name}[{turns}];\n"
            reads += f"{name}[turn] = *({place});\n"
            fetches += f"unspool::fetch({place});\n"
        fetches += "".join(f"unspool::fetch({place});\n" for place in self._posted)
        reading = _function(self.reading, turns, own + reads) if reads else ""
        return names + reading + _function(self.fetching, turns, own + fetches)


def _function(name: str, turns: int, lines: str) -> str:
    """A function that runs lines for each element that a thread has of the rows from `start` on."""
    head = f"#pragma unroll\nfor (int turn = 0; turn < {turns}; turn++) {{\n"
    body = "if (rows <= 0) return;\n" + head + indent(lines, "  ") + "}\n"
    return f"const auto {name} = [&](Index start, int rows) {{\n{indent(body, '  ')}}};\n"
