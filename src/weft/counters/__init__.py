"""Port counters of real fabrics: readings, what changed between two of them, and series."""
