"""The graph of a fabric as kernels take it."""

from typing import Any, NamedTuple


class Graph(NamedTuple):
    """Arrays of `weft.fabrics.graph.SwitchGraph`, which describes them; None where not needed."""

    row_base: Any = None
    row_link: Any = None
    slot_edge: Any = None
    link_row: Any = None
    destination_row: Any = None
    destination_link: Any = None
    edge_offset: Any = None
    edge_row: Any = None
    edge_tail: Any = None
    edge_link: Any = None
    edge_port: Any = None
    edge_back: Any = None
    first_dependency: Any = None
