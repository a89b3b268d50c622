"""`unspool check`: reads a program without running it, for the names that it uses and `unspool.tf1` lacks."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unspool.tf1.namespace import public
from unspool.tf1.running.imports import ROOT, is_tensorflow
from unspool.tf1.running.locations import absent, sources

FORGIVING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
"""What a program catches that can do without a name."""


class Missing(NamedTuple):
    """A name that is not there."""

    lines: list[int]
    message: str

    def __str__(self) -> str:
        also = ", ".join(map(str, self.lines[1:]))
        return f"{self.message} (also on line {also})" if also else self.message


def check(text: str | bytes, name: str = "<program>") -> list[Missing]:
    """The names that a program uses and are not there, in the order of its lines, each once.

    >>> [found] = check("import tensorflow as tf; rnn = tf.nn.rnn_cell; cell = rnn.GruCell(3)")
    >>> print(found)
    unspool.tf1 has no tf.nn.rnn_cell.GruCell; did you mean tf.nn.rnn_cell.GRUCell?
    """
    reader = _Reader()
    reader.read(ast.parse(text, name))
    found: dict[str, Missing] = {}
    for line, message in sorted(reader.missing):
        lines = found.setdefault(message, Missing([], message)).lines
        if line not in lines:
            lines.append(line)
    return list(found.values())


def main(programs: Sequence[str]) -> int:
    """The command `unspool check`: a line for each name; 1 if there is any, else 0."""
    status = 0
    for program in programs:
        try:
            found = check(Path(program).read_bytes(), program)
        except (OSError, SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
            print(f"{program}{line}: cannot be read: {getattr(error, 'msg', None) or error}")
            status = 1
            continue
        for each in found:
            print(f"{program}:{each.lines[0]}: {each}")
        if not found:
            print(f"{program}: nothing is missing")
        status |= bool(found)
    return status


class _Reader(ast.NodeVisitor):
    """Walks over a program, with what its variables are of TensorFlow: the path of a module or a name, or nothing."""

    def __init__(self) -> None:
        self.missing: set[tuple[int, str]] = set()
        self._names: ChainMap[str, str | None] = ChainMap()
        self._later: list[tuple[ast.AST, ChainMap[str, str | None]]] = []
        self._forgiven = False

    def read(self, tree: ast.AST) -> None:
        """Functions are read after what is around them: they run when all of it is known."""
        self.visit(tree)
        while self._later:
            function, self._names = self._later.pop(0)
            self.generic_visit(function)

    # -- what names are bound to -------------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            whole = _path(each.name) if is_tensorflow(each.name) else None
            if whole is not None:
                self._check(whole, node.lineno)
            bound = each.name if each.asname else each.name.partition(".")[0]
            self._names[each.asname or bound] = whole if each.asname else ("" if whole is not None else None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not is_tensorflow(module):
            self._names.update((each.asname or each.name, None) for each in node.names)
            return
        for each in node.names:
            if each.name == "*":
                self._names.update((name, _join(_path(module), name)) for name in _names(_path(module)))
                self._check(_path(module), node.lineno)
            else:
                path = _join(_path(module), each.name)
                self._names[each.asname or each.name] = path if self._check(path, node.lineno) else None

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        path = self._path_of(node.value)
        for target in node.targets:
            self._bind(target, path)

    def _bind(self, target: ast.AST, path: str | None = None) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = path
        else:
            self.visit(target)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._names[node.id] = None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        outside = [*getattr(node, "decorator_list", ()), *node.args.defaults, *filter(None, node.args.kw_defaults)]
        for each in outside:
            self.visit(each)
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        inner: dict[str, str | None] = {each.arg: None for each in given if each is not None}
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        holder = ast.Module(body=body, type_ignores=[])  # pyright: ignore[reportArgumentType]
        self._later.append((holder, ChainMap(inner, *self._names.maps)))
        if not isinstance(node, ast.Lambda):
            self._names[node.name] = None

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(each)
        around = self._names
        self._names = around.new_child()
        for each in node.body:
            self.visit(each)
        self._names = around
        self._names[node.name] = None

    def visit_Try(self, node: ast.Try) -> None:
        caught = {name for handler in node.handlers for name in _caught(handler.type)}
        before, self._forgiven = self._forgiven, self._forgiven or bool(caught & FORGIVING)
        for each in node.body:
            self.visit(each)
        self._forgiven = before
        for each in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(each)

    # -- what is used ------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path_of(node)
        if path is None:
            self.generic_visit(node)
        elif isinstance(node.ctx, ast.Load):
            self._check(path, node.lineno)

    def _path_of(self, node: ast.AST) -> str | None:
        """The path below `tensorflow` that an expression stands for, if it does for one."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            around = self._path_of(node.value)
            return None if around is None else _join(around, node.attr)
        return None

    def _check(self, path: str, line: int) -> bool:
        problem = _problem(path)
        if problem is not None and not self._forgiven:
            self.missing.add((line, problem))
        return problem is None


def _problem(path: str) -> str | None:
    """What to say of a path, as far as it leads through modules and classes; None if all of it is there."""
    known = ""
    names = iter(path.split(".") if path else ())
    for name in names:
        if sources(_join(known, name)) is not None:
            known = _join(known, name)
        elif name in _names(known):
            found: Any = next(getattr(module, name) for _, module in sources(known) or () if name in public(module))
            inner = next(names, None)
            if isinstance(found, type) and inner is not None and not hasattr(found, inner):  # pyright: ignore[reportUnknownArgumentType]
                return f"unspool.tf1 has no tf.{_join(_join(known, name), inner)}"
            return None
        elif name.startswith("__"):
            return None
        else:
            return absent(known, name)
    return None


def _names(path: str) -> list[str]:
    return [each for _, module in sources(path) or () for each in public(module)]


def _path(module: str) -> str:
    return module.removeprefix(ROOT).lstrip(".")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _caught(kind: ast.expr | None) -> Iterator[str]:
    """The names of the errors that a handler catches; all if it says none."""
    if kind is None:
        yield "BaseException"
    for each in kind.elts if isinstance(kind, ast.Tuple) else [kind]:
        if isinstance(each, ast.Name):
            yield each.id
