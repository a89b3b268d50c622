"""From a cell's Python to a graph: the step and its adjoint as tensor operations, for any number of rows."""
