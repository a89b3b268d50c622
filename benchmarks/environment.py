"""What the numbers depend on."""

from __future__ import annotations

import importlib
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import unspool


def environment(device: str) -> dict[str, Any]:
    """The machine, the commit, and the versions of everything that was imported."""
    versions = {
        name: getattr(importlib.import_module(name), "__version__", None)
        for name in ("numpy", "torch", "triton", "jax", "tensorflow")
        if name in sys.modules
    }
    cuda = device == "cuda"
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "device": torch.cuda.get_device_name() if cuda else processor(),
        "machine": f"{processor()}, {os.cpu_count()} CPUs, {torch.get_num_threads()} threads",
        "system": platform.platform(),
        "cuda": torch.version.cuda if cuda else None,
        "cudnn": torch.backends.cudnn.version() if cuda else None,
        "python": platform.python_version(),
        "unspool": unspool.__version__,
        **versions,
    }


def commit() -> str | None:
    """The commit of this checkout, with a + if files differ from it; None where git cannot tell."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}+" if changes else head


def processor() -> str:
    """The name of the CPU; `platform` knows only its architecture on Linux."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()
