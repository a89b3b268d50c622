"""`tf.contrib.training.HParams`: hyperparameters by name, each with a type that it keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)(?:\[(?P<place>\d+)\])?\s*=\s*(?:\[(?P<values>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)


class HParams:
    """Hyperparameters: attributes that can be set from text, and keep their types.

    Args:
        hparam_def, model_structure: accepted.
        kwargs: the names and their values: numbers, strings, truths, None, or lists of one type.

    >>> hparams = HParams(rate=0.1, units=[8, 8], cell="lstm")
    >>> hparams.parse("rate=1,units=[4,2]").units, hparams.rate, "cell" in hparams
    ([4, 2], 1.0, True)
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._types: dict[str, tuple[type[Any], bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds one; `ValueError` if the name is taken, or a list is empty."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)  # pyright: ignore[reportUnknownArgumentType]
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets one to a value of its type.

        Raises:
            KeyError: if there is none of that name.
            ValueError: if the value is of another type, or a list where one is not meant.
        """
        kind, several = self._types[name]
        if isinstance(value, list):
            if not several:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_converted(name, kind, each) for each in value])  # pyright: ignore[reportUnknownVariableType]
        else:
            if several:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _converted(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes one, if it is there."""
        if name in self._types:
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Sets those that a text such as `rate=0.1,units=[4,4],units[1]=8` names.

        Raises:
            ValueError: if there is none of a name, or a value is of another type.
        """
        place, found = 0, dict[str, Any]()
        while place < len(values):
            match = _ASSIGNMENT.match(values, place)
            if match is None:
                raise ValueError(f"Malformed hyperparameter value: {values[place:]}")
            place = match.end()
            name = match["name"]
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            kind, several = self._types[name]
            if match["place"] is not None:
                listed = list(found.get(name, getattr(self, name)))
                listed[int(match["place"])] = _parsed(name, kind, match["value"])
                found[name] = listed
            elif match["values"] is not None:
                parts = [each.strip() for each in match["values"].split(",") if each.strip()]
                found[name] = [_parsed(name, kind, each) for each in parts]
            else:
                found[name] = _parsed(name, kind, match["value"])
            if isinstance(found[name], list) != several:
                raise ValueError(f"Must {'' if several else 'not '}pass a list for parameter: {name}")
        return self.override_from_dict(found)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets those that a dict has."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets those that a JSON object has."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """All of them as a JSON object; functions are left out."""
        plain = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """All of them by name."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of one, or a default if there is none of that name."""
        return getattr(self, key) if key in self._types else default

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({self})"


def _parsed(name: str, kind: type[Any], text: str) -> Any:
    plain = text.strip()
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[plain.lower()]
        if kind is type(None):
            return plain
        return kind(plain)
    except (KeyError, ValueError):
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{plain}'") from None


def _converted(name: str, kind: type[Any], value: Any) -> Any:
    """A value of the parameter's type; numbers may widen, and nothing else changes."""
    problem = f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}"
    if kind is type(None) or value is None or callable(value):
        return value
    if isinstance(value, bool) != (kind is bool):
        raise ValueError(problem)
    if isinstance(value, str) != (kind is str) or (kind is int and isinstance(value, float)):
        raise ValueError(problem)
    return kind(value)
