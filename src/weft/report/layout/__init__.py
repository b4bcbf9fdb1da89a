"""Layout of a fabric: positions of nodes and bends of cables."""

from weft.report.layout.place import Layout, layout

__all__ = ["Layout", "layout"]
