"""The MPI trace language: one readable file for the programs of all ranks."""

from weft.workload.trace.errors import Place, TraceError
from weft.workload.trace.formatter import format_program
from weft.workload.trace.lowering import lower, trace_workload
from weft.workload.trace.parser import parse

__all__ = ["Place", "TraceError", "format_program", "lower", "parse", "trace_workload"]
