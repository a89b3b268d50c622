"""Prints batched contractions: products of two values that both differ from row to row, as attention has.

They are as fast as memory is read: several sums are under way at a time, and a vector that is added to is read and
written once for several that are added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from textwrap import indent

from unspool.engine.emit.stages.statements import Contract
from unspool.engine.emit.stages.strided import Ref
from unspool.engine.emit.text.spelling import COMPUTED, Element

AT_A_TIME = 4
"""Sums under way, and vectors added: as many as hide what an addition waits for."""
PANEL = 128
"""Vectors that are added to each other before their sum is added to those of others: the error of a sum grows with its
terms. A multiple of `AT_A_TIME`."""
WIDEST = 16384
"""Elements of such a sum, which waits on the stack."""


def contraction(statement: Contract, element: Element) -> str:
    """The loops of `statement`."""
    statement = _turned(statement)
    n, p, m = statement.target.shape
    if _adds_vectors(statement):
        body = _in_panels(statement, element)
    else:
        body = _in_blocks("m", m, lambda block: _sum(statement, element, block))
    for index, size in (("p", p), ("n", n)):
        if size > 1:
            body = f"for (int64_t {index} = 0; {index} < {size}; {index}++) {{\n{indent(body, '  ')}}}\n"
    return body


def _adds_vectors(statement: Contract) -> bool:
    """Whether the elements of `right` that one of `left` is multiplied with lie side by side."""
    return statement.right.shape[2] > 1 and statement.right.root().strides[2] == 1


def _turned(statement: Contract) -> Contract:
    """The same product, or the transposed one, whichever has more to do at a time."""
    left, right, target = (ref.permute([0, 2, 1]) for ref in (statement.right, statement.left, statement.target))
    other = replace(statement, left=left, right=right, target=target)
    if _adds_vectors(statement) != _adds_vectors(other):
        return statement if _adds_vectors(statement) else other
    return statement if statement.target.shape[2] >= statement.target.shape[1] else other


# -- blocks -----------------------------------------------------------------------------------------------------------


class _Block:
    """Some neighbours along one dimension: those from `start` on, or, in a loop, from its index on.

    Args:
        start: the first, counted from the index.
        count: how many there are.
        index: that of a loop; empty if there is none.
        is_first: whether no block comes before it.
    """

    def __init__(self, start: int, count: int, index: str = "", *, is_first: bool = False) -> None:
        self.is_first, self._start, self._count, self._index = is_first, start, count, index

    def along(self, ref: Ref, dim: int) -> list[Ref]:
        """What `ref` has there; where there is no loop, without the dimension's index."""
        places = range(self._start, self._start + self._count)
        size = ref.shape[dim] if self._index else 1
        shape = (*ref.shape[:dim], size, *ref.shape[dim + 1 :])
        return [replace(ref, shape=shape, offset=ref.offset + place * ref.strides[dim]) for place in places]


def _in_blocks(index: str, size: int, text: Callable[[_Block], str], start: str = "") -> str:
    """`text` for blocks of all of `size`, from the index `start` on if there is one."""

    def scope(block: _Block, before: str = "") -> str:
        return f"{{\n{indent(before + text(block), '  ')}}}\n"

    first = min(AT_A_TIME, size)
    rest = (size - first) % AT_A_TIME
    at = f"const int64_t {index} = {start};\n" if start else ""
    here, own = (f"{start} + ", index) if start else ("", "")
    body = scope(_Block(0, first, own, is_first=True), at)
    if size - rest > first:
        head = f"for (int64_t {index} = {here}{first}; {index} < {here}{size - rest}; {index} += {AT_A_TIME}) "
        body += head + scope(_Block(0, AT_A_TIME, index))
    return body + (scope(_Block(size - rest, rest, own), at) if rest else "")


def _in_panels(statement: Contract, element: Element) -> str:
    """`target[:] = sum of left[k] * right[k, :]`; where there are many k, of the sums of some of them."""
    depth, width = statement.left.shape[2], statement.target.shape[2]
    out = element(statement.target, ("n", "p", "m"))
    if depth <= PANEL or width > WIDEST:
        return _in_blocks("k", depth, lambda block: _add_vectors(statement, element, block, out))
    kind, name = COMPUTED[statement.target.buffer.dtype], statement.target.buffer.name
    each = f"#pragma omp simd\nfor (int64_t m = 0; m < {width}; m++)\n  {out}"

    def panel(size: int) -> str:
        part = f"{name}_part[m]"
        sums = _in_blocks("k", size, lambda block: _add_vectors(statement, element, block, part), "panel")
        return f"{kind} {name}_part[{width}];\n{sums}{each} += {part};\n"

    rest, last = depth % PANEL, depth - depth % PANEL
    head = f"for (int64_t panel = 0; panel < {last}; panel += {PANEL}) {{\n"
    text = f"{each} = 0;\n{head}{indent(panel(PANEL), '  ')}}}\n"
    if rest:
        text += f"{{\n  const int64_t panel = {last};\n{indent(panel(rest), '  ')}}}\n"
    return text


def _add_vectors(statement: Contract, element: Element, block: _Block, out: str) -> str:
    """`out += left[k] * right[k, :]`, for a block of k."""
    kind, name = COMPUTED[statement.target.buffer.dtype], statement.target.buffer.name
    factors, terms = "", [] if block.is_first else [out]
    for number, (left, right) in enumerate(
        zip(block.along(statement.left, 2), block.along(statement.right, 1), strict=True)
    ):
        factors += f"const {kind} {name}_by_{number} = {element(left, ('n', 'p', 'k'))};\n"
        terms.append(f"{name}_by_{number} * {element(right, ('n', 'k', 'm'))}")
    loop = f"#pragma omp simd\nfor (int64_t m = 0; m < {statement.target.shape[2]}; m++)\n"
    return f"{factors}{loop}  {out} = {' + '.join(terms)};\n"


def _sum(statement: Contract, element: Element, block: _Block) -> str:
    """`target[m] = sum of left[:] * right[:, m]`, for a block of m."""
    kind, name = COMPUTED[statement.target.buffer.dtype], statement.target.buffer.name
    left = element(statement.left, ("n", "p", "k"))
    starts, terms, ends = "", "", ""
    names: list[str] = []
    for number, (right, out) in enumerate(
        zip(block.along(statement.right, 2), block.along(statement.target, 2), strict=True)
    ):
        names.append(f"{name}_at_{number}")
        starts += f"{kind} {names[-1]} = 0;\n"
        terms += f"  {names[-1]} += {left} * {element(right, ('n', 'k', 'm'))};\n"
        ends += f"{element(out, ('n', 'p', 'm'))} = {names[-1]};\n"
    pragma = f"#pragma omp simd reduction(+ : {', '.join(names)})\n"
    return f"{starts}{pragma}for (int64_t k = 0; k < {statement.left.shape[2]}; k++) {{\n{terms}}}\n{ends}"
