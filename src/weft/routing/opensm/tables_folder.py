"""File names and reader of the folder that `weft opensm export` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.core.errors import InputError
from weft.core.files import read_text

LFTS = "weft.lfts"
GUID2LID = "guid2lid"
CONFIG = "opensm.conf"
POLICY = "qos-policy.conf"
TORUS = "torus-2QoS.conf"
README = "README.txt"
SUMMARY = "weft.json"
#: OpenSM's name for its dump of the tables.
DUMP = "opensm-lfts.dump"
#: Ports and cables that OpenSM discovered, with their LIDs.
SUBNET = "opensm-subnet.lst"

#: Settings of opensm.conf on which tables depend; the other settings concern OpenSM's machine.
_TAKEN = re.compile(r"routing_engine|lmc|qos|max_op_vls|qos_(?:(?:ca|sw0|swe|rtr)_)?(?!policy)\w+")
#: File of the folder by the setting of opensm.conf that contains its path.
FILES = {"lfts_file": LFTS, "qos_policy_file": POLICY, "torus_config": TORUS}


@dataclass(frozen=True)
class OpensmTables:
    """Files and settings for OpenSM to load."""

    #: Contents of files by name, including `LFTS` unless OpenSM routes with its own engine.
    files: Mapping[str, str]
    #: Settings of opensm.conf: engine, LMC and lanes.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: File from which the tables were read; None if there is none.
    source: Path | None = None


def read_tables(path: Path) -> OpensmTables:
    """Read a folder of ``weft opensm export``, a folder of OpenSM's dumps, or a single LFT dump."""
    if not path.is_dir():
        return OpensmTables({LFTS: read_text(path)}, {"routing_engine": "file"}, path)
    name = next((name for name in (LFTS, DUMP) if (path / name).is_file()), None)
    settings = read_settings(path / CONFIG) if (path / CONFIG).is_file() else {}
    settings = {name: text for name, text in settings.items() if _TAKEN.fullmatch(name)}
    if name is not None:
        settings["routing_engine"] = "file"
    elif settings.get("routing_engine", "file") == "file":
        raise InputError(f"contains neither {LFTS} nor {DUMP}", file=path)
    files = {} if name is None else {LFTS: read_text(path / name)}
    for other in (GUID2LID, POLICY, TORUS):
        if (path / other).is_file():
            files[other] = read_text(path / other)
    return OpensmTables(files, settings, None if name is None else path / name)


def read_settings(path: Path) -> dict[str, str]:
    """Return the value of each setting in an opensm.conf, by name."""
    settings = {}
    for line in read_text(path).splitlines():
        name, *value = line.partition("#")[0].split(None, 1)[:2] or [""]
        if name:
            settings[name] = "".join(value).strip().strip("\"'")
    return settings
