"""Cells around cells: one subject a file."""
