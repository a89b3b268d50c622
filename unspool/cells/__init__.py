"""What happens in one step: the contract of a cell, the cells, and what wraps them."""
