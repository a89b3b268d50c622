"""Shapes of tensors without values: a symbol for the number of rows, and what operations make of it."""
