"""Tests of the gallery: each cell against a reference of a few lines."""
