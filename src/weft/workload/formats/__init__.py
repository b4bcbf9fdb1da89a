"""Files of workloads, one format each: reading and writing.

A format is added by a file with one function per direction; see
`weft.workload.formats.workload_format_registry`.
"""

from weft.workload.formats.workload_format_registry import (
    read_workload,
    workload_reader,
    workload_writer,
    write_workload,
)

__all__ = ["read_workload", "workload_reader", "workload_writer", "write_workload"]
