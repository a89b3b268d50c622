"""TFRecord files: records of bytes, and examples in them, as TensorFlow writes and reads them."""
