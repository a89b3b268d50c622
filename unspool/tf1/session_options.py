"""Options of a session, which are accepted and have no effect: torch has its own."""

from __future__ import annotations

from typing import Any


class GPUOptions:
    """TensorFlow's options for GPUs: any are accepted, and none has an effect."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


class RunOptions:
    """TensorFlow's options for a run, such as tracing: any are accepted, and none has an effect."""

    FULL_TRACE = 3

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


class RunMetadata:
    """Where TensorFlow puts what it traced of a run: it stays empty. `torch.profiler` traces what runs here."""


class ConfigProto:
    """TensorFlow's options for a session: any are accepted, and none has an effect.

    >>> from unspool import tf1 as tf
    >>> config = tf.ConfigProto(allow_soft_placement=True)
    >>> config.gpu_options.allow_growth = True
    >>> tf.Session(config=config).run(tf.constant(1))
    np.int32(1)
    """

    def __init__(self, **options: Any) -> None:
        self.gpu_options = GPUOptions()
        self.__dict__.update(options)
