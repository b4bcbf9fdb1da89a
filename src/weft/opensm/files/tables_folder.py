"""The folder that `weft opensm export` writes: its files, and reading it again."""

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
#: What OpenSM itself calls the tables that it dumps.
DUMP = "opensm-lfts.dump"
#: The ports and cables that OpenSM saw, with their LIDs.
SUBNET = "opensm-subnet.lst"

#: Settings of opensm.conf that tables depend on; the rest is of the place where OpenSM ran.
_TAKEN = re.compile(r"routing_engine|lmc|qos|max_op_vls|qos_(?:(?:ca|sw0|swe|rtr)_)?(?!policy)\w+")
#: Settings of opensm.conf that name the files of such a folder, and the files.
FILES = {"lfts_file": LFTS, "qos_policy_file": POLICY, "torus_config": TORUS}


@dataclass(frozen=True)
class Tables:
    """What OpenSM is to load.

    Parameters
    ----------
    files
        Contents by name; `LFTS` among them unless OpenSM's own engine is to route.
    settings
        Of opensm.conf: engine, LMC and lanes.
    source
        File that the tables were read from.
    """

    files: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None


def read_tables(path: Path) -> Tables:
    """Tables of a folder of ``weft opensm export``, of OpenSM's dumps, or of a single LFT dump.

    Raises
    ------
    InputError
        When there is no such file, or neither tables in the folder nor the engine to make them.
    """
    if not path.is_dir():
        return Tables({LFTS: read_text(path)}, {"routing_engine": "file"}, path)
    name = next((name for name in (LFTS, DUMP) if (path / name).is_file()), None)
    settings = read_settings(path / CONFIG) if (path / CONFIG).is_file() else {}
    settings = {name: text for name, text in settings.items() if _TAKEN.fullmatch(name)}
    if name is not None:
        settings["routing_engine"] = "file"
    elif settings.get("routing_engine", "file") == "file":
        raise InputError(f"holds neither {LFTS} nor {DUMP}", file=path)
    files = {} if name is None else {LFTS: read_text(path / name)}
    for other in (GUID2LID, POLICY, TORUS):
        if (path / other).is_file():
            files[other] = read_text(path / other)
    return Tables(files, settings, None if name is None else path / name)


def read_settings(path: Path) -> dict[str, str]:
    """Settings of an opensm.conf: a name and its value on each line."""
    found = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition("#")[0].strip().partition(" ")
        if name:
            found[name] = value.strip()
    return found
