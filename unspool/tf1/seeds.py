"""Random numbers that a seed makes repeatable: each operation has its own sequence, in each session from its start."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.graph import get_default_graph

if TYPE_CHECKING:
    from unspool.tf1.session import Run
    from unspool.tf1.tensor import Tensor

DEFAULT_GRAPH_SEED = 87654321


def set_random_seed(seed: int | None) -> None:
    """Makes all random operations of the default graph that are made from now on repeatable.

    The numbers are torch's, not TensorFlow's; without a seed they come from torch's global generator.

    >>> from unspool import tf1 as tf
    >>> tf.set_random_seed(1)
    >>> draw = tf.random_uniform([])
    >>> tf.Session().run(draw) == tf.Session().run(draw)
    np.True_
    """
    get_default_graph().root.seed = seed


@contextmanager
def seeded(run: Run, draws: Iterable[Draw]) -> Generator[None, None, None]:
    """Lets torch's own generators, which a plan can draw from, repeat in the block what seeds of operations ask for."""
    own = next((each.generator(run) for each in draws if each.seed is not None), None)
    if own is None:
        yield
        return
    device = run.state.device
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        torch.manual_seed(int(torch.randint(2**62, (), generator=own, device=device)))
        yield


class Draw:
    """The generator of one random operation.

    Args:
        seed: of the operation; with none, and none of the graph, it draws from torch's global generator.
    """

    def __init__(self, seed: int | None) -> None:
        graph = get_default_graph().root
        self._seed: int | None = None
        if graph.seed is not None or seed is not None:
            # As in TensorFlow: without a seed of its own, the operation's place in the graph tells it from others.
            own = len(graph.get_operations()) if seed is None else seed
            base = DEFAULT_GRAPH_SEED if graph.seed is None else graph.seed
            self._seed = (base * 1_000_003 + own) % 2**63

    @property
    def seed(self) -> int | None:
        """The seed that it draws with; None if there is none."""
        return self._seed

    def noted(self, tensor: Tensor) -> Tensor:
        """The result of the operation, which now says that it draws."""
        tensor.op.attributes = {**tensor.op.attributes, "draw": self}
        return tensor

    def uniform(self, run: Run, sizes: Any, like: torch.Tensor) -> torch.Tensor:
        """Numbers from 0 up to 1, of the dtype and on the device of another tensor."""
        generator = self.generator(run)
        if generator is None:  # with none named, torch takes sizes that a trace knows as symbols
            return torch.rand(sizes, dtype=like.dtype, device=like.device)
        return torch.rand(sizes, dtype=like.dtype, device=like.device, generator=generator)

    def generator(self, run: Run) -> torch.Generator | None:
        """The session's generator for this operation; None for torch's own, which steps of loops draw from."""
        if self._seed is None or run.is_step:
            return None
        return run.state.kept(self, lambda: torch.Generator(run.state.device).manual_seed(self._seed or 0))
