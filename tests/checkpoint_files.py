"""Checkpoints that TensorFlow wrote, and copies of them in memory that can be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unspool.checkpoints.bundle import TensorBundle
from unspool.checkpoints.table import read_table, table_bytes

FOLDER = Path(__file__).parent / "data" / "checkpoints"
MODELS = sorted(path.name for path in FOLDER.iterdir())


def expected(model: str) -> dict[str, np.ndarray]:
    """What TensorFlow says of a model: its variables (`var:NAME`), inputs and outputs."""
    with np.load(FOLDER / model / "expected.npz") as file:
        return dict(file)


def expected_variables(model: str) -> dict[str, np.ndarray]:
    return {key[4:]: value for key, value in expected(model).items() if key.startswith("var:")}


class Memory:
    """The files of a checkpoint, in memory."""

    name = "memory"

    def __init__(self, index: bytes, shards: list[bytes]) -> None:
        self.bytes, self.shards = index, shards

    @classmethod
    def of(cls, model: str) -> Memory:
        prefix = FOLDER / model / "model.ckpt-1"
        shards = sorted(prefix.parent.glob("*.data-*"))
        return cls(Path(f"{prefix}.index").read_bytes(), [path.read_bytes() for path in shards])

    def index(self) -> bytes:
        return self.bytes

    def shard_size(self, shard: int, shards: int) -> int:
        if shards != len(self.shards):
            raise FileNotFoundError(f"there is no data file {shard} of {shards}")
        return len(self.shards[shard])

    def read(self, shard: int, shards: int, offset: int, size: int) -> bytearray:
        return bytearray(self.shards[shard][offset : offset + size])

    def items(self) -> list[tuple[bytes, bytes]]:
        """The keys and values of the index."""
        return list(read_table(self.bytes))

    def with_items(self, items: list[tuple[bytes, bytes]]) -> Memory:
        """The same with another index, whose checksums are right."""
        return Memory(table_bytes(items), self.shards)

    def changed(self, key: str, change: Callable[[bytes], bytes]) -> Memory:
        """The same with another value in the index."""
        return self.with_items([(k, change(v) if k == key.encode() else v) for k, v in self.items()])

    def load(self) -> dict[str, Any]:
        """All its arrays."""
        return dict(TensorBundle(self))
