"""The record grammar that ibnetdiscover writes and ibsim reads, line by line.

The grammar is that of `out_switch_port`, `out_ca_port` and their neighbours in infiniband-diags'
ibnetdiscover.c, and of `parse_netconf` in ibsim's sim_net.c. Descriptions stand between quotes
unescaped, so the last quote that fits ends one. Quantifiers that could meet are possessive: no
line takes more than linear time.
"""

from __future__ import annotations

import re

from weft.fabrics import NodeKind
from weft.fabrics.formats.labels import is_guid_id

#: ``[1](guid) "H-…"[2](guid) w=2 # comment``; with -g also ``[1][ext 9]``.
PORT = re.compile(
    r"\[(?P<port>\d{1,5})\](?:\[ext \d{1,5}\])?(?:\((?P<guid>[0-9a-fA-F]{1,16})\))?\s*+"
    r'"(?P<peer>[^"]*)"(?:\[(?P<peer_port>\d{1,5})\])?(?:\[ext \d{1,5}\])?\s*+'
    r"(?:\((?P<peer_guid>[0-9a-fA-F]{1,16})\))?\s*+"
    r"(?P<options>(?:[wse]=\d{1,5}\s*+)*+)(?:#\s*+(?P<comment>.*))?",
    re.ASCII,
)
#: ``lid 4 lmc 0 "peer's description" lid 9 4xQDR``; a switch leaves out the first LID, and -f adds
#: what the rate stands for.
PORT_COMMENT = re.compile(
    r"(?:lid (?P<lid>\d{1,5}) lmc (?P<lmc>\d{1,2}) )?"
    r'"(?P<description>.*)" lid (?P<peer_lid>\d{1,5})'
    r"(?: (?P<rate>[\d?]\S*))?(?: s=\d+ w=\d+ v=\d+)?(?: slot \d+| \(scp\))?",
    re.ASCII,
)
#: ``Switch 36 "S-…" # comment``.
HEADER = re.compile(
    r'(?P<type>Switch|Ca|Hca|Rt)\s++(?P<ports>\d{1,5})\s*+"(?P<id>[^"]*)"\s*+'
    r"(?:#\s*+(?P<comment>.*))?",
    re.ASCII,
)
#: ``"description" enhanced port 0 lid 9 lmc 0``; adapters have the description only.
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
#: What -g puts between records.
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
#: No line that either program writes comes near this.
MAX_LINE = 2000

_ANY_HEADER = re.compile(r'^(?:Switch|Ca|Hca|Rt)[ \t]+\d+[ \t]*"([^"\n]*)"', re.MULTILINE)


def is_ibnetdiscover(text: str) -> bool:
    """Whether a text is ibnetdiscover's: it says so, or makes every node's id from a GUID."""
    if text.startswith(NET_FILE_MARK):
        return False
    ids = _ANY_HEADER.findall(text)
    return "# Topology file: generated" in text or (bool(ids) and all(map(is_guid_id, ids)))


def is_ibsim(text: str) -> bool:
    """Whether a text has records that are not ibnetdiscover's."""
    return _ANY_HEADER.search(text) is not None and not is_ibnetdiscover(text)


def kind_of(node_type: str, description: str, vendor_id: int, device_id: int) -> NodeKind:
    """What a record's node is: adapters are hosts, but for SHARP's aggregation nodes.

    Those answer as adapters on a port inside the switch; NVIDIA's call themselves "Mellanox
    Technologies Aggregation Node" and have the device id 0xcf09.
    """
    aggregates = description.endswith("Aggregation Node") or (vendor_id, device_id) == (
        0x2C9,
        0xCF09,
    )
    return NodeKind.AUXILIARY if aggregates and node_type != "Switch" else KINDS[node_type]


def lines_of(text: str) -> list[str]:
    """Lines of a text without their ends and the white space before those."""
    return [line.rstrip() for line in text.split("\n")]


def shown(line: str) -> str:
    """A line as an error message quotes it."""
    return repr(line if len(line) <= 80 else line[:77] + "...")
