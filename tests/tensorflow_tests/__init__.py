"""TensorFlow's own tests of its recurrent networks, ported."""
