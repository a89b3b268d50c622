"""Binaries of CUDA kernels are kept on disk: compiled once for all processes, never loaded if something is wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from unspool.engine.emit.cuda.loop import nvrtc
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.reasons import Code


class Compiler:
    """NVRTC's place: what it makes says what it was given, and it counts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.version = (13, 0)

    def __call__(self, text: str, architecture: str) -> bytes:
        self.texts.append(text)
        return f"{text} for {architecture} by {self.version}".encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Compiler:
    own = Compiler()
    monkeypatch.setattr(nvrtc, "compiled", own)
    monkeypatch.setattr(nvrtc, "version", lambda: own.version)
    return own


def test_a_text_is_compiled_once(compiler: Compiler, folder: Path) -> None:
    first, second = (nvrtc.cubin("kernel", "sm_90") for _ in range(2))
    assert first == second == b"kernel for sm_90 by (13, 0)"
    assert compiler.texts == ["kernel"]
    assert [each.suffix for each in folder.iterdir()] == [".cubin"]


def test_another_text_architecture_or_compiler_has_another_binary(compiler: Compiler, folder: Path) -> None:
    found = [nvrtc.cubin("kernel", "sm_80"), nvrtc.cubin("kernel", "sm_90"), nvrtc.cubin("other", "sm_90")]
    compiler.version = (13, 1)
    found.append(nvrtc.cubin("kernel", "sm_90"))
    assert len(set(found)) == 4 == len(list(folder.iterdir()))


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "writable by others"])
def test_a_binary_that_is_not_as_it_was_written_is_compiled_again(harm: str, compiler: Compiler, folder: Path) -> None:
    expected = nvrtc.cubin("kernel", "sm_90")
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    harmed = {"cut": whole[:-1], "changed": b"K" + whole[1:], "empty": b""}
    path.write_bytes(harmed.get(harm, whole))
    if harm == "writable by others":
        path.chmod(0o666)
    assert nvrtc.cubin("kernel", "sm_90") == expected
    assert len(compiler.texts) == 2
    assert path.read_bytes() == whole  # and is there again
    assert nvrtc.cubin("kernel", "sm_90") == expected
    assert len(compiler.texts) == 2


def test_a_folder_that_others_can_write_to_is_not_used(compiler: Compiler, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert nvrtc.cubin("kernel", "sm_90") == nvrtc.cubin("kernel", "sm_90")
    assert len(compiler.texts) == 2
    assert list(folder.iterdir()) == []


def test_many_may_write_and_read_at_once(compiler: Compiler, folder: Path) -> None:
    begin, found = threading.Barrier(8), list[bytes]()

    def work() -> None:
        begin.wait()
        found.append(nvrtc.cubin("kernel", "sm_90"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(found) == {b"kernel for sm_90 by (13, 0)"}
    assert len(found) == 8
    assert len(list(folder.iterdir())) == 1  # nothing half written is left


def test_what_nvrtc_makes_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'extern "C" __global__ void core(int* to) { *to = 1; }  // \udc80 is no character'
    try:
        made = nvrtc.cubin(text, "sm_90")
    except CannotEmitError as error:
        if error.reason.code is not Code.NO_COMPILER:
            raise
        pytest.skip(str(error))
    assert made.startswith(b"\x7fELF")
    monkeypatch.setattr(nvrtc, "compiled", None)  # nobody asks for it
    assert nvrtc.cubin(text, "sm_90") == made
