"""What the programs of infiniband-diags and OpenSM would print about a fabric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.ibdiagnet2_files import rate_halves
from weft.fabrics import Fabric, NodeKind

SPEEDS = {
    "SDR": "2.5 Gbps", "DDR": "5.0 Gbps", "QDR": "10.0 Gbps", "FDR10": "10.0 Gbps (FDR10)",
    "FDR": "14.0625 Gbps", "EDR": "25.78125 Gbps", "HDR": "53.125 Gbps", "NDR": "106.25 Gbps",
    "XDR": "212.5 Gbps",
}  # fmt: skip
TYPES = {NodeKind.SWITCH: "SW", NodeKind.HOST: "CA", NodeKind.AUXILIARY: "RT"}


class Port(NamedTuple):
    node: int
    number: int
    guid: int
    lid: int
    type: str
    name: str


def port_of(fabric: Fabric, node: int, number: int) -> Port:
    switch = node < fabric.num_switches
    slot = int(fabric.port_offset[node]) + number - 1
    at = fabric.num_endpoints + node
    if not switch:
        ends = zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True)
        at = list(ends).index((node, number))
    return Port(
        node,
        number,
        int(fabric.node_guid[node] if switch else fabric.port_guid[slot]),
        int(fabric.lid[at]),
        TYPES[NodeKind(int(fabric.node_kind[node]))],
        fabric.descriptions[node],
    )


def ports_of(fabric: Fabric) -> Iterator[tuple[Port, tuple[str, str], Port | None]]:
    """Yield each port of a switch and each cabled one of an adapter, width and speed, and peer."""
    for node in range(fabric.num_nodes):
        for number in range(1, int(fabric.num_ports[node]) + 1):
            link = int(fabric.port_link[fabric.port_offset[node] + number - 1])
            if link >= 0:
                peer = port_of(fabric, int(fabric.link_to[link]), int(fabric.link_to_port[link]))
                yield port_of(fabric, node, number), rate_halves(fabric, link >> 1), peer
            elif node < fabric.num_switches:
                yield port_of(fabric, node, number), ("4x", "???"), None


def ports_report(fabric: Fabric) -> str:
    """Return the output of ``ibnetdiscover -p``."""

    def words(port: Port) -> str:
        return f"{port.type:>2} {port.lid:5} {port.number:2} 0x{port.guid:016x}"

    lines = []
    for port, (width, speed), peer in ports_of(fabric):
        rest = f"{'':36}'{port.name}'"
        if peer:
            rest = f" - {words(peer)} ( '{port.name}' - '{peer.name}' )"
        lines.append(f"{words(port)} {width} {speed}{rest}\n")
    return "".join(lines)


def iblinkinfo(fabric: Fabric, *, by_line: bool = False) -> str:
    """Return the output of ``iblinkinfo``, with `by_line` of ``iblinkinfo -l``."""
    text, last = "", -1
    for port, (width, speed), peer in ports_of(fabric):
        if port.node != last and not by_line:
            kind = {"SW": f"Switch: 0x{port.guid:016x}", "CA": "CA:", "RT": "Router:"}[port.type]
            text += f"{kind} {port.name}:\n"
        last = port.node
        link, far = "(                Down/ Polling)", '           [  ] "" ( )'
        if peer:
            link = f"({width.upper():>3} {SPEEDS[speed]:>18} Active/  LinkUp)"
            far = f"0x{peer.guid:016x} " if by_line else ""
            far += f'{peer.lid:6} {peer.number:4}[  ] "{peer.name}" (Could be 12X )'
        own = f'0x{port.guid:016x} "{port.name:>30}" ' if by_line else "      "
        if port.type != "SW" and not by_line:
            own += f"0x{port.guid:016x} "
        text += f"{own}{port.lid:6} {port.number:4}[  ] =={link}==>  {far}\n"
    return text


def saquery(fabric: Fabric) -> str:
    """Return records of nodes, ports and links."""

    def record(kind: str, **fields: object) -> str:
        lines = [f"\t\t{key:.<24}{value}\n" for key, value in fields.items()]
        return "".join([f"{kind}Record dump:\n", *lines])

    types = {"SW": "Switch", "CA": "Channel Adapter", "RT": "Router"}
    text, switches = "", set()
    for port, (width, speed), peer in ports_of(fabric):
        node = port.node
        if port.type != "SW" or node not in switches:
            switches.add(node)
            text += record(
                "Node", lid=port.lid, node_type=types[port.type],
                num_ports=fabric.num_ports[node], sys_guid=f"0x{fabric.system_guid[node]:016x}",
                node_guid=f"0x{fabric.node_guid[node]:016x}", port_guid=f"0x{port.guid:016x}",
                device_id=f"0x{fabric.device_id[node]:X}", port_num=port.number,
                vendor_id=f"0x{fabric.vendor_id[node]:X}", NodeDescription=port.name,
            )  # fmt: skip
        if peer:
            basic = SPEEDS[speed] if speed in ("SDR", "DDR", "QDR") else "undefined (0)"
            extended = "No Extended Speed" if basic == SPEEDS[speed] else SPEEDS[speed]
            text += record(
                "PortInfo", EndPortLid=port.lid, PortNum=port.number, LMC=0,
                LinkWidthActive=width.upper(), LinkState="Active", LinkSpeedActive=basic,
                LinkSpeedExtActive=extended,
            )  # fmt: skip
            text += record(
                "Link", FromLID=port.lid, FromPort=port.number, ToPort=peer.number, ToLID=peer.lid
            )
    return text


def node_list(fabric: Fabric) -> str:
    """Return the output of ``ibswitches`` and ``ibhosts``."""
    text = ""
    for node in range(fabric.num_nodes):
        switch = node < fabric.num_switches
        kind = {"SW": "Switch", "CA": "Ca", "RT": "Router"}[
            TYPES[NodeKind(int(fabric.node_kind[node]))]
        ]
        lid = f" base port 0 lid {port_of(fabric, node, 1).lid} lmc 0" if switch else ""
        text += (
            f"{kind}\t: 0x{fabric.node_guid[node]:016x} ports {fabric.num_ports[node]} "
            f'"{fabric.descriptions[node]}"{lid}\n'
        )
    return text


def subnet_list(fabric: Fabric) -> str:
    """Return OpenSM's ``opensm-subnet.lst``."""
    speed = {"QDR": "10", "EDR": "25", "HDR": "50", "NDR": "100"}

    def words(port: Port) -> str:
        node = port.node
        return (
            f"{{ {port.type} Ports:{fabric.num_ports[node]:02X} "
            f"SystemGUID:{fabric.system_guid[node]:016X} NodeGUID:{fabric.node_guid[node]:016X} "
            f"PortGUID:{port.guid:016X} VenID:{fabric.vendor_id[node]:06X} "
            f"DevID:{fabric.device_id[node]:04X} Rev:00000000 {{{port.name}}} "
            f"LID:{port.lid:04X} PN:{port.number:02X} }}"
        )

    return "".join(
        f"{words(port)} {words(peer)} PHY={width} LOG=ACT SPD={speed[name]}\n"
        for port, (width, name), peer in ports_of(fabric)
        if peer
    )
