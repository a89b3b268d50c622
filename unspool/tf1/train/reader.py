"""What is in a checkpoint, without a graph."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from unspool.checkpoints.bundle import TensorBundle, load_tf1_checkpoint
from unspool.checkpoints.errors import CheckpointError
from unspool.tf1.dtypes import DType, as_dtype
from unspool.tf1.errors import DataLossError, NotFoundError
from unspool.tf1.train.checkpoint_state import latest_checkpoint


class CheckpointReader:
    """Reads variables by name.

    Args:
        filepattern: the prefix of the checkpoint's files.

    Raises:
        NotFoundError: if there is none.
        DataLossError: if it is broken.
    """

    def __init__(self, filepattern: str | os.PathLike[str]) -> None:
        self._prefix = os.fspath(filepattern)
        self._bundle = open_bundle(self._prefix)

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a variable of that name."""
        return tensor_str in self._bundle

    def get_tensor(self, tensor_str: str) -> np.ndarray[Any, Any]:
        """The values of a variable; `NotFoundError` if there is none of that name."""
        if tensor_str not in self._bundle:
            raise NotFoundError(None, None, f"Key {tensor_str} not found in checkpoint {self._prefix}")
        return read_array(self._bundle, tensor_str)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shapes of all variables, by name."""
        return {name: list(self._bundle.shape(name)) for name in self._bundle}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The dtypes of all variables, by name."""
        return {name: as_dtype(self._bundle.dtype(name)) for name in self._bundle}

    def debug_string(self) -> bytes:
        """A line for each variable."""
        lines = [f"{name} ({self._bundle.dtype(name)}) {list(self._bundle.shape(name))}" for name in self._bundle]
        return "\n".join(lines).encode()


def NewCheckpointReader(filepattern: str | os.PathLike[str]) -> CheckpointReader:  # noqa: N802 (TensorFlow's name)
    """A reader of the checkpoint with that prefix."""
    return CheckpointReader(filepattern)


def load_checkpoint(ckpt_dir_or_file: str | os.PathLike[str]) -> CheckpointReader:
    """A reader of a checkpoint, or of the latest in a folder."""
    given = os.fspath(ckpt_dir_or_file)
    if not os.path.isdir(given):
        return CheckpointReader(given)
    found = latest_checkpoint(given)
    if found is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {given}")
    return CheckpointReader(found)


def load_variable(ckpt_dir_or_file: str | os.PathLike[str], name: str) -> np.ndarray[Any, Any]:
    """The values of one variable in a checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: str | os.PathLike[str]) -> list[tuple[str, list[int]]]:
    """The names and shapes of the variables in a checkpoint."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def open_bundle(prefix: str) -> TensorBundle:
    """The variables of a checkpoint; TensorFlow's errors if there is none, or it is broken."""
    try:
        return load_tf1_checkpoint(f"{prefix}.index")
    except FileNotFoundError as error:
        message = f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}; {error}"
        raise NotFoundError(None, None, message) from error
    except CheckpointError as error:
        raise DataLossError(None, None, str(error)) from error


def read_array(bundle: TensorBundle, name: str) -> np.ndarray[Any, Any]:
    """The values of one variable; `DataLossError` if they are broken."""
    try:
        return bundle[name]
    except (CheckpointError, OSError) as error:
        raise DataLossError(None, None, f"{name}: {error}") from error
