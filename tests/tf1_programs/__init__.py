"""Programs for TensorFlow 1 as they were written in its day, to be run unchanged by TensorFlow and by unspool.

Each module builds one program: `build(tf)`, with `tf` as `import tensorflow as tf` gave it then.
"""

from __future__ import annotations

import importlib
from functools import partial

from .program import Build

PROGRAMS: dict[str, Build] = {
    name: importlib.import_module(f"{__name__}.{name}").build
    for name in """
        two_steps static_list static_unstacked dynamic lengths stacked_lstms row_classifier forecast forecast_wrapped
    """.split()
}
