"""What programs use of `tensorflow.examples`."""
