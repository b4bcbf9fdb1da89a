"""Placement of I/O nodes and of the jobs beside them: search, confirmation, and reasons."""
