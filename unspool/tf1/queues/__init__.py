"""Queues, the threads that fill them, and what programs of TensorFlow 1 build of these to read their inputs."""
