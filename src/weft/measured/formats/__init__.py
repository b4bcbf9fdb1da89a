"""Formats of logs of benchmarks: one file per format."""
