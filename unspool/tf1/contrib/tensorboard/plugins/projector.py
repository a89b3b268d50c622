"""`tf.contrib.tensorboard.plugins.projector`: which embeddings TensorBoard shows, and the names of their rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from unspool.tf1.namespace import missing

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]


@dataclass
class SpriteMetadata:
    """Pictures of the rows: one file with all of them, and the size of each."""

    image_path: str = ""
    single_image_dim: list[int] = field(default_factory=list[int])


@dataclass
class EmbeddingInfo:
    """An embedding: the name of its variable, and the file with the names of its rows."""

    tensor_name: str = ""
    metadata_path: str = ""
    bookmarks_path: str = ""
    tensor_shape: list[int] = field(default_factory=list[int])
    sprite: SpriteMetadata = field(default_factory=SpriteMetadata)
    tensor_path: str = ""


class _Embeddings(list[EmbeddingInfo]):
    """A list that makes its own elements, as protocol buffers do."""

    def add(self, **fields: Any) -> EmbeddingInfo:
        """A new embedding at the end."""
        self.append(EmbeddingInfo(**fields))
        return self[-1]


@dataclass
class ProjectorConfig:
    """Which embeddings are shown.

    >>> config = ProjectorConfig()
    >>> embedding = config.embeddings.add()
    >>> embedding.tensor_name, embedding.metadata_path = "words", "words.tsv"
    >>> print(as_text(config), end="")
    embeddings {
      tensor_name: "words"
      metadata_path: "words.tsv"
    }
    """

    model_checkpoint_path: str = ""
    embeddings: _Embeddings = field(default_factory=_Embeddings)
    model_checkpoint_dir: str = ""


def visualize_embeddings(summary_writer: Any, config: ProjectorConfig) -> None:
    """Writes `projector_config.pbtxt` to the folder of a writer, or to a folder, where TensorBoard finds it.

    Raises:
        ValueError: if there is no folder.
    """
    folder = summary_writer.get_logdir() if hasattr(summary_writer, "get_logdir") else summary_writer
    if folder is None:
        raise ValueError("Summary writer must have a logdir")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "projector_config.pbtxt"), "w", encoding="utf-8") as file:
        file.write(as_text(config))


def as_text(config: ProjectorConfig) -> str:
    """The config as a protocol buffer in text."""
    lines = _strings("", model_checkpoint_path=config.model_checkpoint_path)
    for each in config.embeddings:
        lines.append("embeddings {")
        lines += _strings("  ", tensor_name=each.tensor_name, metadata_path=each.metadata_path)
        lines += _strings("  ", bookmarks_path=each.bookmarks_path)
        lines += [f"  tensor_shape: {size}" for size in each.tensor_shape]
        if each.sprite.image_path or each.sprite.single_image_dim:
            lines.append("  sprite {")
            lines += _strings("    ", image_path=each.sprite.image_path)
            lines += [f"    single_image_dim: {size}" for size in each.sprite.single_image_dim]
            lines.append("  }")
        lines += _strings("  ", tensor_path=each.tensor_path)
        lines.append("}")
    lines += _strings("", model_checkpoint_dir=config.model_checkpoint_dir)
    return "".join(f"{line}\n" for line in lines)


def _strings(indent: str, **fields: str) -> list[str]:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in fields.items() if value}
    return [f'{indent}{name}: "{value}"' for name, value in quoted.items()]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.tensorboard.plugins.projector", name, globals())
