"""What is compiled is kept for other processes, and what is loaded is what was compiled, whoever else is about."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import FUNCTION, Counting, answer, as_a_new_process, own_cache, real_compiler, wait_for
from unspool.engine.emit.cpp.libraries import build
from unspool.engine.emit.cpp.libraries.build import Build

ROOT_USER = os.getuid() == 0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    as_a_new_process(monkeypatch)
    yield from own_cache(tmp_path, monkeypatch)


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    """The compiler that is used."""
    compiler = Counting(tmp_path)
    monkeypatch.setenv("CXX", compiler.command)
    return compiler


def only_binary(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def with_checksum(content: bytes) -> bytes:
    return content + hashlib.sha256(content).digest()


class TestCache:
    def test_what_is_compiled_is_kept(self, cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
        source = FUNCTION.format(1)
        assert answer(source) == 1
        assert answer(source) == 1
        as_a_new_process(monkeypatch)
        assert answer(source) == 1
        assert counting.calls == 1
        only_binary(cache)

    def test_what_nobody_asks_for_is_kept_too(self, cache: Path, counting: Counting) -> None:
        Build.of(FUNCTION.format(2))
        wait_for(lambda: list(cache.glob("*.so")))
        only_binary(cache)

    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_folders_are_for_the_user_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int) -> None:
        real_compiler()
        folder = tmp_path / "not" / "yet" / "there"
        monkeypatch.setenv("UNSPOOL_CACHE", str(folder))
        before = os.umask(umask)
        try:
            assert answer(FUNCTION.format(3)) == 3
        finally:
            os.umask(before)
        for each in (folder, *list(folder.parents)[:2]):
            assert stat.S_IMODE(each.stat().st_mode) == 0o700
        assert stat.S_IMODE(only_binary(folder).stat().st_mode) & 0o077 == 0

    def test_the_users_cache_is_the_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real_compiler()
        monkeypatch.delenv("UNSPOOL_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert answer(FUNCTION.format(4)) == 4
        only_binary(tmp_path / "xdg" / "unspool")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert answer(FUNCTION.format(5)) == 5
        only_binary(tmp_path / "home" / ".cache" / "unspool")

    def test_a_relative_folder_stays_where_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real_compiler()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("UNSPOOL_CACHE", "relative")
        made = Build.of(FUNCTION.format(6))
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert made.library().answer() == 6
        only_binary(tmp_path / "relative")

    def test_a_link_to_a_folder_is_followed(self, tmp_path: Path, cache: Path) -> None:
        real_compiler()
        (tmp_path / "far away").mkdir(mode=0o700)
        cache.symlink_to(tmp_path / "far away")
        assert answer(FUNCTION.format(7)) == 7
        only_binary(tmp_path / "far away")

    def test_a_cache_that_is_removed_meanwhile(self, cache: Path, counting: Counting) -> None:
        assert answer(FUNCTION.format(8)) == 8
        made = Build.of(FUNCTION.format(9))
        shutil.rmtree(cache, ignore_errors=True)
        assert made.library().answer() == 9
        assert answer(FUNCTION.format(8)) == 8
        shutil.rmtree(cache, ignore_errors=True)
        assert answer(FUNCTION.format(10)) == 10

    def test_without_a_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(path: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        real_compiler()
        monkeypatch.delenv("UNSPOOL_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "expanduser", unknown)
        assert answer(FUNCTION.format(11)) == 11


class TestKey:
    """Binaries are told apart by everything that they depend on."""

    def test_another_source(self, cache: Path, counting: Counting) -> None:
        assert (answer(FUNCTION.format(20)), answer(FUNCTION.format(21))) == (20, 21)
        assert len(list(cache.iterdir())) == counting.calls == 2

    def test_another_compiler(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compilers = [Counting(tmp_path, name) for name in ("one", "two")]
        for each in compilers:
            monkeypatch.setenv("CXX", each.command)
            assert answer(FUNCTION.format(22)) == 22
        assert [each.calls for each in compilers] == [1, 1]
        assert len(list(cache.iterdir())) == 2

    def test_a_compiler_that_was_replaced(self, cache: Path, counting: Counting) -> None:
        assert answer(FUNCTION.format(23)) == 23
        os.utime(counting.command, (1, 1))
        assert answer(FUNCTION.format(23)) == 23
        assert len(list(cache.iterdir())) == counting.calls == 2

    def test_arguments_of_the_compiler(self, cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
        source = 'extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }'
        for value in (24, 25):
            monkeypatch.setenv("CXX", f"{counting.command} -DANSWER={value}")
            assert answer(source) == value
        assert len(list(cache.iterdir())) == counting.calls == 2

    def test_other_flags(self, cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
        assert answer(FUNCTION.format(26)) == 26
        monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-fno-exceptions"))
        assert answer(FUNCTION.format(26)) == 26
        assert len(list(cache.iterdir())) == counting.calls == 2

    def test_another_processor(self, cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
        assert answer(FUNCTION.format(27)) == 27
        monkeypatch.setattr(build, "_cpu", lambda: "another")
        assert answer(FUNCTION.format(27)) == 27
        assert len(list(cache.iterdir())) == counting.calls == 2


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def one_byte_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flipped(place: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place] ^= 0xFF
        path.write_bytes(content)

    return flip


def empty(path: Path) -> None:
    path.write_bytes(b"")


def only_a_checksum(path: Path) -> None:
    path.write_bytes(with_checksum(b""))


def garbage_with_a_checksum(path: Path) -> None:
    path.write_bytes(with_checksum(os.urandom(5000)))


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": truncated,
    "one byte short": one_byte_short,
    "first byte flipped": flipped(0),
    "a byte of the code flipped": flipped(5000),
    "last byte flipped": flipped(-1),
    "empty": empty,
    "only a checksum": only_a_checksum,
    "garbage with its checksum": garbage_with_a_checksum,
    "gone": Path.unlink,
    "a pipe": a_pipe,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_binary_is_built_again(
    damage: Callable[[Path], None], cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FUNCTION.format(30)
    assert answer(source) == 30
    whole = only_binary(cache)
    elsewhere = cache.with_name("elsewhere")
    shutil.copytree(cache, elsewhere)
    damage(elsewhere / whole.name)
    monkeypatch.setenv("UNSPOOL_CACHE", str(elsewhere))
    as_a_new_process(monkeypatch)
    assert answer(source) == 30
    assert counting.calls == 2
    assert only_binary(elsewhere).name == whole.name
    content = (elsewhere / whole.name).read_bytes()
    assert content == with_checksum(content[:-32])
    as_a_new_process(monkeypatch)
    assert answer(source) == 30
    assert counting.calls == 2


class TestTrust:
    """Somebody else's library, whole and with the right name, is not loaded."""

    @pytest.fixture
    def planted(self, cache: Path, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A binary with the name of another, in a folder that is the cache now."""
        source = FUNCTION.format(666)
        assert answer(source) == 666
        wrong = only_binary(cache)
        key = build._key(FUNCTION.format(40), build.compiler())
        folder = tmp_path / "planted"
        folder.mkdir(mode=0o700)
        monkeypatch.setenv("UNSPOOL_CACHE", str(folder))
        return wrong.rename(folder / f"{key}.so")

    def is_loaded(self) -> bool:
        return answer(FUNCTION.format(40)) == 666

    def test_unless_it_is_ours(self, planted: Path) -> None:
        """What these tests plant would be loaded if nothing were wrong."""
        assert self.is_loaded()

    @pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777, 0o770])
    def test_folder_that_others_can_write_to(self, planted: Path, mode: int, caplog: Any) -> None:
        before = planted.read_bytes()
        planted.parent.chmod(mode)
        with caplog.at_level(logging.INFO, "unspool"):
            assert not self.is_loaded()
            assert answer(FUNCTION.format(41)) == 41
        (message,) = caplog.messages
        assert str(planted.parent) in message
        assert only_binary(planted.parent).read_bytes() == before

    def test_folder_that_can_be_exchanged(self, planted: Path, tmp_path: Path, monkeypatch: Any) -> None:
        """Whoever can rename the folder can put another in its place at any time."""
        middle = tmp_path / "middle"
        middle.mkdir()
        middle.chmod(0o777)
        monkeypatch.setenv("UNSPOOL_CACHE", str(planted.parent.rename(middle / "planted")))
        assert not self.is_loaded()
        middle.chmod(0o1777)  # now only its owner can
        as_a_new_process(monkeypatch)
        assert self.is_loaded()

    def test_folder_of_another(self, planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        give_away(planted.parent, monkeypatch)
        assert not self.is_loaded()

    @pytest.mark.skipif(not ROOT_USER, reason="only root can give files away")
    def test_file_of_another(self, planted: Path) -> None:
        os.chown(planted, 12345, 12345)
        assert not self.is_loaded()
        assert planted.stat().st_uid == 0  # the right one has taken its place

    @pytest.mark.parametrize("mode", [0o622, 0o620, 0o602, 0o777])
    def test_file_that_others_can_write_to(self, planted: Path, mode: int) -> None:
        planted.chmod(mode)
        assert not self.is_loaded()
        assert stat.S_IMODE(planted.stat().st_mode) & 0o077 == 0

    def test_link(self, planted: Path, tmp_path: Path) -> None:
        target = planted.rename(tmp_path / "target.so")
        planted.symlink_to(target)
        before = target.read_bytes()
        assert not self.is_loaded()
        assert not planted.is_symlink()
        assert target.read_bytes() == before

    def test_folder_in_the_place_of_a_file(self, planted: Path) -> None:
        planted.unlink()
        planted.mkdir()
        assert not self.is_loaded()
        assert planted.is_dir()


def give_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ROOT_USER:
        os.chown(folder, 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)


class TestNoCache:
    """Without a folder that can be used, every process compiles for itself."""

    def test_a_file_in_its_place(self, cache: Path, caplog: Any) -> None:
        real_compiler()
        cache.write_text("not a folder")
        with caplog.at_level(logging.INFO, "unspool"):
            assert answer(FUNCTION.format(50)) == 50
            assert answer(FUNCTION.format(51)) == 51
        assert len(caplog.messages) == 1
        assert cache.read_text() == "not a folder"

    def test_a_file_above_it(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real_compiler()
        cache.write_text("not a folder")
        monkeypatch.setenv("UNSPOOL_CACHE", str(cache / "below"))
        assert answer(FUNCTION.format(52)) == 52

    def test_links_in_a_circle(self, cache: Path) -> None:
        real_compiler()
        cache.symlink_to(cache)
        assert answer(FUNCTION.format(53)) == 53
        cache.unlink()

    def test_no_space_for_it(self, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        def full(*args: Any, **kwargs: Any) -> Any:
            raise OSError(28, "No space left on device")

        real_compiler()
        monkeypatch.setattr(Path, "replace", full)
        with caplog.at_level(logging.INFO, "unspool"):
            assert answer(FUNCTION.format(54)) == 54
            assert answer(FUNCTION.format(55)) == 55
        (message,) = caplog.messages
        assert "No space left on device" in message
        assert list(cache.iterdir()) == []

    def test_a_folder_that_cannot_be_written_to(
        self, cache: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        """What is in it is used all the same."""
        assert answer(FUNCTION.format(56)) == 56
        make_read_only(cache, monkeypatch)
        as_a_new_process(monkeypatch)
        with caplog.at_level(logging.INFO, "unspool"):
            assert answer(FUNCTION.format(56)) == 56
            assert not caplog.messages
            assert answer(FUNCTION.format(57)) == 57
        (message,) = caplog.messages
        assert f"{cache}: Permission denied" in message
        assert counting.calls == 2
        only_binary(cache)
        cache.chmod(0o700)


def make_read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o500)
    if ROOT_USER:  # whom this does not keep from writing

        def denied(*args: Any, **kwargs: Any) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkstemp", denied)
