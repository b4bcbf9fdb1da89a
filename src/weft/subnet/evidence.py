"""What files and folders tell of a subnet: the fabric, and what its subnet manager wrote."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.core.errors import STANDARD_INPUT, InputError
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning
from weft.fabrics.formats.read_write import Sources, head_of, other_content
from weft.fabrics.formats.subnet_list import is_subnet_list
from weft.routing.opensm.dumps import Dumps, find_dumps

#: Files beside the dumps of OpenSM, its simulator and `weft opensm export` that tell nothing else.
_STATE = {
    "guid2mkey", "neighbors", "opensm-lid-matrix.dump", "opensm.mcfdbs", "opensm.out", "ibsim.log",
    "README.txt", "weft.json",
}  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """A fabric, the files of its subnet manager, and what was found while reading."""

    fabric: Fabric
    dumps: Dumps
    #: Whether files other than the subnet manager's own list describe the fabric.
    independent: bool
    #: What was left out, assumed or repaired, and contradictions between files.
    said: tuple[FormatWarning, ...]
    #: Files of folders that were not used, and what they are.
    unused: tuple[str, ...] = ()


def find_evidence(
    paths: Sequence[str | Path],
    *,
    fabric: Fabric | None = None,
    format: str | None = None,
    names: str | Path | None = None,
) -> Evidence:
    """Return what files and folders tell of a subnet.

    The fabric is merged from all files that describe one, but OpenSM's ``opensm-subnet.lst``, which
    is used only if there is no other. All other files must be those of a subnet manager, unless
    they are in a folder.

    Parameters
    ----------
    paths
        Files, ``"-"`` and folders.
    fabric
        The fabric, if it is known; files that describe it are not read.
    format
        Format of the files that describe the fabric; by default detected.
    names
        A node-name-map.

    Raises
    ------
    InputError
        If a file is of no known kind or invalid, or nothing describes the fabric.
    """
    described: list[str | Path] = []
    managed: list[Path] = []
    for path in paths:
        folder = os.path.isdir(path)
        own_list = not folder and str(path) not in STANDARD_INPUT and _is_own_list(Path(path))
        describes = (
            folder
            or str(path) in STANDARD_INPUT
            or (not own_list and not other_content(Path(path)))
        )
        if describes:
            described.append(path)
        if folder or not describes:
            managed.append(Path(path))
    dumps = find_dumps(managed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FormatWarning)
        found = Sources(names)
        own = [dumps.subnet, *(each for each in dumps.files() if other_content(each))]
        unused: list[str] = []
        for path in described if fabric is None else ():
            unused += found.take(path, format, without=[each for each in own if each])
        if fabric is not None:
            unused = [str(each) for each in dumps.others]
        independent = found.describe_cables or fabric is not None
        if fabric is None:
            if not found.describe_cables:
                if dumps.subnet is None:
                    listed = ", ".join(map(str, paths))
                    raise InputError(
                        f"nothing describes the fabric in {listed}; add the output of "
                        "ibnetdiscover, opensm-subnet.lst or ibdiagnet2.lst"
                    )
                found.take(dumps.subnet)
            fabric = found.fabric()
    unused = [each for each in unused if Path(each.partition(" (")[0]).name not in _STATE]
    said = tuple(each.message for each in caught if isinstance(each.message, FormatWarning))
    return Evidence(fabric, dumps, independent, said, tuple(unused))


def _is_own_list(file: Path) -> bool:
    """Return whether a file is OpenSM's list of what it discovered, and not that of ibdiagnet2."""
    return is_subnet_list(head_of(file)) and not file.name.startswith("ibdiagnet2")
