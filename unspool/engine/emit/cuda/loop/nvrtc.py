"""Binaries of kernels: compiled by NVRTC, or kept on disk by an earlier process."""

from __future__ import annotations

import hashlib

from unspool.engine.emit import compile_cache
from unspool.engine.emit.cuda.bindings import bindings, done
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.reasons import Code

OPTIONS = ("--std=c++17", "--diag-suppress=177")
"""Of the compiler; not every kernel uses every function."""


def cubin(text: str, architecture: str) -> bytes:
    """The binary of a kernel's text for `sm_90` or the like, which is kept for later processes.

    Raises:
        CannotEmitError: if there is no compiler, or it refuses the text.
    """
    folder = compile_cache.trusted_folder()
    if folder is None:
        return compiled(text, architecture)
    parts = (text, architecture, *OPTIONS, *version())
    place = folder / f"{hashlib.sha256(_encoded(chr(0).join(map(str, parts)))).hexdigest()[:40]}.cubin"
    found = compile_cache.content(place)
    if found is None:
        found = compiled(text, architecture)
        compile_cache.keep(found, place)
    return found


def compiled(text: str, architecture: str) -> bytes:
    """The binary of a kernel's text; no device is needed.

    Raises:
        CannotEmitError: if there is no compiler, or it refuses the text.
    """
    version()
    nvrtc = bindings("nvrtc")
    options = [each.encode() for each in (*OPTIONS, f"--gpu-architecture={architecture}")]
    (program,) = done(nvrtc.nvrtcCreateProgram(_encoded(text), b"core.cu", 0, [], []))
    try:
        status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(status):
            (size,) = done(nvrtc.nvrtcGetProgramLogSize(program))
            log = bytearray(size)
            done(nvrtc.nvrtcGetProgramLog(program, log))
            lines = log.decode(errors="replace").strip("\0\n").splitlines()
            first = next((line for line in lines if "error" in line), f"status {int(status)}")
            raise CannotEmitError(f"NVRTC failed: {first}", Code.COMPILER_FAILED)
        (size,) = done(nvrtc.nvrtcGetCUBINSize(program))
        binary = bytearray(size)
        done(nvrtc.nvrtcGetCUBIN(program, binary))
        return bytes(binary)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def version() -> tuple[int, int]:
    """Of the compiler.

    Raises:
        CannotEmitError: if there is none.
    """
    try:
        major, minor = done(bindings("nvrtc").nvrtcVersion())
    except RuntimeError as error:  # its library is looked for at the first call
        raise CannotEmitError(f"there is no NVRTC: {error}", Code.NO_COMPILER) from error
    return int(major), int(minor)


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # lines of a cell are in its comments
