"""Topologies: one file per family, each a function that returns a `FabricBuilder`.

A family is added by a file with one function::

    @topology("star", positional=("hosts",), examples=("star:4",))
    def star(hosts: int) -> FabricBuilder: ...
"""

from weft.fabrics.topology.family_registry import (
    ClosedForm,
    build,
    check_spec,
    closed_form,
    format_spec,
    topology,
)

__all__ = ["ClosedForm", "build", "check_spec", "closed_form", "format_spec", "topology"]
