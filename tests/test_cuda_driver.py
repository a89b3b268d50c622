"""What the CUDA driver is told, without one: its place is taken by what writes down calls, and answers as it would."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from unspool.engine.emit.cuda.loop import driver
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.sharing import sharing
from unspool.engine.reasons import Code

DEVICE = torch.device("cuda", 0)
OK, INVALID_IMAGE = 0, 200


class FakeDriver:
    """`cuda.bindings.driver`: functions return a status and results."""

    CUlaunchConfig = SimpleNamespace
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.context = 0
        self.told: list[int] = []
        self.device, self.changes = 0, 0
        self.load_status = OK
        self.clusters = 0

    @contextmanager
    def changed(self, device: torch.device) -> Iterator[None]:
        """What `torch.cuda.device` does."""
        self.changes, before, self.device = self.changes + 1, self.device, device.index
        yield
        self.device = before

    def cuCtxGetCurrent(self) -> tuple[int, int]:  # noqa: N802
        return OK, self.context

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:  # noqa: N802
        self.context = context
        return (OK,)

    def cuDeviceGet(self, index: int) -> tuple[int, int]:  # noqa: N802
        return OK, index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:  # noqa: N802
        return OK, 77

    def cuModuleLoadData(self, image: bytes) -> tuple[int, bytes]:  # noqa: N802
        assert self.context
        return self.load_status, image

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> tuple[int, tuple[bytes, bytes]]:  # noqa: N802
        return OK, (module, name)

    def cuFuncSetAttribute(self, *call: Any) -> tuple[int]:  # noqa: N802
        self.calls.append(call)
        return (OK,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, kernel: Any, threads: int, size: int) -> tuple[int, int]:  # noqa: N802
        return OK, 2

    def cuOccupancyMaxActiveClusters(self, kernel: Any, how: Any) -> tuple[int, int]:  # noqa: N802
        grid, block = (how.gridDimX, how.gridDimY, how.gridDimZ), (how.blockDimX, how.blockDimY, how.blockDimZ)
        self.calls.append((kernel, grid, block, how.sharedMemBytes))
        return OK, self.clusters

    def cuLaunchKernel(self, *call: Any) -> tuple[int]:  # noqa: N802
        return self._launch("alone", call[:-1])

    def cuLaunchCooperativeKernel(self, *call: Any) -> tuple[int]:  # noqa: N802
        return self._launch("together", call)

    def _launch(self, how: str, call: tuple[Any, ...]) -> tuple[int]:
        *shape, parameters = call
        address = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))[0]
        self.told = list(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))[0:3])
        self.calls.append((how, *shape))
        return (OK,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    own = FakeDriver()
    about = SimpleNamespace(
        major=9, minor=0, multi_processor_count=132, shared_memory_per_block_optin=232448, regs_per_multiprocessor=65536
    )
    monkeypatch.setattr(driver, "bindings", lambda name: own)
    monkeypatch.setattr(driver, "cubin", lambda text, architecture: f"{text} for {architecture}".encode())
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    monkeypatch.setattr(torch.cuda, "device", own.changed)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: own.device)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 5, raising=False)
    return own


def text(shared_bytes: int = 1000) -> Any:
    return SimpleNamespace(
        name="loop_h", text=lambda: "kernel", places=SimpleNamespace(shared=SimpleNamespace(size=shared_bytes))
    )


@pytest.mark.parametrize("together", [True, False])
def test_a_launch_hands_over_its_numbers(together: bool, fake: FakeDriver) -> None:
    driver.Cuda(DEVICE).launch("f", [7, -1, 1 << 40], 12, 256, 1000, together=together)
    assert fake.told == [7, -1, 1 << 40]
    assert fake.calls == [("together" if together else "alone", "f", 12, 1, 1, 256, 1, 1, 1000, 5)]


def test_a_thread_without_a_context_gets_the_devices(fake: FakeDriver) -> None:
    driver.Cuda(DEVICE).launch("f", [0, 0, 0], 1, 32, 0, together=False)
    assert fake.context == 77
    fake.context = 3  # the runtime's own
    driver.Cuda(DEVICE).launch("f", [0, 0, 0], 1, 32, 0, together=False)
    assert fake.context == 3


def test_the_device_is_made_current_only_where_it_is_not(fake: FakeDriver) -> None:
    machine = driver.Cuda(DEVICE)
    for device in (0, 0, 0, 1, 1, 0):
        fake.device = device
        machine.launch("f", [0, 0, 0], 1, 32, 0, together=False)
        assert fake.device == device
    assert fake.changes == 3  # once for the thread, and twice for another device
    other = threading.Thread(target=machine.launch, args=("f", [0, 0, 0], 1, 32, 0), kwargs=dict(together=False))
    other.start()
    other.join()
    assert fake.changes == 4


def test_a_binary_is_loaded_for_the_device_with_its_shared_memory(fake: FakeDriver) -> None:
    assert driver.Cuda(DEVICE).compile(text(100_000)) == (b"kernel for sm_90", b"loop_h")
    assert fake.calls == [((b"kernel for sm_90", b"loop_h"), 8, 100_000)]


def test_a_binary_that_cannot_be_loaded_is_a_reason(fake: FakeDriver) -> None:
    fake.load_status = INVALID_IMAGE
    with pytest.raises(CannotEmitError, match="what NVRTC has made cannot be loaded: CUDA failed: 200") as found:
        driver.Cuda(DEVICE).compile(text())
    assert found.value.reason.code is Code.COMPILER_FAILED


def test_two_loops_have_half_of_the_device_each(fake: FakeDriver) -> None:
    machine = driver.Cuda(DEVICE)
    assert (machine.limits().processors, machine.resident("f", 256, 0, 1)) == (132, 264)
    with sharing(2):
        assert (machine.limits().processors, machine.resident("f", 256, 0, 1)) == (66, 132)


@pytest.mark.parametrize(("clusters", "blocks"), [(60, 120), (140, 264)])
def test_blocks_of_clusters_are_as_many_as_have_room_together(clusters: int, blocks: int, fake: FakeDriver) -> None:
    fake.clusters = clusters
    machine = driver.Cuda(DEVICE)
    assert machine.resident("f", 256, 1000, 2) == blocks
    assert fake.calls == [("f", (2, 1, 1), (256, 1, 1), 1000)]
    with sharing(2):
        assert machine.resident("f", 256, 1000, 2) == blocks // 2


@pytest.mark.parametrize(("major", "clusters"), [(8, False), (9, True), (10, True)])
def test_devices_have_clusters_from_hopper_on(
    major: int, clusters: bool, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = SimpleNamespace(**{**vars(torch.cuda.get_device_properties(DEVICE)), "major": major})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    assert driver.Cuda(DEVICE).limits().clusters is clusters


def test_a_captured_graph_has_its_numbers_in_it(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *given, device: full(*given))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert driver.Cuda(DEVICE).numbers([3, 3, 1]).tolist() == [3, 3, 1]
