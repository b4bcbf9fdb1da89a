"""Kernels that follow routes: links, loads, dependencies."""
