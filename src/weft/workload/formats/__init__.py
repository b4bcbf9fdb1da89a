"""Workload files: one module per format, for reading and writing.

`weft.workload.formats.workload_format_registry` describes how to add a format.
"""

from weft.workload.formats.workload_format_registry import (
    read_workload,
    workload_reader,
    workload_writer,
    write_workload,
)

__all__ = ["read_workload", "workload_reader", "workload_writer", "write_workload"]
