"""`tf.flags`, also `tf.app.flags`: options of a program, with defaults, from its command line.

>>> from unspool import tf1 as tf
>>> tf.flags.DEFINE_integer("batch_size", 32, "rows in a batch")
>>> tf.flags.FLAGS.batch_size
32
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from unspool.tf1.namespace import missing

__all__ = [
    "FLAGS",
    "DEFINE_bool",
    "DEFINE_boolean",
    "DEFINE_enum",
    "DEFINE_float",
    "DEFINE_integer",
    "DEFINE_list",
    "DEFINE_string",
    "FlagValues",
    "mark_flag_as_required",
]


class FlagValues:
    """The values of the options, as attributes; the command line is read when the first is asked for."""

    def __init__(self) -> None:
        self.__dict__.update(_kinds={}, _values={}, _help={}, _required=set(), _parsed=False)

    def define(self, name: str, default: Any, help: str | None, kind: Callable[[str], Any]) -> None:
        """Adds an option; one of the same name is replaced."""
        self._kinds[name], self._values[name], self._help[name] = kind, default, help
        self.__dict__["_parsed"] = False

    def __call__(self, argv: Sequence[str]) -> list[str]:
        """Takes the options from a command line, and returns the rest of it.

        Raises:
            ValueError: for a value that an option cannot take, or one that is required and missing.
        """
        self.__dict__["_parsed"] = True
        rest, words = list(argv[:1]), list(argv[1:])
        given: set[str] = set()
        while words:
            word = words.pop(0)
            if word == "--":
                rest += words
                break
            name, equals, text = word.lstrip("-").partition("=")
            no = name[2:] if name.startswith("no") and self._kinds.get(name[2:]) is as_bool and not equals else None
            if not word.startswith("-") or (no is None and name not in self._kinds):
                rest.append(word)
                continue
            given.add(no or name)
            if no is not None:
                self._values[no] = False
            elif self._kinds[name] is as_bool and not equals:
                self._values[name] = True
            elif not equals and not words:
                raise ValueError(f"flag --{name} needs a value")
            else:
                self._values[name] = self._read(name, text if equals else words.pop(0))
        for name in sorted(self._required - given):
            if self._values[name] is None:
                raise ValueError(f"flag --{name} must have a value: {self._help[name]}")
        return rest

    def _read(self, name: str, text: str) -> Any:
        try:
            return self._kinds[name](text)
        except ValueError as error:
            raise ValueError(f"flag --{name}={text}: {error}") from None

    def _parse_flags(self, args: Sequence[str] | None = None) -> None:
        """Reads the command line; programs call it before they list the options."""
        self([sys.argv[0], *args] if args is not None else sys.argv)

    def __getattr__(self, name: str) -> Any:
        if name == "__flags":  # what programs list the options of
            return self.flag_values_dict()
        if name not in self._values:
            raise AttributeError(f"no flag {name!r} is defined; there are {sorted(self._values)}")
        if not self._parsed:
            self(sys.argv)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise AttributeError(f"no flag {name!r} is defined; there are {sorted(self._values)}")
        if not self._parsed:
            self(sys.argv)
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Any:
        return iter(self._values)

    def flag_values_dict(self) -> dict[str, Any]:
        """The values by name."""
        return {name: getattr(self, name) for name in self._values}


FLAGS = FlagValues()


@contextmanager
def fresh() -> Generator[None, None, None]:
    """No options of the caller's inside, and none from inside after it."""
    before = dict(FLAGS.__dict__)
    FLAGS.__dict__.update(FlagValues().__dict__)
    try:
        yield
    finally:
        FLAGS.__dict__.update(before)


def as_bool(text: str) -> bool:
    """A truth that is written out."""
    if text.lower() not in ("true", "false", "t", "f", "1", "0", "yes", "no"):
        raise ValueError("a truth is true or false")
    return text.lower() in ("true", "t", "1", "yes")


def DEFINE_string(name: str, default: str | None, help: str | None = None) -> None:  # noqa: N802
    """An option that is a text."""
    FLAGS.define(name, default, help, str)


def DEFINE_integer(name: str, default: int | None, help: str | None = None) -> None:  # noqa: N802
    """An option that is a whole number."""
    FLAGS.define(name, default, help, int)


def DEFINE_float(name: str, default: float | None, help: str | None = None) -> None:  # noqa: N802
    """An option that is a number."""
    FLAGS.define(name, None if default is None else float(default), help, float)


def DEFINE_boolean(name: str, default: bool | None, help: str | None = None) -> None:  # noqa: N802
    """An option that is a truth: `--name`, `--noname`, `--name=false`."""
    FLAGS.define(name, default, help, as_bool)


DEFINE_bool = DEFINE_boolean


def DEFINE_list(name: str, default: Any, help: str | None = None) -> None:  # noqa: N802
    """An option that is a list of texts, with commas between them."""
    split: Callable[[str], Any] = lambda text: text.split(",") if text else []  # noqa: E731
    FLAGS.define(name, split(default) if isinstance(default, str) else default, help, split)


def DEFINE_enum(name: str, default: str | None, enum_values: Sequence[str], help: str | None = None) -> None:  # noqa: N802
    """An option that is one of several texts."""

    def one_of(text: str) -> str:
        if text not in enum_values:
            raise ValueError(f"it must be one of {list(enum_values)}")
        return text

    FLAGS.define(name, default, help, one_of)


def mark_flag_as_required(flag_name: str) -> None:
    """The command line must have this one."""
    FLAGS._required.add(flag_name)  # pyright: ignore[reportPrivateUsage]


def __getattr__(name: str) -> Any:
    raise missing("tf.flags", name, globals())
