"""Readers of formats as functions from a text to a fabric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.fabrics import Fabric
from weft.fabrics.formats import reader


def reader_of(name: str) -> Callable[..., Fabric]:
    """Return a function from the contents of a file of a format, and its name, to the fabric."""

    def read(text: str, file: str, **options: Any) -> Fabric:
        fabric: Fabric = reader[name].function(text=text, file=file, **options).fabric()
        return fabric

    return read
