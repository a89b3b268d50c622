"""Damaged and hostile checkpoints: an error that says what is wrong, or the right arrays, and never more."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoint_files import FOLDER, MODELS, Memory, expected_variables
from unspool import CheckpointError, load_tf1_checkpoint, save_tf1_checkpoint
from unspool.checkpoints.bundle import TensorBundle
from unspool.checkpoints.crc32c import masked_crc32c
from unspool.checkpoints.messages import Entry, entry_bytes, read_entry
from unspool.checkpoints.ordered import slice_key
from unspool.checkpoints.table import MOST_BYTES_OF_KEYS, table_bytes
from unspool.checkpoints.varints import read_varint, varint

BIAS = "rnn/gru_cell/gates/bias"


# -- files that are not there ----------------------------------------------------------------------------------------


def test_a_missing_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*model: looked for .*model\.index$"):
        load_tf1_checkpoint(tmp_path / "model")


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    for path in (FOLDER / "two_shards").iterdir():
        if "00001-of" not in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(FileNotFoundError, match=r"is not complete: there is no .*\.data-00001-of-00002"):
        load_tf1_checkpoint(tmp_path)


def test_a_folder_without_checkpoints_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*checkpoint, the file that names the latest"):
        load_tf1_checkpoint(tmp_path)


def test_a_checkpoint_of_the_first_version_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "model.ckpt").write_bytes(b"one file")
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt is a file of itself: .* one of Saver's first version"):
        load_tf1_checkpoint(tmp_path / "model.ckpt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r'checkpoint has no line model_checkpoint_path: "\.\.\."'),
        ('model_checkpoint_path: "../.."', r"names the checkpoint '\.\./\.\.', which is no name of a file"),
        ('model_checkpoint_path: "/"', "which is no name of a file"),
        (r'model_checkpoint_path: "a\000b"', "which is no name of a file"),
    ],
)
def test_a_file_that_names_no_checkpoint(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        load_tf1_checkpoint(tmp_path)


def test_names_of_files_never_leave_the_folder(tmp_path: Path) -> None:
    save_tf1_checkpoint(tmp_path / "outside" / "model", {"a": np.ones(2)})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/outside/model"')
    with pytest.raises(FileNotFoundError, match=r"looked for .*/folder/model\.index"):
        load_tf1_checkpoint(tmp_path / "folder")


def test_an_index_of_a_vast_size_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "model.index").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CheckpointError, match=r"has 1099511627776 bytes, but at most 16777216 are read as an index"):
        load_tf1_checkpoint(tmp_path / "model")


def test_a_data_file_that_shrinks_after_opening(tmp_path: Path) -> None:
    save_tf1_checkpoint(tmp_path / "model", {"a": np.ones(1000)})
    checkpoint = load_tf1_checkpoint(tmp_path / "model")
    (tmp_path / "model.data-00000-of-00001").write_bytes(b"12345")
    with pytest.raises(CheckpointError, match=r"model: a has 8000 bytes, but only 5 are there"):
        checkpoint["a"]


# -- tables that cannot be -------------------------------------------------------------------------------------------


def block(content: bytes, kind: int = 0) -> bytes:
    tail = bytes([kind])
    return content + tail + masked_crc32c(content, tail).to_bytes(4, "little")


def table(*blocks: tuple[bytes, int], handles: bytes | None = None, kind: int = 0) -> bytes:
    """A table of blocks, each with how often a handle names it; or with these handles."""
    data = b""
    entries = b""
    for content, times in blocks:
        handle = varint(len(data)) + varint(len(content))
        entries += (varint(0) + varint(1) + varint(len(handle)) + b"k" + handle) * times
        data += block(content, kind)
    meta = len(data)
    empty = bytes(4) + b"\1\0\0\0"
    listed = (entries if handles is None else handles) + empty
    data += block(empty) + block(listed)
    footer = varint(meta) + varint(len(empty)) + varint(meta + len(empty) + 5) + varint(len(listed))
    return data + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def entry(key: bytes, value: bytes, shared: int = 0, own: int | None = None, length: int | None = None) -> bytes:
    own, length = len(key) if own is None else own, len(value) if length is None else length
    return varint(shared) + varint(own) + varint(length) + key + value


RESTARTS = bytes(4) + b"\1\0\0\0"
HEADER = entry(b"", b"\x08\x01")
NOT_A_NUMBER = b"\xff" * 11


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", r"memory\.index has 0 bytes, but a table has at least 48"),
        (b"x" * 100, r"ends with 0x7878787878787878, but a table ends with 0xdb4775248b80fb57"),
        (table((HEADER + RESTARTS, 1))[20:], r"has a block of .* bytes at byte .*, but its blocks end at byte"),
        (
            bytes(20) + table((HEADER + RESTARTS, 1)),
            "is damaged: the checksum of its bytes .* is 0x.*, but 0x.* is stored",
        ),
        (table((HEADER + RESTARTS, 1), kind=1), "has a block compressed by Snappy, but only blocks without"),
        (table((HEADER + RESTARTS, 1), kind=9), "has a block compressed by method 9, but only"),
        (table((HEADER + RESTARTS, 2)), r"has a block at byte 0, but the block before it ends at byte 18"),
        (table((b"\0\0", 1)), "has a block of 2 bytes with 0 restarts, which cannot be"),
        (table((bytes(8), 1)), "has a block of 8 bytes with 0 restarts, which cannot be"),
        (table((b"\xff" * 8, 1)), "has a block of 8 bytes with 4294967295 restarts, which cannot be"),
        (table((NOT_A_NUMBER + RESTARTS, 1)), "the number at byte 0 goes on after 10 bytes, the most"),
        (table((b"\xff" * 9 + b"\x7f" + RESTARTS, 1)), "64 bits are the most there can be"),
        (table(handles=entry(b"k", b"\xff")), "the number at byte 0 goes on after the last byte, 0"),
        (table(handles=entry(b"k", varint(2**60) + varint(2**60))), "has a block of 1152921504606846976 bytes"),
        (table((HEADER + entry(b"a", b"", 5) + RESTARTS, 1)), "has a key that shares 5 bytes with one of 0 bytes"),
        (table((entry(b"a", b"", own=2**40) + RESTARTS, 1)), "has a key of 1099511627776 bytes and a value of 0 in"),
        (table((entry(b"a", b"", length=2**63) + RESTARTS, 1)), "a value of 9223372036854775808 in 1 bytes"),
        (table(), "begins with the key None, but expected the header's, which is empty"),
        (table((entry(b"a", b"") + RESTARTS, 1)), "begins with the key b'a', but expected the header's"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_tables_that_cannot_be(index: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TensorBundle(Memory(index, [bytes(100)]))


SCALAR = entry_bytes(Entry(4, (), 0, 0, 1, 0))


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
def test_keys_are_in_order_and_differ(keys: list[bytes]) -> None:
    content = HEADER + b"".join(entry(key, SCALAR) for key in keys) + RESTARTS
    with pytest.raises(CheckpointError, match=rf"has the key b'a' after {keys[0]!r}, but keys are in order and differ"):
        TensorBundle(Memory(table((content, 1)), [bytes(100)]))


def test_prefixes_do_not_unfold_into_more_than_there_is_room_for() -> None:
    long = b"k" * (1 << 16)
    # Each takes a few bytes in the file, and 64 KiB as a key.
    more = b"".join(entry(f"{k:04d}".encode(), SCALAR, len(long)) for k in range(2000))
    data = table((HEADER + entry(long, SCALAR) + more + RESTARTS, 1))
    with room_for(1 << 28), pytest.raises(CheckpointError, match=f"has keys of more than {MOST_BYTES_OF_KEYS} bytes"):
        TensorBundle(Memory(data, [bytes(2000)]))


@contextmanager
def room_for(size: int) -> Generator[None]:
    """Whoever asks for so many bytes more than are in use now, even without touching them, gets a `MemoryError`."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


# -- entries that cannot be ------------------------------------------------------------------------------------------


def replaced(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda value: entry_bytes(read_entry(value)._replace(**changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(shard=1), f"memory.index says of b'{BIAS}' what cannot be: it is in data file 1 of 1"),
        (replaced(shard=-1), "it is in data file -1 of 1"),
        (replaced(offset=-1), "it has 32 bytes at offset -1"),
        (replaced(size=-32), "it has -32 bytes at offset"),
        (
            replaced(offset=2**62),
            r"says that 32 bytes are at offset 4611686018427387904 of data file 0, which has 1312",
        ),
        (replaced(offset=1281), r"says that 32 bytes are at offset 1281 of data file 0, which has 1312 bytes"),
        (replaced(offset=3), r"says that values begin at offset .* of data file 0, inside of others, up to"),
        (replaced(size=2**40), r"it has 1099511627776 bytes, but float32\[8\] takes 32"),
        (replaced(shape=(9,)), r"it has 32 bytes, but float32\[9\] takes 36"),
        (replaced(shape=(2**32, 2**32)), r"its shape is \[4294967296, 4294967296\], more than memory can hold"),
        (replaced(shape=(2**62, 0), size=0), "more than memory can hold"),
        (replaced(shape=(-8,)), r"its shape is \[-8\]"),
        (replaced(shape=(1,) * 33), "it has more than 32 dimensions"),
        (replaced(dtype=2), r"it has 32 bytes, but float64\[8\] takes 64"),
        (lambda value: value + b"\x12\x02\x18\x01", "its shape is unknown"),
        (lambda value: value + b"\x12\xff", "the number at byte .* goes on after the last byte"),
        (lambda value: value + b"\x12\x7f", "field 2 has 127 bytes, but only 0 are left"),
        (lambda value: value + b"\x0b", "field 1 is encoded as 3, but only 0, 1, 2 and 5 are known"),
        (lambda value: value + b"\x0a\x00", "field 1 is encoded as 2, but expected 0"),
        (lambda value: value + b"\x3a\x00", "has the slice .*, but has it not"),
        (lambda value: value + b"\x3a\x46" + b"\x0a\x00" * 35, "has a slice of more than 32 dimensions"),
    ],
)
def test_entries_that_cannot_be(change: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TensorBundle(Memory.of("gru").changed(BIAS, change))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "says that there are 0 data files, but expected 1 to 99999"),
        (b"\x08" + varint(-1), "says that there are -1 data files"),
        (b"\x08" + varint(2**31), "says that there are 2147483648 data files, but expected 1 to 99999"),
        (b"\x08\x01\x10\x01", "says that values are big-endian, but only little-endian ones are read"),
        (b"\x08\x01\x1a\x02\x10\x02", "can be read from version 2 on, but version 1 is known"),
        (b"\x08" + NOT_A_NUMBER, "goes on after 10 bytes"),
    ],
)
def test_headers_that_cannot_be(header: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TensorBundle(Memory.of("gru").changed("", lambda value: header))


def test_names_are_text() -> None:
    files = Memory.of("gru")
    with pytest.raises(CheckpointError, match=r"says of b'\\xff\\xfe' what cannot be: .* can't decode byte 0xff"):
        TensorBundle(files.with_items([*files.items(), (b"\xff\xfe", SCALAR)]))


def test_unknown_dtypes_are_left_out() -> None:
    found = TensorBundle(Memory.of("gru").changed(BIAS, replaced(dtype=999)))
    assert BIAS not in found
    with pytest.raises(CheckpointError, match=f"memory: {BIAS} holds values of dtype number 999"):
        found[BIAS]


def sliced(*pieces: tuple[int, int], shape: tuple[int, ...] = (4, 2), kept: int | None = None) -> Memory:
    """A variable of float32 in slices of rows, the first `kept` of which are there."""
    whole = entry_bytes(Entry(1, shape, 0, 0, 0, 0))
    parts: dict[bytes, bytes] = {}
    data = b""
    for start, rows in pieces:
        extent = b"\x08" + varint(start) + b"\x10" + varint(rows)
        message = b"\x0a" + varint(len(extent)) + extent + b"\x0a\0"
        whole += b"\x3a" + varint(len(message)) + message
        values = np.arange(rows * 2, dtype=np.float32).tobytes()
        part = Entry(1, (rows, 2), 0, len(data), len(values), masked_crc32c(values))
        parts[slice_key("w", ((start, rows), (0, -1)))] = entry_bytes(part)
        data += values
    items = [(b"", b"\x08\x01"), *list(parts.items())[:kept], (b"w", whole)]
    return Memory(table_bytes(sorted(items)), [data])


def test_slices_are_put_together() -> None:
    assert sliced((0, 1), (1, 3)).load()["w"].tolist() == [[0, 1], [0, 1], [2, 3], [4, 5]]
    assert sliced((1, 3), (0, 1)).load()["w"].tolist() == [[0, 1], [0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (sliced((0, 1), (1, 2)), r"has slices of w that are not all of \[4, 2\], along one axis"),
        (sliced((0, 3), (1, 3)), "has slices of w that are not all of"),
        (sliced((0, 1), (2, 2)), "has slices of w that are not all of"),
        (sliced((0, 1), (1, 4)), "has slices of w that are not all of"),
        (
            sliced((0, 2), (2, 2), kept=1),
            r"says that w has the slice \[\(2, 2\), \(0, -1\)\], but has it not, or twice",
        ),
        (sliced((0, 2), (0, 2)), "but has it not, or twice"),
        (sliced((0, 2), (2, 2), shape=(4, 3)), r"has float32\[2, 2\] as the slice .* of w\[4, 3\]"),
        (sliced((0, 2), (2, 2), shape=(4,)), r"has float32\[2, 2\] as the slice .* of w\[4\]"),
    ],
)
def test_slices_that_cannot_be(files: Memory, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TensorBundle(files)


def test_a_slice_of_no_variable() -> None:
    files = Memory.of("partitioned")
    items = [(key, value) for key, value in files.items() if key != b"rnn/lstm_cell/kernel"]
    with pytest.raises(CheckpointError, match=r"has the slice .*kernel.*, but no variable of which it is one"):
        TensorBundle(files.with_items(items))


# -- ten thousand of them --------------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a flip, a cut, an insertion, a repetition, a run of zeros or a number that does not end."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at, size = rng.randrange(len(changed) + 1), rng.choice([1, 1, 2, 4, 10, 40])
        other = rng.randrange(len(changed) + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at:at] = rng.randbytes(size)
        elif kind == 3:
            changed[at : at + size] = changed[other : other + size]
        elif kind == 4:
            changed[at : at + size] = bytes(size)
        elif kind == 5:
            changed[at : at + size] = b"\xff" * size
        elif at < len(changed):
            changed[at : at + 1] = varint(rng.choice([0, 1, 127, 2**16, 2**31, 2**32, 2**63, 2**64 - 1]))
    return bytes(changed)


def mutant(files: Memory, rng: random.Random) -> tuple[Memory, bool]:
    """Damaged files, and whether checksums still tell: else they were made right again after the damage."""
    kind = rng.randrange(5)
    if kind == 0:
        return Memory(damaged(files.bytes, rng), files.shards), True
    if kind == 1:
        shards = list(files.shards)
        k = rng.randrange(len(shards))
        shards[k] = damaged(shards[k], rng)
        return Memory(files.bytes, shards), True
    items = files.items()
    k = rng.randrange(len(items))
    if kind == 2:
        items[k] = items[k][0], damaged(items[k][1], rng)
        return files.with_items(items), False
    if kind == 3:
        items[k] = damaged(items[k][0], rng), items[rng.randrange(len(items))][1]
        return files.with_items(items), False
    # Blocks with the right checksums, whatever is in them; the footer with the right end.
    footer = files.bytes[-48:]
    data, at = b"", 0
    for _ in range(2):
        offset, at = read_varint(footer, at)
        size, at = read_varint(footer, at)
        content = files.bytes[: offset - 5] if not data else b""
        data += block(damaged(content, rng)) if content else b""
        listed = files.bytes[offset : offset + size]
        data += block(damaged(listed, rng) if rng.random() < 0.3 else listed)
    return Memory(data + footer, files.shards), False


def test_ten_thousand_damaged_files() -> None:
    rng = random.Random(0)
    originals = {model: Memory.of(model) for model in MODELS}
    wanted = {model: {k: v.tobytes() for k, v in expected_variables(model).items()} for model in MODELS}
    outcomes = {"error": 0, "arrays": 0}
    slowest = 0.0
    with room_for(1 << 28):
        for k in range(10_000):
            model = MODELS[k % len(MODELS)]
            files, checked = mutant(originals[model], rng)
            began = time.perf_counter()
            try:
                found = files.load()
            except (CheckpointError, FileNotFoundError):
                outcomes["error"] += 1
            else:
                outcomes["arrays"] += 1
                if checked:  # what checksums do not notice has changed nothing
                    assert {name: array.tobytes() for name, array in found.items()} == wanted[model]
            slowest = max(slowest, time.perf_counter() - began)
    assert min(outcomes.values()) > 100, outcomes
    assert slowest < 5  # a thousand times what it is: none of them hangs
