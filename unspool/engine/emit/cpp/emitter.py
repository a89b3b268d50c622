"""The C++ emitter: on a CPU, the core as one compiled loop, and what is beside it as compiled groups."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain

import torch
from torch import fx

from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.cpp.part import fuse_part
from unspool.engine.emit.protocol import Emitted, Emitter, Load, launches
from unspool.engine.emit.stages.lowering import decides, has_form, is_added_up
from unspool.engine.ir.core import Core, lower_core
from unspool.engine.ir.program import lower_part
from unspool.engine.partition.fold import fold
from unspool.engine.partition.split import Split
from unspool.engine.reasons import CannotPlanError, Code, Reason
from unspool.engine.rows.labels import Label

WIDE = 8
"""Rows a thread with which products are as fast at every step as for many steps at once."""
NEAR = 1 << 19
"""Bytes of weights that stay in a processor's own cache, so that products are so with any number of rows but one."""


class Cpp(Emitter):
    """Runs cores on a CPU."""

    name = "c++"

    def refusal(self, device: torch.device) -> Reason | None:
        """What it compiles runs on the host."""
        if device.type == "cpu":
            return None
        return Reason(Code.OTHER_DEVICE, f"it runs on CPUs, and the tensors are on {device.type}")

    def cost(self, core: Core) -> float:
        """An operation is a few instructions of the processor."""
        return 0.1 * launches(core)

    def variant(self, load: Load) -> Hashable:
        """Whether products by weights of the inputs are in the loop too."""
        near = NEAR if load.rows > 1 else NEAR // 2  # one row reads every weight for a single multiplication
        return load.weight_bytes <= near or load.rows >= WIDE * torch.get_num_threads()

    def fold(self, split: Split, labels: dict[fx.Node, Label], variant: Hashable) -> Split:
        """Moves what a step computes from what it has in registers."""
        folded = fold(split, labels, has_form, is_added_up, products=bool(variant))
        try:
            lower_core(folded, labels)
        except CannotPlanError:  # rows that can be told apart at one border cannot at another
            return split
        return folded

    def emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        """The core and the parts beside it, compiled together."""
        core, *parts = lower_core(split, labels), *(lower_part(each, labels) for each in (split.before, split.after))
        module = Module(rounds=decides(chain(*(each.instructions for each in (core, *parts)))))
        loop = Compiled(core, module)
        before, after = (fuse_part(part, module, name) for part, name in zip(parts, ("before", "after"), strict=True))
        module.start()
        return Emitted(split, loop, before, after)
