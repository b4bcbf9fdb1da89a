"""The equipment of a fabric: switch boxes, hosts, and the hosts of each box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from weft.advice.machine_room.prices import Prices
from weft.advice.machine_room.room_options import RoomLayout
from weft.core.errors import InputError
from weft.fabrics import Fabric, NodeKind


@dataclass(frozen=True)
class EquipmentGroup:
    """A switch box with its hosts, or a host without a box."""

    #: The box, -1 for none.
    box: int
    #: Nodes of the hosts, ascending; for a host with several adapters, the first adapter.
    hosts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Equipment:
    """Boxes and groups of a fabric.

    A *box* is mounted in a rack as a whole: a switch, or all switches of one chassis (with the same
    system GUID). A *unit* is a box with its hosts, or a host without a box: unit ``b`` contains
    box ``b``, and the units of single hosts follow.
    """

    fabric: Fabric
    #: int32 [nodes]: unit of each node; a host is in the unit of the box to which it has most
    #: cables; -1 for an auxiliary adapter without a cable.
    node_unit: NDArray[np.int32]
    #: The switches of each box.
    box_nodes: tuple[tuple[int, ...], ...]
    #: int64 [boxes]: number of ports for external cables.
    box_ports: NDArray[np.int64]
    #: int64 [boxes]: number of ports of the product to buy, `box_ports` or more.
    box_bought: NDArray[np.int64]
    #: int64 [boxes]: height in U.
    box_units: NDArray[np.int64]
    #: int64 [nodes]: for each adapter of a host, the host's first adapter; for any other node, the
    #: node itself.
    machine: NDArray[np.int64]
    #: bool [cables]: whether the cable is inside a chassis or a switch, and so is not bought.
    inside: NDArray[np.bool_]
    #: One group per box with hosts, and one per host without a box.
    groups: tuple[EquipmentGroup, ...]

    @property
    def num_boxes(self) -> int:
        """Number of switch boxes."""
        return len(self.box_nodes)

    @property
    def machines(self) -> NDArray[np.int64]:
        """First adapter of each host."""
        return np.unique(self.machine[self.fabric.host_nodes])

    @property
    def core(self) -> list[int]:
        """Boxes without hosts."""
        leaves = {group.box for group in self.groups}
        return [box for box in range(self.num_boxes) if box not in leaves]

    def unit_matrix(self) -> csr_array:
        """Return the symmetric matrix of the number of cables between different units."""
        a = self.node_unit[self.fabric.link_from[0::2]]
        b = self.node_unit[self.fabric.link_to[0::2]]
        keep = (a != b) & (a >= 0) & (b >= 0)
        a, b = a[keep], b[keep]
        size = int(self.node_unit.max(initial=-1)) + 1
        ones = np.ones(2 * len(a))
        ends = (np.concatenate((a, b)), np.concatenate((b, a)))
        matrix: csr_array = coo_array((ones, ends), shape=(size, size)).tocsr()
        return matrix


def equipment(fabric: Fabric, layout: RoomLayout, prices: Prices | None = None) -> Equipment:
    """Return the boxes of a fabric and the hosts of each.

    If the price file has switches, the product for a box is the smallest one with enough ports.
    """
    if fabric.num_switches + fabric.num_hosts == 0:
        raise InputError(f"{fabric.name} has neither switches nor hosts")
    switch_box, box_nodes = _boxes(fabric)
    ends = fabric.link_from.reshape(-1, 2)
    auxiliary = fabric.node_kind == NodeKind.AUXILIARY
    box_of = np.full(fabric.num_nodes, -1, dtype=np.int32)
    box_of[: fabric.num_switches] = switch_box
    a, b = ends[:, 0], ends[:, 1]
    same_box = (box_of[a] == box_of[b]) & (box_of[a] >= 0) & (a != b)
    inside = same_box | auxiliary[a] | auxiliary[b]

    ports = np.zeros(len(box_nodes), dtype=np.int64)
    np.add.at(ports, switch_box, fabric.num_ports[: fabric.num_switches])
    taken = box_of[ends[inside].reshape(-1)]
    np.subtract.at(ports, taken[taken >= 0], 1)
    bought = ports.copy()
    for needed in np.unique(ports).tolist():
        product = prices.of_switch(needed) if prices else None
        if product:
            bought[ports == needed] = product.ports
    units = np.maximum(layout.switch_units, -(-bought // layout.ports_per_unit))
    high = np.flatnonzero(units > layout.rack_units)
    if len(high):
        box = int(high[0])
        larger = "" if bought[box] == ports[box] else f" ({bought[box]} as bought)"
        raise InputError(
            f"{fabric.node_names[box_nodes[box][0]]} has {ports[box]} ports{larger} and needs "
            f"{units[box]} U, more than a rack of {layout.rack_units} U; "
            "raise rack_units or ports_per_unit"
        )

    machine = fabric.machine
    machines = np.unique(machine[fabric.host_nodes])
    home = _homes(fabric, box_of, machine)
    node_unit = np.where(home >= 0, home, box_of)
    single = machines[home[machines] < 0]
    node_unit[single] = len(box_nodes) + np.arange(len(single))
    node_unit = node_unit[machine]
    for link in np.flatnonzero(auxiliary[fabric.link_from]).tolist():
        node_unit[fabric.link_from[link]] = node_unit[fabric.link_to[link]]

    hosts: dict[int, list[int]] = {}
    for node in machines.tolist():
        hosts.setdefault(int(node_unit[node]), []).append(node)
    groups = tuple(
        EquipmentGroup(unit if unit < len(box_nodes) else -1, tuple(hosts[unit]))
        for unit in sorted(hosts)
    )
    return Equipment(
        fabric, node_unit.astype(np.int32), box_nodes, ports, bought, units.astype(np.int64),
        machine, inside, groups,
    )  # fmt: skip


def _boxes(fabric: Fabric) -> tuple[NDArray[np.int32], tuple[tuple[int, ...], ...]]:
    """Return the box of each switch and the switches of each box, in the order of the switches."""
    members: dict[tuple[str, int], list[int]] = {}
    for switch, guid in enumerate(fabric.system_guid[: fabric.num_switches].tolist()):
        members.setdefault(("chassis", guid) if guid else ("switch", switch), []).append(switch)
    boxes = tuple(map(tuple, members.values()))
    of = np.empty(fabric.num_switches, dtype=np.int32)
    for box, switches in enumerate(boxes):
        of[list(switches)] = box
    return of, boxes


def _homes(
    fabric: Fabric, box_of: NDArray[np.int32], machine: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the box to which each machine has most cables, -1 for none.

    int32 [nodes], set at the first adapter of each machine. Of boxes with equally many cables,
    the one at the lowest port is returned. Ports are ordered by adapter, then by number.
    """
    tail, head = fabric.link_from, fabric.link_to
    out = np.flatnonzero((fabric.node_kind[tail] == NodeKind.HOST) & (box_of[head] >= 0))
    home = np.full(fabric.num_nodes, -1, dtype=np.int32)
    if not len(out):
        return home
    pair = machine[tail[out]] * (int(box_of.max()) + 1) + box_of[head[out]]
    distinct, inverse, counts = np.unique(pair, return_inverse=True, return_counts=True)
    slot = np.full(len(distinct), np.iinfo(np.int64).max)
    ports = fabric.port_offset[tail[out]].astype(np.int64) + fabric.link_from_port[out]
    np.minimum.at(slot, inverse, ports)
    host, box = np.divmod(distinct, int(box_of.max()) + 1)
    # Later assignments to a host overwrite earlier ones: the box with most cables is last, and of
    # boxes with equally many, the one with the lowest port.
    order = np.lexsort((-slot, counts, host))
    home[host[order]] = box[order]
    return home


# -- the order in which groups are put into racks --------------------------------------------------


def orders(gear: Equipment, wanted: str) -> list[tuple[str, list[EquipmentGroup]]]:
    """Return the names and orders of the groups: the wanted order, or all for ``shortest``."""
    by_name = {"number": list(gear.groups)}
    coordinates = _coordinates(gear)
    if coordinates is not None:
        for name, columns in (
            ("coordinates", coordinates[:, ::-1]),
            ("coordinates-reversed", coordinates),
        ):
            # The last key of lexsort is the most significant; ties are by number.
            order = np.lexsort(columns.T)
            by_name[name] = [gear.groups[group] for group in order.tolist()]
    elif wanted.startswith("coordinates"):
        raise InputError(
            f"{gear.fabric.name} has switches or hosts without coordinates; "
            "set order to number or cables"
        )
    if wanted in ("shortest", "cables"):
        order = reverse_cuthill_mckee(gear.unit_matrix(), symmetric_mode=True)
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        units = [int(gear.node_unit[group.hosts[0]]) for group in gear.groups]
        by_cable = sorted(range(len(units)), key=lambda group: int(position[units[group]]))
        by_name["cables"] = [gear.groups[group] for group in by_cable]
    return list(by_name.items()) if wanted == "shortest" else [(wanted, by_name[wanted])]


def _coordinates(gear: Equipment) -> NDArray[np.int32] | None:
    """Return the coordinates of each group's switch or host; None unless all have coordinates."""
    coordinates = gear.fabric.coordinates
    nodes = [
        gear.box_nodes[group.box][0] if group.box >= 0 else group.hosts[0] for group in gear.groups
    ]
    if not nodes or coordinates.shape[1] == 0 or np.any(np.all(coordinates[nodes] < 0, axis=1)):
        return None
    chosen: NDArray[np.int32] = coordinates[nodes]
    return chosen
