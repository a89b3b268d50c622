"""`tf.saved_model.tag_constants`: what graphs of saved models are found by."""

from __future__ import annotations

__all__ = ["GPU", "SERVING", "TPU", "TRAINING"]

SERVING, TRAINING, GPU, TPU = "serve", "train", "gpu", "tpu"
