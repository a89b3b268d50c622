"""Lets TensorFlow run the small trainings of `tests/tf1_training.py`, and keeps it in `tests/data/tf1_training`.

    python -m conformance.tf1_training

Needs the requirements in `conformance/requirements.txt`, and not unspool.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from conformance import tf1_on_tensorflow  # noqa: E402
from tests import (  # noqa: E402
    tf1_blocks,
    tf1_images,
    tf1_layers,
    tf1_losses,
    tf1_metrics,
    tf1_recorded,
    tf1_tables,
    tf1_training,
)

tf1: Any = tf.compat.v1


def run(function: Callable[..., dict[str, Any]], *arguments: Any, tf: Any = tf1) -> dict[str, Any]:
    """What a training makes in a graph of its own."""
    with tf1.Graph().as_default():
        return function(tf, *arguments)


def main() -> None:
    """Writes one file for each subject."""
    tf1.disable_v2_behavior()
    optimizers = {name: run(tf1_training.trained, name) for name in tf1_training.OPTIMIZERS}
    optimizers["adam_float64"] = run(tf1_training.trained, "adam", "float64")
    optimizers["two_of_them"] = run(tf1_training.two_of_them)
    optimizers["decays"] = run(tf1_training.decays)
    optimizers["moving_averages"] = run(tf1_training.moving_averages)
    tf1_recorded.record("optimizers", optimizers)
    tf1_recorded.record("layers", {each.__name__: run(each) for each in tf1_layers.ALL})
    with_contrib = tf1_on_tensorflow.tf
    tf1_recorded.record("blocks", {each.__name__: run(each, tf=with_contrib) for each in tf1_blocks.ALL})
    tf1_recorded.record("images", {each.__name__: run(each) for each in tf1_images.ALL})
    tf1_recorded.record("tables", {each.__name__: run(tf1_tables.by_all, each) for each in tf1_tables.PLACES})
    tf1_recorded.record("losses", {each.__name__: run(each) for each in tf1_losses.ALL})
    tf1_recorded.record("metrics", {each.__name__: run(each) for each in tf1_metrics.ALL})


if __name__ == "__main__":
    main()
