"""`tensorflow.python.client.timeline`: traces of runs, which are empty; `torch.profiler` traces what runs here."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Timeline"]


class Timeline:
    """The trace of a run.

    Args:
        step_stats: a `tf.RunMetadata`'s, which has nothing.
        graph: accepted.

    >>> from unspool import tf1 as tf
    >>> Timeline(tf.RunMetadata().step_stats).generate_chrome_trace_format()
    '{"traceEvents": []}'
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._stats = step_stats

    def generate_chrome_trace_format(self, *unused: Any, **options: Any) -> str:
        """JSON that Chrome's `about:tracing` reads."""
        return json.dumps({"traceEvents": list(self._stats.dev_stats)})
