"""The core as a CUDA graph."""
