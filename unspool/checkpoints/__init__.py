"""TensorFlow 1's checkpoints, without TensorFlow."""
