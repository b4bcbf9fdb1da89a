"""The MPI trace language: one readable file for the programs of all ranks.

`docs/trace-language.md` describes it. `parse` turns text into a `nodes.TraceProgram`, and
`trace_workload` turns it into a `Workload`. `format_program` writes a program in
its canonical form; `dense_text` writes any workload as a program.
"""

from weft.workload.trace.dense import dense_text
from weft.workload.trace.errors import FilePosition, TraceError
from weft.workload.trace.formatter import format_program
from weft.workload.trace.lowering import trace_workload
from weft.workload.trace.parser import parse

__all__ = [
    "FilePosition",
    "TraceError",
    "dense_text",
    "format_program",
    "parse",
    "trace_workload",
]
