"""Prints the kernels of cores, as CUDA C++ that a person can read."""
