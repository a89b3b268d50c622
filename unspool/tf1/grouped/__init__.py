"""Modules of TensorFlow 1.13 that group names which `tf` has: `tf.math.log` is `tf.log`."""
