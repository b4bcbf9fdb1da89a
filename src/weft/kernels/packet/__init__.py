"""Kernels of the packet level."""
