"""The records that ibnetdiscover writes and ibsim reads: their grammar and their writer.

The grammar is that of `out_switch_port`, `out_ca_port` and related functions in infiniband-diags'
ibnetdiscover.c, and of `parse_netconf` in ibsim's sim_net.c. Quotes in descriptions are not
escaped, so a description ends at the last quote that the grammar allows. Adjacent quantifiers are
possessive, so that matching a line takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from weft.core.counts import count_text
from weft.core.errors import NotApplicable
from weft.core.files import read_text
from weft.core.units import RATE_NAMES, rate_gbps
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.format_registry import one_line, warn
from weft.fabrics.formats.labels import guid_id, is_guid_id
from weft.fabrics.formats.netlist import MAX_PORTS, NodeRecord

#: ``[1](guid) "H-…"[2](guid) w=2 # comment``; with -g also ``[1][ext 9]``.
PORT = re.compile(
    r"\[(?P<port>\d{1,5})\](?:\[ext \d{1,5}\])?(?:\((?P<guid>[0-9a-fA-F]{1,16})\))?\s*+"
    r'"(?P<peer>[^"]*)"(?:\[(?P<peer_port>\d{1,5})\])?(?:\[ext \d{1,5}\])?\s*+'
    r"(?:\((?P<peer_guid>[0-9a-fA-F]{1,16})\))?\s*+"
    r"(?P<options>(?:[wse]=\d{1,5}\s*+)*+)(?:#\s*+(?P<comment>.*))?",
    re.ASCII,
)
#: ``lid 4 lmc 0 "peer's description" lid 9 4xQDR``; lines of switches lack the first LID, and
#: -f adds speed and width.
PORT_COMMENT = re.compile(
    r"(?:lid (?P<lid>\d{1,5}) lmc (?P<lmc>\d{1,2}) )?"
    r'"(?P<description>.*)" lid (?P<peer_lid>\d{1,5})'
    r"(?: (?P<rate>[\d?]\S*|[A-Z]DR(?:10)?))?(?: s=\d+ w=\d+ v=\d+)?(?: slot \d+| \(scp\))?",
    re.ASCII,
)
#: ``Switch 36 "S-…" # comment``.
HEADER = re.compile(
    r'(?P<type>Switch|Ca|Hca|Rt)(?P<gap>\s*+)(?P<ports>\d{1,5})\s*+"(?P<id>[^"]*)"\s*+'
    r"(?:#\s*+(?P<comment>.*))?",
    re.ASCII,
)
#: ``"description" enhanced port 0 lid 9 lmc 0``; adapters have only the description.
HEADER_COMMENT = re.compile(
    r'"(?P<description>.*)"(?: (?:enhanced|base) port 0)?'
    r"(?: lid (?P<lid>\d{1,5}))?(?: lmc (?P<lmc>\d{1,2}))?(?: \(scp\))?",
    re.ASCII,
)
#: ``switchguid=0x8f10500200b50(8f10500200b50)``.
KEY = re.compile(
    r"(?P<key>vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x(?P<value>[0-9a-fA-F]{1,16})"
    r"(?:\((?P<port_guid>[0-9a-fA-F]{1,16})\))?\s*+(?:#.*)?"
)
#: Lines that -g adds between records.
GROUPING = re.compile(
    r"Chassis \d+(?: \(guid 0x[0-9a-fA-F]{1,16}\))?|Non-Chassis Nodes|Hostname: .*"
)

KINDS = {
    "Switch": NodeKind.SWITCH,
    "Ca": NodeKind.HOST,
    "Hca": NodeKind.HOST,
    "Rt": NodeKind.AUXILIARY,
}
GUID_KEYS = {"Switch": "switchguid", "Ca": "caguid", "Hca": "caguid", "Rt": "rtguid"}

#: First words of the net files that weft writes.
NET_FILE_MARK = "# ibsim net file"
#: Longest line that is read; lines of both programs are much shorter.
MAX_LINE = 2000

_ANY_HEADER = re.compile(r'^(?:Switch|Ca|Hca|Rt)[ \t]*\d+[ \t]*"([^"\n]*)"', re.MULTILINE)


def is_ibnetdiscover(text: str) -> bool:
    """Return whether a text has ibnetdiscover's first comment, or only ids made from GUIDs."""
    if text.startswith(NET_FILE_MARK):
        return False
    ids = _ANY_HEADER.findall(text)
    return "# Topology file: generated" in text or (bool(ids) and all(map(is_guid_id, ids)))


def is_ibsim(text: str) -> bool:
    """Return whether a text has records that are not ibnetdiscover's."""
    return _ANY_HEADER.search(text) is not None and not is_ibnetdiscover(text)


def kind_of(node_type: str, description: str, vendor_id: int, device_id: int) -> NodeKind:
    """Return the kind of a record's node: adapters are hosts, except SHARP aggregation nodes."""
    aggregates = is_aggregation_node(description, vendor_id, device_id)
    return NodeKind.AUXILIARY if aggregates and node_type != "Switch" else KINDS[node_type]


def is_aggregation_node(description: str, vendor_id: int, device_id: int) -> bool:
    """Return whether an adapter is a SHARP aggregation node, on a port inside its switch.

    NVIDIA's have the description "Mellanox Technologies Aggregation Node" and the device id 0xcf09.
    """
    numbers = (vendor_id, device_id)
    return description.endswith("Aggregation Node") or numbers == (0x2C9, 0xCF09)


def node_record(
    line: int, node_type: str, guid: int, description: str, ports: int = 0, *, lid: int = -1,
    lmc: int = 0, port_guid: int | None = None, system_guid: int = 0, vendor_id: int = 0,
    device_id: int = 0,
) -> NodeRecord:  # fmt: skip
    """Return the record of a node with the id that ibnetdiscover makes from its GUID.

    `lid`, `port_guid`: of port 0 of a switch; ignored for adapters, whose ports have their own.
    """
    kind = kind_of(node_type, description, vendor_id, device_id)
    if kind != NodeKind.SWITCH:
        lid, port_guid = -1, None
    node_id = guid_id(kind, guid, router=node_type == "Rt")
    return NodeRecord(
        line, kind, ports, node_id, guid, description, lid, lmc, port_guid, system_guid, vendor_id,
        device_id,
    )  # fmt: skip


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without trailing white space."""
    return [line.rstrip() for line in text.split("\n")]


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines of a file, without empty lines and those after ``#``."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def shown(line: str) -> str:
    """Return a line quoted and shortened for an error message."""
    return repr(line if len(line) <= 80 else line[:77] + "...")


#: Length limit of an InfiniBand node description in bytes.
MAX_DESCRIPTION = 64


class RecordWriter:
    """Writer of the records of a fabric as lines of a file.

    `target`: name of the format, for messages. `types`: record type of each node: Switch, Ca or Rt.
    `ids`: id of each node in the file; by default the one that ibnetdiscover makes from its GUID.
    `guids`: (node, port) -> port GUID; port 0 for a switch.
    """

    def __init__(self, fabric: Fabric, target: str):
        self.fabric = fabric
        self.target = target
        self.lines: list[str] = []
        self._check()
        kinds = fabric.node_kind.tolist()
        node_guids = fabric.node_guid.tolist()
        self.descriptions = fabric.descriptions
        self.types = [self._type(node) for node in range(fabric.num_nodes)]
        self.ids = [
            guid_id(kind, guid, router=node_type == "Rt")
            for kind, guid, node_type in zip(kinds, node_guids, self.types, strict=True)
        ]
        #: Descriptions for lines that name the node as a peer, where ibsim parses `=` as an option.
        self._mentions = [text.replace("=", ":") for text in self.descriptions]
        self.guids: dict[tuple[int, int], int] = {}
        slot_guid = fabric.port_guid.tolist()
        base = fabric.port_offset.tolist()
        for node, kind in enumerate(kinds):
            if kind == NodeKind.SWITCH:
                self.guids[node, 0] = slot_guid[base[node]]
            else:
                for port in range(1, base[node + 1] - base[node] + 1):
                    self.guids[node, port] = slot_guid[base[node] + port - 1]
        ends = [
            *zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True),
            *((switch, 0) for switch in range(fabric.num_switches)),
        ]
        lids = zip(fabric.lid.tolist(), fabric.lmc.tolist(), strict=True)
        self._lids: dict[tuple[int, int], tuple[int, int]] = dict(zip(ends, lids, strict=True))
        self._base, self._kinds = base, kinds
        self._links = fabric.port_link.tolist()
        self._to = fabric.link_to.tolist()
        self._to_port = fabric.link_to_port.tolist()
        self._rates = [RATE_NAMES[code] for code in fabric.cable_rate_code.tolist()]

    def _check(self) -> None:
        fabric = self.fabric
        if not fabric.num_nodes:
            raise NotApplicable(f"{fabric.name} has no nodes")
        for node in np.flatnonzero(fabric.num_ports > MAX_PORTS)[:1]:
            raise NotApplicable(
                f"{fabric.node_names[node]} has {fabric.num_ports[node]} ports, but {self.target} "
                f"allows at most {MAX_PORTS}"
            )
        code = fabric.cable_rate_code
        named = np.array([0.0, *(rate_gbps(known) for known in range(1, len(RATE_NAMES)))])
        for cable in np.flatnonzero((code == 0) | (named[code] != fabric.cable_rate_gbps))[:1]:
            raise NotApplicable(
                f"{fabric.cable_name(int(cable))} runs at {fabric.cable_rate_gbps[cable]:g} Gb/s, "
                f"a rate that has no InfiniBand name"
            )
        for node, text in enumerate(fabric.descriptions):
            one_line(text, f"the description of {fabric.node_names[node]!r},")
            if len(text.encode()) > MAX_DESCRIPTION:
                raise NotApplicable(
                    f"the description of {fabric.node_names[node]!r} has {len(text.encode())} "
                    f"bytes; InfiniBand allows at most {MAX_DESCRIPTION}"
                )
        forwarding = int(np.count_nonzero(fabric.forwards)) - fabric.num_switches
        if forwarding:
            warn(
                fabric.name,
                f"hosts that forward are written as adapters that do not, because {self.target} "
                f"cannot mark them: {count_text(forwarding, 'host')}",
            )

    def _type(self, node: int) -> str:
        fabric = self.fabric
        kind = fabric.node_kind[node]
        if kind == NodeKind.SWITCH:
            return "Switch"
        read_as = kind_of(
            "Ca",
            fabric.descriptions[node],
            int(fabric.vendor_id[node]),
            int(fabric.device_id[node]),
        )
        if kind == NodeKind.HOST and read_as != NodeKind.HOST:
            raise NotApplicable(
                f"host {fabric.node_names[node]!r} has the description or device id of an "
                f"aggregation node and would be read as one"
            )
        return "Ca" if read_as == kind else "Rt"

    def record(self, node: int) -> None:
        """Add the header and the port lines of a node."""
        switch = self._kinds[node] == NodeKind.SWITCH
        ports = self._base[node + 1] - self._base[node]
        head = f'{self.types[node]}\t{ports} "{self.ids[node]}"\t\t# "{self.descriptions[node]}"'
        if switch:
            lid, lmc = self._lids[node, 0]
            head += f" {'enhanced' if lmc else 'base'} port 0 lid {lid} lmc {lmc}"
        self.lines.append(head)
        for slot in range(self._base[node], self._base[node + 1]):
            link = self._links[slot]
            if link >= 0:
                self._port_line(node, slot - self._base[node] + 1, link, switch)

    def _port_line(self, node: int, port: int, link: int, switch: bool) -> None:
        peer, peer_port = self._to[link], self._to_port[link]
        end = f'"{self.ids[peer]}"[{peer_port}]'
        if self._kinds[peer] == NodeKind.SWITCH:
            lid = self._lids[peer, 0][0]
        else:
            end += f"{'' if switch else ' '}({self.guids[peer, peer_port]:x}) "
            lid = self._lids.get((peer, peer_port), (0, 0))[0]
        own = ""
        if not switch:
            own_lid, own_lmc = self._lids.get((node, port), (0, 0))
            own = f"lid {own_lid} lmc {own_lmc} "
        guid = "" if switch else f"({self.guids[node, port]:x}) "
        self.lines.append(
            f'[{port}]{guid}\t{end}\t\t# {own}"{self._mentions[peer]}" lid {lid} '
            f"{self._rates[link >> 1]}"
        )

    def text(self) -> str:
        """Return the contents of the file."""
        return "\n".join([*self.lines, ""])
