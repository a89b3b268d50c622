"""`tensorflow.examples.tutorials.mnist.input_data`: the handwritten digits, from the four files where they are."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unspool.tf1.dtypes import as_dtype, float32
from unspool.tf1.graph import get_default_graph

__all__ = ["DataSet", "Datasets", "dense_to_one_hot", "extract_images", "extract_labels", "read_data_sets"]

Array = np.ndarray[Any, Any]
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class DataSet:
    """Images and labels, handed out in batches that are shuffled anew for each epoch.

    Args:
        images: uint8 `[count, height, width, 1]`.
        labels: one for each image.
        fake_data, one_hot: unused; TensorFlow's test mode.
        dtype: float32 for pixels from 0 to 1, uint8 for those of the file.
        reshape: whether images are rows of `height * width`.
        seed: of the order of batches.
    """

    def __init__(
        self,
        images: Array,
        labels: Array,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        if as_dtype(dtype).name not in ("uint8", "float32"):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        if len(images) != len(labels):
            raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
        if reshape:
            images = images.reshape(len(images), -1)
        self.images = images.astype(np.float32) / 255 if as_dtype(dtype).name == "float32" else images
        self.labels = labels
        self.epochs_completed = 0
        self._next = 0
        self._random = np.random.RandomState(get_default_graph().seed if seed is None else seed)

    @property
    def num_examples(self) -> int:
        """How many images there are."""
        return len(self.images)

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Array, Array]:
        """The next images and labels; a batch may begin in one epoch and end in the next."""
        if self._next == 0 and self.epochs_completed == 0 and shuffle:
            self._shuffle()
        start, stop = self._next, self._next + batch_size
        if stop <= self.num_examples:
            self._next = stop
            return self.images[start:stop], self.labels[start:stop]
        images, labels = self.images[start:], self.labels[start:]
        self.epochs_completed += 1
        if shuffle:
            self._shuffle()
        self._next = batch_size - len(images)
        more = slice(0, self._next)
        return np.concatenate([images, self.images[more]]), np.concatenate([labels, self.labels[more]])

    def _shuffle(self) -> None:
        order = self._random.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]


class Datasets(NamedTuple):
    """The three parts."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str | os.PathLike[str],
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """The digits for training, validation and test.

    Args:
        train_dir: the folder with the four files, as they are distributed, or unpacked.
        fake_data, source_url: unused; nothing is downloaded.
        one_hot: whether labels are rows of zeros with one 1.
        dtype: float32 for pixels from 0 to 1, uint8 for those of the files.
        reshape: whether images are rows of 784 pixels.
        validation_size: how many of the images for training are for validation.
        seed: of the order of batches.

    Raises:
        FileNotFoundError: if a file is missing, with what to place where.
        ValueError: if a file is something else, or `validation_size` is too large.
    """
    paths = [_existing(Path(train_dir), name) for name in FILES]
    images, test_images = (extract_images(path) for path in paths[0::2])
    labels, test_labels = (extract_labels(path, one_hot) for path in paths[1::2])
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    options: dict[str, Any] = dict(dtype=dtype, reshape=reshape, seed=seed)
    return Datasets(
        DataSet(images[validation_size:], labels[validation_size:], **options),
        DataSet(images[:validation_size], labels[:validation_size], **options),
        DataSet(test_images, test_labels, **options),
    )


def extract_images(f: Any) -> Array:
    """The images of a file, uint8 `[count, height, width, 1]`."""
    return _read(f, 2051, 3)[..., None]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Array:
    """The labels of a file, uint8 `[count]`, or `[count, num_classes]` as rows with one 1."""
    labels = _read(f, 2049, 1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Array, num_classes: int) -> Array:
    """Numbers of classes as rows of zeros with one 1."""
    return np.eye(num_classes)[labels_dense]


def _existing(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    raise FileNotFoundError(
        f"read_data_sets looks for {name}.gz, or {name}, in {folder.resolve()}, and downloads nothing: place the four "
        f"files of MNIST there, {', '.join(f'{each}.gz' for each in FILES)}"
    )


def _read(f: Any, magic: int, axes: int) -> Array:
    """A file of the format IDX: a number that says what it is, the sizes of the axes, and bytes."""
    if hasattr(f, "read"):
        name, data = getattr(f, "name", "the file"), f.read()
    else:
        name, data = f, Path(f).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    header = np.frombuffer(data, ">u4", min(1 + axes, len(data) // 4))
    if not len(header) or header[0] != magic:
        raise ValueError(f"Invalid magic number {header[0] if len(header) else None} in MNIST file: {name}")
    return np.frombuffer(data, np.uint8, offset=4 * len(header)).reshape(header[1:])
