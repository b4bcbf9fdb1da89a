"""Formats of readings of port counters: one file per format."""
