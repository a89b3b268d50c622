"""Text that the printers of C++ and of CUDA C++ share."""
