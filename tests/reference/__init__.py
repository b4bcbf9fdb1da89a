"""Slow reference implementations of the kernels, from definitions, without code in common."""
