"""Prints stages as C++."""
