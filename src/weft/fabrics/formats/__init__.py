"""File formats, one file each: reading and writing together.

A format is added by a file with one function per direction; see
`weft.fabrics.formats.format_registry`.
"""

from weft.fabrics.formats.format_registry import FormatWarning, reader, writer
from weft.fabrics.formats.read_write import read_file, write_fabric

__all__ = ["FormatWarning", "read_file", "reader", "write_fabric", "writer"]
