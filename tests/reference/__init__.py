"""Slow, plain twins of the kernels, written from the definitions and sharing no code with them."""
