"""Findings of an audit: what is wrong, what it costs, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from weft.advice.faults import Fault
from weft.core.columns import Column
from weft.core.severity import SEVERITIES, Severity
from weft.core.words import few
from weft.fabrics.formats.format_registry import FormatWarning

FINDING_COLUMNS = {
    "severity": Column(pl.String, "", "error, warning or note"),
    "kind": Column(pl.String, "", "Kind of the finding"),
    "item": Column(pl.String, "", "Port, switch, LID or pair that it counts (null: none)"),
    "text": Column(pl.String, "", "The finding in words"),
    "node": Column(pl.String, "", "Node of a cable or port with a fault (null: not of a cable)"),
    "port": Column(pl.Int64, "", "Port of that node (null: not known)"),
    "peer": Column(pl.String, "", "Node at the other end (null: not of a cable)"),
    "peer_port": Column(pl.Int64, "", "Port of that node (null: not known)"),
    "lost_gbps": Column(
        pl.Float64, "Gb/s", "Bandwidth that it costs in each direction (null: not known)"
    ),
    "cost": Column(pl.String, "", "What it costs (empty: not known)"),
    "action": Column(pl.String, "", "What to do (empty: not known)"),
}

#: Kind -> what it costs and what to do, if a finding itself does not say more. Worst first.
_KINDS = {
    "unrouted": ("these machines do not reach each other", "let the SM sweep again"),
    "loop": ("packets to these LIDs circulate until they time out", "let the SM sweep again"),
    "deadlock": ("all traffic may stop, without an error", "use routes without credit loops"),
    "may deadlock": ("all traffic may stop, without an error", ""),
    "disconnected host": ("these machines are cut off", "check their cables and ports"),
    "doubled LIDs": (
        "packets for one of the two ports reach the other",
        "restart the SM with --reassign_lids when no job runs",
    ),
    "own LID": ("the switch cannot be managed by this LID", ""),
    "no table": ("no packet passes these switches", "check whether the SM reaches them"),
    "dead port": ("packets to these ports are lost", "let the SM sweep again"),
    "not up": ("changes since are not in the tables", ""),
    "fallback": ("", ""),
    "LIDs": ("ports without a LID, or with that of another port, are not reached", ""),
    "lanes": ("packets of these service levels are lost", ""),
    "stale": ("files and subnet are not of the same time", "save all files again"),
    "roots": ("paths go over a part of the top switches only", "correct root_guid_file"),
    "subnet manager": ("a job on this machine can delay sweeps", "run the SM on another machine"),
    "LMC": ("", ""),
    "degraded cable": ("", "reseat the cable, then replace it; check both ports"),
    "cable errors": (
        "packets are sent again or lost", "clean or replace the cables whose errors still grow"
    ),
    "links down": ("", ""),
    "missing cable": ("", "plug in the cable, or enable its ports"),
    "absent leaf switch": (
        "these machines have a rail less", "check the power and management of that leaf switch"
    ),
    "missing adapter": (
        "these machines have less bandwidth than others", "check the adapters and their cables"
    ),
    "swapped adapters": (
        "traffic within a rail crosses upper switches", "exchange the plugs of these adapters"
    ),
    "uneven uplinks": (
        "hosts of these switches share fewer uplinks than others",
        "unless intended, add uplinks or enable their ports",
    ),
    "unbalanced": ("", ""),
    "Slurm's topology": (
        "Slurm places jobs by other switches than those of the cables",
        "compare the file with that of weft convert --to slurm"
    ),
    "doubled names": ("tools cannot tell these nodes apart", "name them in the node-name-map"),
    "unnamed adapters": (
        "tools show a GUID or a model", "set their node descriptions, or add them to the map"
    ),
}  # fmt: skip
_ORDER = {kind: at for at, kind in enumerate(_KINDS)}


@dataclass(frozen=True)
class Finding:
    """One finding in the subnet."""

    #: Kind of the finding, one or two words.
    kind: str
    #: Description with names and numbers.
    text: str
    #: ``error``: a fault; ``warning``: the subnet works, but could be better; ``note``: a fact to
    #: know, or something that could not be checked.
    severity: Severity = "error"
    #: Names of all ports, switches or LIDs that the text counts; empty if it counts none.
    items: tuple[str, ...] = ()
    #: What it costs, such as bandwidth, and what to do; empty if not known.
    cost: str = ""
    action: str = ""
    #: Faults of the fabric with their ports, one for each item; else empty.
    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        text: str,
        severity: Severity = "error",
        items: Iterable[object] = (),
        cost: str = "",
        action: str = "",
        faults: tuple[Fault, ...] = (),
    ) -> Finding:
        """Return a finding with what its kind usually costs, and what to do about it."""
        usual_cost, usual_action = _KINDS.get(kind, ("", ""))
        return cls(
            kind, text, severity, tuple(map(str, items)), cost or usual_cost,
            action or usual_action, faults,
        )  # fmt: skip


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by what their kind costs, then by their number of items."""
    return sorted(
        findings,
        key=lambda f: (
            SEVERITIES.index(f.severity), _ORDER.get(f.kind, len(_ORDER)), -len(f.items)
        ),
    )  # fmt: skip


def of_faults(faults: Sequence[Fault]) -> list[Finding]:
    """Return one finding for each kind of fault of a fabric."""
    found = []
    for kind in dict.fromkeys(fault.kind for fault in faults):
        mine = [fault for fault in faults if fault.kind == kind]
        texts = [fault.text for fault in mine]
        shown = few(list(dict.fromkeys(texts)))
        severity = min((fault.severity for fault in mine), key=SEVERITIES.index)
        found.append(Finding.of(kind, shown, severity, texts, _cost(mine), faults=tuple(mine)))
    return found


def _cost(faults: Sequence[Fault]) -> str:
    """Return the bandwidth that faults of cables cost, in words; empty if they cost none."""
    known = [fault.lost_gbps for fault in faults if fault.lost_gbps]
    return f"{sum(known):,.0f} Gb/s in each direction" if known else ""


def of_reading(said: Iterable[FormatWarning]) -> list[Finding]:
    """Return one finding for each warning of the readers of files."""
    return [Finding.of(each.kind, str(each), each.severity, each.items) for each in said]
