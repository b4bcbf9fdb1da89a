"""Parser of ``ibdiagnet2.far``, the adaptive routing tables of switches, independent of a fabric.

A switch has groups of output ports, and for each LID a port and, unless the LID is routed
statically, the group by which packets are sent::

    Switch 0x0000000000200000 ...
    Groups Definition:
    Group  Sub Group  WHBF  Ports
    -----------------------------
    0      0          0     3,4,
    LFT Definition:
    PLFT_NUM: 0, top: 0x6
    LID     Static Port  Lid State  Group
    -------------------------------------
    0x0001  1            Static     0
    0x0004  3            Free       0
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field

import numpy as np

from weft.core.errors import InputError
from weft.fabrics.formats.format_registry import warn_of
from weft.fabrics.formats.records import shown
from weft.routing.opensm.lft_lines import NO_PATH, Dump, LftBlock, without_private
from weft.routing.opensm.ports import MAX_LID

_SWITCH = re.compile(r"Switch:? 0x([0-9a-fA-F]{1,16})\b.*")
_GROUPS = re.compile(r"(\d{1,4})\s+(\d{1,3})(?:\s+(\d{1,3}))?(?:\s+((?:\d{1,3},\s*)*\d{1,3},?|-))?")
_PRIVATE = re.compile(r"PLFT_NUM: *(\d)\b.*")
_ENTRY = re.compile(r"0x([0-9a-fA-F]{1,4})\s+(\d{1,3})\s+(\w+)\s+(\d{1,4})", re.ASCII)
#: State of a LID -> whether its packets take a group.
_STATES = {"static": False, "free": True, "bounded": True, "hbf": True}
_HEADING = re.compile(r"Group\s.*Ports|LID\s.*Group|-+|File version: *\d+", re.IGNORECASE)


@dataclass
class FarBlock(LftBlock):
    """Table of one switch with its groups."""

    #: Number of the group of each entry, -1 for one that is static.
    group: array[int] = field(default_factory=lambda: array("i"))
    #: Number of a group -> its output ports, of all subgroups.
    groups: dict[int, list[int]] = field(default_factory=dict)


class _FarParser:
    def __init__(self, file: str):
        self.file = file
        self.blocks: list[FarBlock] = []
        self.keys: list[tuple[int, int]] = []
        #: What the words of the four columns stand for: key, port, whether a group is taken, group.
        self.known: tuple[dict[str, int], ...] = ({}, {}, {}, {})
        self.number: dict[int, int] = {}
        #: Lines of entries that are not yet added, and the number of the first.
        self.entries: list[str] = []
        self.first = 0
        #: Which table the lines are of; empty between tables.
        self.within = ""
        self.several: set[str] = set()

    def fail(self, message: str, line: int) -> InputError:
        return InputError(message, file=self.file, line=line)

    def parse(self, text: str) -> Dump:
        lines = text.splitlines()
        if lines and not text.endswith("\n"):
            raise self.fail("the file ends within a line; part of it is missing", len(lines))
        for number, raw in enumerate(lines, 1):
            line = raw.strip()
            if line.startswith("0x") and self.within == "LFT":
                self.first = self.first if self.entries else number
                self.entries.append(line)
                continue
            self._add_entries()
            if line:
                self._other(line, number)
        self._add_entries()
        if not self.blocks:
            raise InputError("has no table of a switch", file=self.file)
        for block in self.blocks:
            if not block.keys:
                raise self.fail(
                    f"switch {block.guid:#018x} has no forwarding table; the file may be cut "
                    "short", block.line,
                )  # fmt: skip
        what = "with subgroups, whose ports are taken as one group"
        warn_of(self.file, sorted(self.several), "group", what, kind="subgroups")
        return Dump([*without_private(self.blocks, self.file)], self.keys)

    def _add_entries(self) -> None:
        """Add the entries of successive lines, most words of which occurred in lines before."""
        count = len(self.entries)
        words = " ".join(self.entries).split()
        if len(words) != 4 * count or any(
            not known.keys() >= set(words[at::4]) for at, known in enumerate(self.known)
        ):
            for number, line in enumerate(self.entries, self.first):
                self._check(line, number)
        if count:
            key, port, free, group = (
                np.fromiter(map(known.__getitem__, words[at::4]), np.intc, count)
                for at, known in enumerate(self.known)
            )
            block = self.blocks[-1]
            block.keys.frombytes(key.tobytes())
            block.ports.frombytes(port.tobytes())
            block.group.frombytes(np.where(free, group, -1).astype(np.intc).tobytes())
            block.lines.extend(range(self.first, self.first + count))
            self.entries = []

    def _check(self, line: str, number: int) -> None:
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise self.fail(
                f"expected a LID, a port, a state and a group, found {shown(line)}", number
            )
        lid, port, state, group = match.groups()
        if state.lower() not in _STATES:
            raise self.fail(
                f"{shown(state)} is not a state of a LID; expected Static, Free, Bounded or HBF",
                number,
            )
        value = int(lid, 16)
        if value > MAX_LID or int(port) > NO_PATH:
            raise self.fail(f"LID {value:#06x} or port {port} is out of range", number)
        key = self.number.setdefault(value, len(self.keys))
        if key == len(self.keys):
            self.keys.append((value, -1))
        free = int(_STATES[state.lower()])
        for known, word, meaning in zip(
            self.known, line.split(), (key, int(port), free, int(group)), strict=True
        ):
            known[word] = meaning

    def _other(self, line: str, number: int) -> None:
        if match := _SWITCH.fullmatch(line):
            self.blocks.append(FarBlock(int(match[1], 16), "", number, -1, -1))
            self.within = "switch"
        elif line.startswith("Groups Definition:") and self.within == "switch":
            self.within = "groups"
        elif line.startswith("LFT Definition:") and self.within in ("groups", "LFT"):
            self.within = "LFT"
        elif self.within == "LFT" and (match := _PRIVATE.fullmatch(line)):
            if private := int(match[1]):
                guid = self.blocks[-1].guid
                self.blocks.append(FarBlock(guid, "", number, -1, -1, private=private))
        elif self.within == "groups" and (match := _GROUPS.fullmatch(line)):
            self._group(match)
        elif not (line.startswith("#") or _HEADING.fullmatch(line) or self.within == "switch"):
            raise self.fail(
                f"expected a line of adaptive routing tables, found {shown(line)}", number
            )

    def _group(self, match: re.Match[str]) -> None:
        block = self.blocks[-1]
        ports = [int(port) for port in re.findall(r"\d+", match[4] or "")]
        known = block.groups.setdefault(int(match[1]), [])
        if known and ports:
            self.several.add(f"{match[1]} of {block.guid:#018x}")
        known += ports


def parse_far(text: str, file: str) -> Dump:
    """Parse adaptive routing tables; the blocks of the result are `FarBlock`.

    Private tables (pLFT) of some ports and lanes are left out with a `FormatWarning`.
    """
    return _FarParser(file).parse(text)
