"""Kernels that make routes."""
