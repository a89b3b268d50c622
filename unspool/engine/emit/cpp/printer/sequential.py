"""Prints statements whose elements come one after another: scans, orders, gathers, scatters."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from unspool.engine.emit.stages.statements import Along, Gather, Order, Scan, Scatter
from unspool.engine.emit.text.folds import start_of_fold
from unspool.engine.emit.text.spelling import COMPUTED, TYPES, Element, loaded


def sequential(statement: Scan | Order | Gather | Scatter, element: Element) -> str:
    """The loops of `statement`."""
    if isinstance(statement, Scan):
        return _scan(statement, element)
    if isinstance(statement, Order):
        return _order(statement, element)
    shape = statement.first.shape
    names = _names(shape)
    further = [_further(each, element, names) for each in statement.places]
    found = element(statement.first, names, *further)
    if isinstance(statement, Gather):
        return _nest(shape, f"{element(statement.target, names)} = {found};\n")
    value = element(statement.value, names)
    return _nest(shape, f"{found} {'+=' if statement.adds else '='} {value};\n")


def _scan(scan: Scan, element: Element) -> str:
    shape, kind, name = scan.argument.shape, COMPUTED[scan.carry], scan.target.buffer.name
    names = _names(shape)
    value, target = loaded(element(scan.argument, names), scan.argument.buffer.dtype), element(scan.target, names)
    so_far, own = f"{name}_so_far", TYPES[scan.target.buffer.dtype]
    if scan.fold in ("max", "min"):  # the places of these
        starts = f"{kind} {so_far} = {start_of_fold(scan.fold, scan.carry)};\nint64_t {name}_place = 0;\n"
        reaches = f"unspool::{'reaches' if scan.fold == 'max' else 'reaches_down'}({value}, {so_far})"
        body = f"if ({reaches}) {{\n  {so_far} = {value};\n  {name}_place = {names[-1]};\n}}\n"
        body += f"{target} = {name}_place;\n"
    else:
        starts = f"{kind} {so_far} = {start_of_fold(scan.fold, scan.carry)};\n"
        term = value if scan.argument.buffer.dtype == scan.carry else f"{kind}({value})"
        signs = {"sum": f"{so_far} + {term}", "prod": f"{so_far} * {term}"}
        body = f"{so_far} = {signs.get(scan.fold, f'unspool::log_add_exp({term}, {so_far})')};\n"
        body += f"{target} = {own}({so_far});\n" if own != kind else f"{target} = {so_far};\n"
    inner = _nest(shape[-1:], body, names[-1:])
    return _nest(shape[:-1], starts + inner) if len(shape) > 1 else f"{{\n{indent(starts + inner, '  ')}}}\n"


def _order(order: Order, element: Element) -> str:
    shape = order.argument.shape
    names = [*_names(shape[:-1]), "0"]
    given = f"&{element(order.argument, names)}, {order.argument.strides[-1]}, {shape[-1]}"
    places, descending = f"&{element(order.target, names)}", "true" if order.descending else "false"
    if order.first is None:
        return _nest(shape[:-1], f"unspool::order<{descending}>({given}, {places});\n")
    in_order = "true" if order.in_order else "false"
    return _nest(shape[:-1], f"unspool::order_first<{descending}>({given}, {order.first}, {in_order}, {places});\n")


def _further(along: Along, element: Element, names: Sequence[str]) -> str:
    """How many elements further on a place is, whose number is checked first."""
    place = element(along.index, names)
    if along.axis is not None:
        name = "place_from_end" if along.from_end else "place"
        place = f"unspool::{name}({place}, {along.size}, {along.axis}, chunk.fault)"
    return place if along.step == 1 else f"{place} * {along.step}"


def _names(shape: Sequence[int]) -> list[str]:
    """Names of indices; those of dimensions of size one are not used."""
    used = [size != 1 for size in shape]
    return [f"i{sum(used[:k])}" for k in range(len(shape))]


def _nest(shape: Sequence[int], body: str, names: Sequence[str] = ()) -> str:
    """`body` in loops over dimensions; those of size one have none."""
    for size, name in reversed(list(zip(shape, names or _names(shape), strict=True))):
        if size != 1:
            body = f"for (int64_t {name} = 0; {name} < {size}; {name}++) {{\n{indent(body, '  ')}}}\n"
    return body
