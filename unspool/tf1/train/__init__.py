"""`tf.train`: optimisers, learning rates that fall, step counters, moving averages and checkpoints."""
