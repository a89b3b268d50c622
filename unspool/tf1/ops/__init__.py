"""The operations of TensorFlow 1 that recurrent programs use, each one torch function or a few."""
