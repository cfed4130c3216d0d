"""NumPy twins of the native kernels: slow, obvious, and what the kernels must equal."""
