"""The proof that rows of a batch never mix, operation by operation."""
