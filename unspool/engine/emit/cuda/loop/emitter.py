"""The CUDA loop emitter: a core as one kernel that runs all steps of a chunk. It serves only where it is asked for."""

from __future__ import annotations

import os

import torch

from unspool.engine.emit.protocol import CoreEmitter, CoreLoop, launches
from unspool.engine.ir.core import Core
from unspool.engine.reasons import Code, Reason


class CudaLoops(CoreEmitter):
    """Runs cores on a GPU, a chunk in one launch."""

    name = "cuda-loop"

    def refusal(self, device: torch.device) -> Reason | None:
        """It needs a GPU, and has not been measured on one: it has to be asked for by name."""
        if device.type != "cuda":
            return Reason(Code.OTHER_DEVICE, f"it needs a GPU, and the tensors are on {device.type}")
        if os.environ.get("UNSPOOL_EMIT") != self.name:
            return Reason(Code.ASKED, f"it has not been measured yet; UNSPOOL_EMIT={self.name} asks for it")
        return None

    def cost(self, core: Core) -> float:
        """Less than a graph of launches."""
        return 0.1 * launches(core)

    def core(self, core: Core, device: torch.device) -> CoreLoop:
        """The core as a kernel.

        Raises:
            CannotEmitError: if it has no form for it.
        """
        from unspool.engine.emit.cuda.loop.driver import Cuda  # loaded where it is asked for
        from unspool.engine.emit.cuda.loop.running import CudaLoop

        return CudaLoop(core, Cuda(device))
