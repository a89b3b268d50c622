"""Recurrent cells and loops of the graph: cells of unspool inside, and the engine underneath."""
