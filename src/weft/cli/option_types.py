"""Groups of options in the help of commands, and types of options that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter, Token

from weft.core.errors import InputError

if TYPE_CHECKING:  # it loads NumPy
    from weft.core.settings import Group

_TITLES: Mapping[Group, str] = {
    "first": "Most used",
    "fabric": "Fabric and faults",
    "routing": "Routing",
    "workload": "Workload and placement",
    "levels": "Level of detail: several",
    "flow": "Level of detail: flow",
    "packet": "Level of detail: packet",
    "flit": "Level of detail: flit",
    "runs": "Runs",
    "service": "OpenSM and the service",
    "room": "Machine room",
    "output": "Output",
}
#: Groups in the order of help; every option of every command is in one of them.
GROUPS: Mapping[Group, cyclopts.Group] = {
    name: cyclopts.Group(title, sort_key=number)
    for number, (name, title) in enumerate(_TITLES.items())
}
# Options that are written by hand: ``OUTPUT(help="Write a page.")``.
FIRST, FABRIC, ROUTING, WORKLOAD, LEVELS, FLOW, PACKET, FLIT, RUNS, SERVICE, ROOM, OUTPUT = (
    partial(Parameter, group=group) for group in GROUPS.values()
)


def _whole(hint: Any, tokens: Sequence[Token]) -> int:
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        from weft.core.arguments import shown  # imported late: it loads NumPy

        raise InputError(
            f"{token.keyword}: {shown(token.value)} does not fit: expected a whole number"
        ) from None


#: Type of an option that takes whole numbers; `int` alone would round other numbers.
Whole = Annotated[int, Parameter(converter=_whole, metavar="INT")]
# Types with names that help shows in place of STR and PATH.
File = Annotated[Path, Parameter(metavar="FILE")]
Folder = Annotated[Path, Parameter(metavar="FOLDER")]
Engine = Annotated[str, Parameter(metavar="ENGINE")]
Source = Annotated[str, Parameter(metavar="FABRIC")]
Format = Annotated[str, Parameter(metavar="FORMAT")]
Host = Annotated[str, Parameter(metavar="HOST")]
Hosts = Annotated[str, Parameter(metavar="HOSTS")]
Name = Annotated[str, Parameter(metavar="NAME")]
Listed = Annotated[str, Parameter(metavar="LIST")]
Loads = Annotated[str, Parameter(metavar="LOADS")]
Pair = Annotated[str, Parameter(metavar="NAME=VALUE")]
Pid = Annotated[str, Parameter(metavar="PID")]
Pattern = Annotated[str, Parameter(metavar="PATTERN")]
Placed = Annotated[str, Parameter(metavar="PLACEMENT")]
Policy = Annotated[str, Parameter(metavar="POLICY")]
Rate = Annotated[str, Parameter(metavar="RATE")]
Routing = Annotated[str, Parameter(metavar="ROUTING")]
Word = Annotated[str, Parameter(metavar="WORD")]
Workload = Annotated[str, Parameter(metavar="WORKLOAD")]
# Options of all commands that run OpenSM.
SmHost = Annotated[Host, SERVICE(help="Host that OpenSM runs on: name or GUID.")]
OsmSettings = Annotated[
    tuple[Pair, ...],
    SERVICE(help="Setting of opensm.conf, such as root_guid_file=FILE. Repeatable."),
]
KeptFolder = Annotated[Folder, OUTPUT(help="Folder in which to keep OpenSM's log and dumps.")]
# Option of all commands that take the running jobs.
JobsFile = Annotated[
    File | None,
    FIRST(help="Running jobs: output of squeue or scontrol show job, as text or JSON."),
]
