"""`import tensorflow`, answered by `unspool.tf1` for as long as it is installed."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any

from unspool.tf1.namespace import public
from unspool.tf1.running.locations import absent, sources

ROOT = "tensorflow"


class Namespace(ModuleType):
    """A module of TensorFlow's: its names are those of `unspool.tf1`, and what a program sets in it stays in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"`{name}`, by unspool.tf1.")
        self._sources = sources(name.removeprefix(ROOT).lstrip(".")) or []
        self.__all__: list[str] = list(dict.fromkeys(each for _, module in self._sources for each in public(module)))
        for _, module in reversed(self._sources):
            self.__dict__.update(
                (each, value)
                for each in module.__all__
                if not isinstance(value := getattr(module, each), ModuleType)  # those become namespaces when asked for
            )
        if name == ROOT:
            self.__version__ = self.VERSION

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        child = f"{self.__name__}.{name}"
        if sources(child.removeprefix(f"{ROOT}.")) is not None:
            return importlib.import_module(child)
        for _, module in self._sources:
            if name in public(module):
                return getattr(module, name)
        raise AttributeError(complaint(self.__name__, name), name=name, obj=None)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


class Finder(MetaPathFinder, Loader):
    """Finds `tensorflow` and what is below it in `unspool.tf1`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is TensorFlow's; `ImportError` with advice if there is none of that name."""
        if not is_tensorflow(fullname):
            return None
        if sources(fullname.removeprefix(ROOT).lstrip(".")) is None:
            # Without `name=`: Python would take it for a submodule that `from a import b` may do without.
            raise ModuleNotFoundError(complaint(*fullname.rsplit(".", 1)))
        return ModuleSpec(fullname, self, origin="unspool.tf1", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The namespace."""
        return Namespace(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has its names."""


class Installation:
    """What `install` did, to be undone by `undo()` or at the end of a `with`."""

    def __init__(self) -> None:
        self._finder: Finder | None = Finder()
        # TensorBoard would ask TensorFlow for files; this is its own sign that there is none.
        self._before = {name: sys.modules.pop(name) for name in list(sys.modules) if is_tensorflow(name)}
        self._without = sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
        sys.meta_path.insert(0, self._finder)

    def undo(self) -> None:
        """From now on, `import tensorflow` is what it was before; once is enough."""
        if self._finder is None:
            return
        sys.meta_path.remove(self._finder)
        for name in [each for each in sys.modules if is_tensorflow(each)]:
            del sys.modules[name]
        if not hasattr(self._without, "__file__"):
            sys.modules.pop("tensorboard.compat.notf", None)
        sys.modules.update(self._before)
        self._finder = None

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None) -> None:
        self.undo()


def install() -> Installation:
    """Lets `import tensorflow` mean `unspool.tf1`, in a notebook or a process of one's own, until it is undone.

    A TensorFlow that is installed stays as it is; modules that have imported it before keep it.

    >>> import unspool.tf1
    >>> with unspool.tf1.install():
    ...     import tensorflow as tf
    ...     from tensorflow.contrib.rnn import BasicLSTMCell
    >>> tf.__version__, BasicLSTMCell is unspool.tf1.contrib.rnn.BasicLSTMCell
    ('1.15.0', True)
    """
    return Installation()


def is_tensorflow(name: str) -> bool:
    """Whether a module is TensorFlow's."""
    return name == ROOT or name.startswith(f"{ROOT}.")


def complaint(parent: str, name: str) -> str:
    """Where a name was asked for that is not there, and what to do."""
    return f"{_line()}: {absent(parent.removeprefix(ROOT).lstrip('.'), name)}"


def _line() -> str:
    """The line of the program that runs now."""
    frame = inspect.currentframe()
    while frame is not None and (
        frame.f_code.co_filename == __file__
        or frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_globals.get("__name__", "").startswith("importlib.")
    ):
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
