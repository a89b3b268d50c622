"""How a cell runs through time: one loop a file."""
