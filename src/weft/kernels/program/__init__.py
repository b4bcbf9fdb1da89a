"""Kernels of programs of ranks, which the flow and the packet level share."""
