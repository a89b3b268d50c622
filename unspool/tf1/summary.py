"""`tf.summary`: numbers of a run for TensorBoard, whose own package writes them: `pip install tensorboard`."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1 import logging, png
from unspool.tf1.dtypes import string
from unspool.tf1.graph import get_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import described, fit
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys

__all__ = ["FileWriter", "histogram", "image", "merge", "merge_all", "scalar"]

LATER = ("Summary", "Event")
"""Names that need the tensorboard package, which others do without."""


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary of one number: bytes that `FileWriter.add_summary` takes.

    Args:
        name: what TensorBoard shows, below the current name scope, made unique.
        tensor: the number.
        collections: the lists to add it to; the one of `merge_all` by default.
        family: a word before the name.

    >>> from unspool import tf1 as tf
    >>> tf.summary.scalar("loss", tf.constant(0.5)).dtype
    tf.string
    """
    given = as_tensor(tensor)
    if not fit(given.dims, ()):
        raise ValueError(f"tensor must be a scalar, but {given!r} has shape {described(given.dims)}")

    def encode(tag: str, value: torch.Tensor) -> bytes:
        return _encoded(_value(tag=tag, simple_value=value.item()))

    return _summarized("ScalarSummary", encode, name, given, collections, family)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary of how numbers are spread; see `scalar`.

    Raises:
        InvalidArgumentError: when it runs, if one of them is not finite.
    """

    def encode(tag: str, value: torch.Tensor) -> bytes:
        array = np.asarray(value.detach().double().cpu().reshape(-1).tolist(), np.float64)
        if not np.isfinite(array).all():
            raise ValueError(f"Nan or infinity in summary histogram for: {tag}")
        return _encoded(_value(tag=tag, histo=_histogram(array)))

    return _summarized("HistogramSummary", encode, name, as_tensor(values), collections, family)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary of pictures; see `scalar`.

    Args:
        name: what TensorBoard shows.
        tensor: `[batch, height, width, channels]`, with 1, 3 or 4 channels: uint8 as it is, other numbers scaled.
        max_outputs: at most how many pictures of the batch.
        collections, family: see `scalar`.

    Raises:
        ValueError: if the shape is known and no batch of pictures, or no picture is asked for.

    >>> from unspool import tf1 as tf
    >>> tf.summary.image("frames", tf.zeros([2, 4, 4, 1])).dtype
    tf.string
    """
    given = as_tensor(tensor)
    if not fit(given.dims, (None,) * 4) or (given.dims and given.dims[3] not in (None, 1, 3, 4)):
        raise ValueError(
            f"tensor must be [batch, height, width, 1, 3 or 4 channels], but has shape {described(given.dims)}"
        )
    if max_outputs < 1:
        raise ValueError(f"max_outputs must be at least 1, but is {max_outputs}")

    def encode(tag: str, value: torch.Tensor) -> bytes:
        if value.dim() != 4 or value.shape[3] not in (1, 3, 4):
            raise ValueError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {list(value.shape)}")
        rows = value[:max_outputs].detach().cpu().numpy()
        tags = [f"{tag}/image"] if max_outputs == 1 else [f"{tag}/image/{number}" for number in range(len(rows))]
        pixels = [png.scaled(row, np.array([255, 0, 0, 255], np.uint8)) for row in rows]
        values = [_value(tag=tag, image=_picture(each)) for tag, each in zip(tags, pixels, strict=True)]
        return _proto("summary_pb2").Summary(value=values).SerializeToString()

    return _summarized("ImageSummary", encode, name, given, collections, family)


def merge(inputs: Sequence[Any], collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries as one."""
    given = [as_tensor(each) for each in inputs]
    if not given:
        raise ValueError("inputs must be a list of summaries, but is empty")

    def join(*parts: bytes) -> bytes:
        return b"".join(parts)  # what follows in a message of repeated fields is added to them

    made = apply("MergeSummary", join, *given, name=name or "Merge/MergeSummary", outputs=[(string, ())])
    get_default_graph().add_to_collections(collections or (), made)
    return made


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """All summaries of the graph as one; None if there are none.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     tf.summary.merge_all() is None
    True
    """
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


class FileWriter:
    """Writes summaries to a file in a folder, for `tensorboard --logdir`.

    Args:
        logdir: the folder, made if there is none.
        graph: accepted; graphs are not written.
        max_queue: how many events wait to be written.
        flush_secs: how long they wait at most.
        graph_def: accepted.
        filename_suffix: at the end of the file's name.
        session: accepted.

    Raises:
        ImportError: if there is no tensorboard.
    """

    def __init__(
        self,
        logdir: str,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        self._logdir = str(logdir)
        self._details = max_queue, flush_secs, filename_suffix or ""
        self._writer: Any = None
        self.reopen()

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Writes what a session computed of a summary, or a `Summary` message.

        Args:
            summary: bytes, or a `tf.Summary`.
            global_step: the step that it belongs to.
        """
        if isinstance(summary, bytes | np.bytes_):
            summary = _proto("summary_pb2").Summary.FromString(bytes(summary))
        event = _proto("event_pb2").Event(summary=summary)
        self._add(event, global_step)

    def add_event(self, event: Any) -> None:
        """Writes an `Event` message."""
        self._opened().add_event(event)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Accepted: graphs are not written."""

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Accepted: traces are not written."""

    def _add(self, event: Any, global_step: Any) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def _opened(self) -> Any:
        if self._writer is None:
            raise ValueError(f"the FileWriter of {self._logdir} is closed; reopen() begins another file")
        return self._writer

    def flush(self) -> None:
        """Waits until all is in the file."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Writes what waits, and closes the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def reopen(self) -> None:
        """Begins another file, if the last one is closed."""
        if self._writer is None:
            made = _imported("tensorboard.summary.writer.event_file_writer").EventFileWriter
            self._writer = made(self._logdir, *self._details)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _summarized(
    kind: str,
    encode: Callable[[str, torch.Tensor], bytes],
    name: str,
    given: Tensor,
    collections: Any,
    family: str | None,
) -> Tensor:
    clean, family = cleaned(name), cleaned(family) if family else family
    with name_scope(f"{family}/{clean}" if family else clean) as scope:
        tag = f"{family}/{scope.rstrip('/')}" if family else scope.rstrip("/")
        made = apply(kind, lambda value: encode(tag, value), given, name=scope, outputs=[(string, ())])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    lists = [GraphKeys.SUMMARIES] if collections is None else collections
    get_default_graph().add_to_collections(lists, made)
    return made


def cleaned(name: str) -> str:
    """A name as a summary may have it: what is no letter, digit or one of `-_./` is "_", which is logged.

    >>> cleaned("embedding/W:0/grad hist")
    'embedding/W_0/grad_hist'
    """
    clean = re.sub(r"[^-/\w.]", "_", name).lstrip("/")
    if clean != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, clean)
    return clean


def _histogram(array: np.ndarray[Any, Any]) -> Any:
    counts = np.bincount(np.searchsorted(_LIMITS, array, side="right"), minlength=len(_LIMITS))
    # Of empty buckets that follow each other the last is kept.
    kept = np.flatnonzero((counts > 0) | np.append(counts[1:] > 0, True))
    return _proto("summary_pb2").HistogramProto(
        min=array.min() if array.size else _LIMITS[-1],
        max=array.max() if array.size else _LIMITS[0],
        num=array.size,
        sum=array.sum(),
        sum_squares=np.square(array).sum(),
        bucket_limit=_LIMITS[kept].tolist(),
        bucket=counts[kept].tolist(),
    )


def _bucket_limits() -> np.ndarray[Any, Any]:
    """TensorFlow's: each a tenth wider than the one before."""
    limits = [1e-12]
    while limits[-1] * 1.1 < 1e20:
        limits.append(limits[-1] * 1.1)
    limits.append(float(np.finfo(np.float64).max))
    return np.array([*(-each for each in reversed(limits)), 0.0, *limits])


_LIMITS = _bucket_limits()


def _picture(pixels: np.ndarray[Any, Any]) -> Any:
    height, width, channels = pixels.shape
    return _proto("summary_pb2").Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png.encoded(pixels)
    )


def _encoded(value: Any) -> bytes:
    return _proto("summary_pb2").Summary(value=[value]).SerializeToString()


def _value(**fields: Any) -> Any:
    return _proto("summary_pb2").Summary.Value(**fields)


def _proto(name: str) -> Any:
    return _imported(f"tensorboard.compat.proto.{name}")


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"tf.summary needs TensorBoard's package: pip install tensorboard ({error})") from error


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(_proto("summary_pb2" if name == "Summary" else "event_pb2"), name)
    raise missing("tf.summary", name, globals())
