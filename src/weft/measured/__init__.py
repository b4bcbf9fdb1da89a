"""Measurements of communication: logs of benchmarks, as one frame."""
