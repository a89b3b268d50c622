"""Loop rerolling: calls of a cell that a Python loop put into the graph one by one, as one loop of the engine."""
