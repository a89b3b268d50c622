"""Cells from papers, each written from its equations, with its citation and its published initialisation."""
