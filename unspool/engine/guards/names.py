"""Names that a code object reads: which globals, and which attributes of whatever it gets hold of."""

from __future__ import annotations

import dis
import importlib.metadata
import os
import re
import sys
import sysconfig
import types
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy
import optree
import sympy

from unspool.engine.reasons import TORCH, UNSPOOL

NUMPY = str(Path(numpy.__file__).parent)
FIXED = (TORCH, UNSPOOL, NUMPY, *(str(Path(package.__file__ or "").parent) for package in (optree, sympy)))
"""What torch and this library are made of."""
STANDARD = sysconfig.get_paths()["stdlib"]
INSTALLED = tuple({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})
"""Where this environment has its packages; `is_installed` knows of others."""

COMPUTED = {"getattr", "vars", "eval", "exec", "globals", "locals", "dir", "__dict__", "__getattribute__", "attrgetter"}
"""Names by which code reads attributes whose names it computes."""
IMPORTING = {"modules", "import_module", "__import__"}
"""Names by which code finds modules by strings."""

CALLED_BY_TORCH = {"forward", "backward", "setup_context", "jvp", "vjp", "vmap"}
"""Methods that run without being named by the step."""
MAKING = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__del__", "__class_getitem__"}
"""Methods that make an object or a class, and do not run in a step."""
SHOWING = {
    "_abc_impl",
    "__repr__",
    "__str__",
    "__doc__",
    "__module__",
    "__annotations__",
    "__reduce__",
    "__reduce_ex__",
}
"""Names that every class has and that change no number."""
READ_BY_LOOPS = {"output_size", "state_size", "row_buffers", "training"}
"""Attributes that a loop reads of a cell."""


@dataclass(frozen=True)
class Names:
    """What a code object, and the functions defined in it, read by name.

    Args:
        globals: names looked up in the module, then among the builtins.
        attributes: names of attributes, and strings that may be such names.
        modules: names under which modules may be imported.
        computed: whether attributes may be read whose names are not written down.
    """

    globals: tuple[str, ...]
    attributes: tuple[str, ...]
    modules: tuple[str, ...]
    computed: bool


@lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    """The names that `code` reads.

    >>> def step(self, x):
    ...     return scale * x + self.bias
    >>> names_of(step.__code__)
    Names(globals=('scale',), attributes=('bias',), modules=(), computed=False)
    """
    named: dict[str, None] = {}
    attributes: dict[str, None] = {}
    modules: dict[str, None] = {}
    strings: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            if instruction.argval.isidentifier():  # others are put there by tools that rewrite code, for assertions say
                named[instruction.argval] = None
        elif instruction.opname == "IMPORT_NAME":
            modules[instruction.argval] = None
            attributes.update(dict.fromkeys(instruction.argval.split(".")))
        elif instruction.opcode in dis.hasname:
            attributes[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_of(constant)
            named.update(dict.fromkeys(inner.globals))
            attributes.update(dict.fromkeys(inner.attributes))
            modules.update(dict.fromkeys(inner.modules))
        elif isinstance(constant, str) and constant.replace(".", "_").isidentifier():
            attributes.update(dict.fromkeys(constant.split(".")))
            strings[constant] = None
    if not {"getenv", "environb", "expandvars"}.isdisjoint({*named, *attributes}):
        attributes["environ"] = None
    if not IMPORTING.isdisjoint({*named, *attributes}):
        modules.update(strings)
    if not {"globals", "vars", "eval", "exec"}.isdisjoint(named):
        texts = [constant for constant in code.co_consts if isinstance(constant, str)]
        named.update((name, None) for text in texts for name in re.findall(r"[^\W\d]\w*", text))
    computed = not COMPUTED.isdisjoint({*named, *attributes})
    return Names(tuple(named), tuple(attributes), tuple(modules), computed)


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether code from `file` is torch's, Python's or this library's own, or of what these are built on."""
    if is_installed(file):
        return file.startswith(FIXED)
    return file.startswith((STANDARD, *FIXED, "<frozen "))


def is_fixed(file: str) -> bool:
    """Whether code is part of Python or of an installed package: its globals are taken as they are."""
    return is_library(file) or is_installed(file)


@lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Whether code is part of an installed package, in this environment or wherever else Python looks for modules.

    That is a folder for packages (`site-packages` of a parent environment or a user, `dist-packages`), or any folder
    of `sys.path` to which an installer has brought it, as `pip install --target` does: it then leaves a record. What
    is installed to be edited is not copied there, and remains the user's.
    """
    if file.startswith(INSTALLED):
        return True
    folders = [each for each in map(os.path.abspath, sys.path) if file.startswith(os.path.join(each, ""))]
    if any(os.path.basename(each) in ("site-packages", "dist-packages") for each in folders):
        return True
    return any(os.path.relpath(file, each).split(os.sep)[0] in _recorded(each) for each in folders)


@lru_cache(maxsize=256)
def _recorded(folder: str) -> frozenset[str]:
    """What installers have put into a folder, by the first names of its paths."""
    found: set[str] = set()
    for each in importlib.metadata.distributions(path=[folder]):
        if each.read_text("RECORD") is not None:
            found.update(file.parts[0] for file in each.files or ())
    return frozenset(found)


def is_fixed_module(module: types.ModuleType) -> bool:
    """Whether a Python module is part of Python or of an installed package."""
    if module.__name__.partition(".")[0] in ("torch", "numpy", "sympy", "optree", "unspool"):
        return True
    file = module.__dict__.get("__file__")  # not by getattr: a module may have its own
    if isinstance(file, str):
        return is_fixed(file)
    return getattr(module.__dict__.get("__spec__"), "origin", None) in ("built-in", "frozen")


def nested(code: types.CodeType) -> list[types.CodeType]:
    """`code` and every code object defined inside it."""
    found = [code]
    for each in found:  # which grows
        found += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]
    return found
