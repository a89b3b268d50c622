"""What programs use of the inside of TensorFlow, `tensorflow.python`, and is not public."""
