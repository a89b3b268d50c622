"""`tf.train.Example` and its parts: features by name, each a list of strings or numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unspool.checkpoints.varints import read_varint, signed, varint


class BytesList:
    """A list of strings."""

    def __init__(self, value: Sequence[Any] = ()) -> None:
        self.value: list[bytes] = [_as_bytes(each) for each in value]

    def encoded(self) -> bytes:
        """As a message."""
        return b"".join(_message(1, _as_bytes(each)) for each in self.value)

    @classmethod
    def decoded(cls, data: bytes) -> BytesList:
        """Of a message."""
        return cls([value for field, value in fields(data) if field == 1])


class FloatList:
    """A list of float32 numbers."""

    def __init__(self, value: Sequence[Any] = ()) -> None:
        self.value: list[float] = [float(each) for each in value]

    def encoded(self) -> bytes:
        """As a message."""
        return _message(1, struct.pack(f"<{len(self.value)}f", *self.value)) if self.value else b""

    @classmethod
    def decoded(cls, data: bytes) -> FloatList:
        """Of a message, whether its numbers are packed or not."""
        return cls([each for _, part in fields(data) for each in struct.unpack(f"<{len(part) // 4}f", part)])


class Int64List:
    """A list of whole numbers."""

    def __init__(self, value: Sequence[Any] = ()) -> None:
        self.value: list[int] = [_as_int(each) for each in value]

    def encoded(self) -> bytes:
        """As a message."""
        return _message(1, b"".join(varint(_as_int(each)) for each in self.value)) if self.value else b""

    @classmethod
    def decoded(cls, data: bytes) -> Int64List:
        """Of a message, whether its numbers are packed or not."""
        made = cls()
        for _, part in fields(data):
            if isinstance(part, int):
                made.value.append(signed(part))
                continue
            at = 0
            while at < len(part):
                number, at = read_varint(part, at)
                made.value.append(signed(number))
        return made


_KINDS: list[tuple[str, type[Any]]] = [("bytes_list", BytesList), ("float_list", FloatList), ("int64_list", Int64List)]


class Feature:
    """One of the three lists: that which was given, or which something is added to."""

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        self._given = next((name for name, each in given.items() if each is not None), None)
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()

    def WhichOneof(self, name: str = "kind") -> str | None:  # noqa: N802
        """The name of the list; None if there is none."""
        return next((each for each, _ in _KINDS if getattr(self, each).value), self._given)

    def encoded(self) -> bytes:
        """As a message."""
        kind = self.WhichOneof()
        numbers = {name: number for number, (name, _) in enumerate(_KINDS, 1)}
        return b"" if kind is None else _message(numbers[kind], getattr(self, kind).encoded())

    @classmethod
    def decoded(cls, data: bytes) -> Feature:
        """Of a message."""
        made = cls()
        for field, value in fields(data):
            if 1 <= field <= 3:
                name, kind = _KINDS[field - 1]
                made = cls(**{name: kind.decoded(value)})
        return made


class FeatureList:
    """A list of features, one for each step of a sequence."""

    def __init__(self, feature: Sequence[Feature] = ()) -> None:
        self.feature = _Added(feature)

    def encoded(self) -> bytes:
        """As a message."""
        return b"".join(_message(1, each.encoded()) for each in self.feature)

    @classmethod
    def decoded(cls, data: bytes) -> FeatureList:
        """Of a message."""
        return cls([Feature.decoded(value) for field, value in fields(data) if field == 1])


class _Added(list[Feature]):
    """A list that makes its own elements."""

    def add(self) -> Feature:
        """A new feature at the end."""
        self.append(Feature())
        return self[-1]


class _Made(dict[str, Any]):
    """A dict that makes what is asked for."""

    def __init__(self, kind: type[Any], values: Mapping[str, Any] | None) -> None:
        super().__init__(values or {})
        self._kind = kind

    def __missing__(self, name: str) -> Any:
        self[name] = self._kind()
        return self[name]

    def encoded(self) -> bytes:
        """As the entries of a map."""
        return b"".join(
            _message(1, _message(1, name.encode()) + _message(2, each.encoded())) for name, each in self.items()
        )

    def fill(self, data: bytes) -> None:
        """Adds the entries of a map."""
        for entry in (value for field, value in fields(data) if field == 1):
            parts = dict(fields(entry))
            self[parts.get(1, b"").decode()] = self._kind.decoded(parts.get(2, b""))


class Features:
    """Features by name."""

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        self.feature = _Made(Feature, feature)


class FeatureLists:
    """Lists of features by name."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None) -> None:
        self.feature_list = _Made(FeatureList, feature_list)


class Example:
    """Features by name, as one record of a file.

    >>> made = Example(features=Features(feature={"n": Feature(int64_list=Int64List(value=[3, -1]))}))
    >>> Example.FromString(made.SerializeToString()).features.feature["n"].int64_list.value
    [3, -1]
    """

    def __init__(self, features: Features | None = None) -> None:
        self.features = features or Features()

    def SerializeToString(self) -> bytes:  # noqa: N802
        """As bytes."""
        return _message(1, self.features.feature.encoded())

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Takes over what bytes say; `ValueError` if they are no example."""
        self.features = Features()
        for field, value in fields(serialized):
            if field == 1:
                self.features.feature.fill(value)
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Example:  # noqa: N802
        """The example that bytes say."""
        made = cls()
        made.ParseFromString(serialized)
        return made


class SequenceExample:
    """Features of a whole sequence, and lists of features with one for each step.

    >>> made = SequenceExample()
    >>> made.context.feature["length"].int64_list.value.append(2)
    >>> for word in (b"to", b"be"):
    ...     made.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(word)
    >>> words = SequenceExample.FromString(made.SerializeToString()).feature_lists.feature_list["words"]
    >>> [each.bytes_list.value for each in words.feature]
    [[b'to'], [b'be']]
    """

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None) -> None:
        self.context, self.feature_lists = context or Features(), feature_lists or FeatureLists()

    def SerializeToString(self) -> bytes:  # noqa: N802
        """As bytes."""
        return _message(1, self.context.feature.encoded()) + _message(2, self.feature_lists.feature_list.encoded())

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Takes over what bytes say; `ValueError` if they are no example."""
        self.context, self.feature_lists = Features(), FeatureLists()
        for field, value in fields(serialized):
            if field == 1:
                self.context.feature.fill(value)
            elif field == 2:
                self.feature_lists.feature_list.fill(value)
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> SequenceExample:  # noqa: N802
        """The example that bytes say."""
        made = cls()
        made.ParseFromString(serialized)
        return made


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of a message's fields; `ValueError` if it is broken."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError(f"a message has a field of kind {kind}, which there is not")
        size, at = read_varint(data, at) if kind == 2 else ((8 if kind == 1 else 4), at)
        if at + size > len(data):
            raise ValueError("a message ends in the middle of a field")
        yield tag >> 3, data[at : at + size]
        at += size


def _message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} has type {type(value).__name__}, but expected one of: bytes")
    return value


def _as_int(value: Any) -> int:
    if isinstance(value, float) or not hasattr(value, "__index__"):
        raise TypeError(f"{value!r} has type {type(value).__name__}, but expected one of: int")
    return int(value)
