"""The `torch.where` form of an `if` in the user's code, for who has to rewrite it."""

from __future__ import annotations

import ast
import linecache


def as_selection(file: str, number: int) -> str | None:
    r"""An `if` on a line of a file as selections, in a sentence; None if it does more than to set names or to return.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
    ...     _ = file.write("def step(x, h):\n    if (x > 0).any():\n        h = h + 1\n    return h\n")
    ...     file.flush()
    ...     as_selection(file.name, 2)
    'Where every row may decide for itself: `h = torch.where(x > 0, h + 1, h)`.'
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for block in _blocks(tree):
        for statement, following in zip(block, [*block[1:], None], strict=True):
            if isinstance(statement, ast.If) and statement.test.lineno <= number <= (statement.test.end_lineno or 0):
                return _sentence(statement, following)
    return None


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    fields = [getattr(node, field, None) for node in ast.walk(tree) for field in ("body", "orelse")]
    return [block for block in fields if isinstance(block, list) and block]


def _sentence(branch: ast.If, following: ast.stmt | None) -> str | None:
    condition, is_by_rows, negated = _condition(branch.test)
    taken, otherwise = _results(branch.body), _results(branch.orelse)
    if taken is not None and "return" in taken and not branch.orelse and isinstance(following, ast.Return):
        otherwise = _results([following])
    if taken is None or otherwise is None or ("return" in taken) != ("return" in otherwise):
        return None
    lines: list[str] = []
    for name in dict.fromkeys([*taken, *otherwise]):
        sides = [taken.get(name, name), otherwise.get(name, name)]
        chosen = ", ".join(reversed(sides) if negated else sides)
        lines.append(f"{'return' if name == 'return' else f'{name} ='} torch.where({condition}, {chosen})")
    where = "" if is_by_rows else f", with a condition for each row in the place of `{condition}`"
    return f"Where every row may decide for itself: `{'; '.join(lines)}`{where}."


def _condition(test: ast.expr) -> tuple[str, bool, bool]:
    """What is asked of rows, whether it is asked of each, and whether the answer is turned around."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        condition, is_by_rows, negated = _condition(test.operand)
        return condition, is_by_rows, not negated
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        if test.func.attr == "item" and not test.args:
            return _condition(test.func.value)
        if test.func.attr in ("any", "all"):
            is_function = isinstance(test.func.value, ast.Name) and test.func.value.id == "torch"
            return ast.unparse(test.args[0] if is_function and test.args else test.func.value), True, False
    return ast.unparse(test), False, False


def _results(block: list[ast.stmt]) -> dict[str, str] | None:
    """What a block sets names to, or returns, as texts; None if it does anything else."""
    found: dict[str, str] = {}
    for statement in block:
        if isinstance(statement, ast.Return) and statement.value is not None:
            found["return"] = ast.unparse(statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found[statement.targets[0].id] = ast.unparse(statement.value)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            value = ast.BinOp(ast.Name(statement.target.id), statement.op, statement.value)
            found[statement.target.id] = ast.unparse(value)
        else:
            return None
    return found
