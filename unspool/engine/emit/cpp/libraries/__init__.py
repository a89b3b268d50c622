"""Builds C++, keeps it and calls it."""
