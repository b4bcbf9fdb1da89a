"""Where the nodes of a fabric are drawn, and how its cables bend."""

from weft.report.layout.place import Layout, layout

__all__ = ["Layout", "layout"]
