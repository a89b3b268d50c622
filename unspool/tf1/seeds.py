"""Random numbers that a seed makes repeatable: each operation has its own sequence, in each session from its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from unspool.tf1.graph import get_default_graph

if TYPE_CHECKING:
    from unspool.tf1.session import Run

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

    def generator(self, run: Run) -> torch.Generator | None:
        """The session's generator for this operation; None for torch's own."""
        if self._seed is None:
            return None
        return run.state.kept(self, lambda: torch.Generator(run.state.device).manual_seed(self._seed or 0))
