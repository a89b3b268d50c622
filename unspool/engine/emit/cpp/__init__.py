"""Cores as C++: lowered to statements over a row, arranged in passes, printed, compiled, and run in one call."""
