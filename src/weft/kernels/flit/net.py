"""State of the flit level: a named tuple of arrays of records (`weft.kernels.flit.records`)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Net(NamedTuple):
    """State that all kernels of the flit level share.

    Parameters
    ----------
    rules, count
        One `RULES` and one `COUNT`.
    links, lanes, routers, packets, sources
        Records of these names; routers are the rows of the fabric, sources its endpoints.
    in_links
        int32: the links into each router, router after router.
    flits
        int32 [lanes * buffer]: flits in the buffers, ``packet << PACKET_SHIFT | HEAD | TAIL``.
    events, used
        int64 [horizon * slot] and int32 [horizon]: the calendar of flits and credits, and the
        number of events in each of its slots.
    decided, births
        int32 [horizon]: first lane of the list of decisions, and first source of the list of
        births, of each slot.
    active, sending
        uint64: bits of the routers and of the sources that are visited.
    free_packets
        int32: stack of free records of packets.
    targets
        int32 [sources]: destination of each source; -1 for a random other endpoint per packet.
    requests, offers
        uint64 and int32 [64]: scratch arrays of switch allocation: input ports that request each
        output port, and the lane that each input port offers.
    routes
        Arrays of the routing function.
    """

    rules: Any
    count: Any
    links: Any
    lanes: Any
    routers: Any
    in_links: Any
    flits: Any
    events: Any
    used: Any
    decided: Any
    births: Any
    active: Any
    packets: Any
    free_packets: Any
    sources: Any
    sending: Any
    targets: Any
    requests: Any
    offers: Any
    routes: Any


class Tables(NamedTuple):
    """Forwarding tables.

    Parameters
    ----------
    table
        [destinations, rows]: output port, as in `weft.routes.TableRoutes`.
    row_base, row_link
        As in `weft.fabrics.graph.SwitchGraph`.
    """

    table: Any
    row_base: Any
    row_link: Any
