"""Helpers: what a `BasicDecoder` samples, and what it reads next; one subject a file."""
