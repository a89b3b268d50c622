"""Sessions that restore, save and stop by themselves: `tf.train.Supervisor`, `MonitoredSession` and their hooks."""
