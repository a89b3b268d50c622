"""Cells of the gallery, against references written from their equations and against the plain loop."""
