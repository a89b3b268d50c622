"""Checkpoints that TensorFlow wrote are read bit by bit, and what is written here reads the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.checkpoint_files import FOLDER, MODELS, Memory, expected_variables
from unspool import CheckpointError, load_tf1_checkpoint, save_tf1_checkpoint
from unspool.checkpoints.crc32c import crc32c
from unspool.checkpoints.messages import entry_bytes, header_bytes, read_entry, read_header
from unspool.checkpoints.ordered import slice_key
from unspool.checkpoints.table import read_table, table_bytes
from unspool.checkpoints.varints import read_varint, signed, varint


def assert_same(found: Any, wanted: dict[str, np.ndarray]) -> None:
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("model", MODELS)
def test_every_variable_is_read_bit_by_bit(model: str) -> None:
    checkpoint = load_tf1_checkpoint(FOLDER / model / "model.ckpt-1")
    wanted = expected_variables(model)
    assert_same(checkpoint, wanted)
    assert {name: checkpoint.shape(name) for name in checkpoint} == {name: wanted[name].shape for name in wanted}
    assert {name: checkpoint.dtype(name) for name in checkpoint} == {name: wanted[name].dtype for name in wanted}


@pytest.mark.parametrize("given", ["model.ckpt-1", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001", "", "."])
def test_a_checkpoint_is_found_by_prefix_by_file_and_by_folder(given: str) -> None:
    assert_same(load_tf1_checkpoint(FOLDER / "gru" / given), expected_variables("gru"))
    assert_same(load_tf1_checkpoint(f"{FOLDER}/gru/{given}"), expected_variables("gru"))


def test_a_prefix_may_also_be_the_name_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    save_tf1_checkpoint(tmp_path / "model", {"a": np.ones(2)})
    assert list(load_tf1_checkpoint(tmp_path / "model")) == ["a"]


@pytest.mark.parametrize("path", ["/gone/away/model.ckpt-1", "other/model.ckpt-1", r"/g\303\266ne/model.ckpt-1"])
def test_a_folder_that_has_moved_still_names_its_checkpoint(path: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "gru", tmp_path, dirs_exist_ok=True)
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "x"\n')
    assert_same(load_tf1_checkpoint(tmp_path), expected_variables("gru"))


def test_escapes_in_the_name_of_the_latest_checkpoint_are_read(tmp_path: Path) -> None:
    save_tf1_checkpoint(tmp_path / 'größe "1"', {"a": np.ones(2)})
    (tmp_path / "checkpoint").write_bytes(rb'model_checkpoint_path: "gr\303\266\303\237e \"1\""')
    assert list(load_tf1_checkpoint(tmp_path)) == ["a"]


def test_values_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    save_tf1_checkpoint(tmp_path / "model", {"good": np.arange(3.0), "bad": np.arange(4.0)})
    path = tmp_path / "model.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[3] ^= 1  # names are in order, so this is in "bad"
    path.write_bytes(data)
    checkpoint = load_tf1_checkpoint(tmp_path / "model")
    assert checkpoint["good"].tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match=r"model: bad is damaged: the checksum of its values is 0x"):
        checkpoint["bad"]


def test_strings_are_left_out_and_say_so_when_asked_for() -> None:
    checkpoint = load_tf1_checkpoint(FOLDER / "dtypes")
    assert "of/string" not in checkpoint
    assert "of/string" not in list(checkpoint)
    with pytest.raises(CheckpointError, match=r"of/string holds values of dtype string, which no array here can hold"):
        checkpoint["of/string"]
    with pytest.raises(KeyError):
        checkpoint["of/nobody"]


def test_bfloat16_becomes_float32_of_the_same_values() -> None:
    checkpoint = load_tf1_checkpoint(FOLDER / "dtypes")
    assert checkpoint["of/bfloat16"].dtype == np.float32
    assert checkpoint["of/bfloat16"].tolist() == [-9, -6, -3, 0, 3, 6]


def test_arrays_are_the_users_own() -> None:
    checkpoint = load_tf1_checkpoint(FOLDER / "partitioned")
    for name in checkpoint:
        array = checkpoint[name]
        array[...] = 7
        assert (checkpoint[name] != 7).all()


def test_what_it_is_can_be_printed() -> None:
    text = repr(load_tf1_checkpoint(FOLDER / "gru"))
    assert text.startswith("<checkpoint ")
    assert text.endswith("gru/model.ckpt-1 of 15 variables>")


# -- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_an_index_is_written_byte_for_byte_as_tensorflow_writes_it(model: str) -> None:
    items = Memory.of(model).items()
    assert table_bytes(items) == Memory.of(model).bytes
    assert header_bytes(read_header(items[0][1])) == items[0][1]
    for _, value in items[1:]:
        if not read_entry(value).slices:
            assert entry_bytes(read_entry(value)) == value


@pytest.mark.parametrize("model", MODELS)
def test_what_is_saved_is_loaded(model: str, tmp_path: Path) -> None:
    wanted = expected_variables(model)
    save_tf1_checkpoint(tmp_path / "deeper" / "model.ckpt", wanted)
    assert_same(load_tf1_checkpoint(tmp_path / "deeper" / "model.ckpt"), wanted)
    assert sorted(path.name for path in (tmp_path / "deeper").iterdir()) == [
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
    ]


def test_anything_like_an_array_is_saved(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "big-endian": np.arange(3, dtype=">i4"),
        "number": 3.5,
        "list": [True, False],
        "tensor": torch.nn.Parameter(torch.arange(4.0)[::2]),
        "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "nothing": np.zeros((0, 3), np.int8),
    }
    save_tf1_checkpoint(tmp_path / "model", given)
    found = load_tf1_checkpoint(tmp_path / "model")
    for name in ("transposed", "big-endian", "number", "list", "nothing"):
        np.testing.assert_array_equal(found[name], np.asarray(given[name]))
        assert found[name].dtype == np.asarray(given[name]).dtype.newbyteorder("=")
    assert found["tensor"].tolist() == [0, 2]
    assert found["bfloat16"].tolist() == [1.5, -2]
    assert found["conjugate"].tolist() == [1 - 2j]


def test_many_variables_take_several_blocks(tmp_path: Path) -> None:
    given = {f"scope_{k % 7}/layer_{k}/kernel": np.float32(k) for k in range(20_000)}
    save_tf1_checkpoint(tmp_path / "model", given)
    assert len((tmp_path / "model.index").read_bytes()) > 2 * (1 << 18)
    assert_same(load_tf1_checkpoint(tmp_path / "model"), {name: np.asarray(value) for name, value in given.items()})


def test_a_checkpoint_without_variables_is_one(tmp_path: Path) -> None:
    save_tf1_checkpoint(tmp_path / "model", {})
    assert dict(load_tf1_checkpoint(tmp_path / "model")) == {}


def test_saving_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tf1_checkpoint(tmp_path / "model", {"a": np.ones(2)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(TypeError, match=r"b cannot be stored: it is an array of <U1, but expected one of float32, "):
        save_tf1_checkpoint(tmp_path / "model", {"a": np.zeros(2), "b": np.array(["x"])})
    monkeypatch.setattr("unspool.checkpoints.write.masked_crc32c", lambda values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_tf1_checkpoint(tmp_path / "model", {"a": np.zeros(2)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("path", "name", "error", "message"),
    [
        ("model", "", ValueError, "variables must have names that are not empty"),
        ("model", "a\0b", ValueError, "have no null in them"),
        ("model", 3, TypeError, "variables must have strings for names, but one is 3"),
        ("folder/..", "a", ValueError, "path must be the prefix of files, such as folder/model.ckpt, but is"),
    ],
)
def test_arguments_of_saving(path: str, name: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        save_tf1_checkpoint(f"{tmp_path}/{path}", {name: np.ones(2)})
    assert not list(tmp_path.iterdir())


# -- the pieces ------------------------------------------------------------------------------------------------------


def bitwise(data: bytes) -> int:
    """CRC-32C by its definition, a bit at a time."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [0, 1, 7, 511, 512, 513, 2049, 5684, 5685, 5693, 11_371, 22_750, 45_481, 90_963])
def test_the_checksum_is_that_of_its_definition(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c(data) == crc32c(data[: size // 3], data[size // 3 :]) == bitwise(data)


def test_the_checksum_of_several_pieces() -> None:
    data = np.random.default_rng(0).integers(0, 256, (1 << 23) + 12_345, np.uint8)
    parts = [data[start : start + 1_000_003] for start in range(0, len(data), 1_000_003)]
    assert crc32c(data) == crc32c(*parts)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1, 2**64 - 1])
def test_varints_go_either_way(value: int) -> None:
    assert read_varint(b"x" + varint(value) + b"y", 1) == (value, 1 + len(varint(value)))
    assert varint(signed(value)) == varint(value)


@pytest.mark.parametrize("name", ["a", "a\0b", "größe"])
def test_keys_of_slices_sort_like_what_they_say(name: str) -> None:
    numbers = [-1, 0, 1, 63, 64, 127, 128, 8191, 8192, 2**20, 2**31, 2**48, 2**62]
    keys = [slice_key(name, ((start, 5),)) for start in numbers]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_a_table_gives_back_its_keys() -> None:
    items = sorted((bytes([k % 251, k % 7, 255]) * (k % 5 + 1), varint(k) * 40) for k in range(30_000))
    items = list(dict(items).items())
    assert list(read_table(table_bytes(items))) == items
