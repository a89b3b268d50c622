"""The CUDA graph emitter: a chunk of steps recorded once, with fused kernels, and replayed."""
