"""Reference implementation of mixtures of tables: packets that may use either entry at each row."""

from __future__ import annotations

from tests.reference.routing import destinations, out_link
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes

Pair = tuple[int, int]


def mixtures(
    fabric: Fabric, before: TableRoutes, after: TableRoutes
) -> tuple[set[int], set[Pair], int]:
    """Return links in use, links that wait for another, and the entries that lose packets."""
    node_ports = destinations(fabric)[: fabric.num_host_endpoints]
    starts = set()
    for node, port in node_ports:
        there = int(fabric.link_to[out_link(fabric, node, port)])
        starts |= {there} if there < fabric.num_switches else set()
    used: set[int] = set()
    waits: set[Pair] = set()
    lost = 0
    for end, node_port in enumerate(node_ports):
        if int(fabric.link_to[out_link(fabric, *node_port)]) >= fabric.num_switches:
            continue
        for lid in range(end << before.lmc, (end + 1) << before.lmc):
            todo, seen = list(starts), set(starts)
            arriving: list[tuple[int, int]] = []
            leaving: dict[int, list[int]] = {}
            while todo:
                row = todo.pop()
                leaving[row] = []
                for routes in (before, after):
                    link = out_link(fabric, row, int(routes.table[lid, row]))
                    if link >= 0 and (fabric.link_to[link], fabric.link_to_port[link]) == node_port:
                        continue
                    if link < 0 or fabric.link_to[link] >= fabric.num_switches:
                        lost += 1
                        continue
                    head = int(fabric.link_to[link])
                    leaving[row].append(link)
                    arriving.append((link, head))
                    if head not in seen:
                        seen.add(head)
                        todo.append(head)
            used |= {link for link, _ in arriving}
            waits |= {(link, other) for link, head in arriving for other in leaving[head]}
    return used, waits, lost


def on_paths(fabric: Fabric, routes: TableRoutes) -> set[tuple[int, int]]:
    """Return the (LID, row) of the entries on paths between hosts."""
    node_ports = destinations(fabric)[: fabric.num_host_endpoints]
    entries = set()
    for source in node_ports:
        for end, node_port in enumerate(node_ports):
            if int(fabric.link_to[out_link(fabric, *node_port)]) >= fabric.num_switches:
                continue
            for lid in range(end << routes.lmc, (end + 1) << routes.lmc):
                row = int(fabric.link_to[out_link(fabric, *source)])
                while row < fabric.num_switches and (lid, row) not in entries:
                    entries.add((lid, row))
                    link = out_link(fabric, row, int(routes.table[lid, row]))
                    row = int(fabric.link_to[link]) if link >= 0 else fabric.num_switches
    return entries
