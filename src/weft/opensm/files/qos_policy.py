"""Service levels in OpenSM's QoS files: a policy per pair of ports, and options for SL to VL.

OpenSM's ``-R file`` programs tables but no SLs. Run with ``-Q -Y qos-policy.conf`` it answers path
queries with the SL of the first match rule whose source and destination groups hold the two ports,
else of the level ``DEFAULT``. Rules know ports and not LIDs, so SLs that differ between the LIDs of
one port cannot be stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.opensm.files.ports import port_guids
from weft.routes import MAX_VLS, NUM_SLS, TableRoutes, VirtualLanes

_PER_LINE = 6


def endpoint_sls(fabric: Fabric, routes: TableRoutes) -> NDArray[np.uint8]:
    """Service level between each two endpoints, uint8 [endpoints, endpoints].

    Raises
    ------
    NotApplicable
        When it differs between LIDs of one port.
    """
    routes.check(fabric)
    sl = np.asarray(routes.sl, dtype=np.uint8)
    count, width = fabric.num_endpoints, 1 << routes.lmc
    rows = fabric.graph.destination_row[:count]
    if sl.ndim == 0:
        return np.full((count, count), sl, dtype=np.uint8)
    wide = width if sl.shape[-1] == fabric.num_destinations << routes.lmc else 1
    sl = sl[..., : count * wide].reshape(*sl.shape[:-1], count, wide)
    other = np.argwhere(sl != sl[..., :1])
    if len(other):
        node = fabric.endpoint_node[other[0][-2]]
        raise NotApplicable(
            f"the LIDs of {fabric.node_names[node]} have different service levels, and OpenSM's "
            "QoS policy tells ports apart but not their LIDs"
        )
    sl = sl[..., 0]
    return np.broadcast_to(sl, (count, count)).copy() if sl.ndim == 1 else sl[rows]


def qos_policy(fabric: Fabric, routes: TableRoutes) -> str:
    """A ``qos-policy.conf`` that gives each pair of adapter ports the service level of routes.

    Parameters
    ----------
    fabric
        What the routes are of.
    routes
        Their `sl` counts; one for all needs no rule at all.

    Returns
    -------
    str
        Ports that have the same levels share groups, a rule states what differs from the level
        most common, and rules go by source or by destination, whichever makes the shorter file.

    Raises
    ------
    NotApplicable
        As for `endpoint_sls`.
    """
    sls = endpoint_sls(fabric, routes)
    counts = np.bincount(sls.ravel(), minlength=NUM_SLS)
    default = int(counts.argmax())
    by_source = _Policy(sls, default)
    by_destination = _Policy(np.ascontiguousarray(sls.T), default)
    turned = by_destination.size < by_source.size
    return (by_destination if turned else by_source).text(fabric, counts, turned)


class _Policy:
    """Rules for the rows of a matrix of service levels.

    Rows that are equal are one class. Of each class the most common level is a rule for the class
    alone, after all rules that also name the other end; those are shared between classes.
    """

    def __init__(self, sls: NDArray[np.uint8], default: int):
        self.default = default
        self.rules: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
        if not sls.size:
            self.size = 0.0
            return
        vectors, label = np.unique(sls, axis=0, return_inverse=True)
        members = [np.flatnonzero(label.reshape(-1) == k).tolist() for k in range(len(vectors))]
        exact: dict[tuple[tuple[int, ...], int], list[int]] = {}
        rest: dict[int, list[int]] = {}
        for own, vector in zip(members, vectors, strict=True):
            common = int(np.bincount(vector, minlength=NUM_SLS).argmax())
            for level in np.setdiff1d(vector, common).tolist():
                others = tuple(np.flatnonzero(vector == level).tolist())
                exact.setdefault((others, level), []).extend(own)
            if common != default:
                rest.setdefault(common, []).extend(own)
        for (others, level), own in exact.items():
            self.rules.append((tuple(sorted(own)), others, level))
        for level, own in sorted(rest.items()):
            self.rules.append((tuple(sorted(own)), (), level))
        groups = {ports for rule in self.rules for ports in rule[:2]}
        self.size = 5 * len(self.rules) + sum(4 + len(ports) / _PER_LINE for ports in groups)

    def text(self, fabric: Fabric, counts: NDArray[np.int64], turned: bool) -> str:
        guids = port_guids(fabric).tolist()
        number: dict[tuple[int, ...], int] = {}
        for rule in self.rules:
            for ports in rule[:2]:
                if ports:
                    number.setdefault(ports, len(number) + 1)
        lines = []
        if number:
            lines.append("port-groups")
            for ports, group in number.items():
                lines += ["    port-group", f"        name: ports-{group}"]
                for start in range(0, len(ports), _PER_LINE):
                    some = (f"0x{guids[port]:016x}" for port in ports[start : start + _PER_LINE])
                    lines.append("        port-guid: " + ", ".join(some))
                lines.append("    end-port-group")
            lines += ["end-port-groups", ""]
        lines.append("qos-levels")
        used = {level for _, _, level in self.rules}
        for name, level in [("DEFAULT", self.default), *((f"SL{n}", n) for n in sorted(used))]:
            lines += ["    qos-level", f"        name: {name}", f"        sl: {level}"]
            lines.append("    end-qos-level")
        lines += ["end-qos-levels", ""]
        if self.rules:
            words = ("destination", "source") if turned else ("source", "destination")
            lines.append("qos-match-rules")
            for own, others, level in self.rules:
                lines.append("    qos-match-rule")
                lines.append(f"        {words[0]}: ports-{number[own]}")
                if others:
                    lines.append(f"        {words[1]}: ports-{number[others]}")
                lines += [f"        qos-level-name: SL{level}", "    end-qos-match-rule"]
            lines += ["end-qos-match-rules", ""]
        return "\n".join(lines)


def qos_options(
    lanes: VirtualLanes | Sequence[int],
    *,
    max_vls: int | None = None,
    adapters: Sequence[int] | None = None,
    switches: Sequence[int] | None = None,
) -> str:
    """Lines of ``opensm.conf`` that turn QoS on and set SL to VL everywhere.

    Parameters
    ----------
    lanes
        One table for all, as of routes or as up to 16 VLs by SL; SLs not named ride on VL 0.
    max_vls
        Lanes that ports are to have in use, 1 to 15; left out, as many as the tables need.
    adapters, switches
        Other tables for adapters and for switches' outer ports (``qos_ca_``, ``qos_swe_``).

    Returns
    -------
    str
        Options with equal weights for all lanes: with those that OpenSM has from the start, VL 0
        would have to wait behind or jump ahead of the others.

    Raises
    ------
    NotApplicable
        When routes have lanes that depend on the port, which only an engine can program.
    InputError
        When a table has more than 16 entries, or a VL that there is not.
    """
    if isinstance(lanes, VirtualLanes):
        if not lanes.is_uniform:
            raise NotApplicable(
                "the VL of a packet depends on the ports that it takes through a switch, and "
                "OpenSM's options have one table for all"
            )
        tables = {"": _table(lanes.tables[0].tolist())}
    else:
        tables = {"": _table(lanes)}
    if adapters is not None:
        tables["ca_"] = _table(adapters)
    if switches is not None:
        tables["swe_"] = _table(switches)
    needed = max(max(table) for table in tables.values()) + 1
    if max_vls is None:
        max_vls = needed
    if not needed <= max_vls <= MAX_VLS:
        raise InputError(f"max_vls must be {needed} to {MAX_VLS} for these tables, not {max_vls}")
    lines = ["qos TRUE"]
    for kind, table in tables.items():
        lines += [
            f"qos_{kind}max_vls {max_vls}",
            f"qos_{kind}high_limit 0",
            f"qos_{kind}vlarb_high {_listed(f'{vl}:0' for vl in range(max_vls))}",
            f"qos_{kind}vlarb_low {_listed(f'{vl}:4' for vl in range(max_vls))}",
            f"qos_{kind}sl2vl {_listed(map(str, table))}",
        ]
    return "\n".join([*lines, ""])


def _table(lanes: Sequence[int]) -> list[int]:
    table = [int(vl) for vl in lanes]
    if len(table) > NUM_SLS:
        raise InputError(f"a table has at most {NUM_SLS} service levels, not {len(table)}")
    for vl in table:
        if not 0 <= vl < MAX_VLS:
            raise InputError(f"a VL is 0 to {MAX_VLS - 1}, not {vl}")
    return table + [0] * (NUM_SLS - len(table))


def _listed(items: Iterable[str]) -> str:
    return ",".join(items)
