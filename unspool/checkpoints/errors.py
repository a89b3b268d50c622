"""What is wrong with a file."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A checkpoint that cannot be read: it is damaged, cut off, or holds what is not supported.

    The message names the file, what was found in it and what was expected.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from unspool import load_tf1_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.ckpt.index").write_bytes(b"too short")
    ...     load_tf1_checkpoint(f"{folder}/model.ckpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    unspool.checkpoints.errors.CheckpointError: ...model.ckpt.index has 9 bytes, but a table has at least 48
    """
