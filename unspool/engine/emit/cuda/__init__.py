"""The core's operations as CUDA kernels, which NVRTC compiles when they are first needed."""
