"""Kernels of programs of ranks, which all levels over time share."""
