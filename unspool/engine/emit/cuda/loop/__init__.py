"""A core as one kernel that runs all steps of a chunk: weights stay on the multiprocessors, steps wait for words."""
