"""Kernels of the flow level and of contention graphs."""
