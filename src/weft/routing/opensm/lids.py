"""Prediction of the LIDs that OpenSM assigns, from the fabric, its present LIDs and guid2lid.

With the prediction, tables, lanes and policies can be written before OpenSM assigns the LIDs in its
first sweep. The rules are those of OpenSM 3.3.23, from the source of its LID manager and checked
against the program:

- The subnet manager's own port gets its LIDs first, then all ports that it can reach, in the order
  of their GUIDs with reversed bytes.
- An adapter port gets 2^LMC LIDs. A switch gets one LID, or 2^LMC if its port 0 is enhanced and
  ``lmc_esp0`` is set.
- A port with an entry in ``guid2lid`` gets the first LIDs of the entry, if the entry is aligned to
  the LMC and has enough LIDs.
- Any other port keeps its present LIDs if they are aligned and none of them is in ``guid2lid`` for
  another port or was assigned before.
- All remaining ports get the lowest aligned LIDs of the first range with enough free LIDs. LIDs
  skipped for alignment are not used later, not even for switches.
- Free ranges are determined before any assignment: all LIDs except those in ``guid2lid`` and those
  that ports can keep. If the present LIDs of two ports overlap, only the later port is considered,
  so OpenSM may assign the LID of the earlier port a second time. `Lids.clashes` lists ports that
  share a LID.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.counts import counted
from weft.core.errors import InputError, NotApplicable
from weft.core.files import read_text
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.records import shown
from weft.routing.opensm.ports import MAX_LID, MAX_LMC, check_lmc, destination_name, port_guids


@dataclass(frozen=True, eq=False)
class Lids:
    """Base LID and LMC of each destination."""

    #: int32 [destinations]: base LID, 0 if the subnet manager cannot reach the port.
    base: NDArray[np.int32]
    #: uint8 [destinations]: LMC.
    lmc: NDArray[np.uint8]

    @property
    def clashes(self) -> list[tuple[int, int, int]]:
        """Shared LIDs, ascending: (LID, destination, other destination)."""
        holder: dict[int, int] = {}
        clashes = []
        for destination, (base, lmc) in enumerate(
            zip(self.base.tolist(), self.lmc.tolist(), strict=True)
        ):
            for lid in range(base, base + (1 << lmc)) if base else ():
                first = holder.setdefault(lid, destination)
                if first != destination:
                    clashes.append((lid, first, destination))
        return sorted(clashes)

    def of(self, fabric: Fabric) -> Fabric:
        """Return the fabric with these LIDs."""
        return replace(fabric, lid=self.base.copy(), lmc=self.lmc.copy())


def clash_texts(fabric: Fabric, lids: Lids) -> list[str]:
    """Return a text for each LID of two ports, with their names."""
    return [
        f"LID {lid} of {destination_name(fabric, a)} and {destination_name(fabric, b)}"
        for lid, a, b in lids.clashes
    ]


def clash_summary(texts: Sequence[str]) -> str:
    """Return how many LIDs two ports have, and the first of their texts."""
    return counted(texts, "LID", "of two ports each")


def refuse_inside(fabric: Fabric) -> None:
    """Refuse a fabric with the inside of machines, of which a subnet manager knows nothing."""
    if fabric.machine_model is not None:
        raise InputError(
            f"a subnet manager knows nothing of the inside of machines, which {fabric.name} has; "
            "leave out the model of machines (--node)"
        )


def predict_lids(
    fabric: Fabric,
    *,
    lmc: int = 0,
    sm: str | int | None = None,
    cache: Mapping[int, tuple[int, int]] | None = None,
    wide_switches: Collection[int] = (),
    reassign: bool = False,
    max_lid: int = MAX_LID,
) -> Lids:
    """Predict the LIDs that OpenSM 3.3.23 assigns in its first sweep.

    - `fabric`: any fabric; its LIDs are the present LIDs of the ports.
    - `lmc`: OpenSM's LMC (``-l``).
    - `sm`: node on which OpenSM runs, by number, name or GUID; OpenSM uses the node's first port
      with a cable. By default, the first host with a cable in port 1, the only port that programs
      on ibsim can use; if there is no such host, the first host with a cable.
    - `cache`: first and last LID of each port GUID in earlier runs, such as from `read_guid2lid`.
    - `wide_switches`: switches that get 2^LMC LIDs, because their port 0 is enhanced and
      ``lmc_esp0`` is set.
    - `reassign`: whether present LIDs and the cache are ignored (``-r``).
    - `max_lid`: largest LID that the switches' tables can hold.
    """
    check_lmc(lmc)
    refuse_inside(fabric)
    own = _own_port(fabric, sm)
    ports = _Ports.of(fabric)
    lmcs = np.full(len(ports.guid), lmc)
    lmcs[fabric.num_endpoints : fabric.num_destinations] = 0
    lmcs[fabric.num_endpoints + np.array(list(wide_switches), dtype=np.int64)] = lmc
    manager = _Manager(fabric.name, max_lid, ports, lmcs.tolist(), lmc)
    if not reassign:
        manager.remember(dict(cache or {}))
        manager.have[: len(fabric.lid)] = fabric.lid.tolist()
        manager.had_lmc[: len(fabric.lmc)] = fabric.lmc.tolist()
    reached = np.flatnonzero(_reached(fabric, ports, own))
    order = reached[np.argsort(ports.guid[reached].byteswap(), kind="stable")]
    manager.sweep(order.tolist())
    for port in [own, *order[order != own].tolist()]:
        manager.serve(port)
    base = np.array(manager.given[: fabric.num_destinations], dtype=np.int32)
    return Lids(base, np.where(base > 0, lmcs[: len(base)], 0).astype(np.uint8))


def known_lids(fabric: Fabric, lmc: int = 0) -> Lids:
    """Return the LIDs of a fabric or, if it has none, those that OpenSM assigns."""
    return Lids(fabric.lid, fabric.lmc) if fabric.lid.any() else predict_lids(fabric, lmc=lmc)


def _own_port(fabric: Fabric, sm: str | int | None) -> int:
    """Return the destination of the subnet manager's port."""
    if sm is None:
        endpoints = fabric.host_endpoint[fabric.host_endpoint >= 0]
        if not len(endpoints):
            raise NotApplicable(f"{fabric.name} has no host with a cable to run OpenSM on")
        return int(endpoints[np.argmax(fabric.endpoint_port[endpoints] == 1)])
    node = fabric.find_node(sm) if isinstance(sm, str) else sm
    if not 0 <= node < fabric.num_nodes:
        raise InputError(f"{fabric.name} has nodes 0 to {fabric.num_nodes - 1}, not {node}")
    if fabric.node_kind[node] == NodeKind.SWITCH:
        return fabric.num_endpoints + node
    ports = np.flatnonzero(fabric.endpoint_node == node)
    if not len(ports):
        raise InputError(f"{fabric.node_names[node]} has no cable, so OpenSM cannot run on it")
    return int(ports[0])


@dataclass(frozen=True, eq=False)
class _Ports:
    """Ports that have LIDs: the destinations, then other cabled ports of hosts that forward."""

    guid: NDArray[np.uint64]
    #: The node at the other end of the cable, -1 for a switch's port 0.
    peer: NDArray[np.int32]
    peer_port: NDArray[np.int32]

    @classmethod
    def of(cls, fabric: Fabric) -> _Ports:
        cabled = (fabric.port_link >= 0) & (fabric.node_kind[fabric.slot_node] != NodeKind.SWITCH)
        slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
        others = np.setdiff1d(np.flatnonzero(cabled), slots)
        guid = np.concatenate((port_guids(fabric), fabric.port_guid[others]))
        peer = np.full(len(guid), -1, dtype=np.int32)
        peer_port = np.zeros(len(guid), dtype=np.int32)
        adapters = np.concatenate(
            (np.arange(len(slots)), np.arange(len(guid) - len(others), len(guid)))
        )
        links = fabric.port_link[np.concatenate((slots, others))]
        peer[adapters] = fabric.link_to[links]
        peer_port[adapters] = fabric.link_to_port[links]
        return cls(guid, peer, peer_port)


def _reached(fabric: Fabric, ports: _Ports, own: int) -> NDArray[np.bool_]:
    """Return whether the subnet manager reaches each port via switches: bool [ports]."""
    switches = fabric.num_switches
    inner = np.flatnonzero((fabric.link_from < switches) & (fabric.link_to < switches))
    matrix = csr_array(
        (np.ones(len(inner), np.uint8), (fabric.link_from[inner], fabric.link_to[inner])),
        shape=(switches, switches),
    )
    label = connected_components(matrix, directed=False)[1]
    part = np.full(len(ports.guid), -1, dtype=np.int64)
    at_switch = (ports.peer >= 0) & (ports.peer < switches)
    part[at_switch] = label[ports.peer[at_switch]]
    part[fabric.num_endpoints : fabric.num_destinations] = label
    reached: NDArray[np.bool_] = part == part[own]
    if part[own] < 0:  # a cable connects the manager's adapter to another adapter
        slot = fabric.port_offset[ports.peer[own]] + ports.peer_port[own] - 1
        reached = ports.guid == fabric.port_guid[slot]
        reached[own] = True
    return reached


@dataclass
class _Range:
    first: int
    last: int


class _Manager:
    """State of the LID manager during one sweep."""

    def __init__(self, name: str, max_lid: int, ports: _Ports, lmcs: list[int], lmc: int):
        self.name, self.max_lid, self.lmc = name, max_lid, lmc
        self.guid: list[int] = ports.guid.tolist()
        self.is_switch: list[bool] = (ports.peer < 0).tolist()
        self.lmcs = lmcs
        #: LID and LMC of each port before the sweep.
        self.have = [0] * len(lmcs)
        self.had_lmc = [0] * len(lmcs)
        self.given = [0] * len(lmcs)
        self.cache: dict[int, tuple[int, int]] = {}
        self.used = bytearray(max(max_lid, MAX_LID) + (2 << MAX_LMC))
        self.free: list[_Range] = []
        #: First range to search for each number of LIDs; earlier ranges are too small and only
        #: shrink.
        self.start: dict[int, int] = {}

    def remember(self, cache: dict[int, tuple[int, int]]) -> None:
        """Record the ranges of guid2lid, except invalid and misaligned ranges."""
        owner: dict[int, int] = {}
        size = 1 << self.lmc
        for guid, (first, last) in cache.items():
            bad = not guid or not 0 < first <= last <= self.max_lid
            if bad or (first != last and first & (size - 1)):
                continue
            kept = min(last, first + size - 1)
            self.cache[guid] = first, kept
            for lid in range(first, kept + 1):
                if owner.setdefault(lid, guid) != guid:
                    raise InputError(
                        f"the cache has LID {lid} for both {owner[lid]:#018x} and {guid:#018x}"
                    )
                self.used[lid] = 1

    def sweep(self, ports: list[int]) -> None:
        """Find the ranges of LIDs that are neither in guid2lid nor kept by a port."""
        holder: dict[int, int] = {}
        for port in ports:
            for lid in self._range(port):
                holder[lid] = port
            guid, size = self.guid[port], 1 << self.lmcs[port]
            if guid in self.cache:
                first, last = self.cache[guid]
                if first & (size - 1) or last - first + 1 < size:
                    del self.cache[guid]
                    self.used[first : last + 1] = bytes(last + 1 - first)
        lid = 1
        while lid <= self.max_lid:
            end = self._kept_until(lid, holder)
            if end < lid:
                if self.free and self.free[-1].last == lid - 1:
                    self.free[-1].last = lid
                else:
                    self.free.append(_Range(lid, lid))
                end = lid
            lid = end + 1

    def _range(self, port: int) -> range:
        """Return the present LIDs of a port; a first or last LID above the limit counts as 0."""
        first = self.have[port]
        last = first + (1 << self.had_lmc[port]) - 1
        return range(first if first <= MAX_LID else 0, (last if last <= MAX_LID else 0) + 1)

    def _kept_until(self, lid: int, holder: dict[int, int]) -> int:
        """Return the last LID of the occupied range from `lid` on, 0 if `lid` is free."""
        if self.used[lid]:
            return lid
        port = holder.get(lid)
        if port is None or self.guid[port] in self.cache:
            return 0
        first, size = self.have[port], 1 << self.lmcs[port]
        if first & (size - 1):
            return 0
        if size == 1 and self.is_switch[port]:
            size = 1 << self.had_lmc[port]
        last = first + size - 1
        keeps = first <= lid <= last and not any(self.used[first + 1 : last + 1])
        return last if keeps else 0

    def serve(self, port: int) -> None:
        """Assign the LIDs of a port."""
        guid, size = self.guid[port], 1 << self.lmcs[port]
        lid = self.have[port]
        if guid in self.cache:
            lid = self.cache[guid][0]
        elif not lid or lid & (size - 1) or any(self.used[lid : lid + size]):
            lid = self._first_free(size)
        self.given[port] = lid
        self.used[lid : lid + size] = b"\1" * size

    def _first_free(self, size: int) -> int:
        """Allocate the lowest `size` aligned LIDs of the first range with room for them."""
        for at in range(self.start.get(size, 0), len(self.free)):
            free = self.free[at]
            lid = -(-free.first // size) * size
            if lid + size - 1 <= free.last:
                free.first = lid + size
                self.start[size] = at
                return lid
        wanted = sum(1 << lmc for lmc in self.lmcs)
        raise NotApplicable(
            f"{self.name} needs {wanted} LIDs with LMC {self.lmc}, which do not fit into 1 to "
            f"{self.max_lid}"
        )


_ENTRY = re.compile(r"0[xX]([0-9a-fA-F]{1,16})\s+0[xX]([0-9a-fA-F]{1,4})\s+0[xX]([0-9a-fA-F]{1,4})")


def read_guid2lid(path: str | Path) -> dict[int, tuple[int, int]]:
    """Read the first and last LID of each port GUID from a guid2lid file."""
    spans: dict[int, tuple[int, int]] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        match = _ENTRY.fullmatch(line.strip())
        wrong = partial(InputError, file=path, line=number)
        if match is None:
            raise wrong(
                "expected a port GUID and its first and last LID, as in 0x0002c9020020d3c9 0x0004 "
                f"0x0007, found {shown(line.strip())}"
            )
        guid, first, last = (int(part, 16) for part in match.groups())
        if lines.setdefault(guid, number) != number:
            raise wrong(f"{guid:#018x} is already in line {lines[guid]}")
        spans[guid] = first, last
    return spans


def guid2lid(lids: Mapping[int, tuple[int, int]]) -> str:
    """Return the text of a guid2lid file from the first and last LID of each port GUID."""
    return "".join(f"{guid:#018x} {a:#06x} {b:#06x}\n\n" for guid, (a, b) in lids.items())
