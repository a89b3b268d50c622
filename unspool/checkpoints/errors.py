"""`CheckpointError`: a checkpoint file is damaged, cut off, or holds what is not supported."""

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


class WeightsMismatchError(ValueError):
    """Weights that are not those of a module: what is `missing`, `unexpected` and `misshaped`, by name.

    >>> import torch
    >>> from unspool import LSTMCell, WeightsMismatchError, load_tf1_weights
    >>> try:
    ...     load_tf1_weights(LSTMCell(4, input_size=3), {"rnn/lstm_cell/kernel": torch.zeros(7, 16)})
    ... except WeightsMismatchError as error:
    ...     error.missing
    ['rnn/lstm_cell/bias']
    """

    def __init__(
        self,
        what: str,
        missing: dict[str, str],
        unexpected: list[str],
        misshaped: dict[str, tuple[tuple[int, ...], tuple[int, ...]]],
        hint: str,
    ) -> None:
        lines = [f"{name} is missing" + (f"; there is {near}" if near else "") for name, near in missing.items()]
        lines += [f"{name} is unexpected" for name in unexpected]
        lines += [
            f"{name} has shape {list(found)}, but expected {list(expected)}"
            for name, (found, expected) in misshaped.items()
        ]
        super().__init__("\n  ".join([what, *lines, *([hint] if hint else [])]))
        self.missing = list(missing)
        self.unexpected = unexpected
        self.misshaped = list(misshaped)
