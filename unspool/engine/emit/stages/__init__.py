"""What becomes of a core before it is printed: one row of it as statements over strided memory, in fused loops."""
