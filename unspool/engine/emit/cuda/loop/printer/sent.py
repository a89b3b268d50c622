"""What the blocks of a cluster send each other where they have all units of a row: rows that products multiply.

Each block has all of a row in its shared memory, for two steps in turns: one is multiplied while the next one arrives.
Nobody overwrites what another still reads: whoever sends for a step has what all others sent for the step before, and
they sent that when their threads had multiplied what lay there two steps ago. That holds for states, which are sent for
the next step, and for what a step computes and multiplies itself. A state that is sent after the last step would arrive
in the next rows' memory, so it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine.emit.cuda.loop.printer.places import Places, near_apart
from unspool.engine.emit.stages.statements import Product
from unspool.engine.emit.stages.strided import Buffer, Place
from unspool.engine.emit.text.spelling import TYPES


class Sent:
    """Prints what blocks do about it besides computing it.

    Args:
        places: where values are.
    """

    def __init__(self, places: Places) -> None:
        self._places, tiling = places, places.tiling
        self._buffers = list(places.division.crossing) if tiling.sends else []
        self._products, self._rows = places.lowered.products, tiling.rows

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._buffers

    def given(self, buffer: Buffer, given: str) -> str:
        """Takes over all of a state's rows, for both turns, since a row may begin at any step.

        Args:
            buffer: the state.
            given: the name of what a launch is given of it.
        """
        name, kind, size, apart = buffer.name, TYPES[buffer.dtype], buffer.size, near_apart(buffer)
        text = f"for (int item = unspool::thread_anew(); item < mine * {size}; item += THREADS) {{\n"
        text += f"  const {kind} found = {given}[(int64_t)first * {size} + item];\n"
        for turn in range(2):
            place = f"{turn * self._rows * apart} + item / {size} * {apart} + item % {size}"
            text += f"  {name}_near_both[{place}] = found;\n"
        return text + "}\n"

    def now(self) -> str:
        """Where it is at a step, and how many bytes of others' units a block waits for."""
        return "".join(map(self._now, self._buffers))

    def _now(self, buffer: Buffer) -> str:
        name, kind, carried = buffer.name, TYPES[buffer.dtype], buffer.place is Place.CARRIED
        size, tiles = self._rows * near_apart(buffer), self._places.tiling.cluster
        text = f"{kind}* const {name}_near = {name}_near_both + (k & 1) * {size};\n"
        text += f"{kind}* const {name}_near_next = {name}_near_both + (k + 1 & 1) * {size};\n" if carried else ""
        when = "unspool::thread() == 0" + (" && k + 1 < steps.end" if carried else "")
        others = buffer.size // tiles * (tiles - 1) * buffer.dtype.itemsize
        return text + f"if ({when}) {self._places.mail_for(buffer)}.expect(step.rows * {others});\n"

    def arrived(self, stage: Sequence[Product]) -> str:
        """Waits for what products of a stage are the first to read; a state is given at the first step."""
        before = {each.left.root().buffer for each in self._products[: self._products.index(stage[0])]}
        read = dict.fromkeys(each.left.root().buffer for each in stage)
        return "".join(self._arrived(each) for each in read if each in self and each not in before)

    def _arrived(self, buffer: Buffer) -> str:
        text = f"{buffer.name}_arrivals.wait(k);\n"
        return f"if (k > steps.begin) {text}" if buffer.place is Place.CARRIED else text
