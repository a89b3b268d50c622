"""Recurrent cells from papers, each written from its equations: an import of its own."""
