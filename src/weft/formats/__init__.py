"""File formats, one file each: reading and writing together.

A format is added by a file with one function per direction; see `weft.formats.base`.
"""

from weft.formats.base import FormatWarning, reader, writer
from weft.formats.files import read_file, write_file

__all__ = ["FormatWarning", "read_file", "reader", "write_file", "writer"]
