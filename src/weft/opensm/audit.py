"""What is wrong in a running subnet, from what its OpenSM dumped."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric, LinkKind
from weft.fabrics.formats import read_file
from weft.fabrics.formats.subnet_list import read_seen
from weft.opensm.files.dumps import Dumps, find_dumps, load_tables
from weft.opensm.files.lids import Lids, read_guid2lid
from weft.opensm.files.osm_log import complaints, last_sweep, version
from weft.opensm.files.ports import destination_name, port_guids
from weft.opensm.files.qos import read_qos_policy
from weft.opensm.files.sl2vl import read_sl2vl
from weft.opensm.files.tables_folder import read_settings
from weft.opensm.live.processes import log_text
from weft.opensm.live.verify import cable_faults
from weft.routes import MAX_VLS, Routes, TableRoutes
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.validation.validate import Validation, validate
from weft.sim.static.all_to_all import all_to_all_loads

#: Engines of OpenSM that give service levels to pairs and write them nowhere.
_SECRET_LEVELS = ("lash", "dfsssp", "torus-2QoS", "nue")
#: Engines of weft that are tried for something better.
BETTER = ("hdor", "ftree", "dmodk", "updn", "minhop")
#: Engines that are tried when none of those gives valid routes.
LAST_RESORT = ("torus-2QoS", "dfsssp")
#: Loads are unbalanced when a better engine's worst is below this share of theirs.
UNBALANCED = 0.5
#: Most loaded links that are named.
_NAMED_LINKS = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Parameters
    ----------
    kind
        One word or two, the same for all of its kind.
    text
        What it is, with names and numbers.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class LinkLoad:
    """Flows of all host pairs over a directed link between switches."""

    link: str
    flows: int


@dataclass(frozen=True)
class Audit:
    """Result of `audit`.

    Parameters
    ----------
    fabric, routes
        What was judged; no routes when there was no dump of tables.
    engine, version
        OpenSM's, as its log says; empty where it does not.
    findings
        What is wrong, worst first.
    notes
        What is not wrong but worth knowing, and what could not be judged.
    validation
        The validator's verdict on the tables.
    worst, mean
        Flows of all host pairs on the most loaded link between switches, per link's rate, and on
        the mean one; NaN without tables.
    links
        The most loaded ones, without those that carry nothing.
    better
        An engine of weft whose most loaded link carries less, and how much; empty and NaN when
        there is none.
    """

    fabric: Fabric
    routes: TableRoutes | None
    engine: str
    version: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    validation: Validation | None
    worst: float
    mean: float
    links: tuple[LinkLoad, ...]
    better: str
    better_worst: float

    @property
    def ok(self) -> bool:
        """Nothing is wrong; whether the routes may deadlock can still be open, see `open`."""
        return not self.findings

    @property
    def open(self) -> bool:
        """The files do not tell whether the routes can deadlock."""
        return self.validation is not None and self.validation.deadlock == "may"

    def text(self) -> str:
        """The report, a line for each finding and note."""
        fabric = self.fabric
        who = f"OpenSM {self.version}" if self.version else "OpenSM"
        head = f"{who} on {fabric.num_hosts} hosts and {fabric.num_switches} switches"
        if self.engine:
            head += f", engine {self.engine}"
        if self.routes is not None and self.routes.lmc:
            head += f", LMC {self.routes.lmc}"
        verdict = "nothing wrong" if self.ok else f"{len(self.findings)} WRONG"
        verdict += ", but it may deadlock" if self.ok and self.open else ""
        width = max((len(finding.kind) for finding in self.findings), default=0)
        lines = [f"{head}: {verdict}"]
        lines += [f"  WRONG {found.kind:<{width}}  {found.text}" for found in self.findings]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same for programs: plain values only."""
        judged = self.validation
        return {
            "ok": self.ok,
            "fabric": self.fabric.name,
            "hosts": self.fabric.num_hosts,
            "switches": self.fabric.num_switches,
            "engine": self.engine,
            "version": self.version,
            "findings": [vars(finding) for finding in self.findings],
            "notes": list(self.notes),
            "unrouted_pairs": judged.num_unrouted_pairs if judged else None,
            "loops": judged.num_loops if judged else None,
            "credit_loops": len(judged.credit_loops) if judged else None,
            "deadlock": judged.deadlock if judged else None,
            "worst_load": _number(self.worst),
            "mean_load": _number(self.mean),
            "links": [vars(link) for link in self.links],
            "better_engine": self.better or None,
            "better_worst_load": _number(self.better_worst),
        }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def audit(
    paths: Sequence[str | Path],
    fabric: Fabric | None = None,
    *,
    management: bool = False,
    better: Sequence[str] = (),
) -> Audit:
    """Find what is wrong in a subnet.

    Parameters
    ----------
    paths
        Folders and files that OpenSM wrote: opensm-lfts.dump, opensm-sl2vl.dump, opensm.log,
        guid2lid, opensm-subnet.lst, opensm.conf and qos-policy.conf, as many as there are.
    fabric
        What the subnet is, as from ibnetdiscover; what opensm-subnet.lst says when left out.
    management
        Take traffic of switches into the deadlock proof.
    better
        Engines of weft to compare with, some that suit many fabrics when left out.

    Raises
    ------
    InputError
        When a file cannot be used, there is neither a dump of tables nor a log, or no fabric.
    """
    dumps = find_dumps([Path(path) for path in paths])
    if dumps.lfts is None and dumps.log is None:
        raise InputError(
            f"found neither a dump of tables (opensm-lfts.dump, which opensm -D 0x43 writes) nor a "
            f"log in {', '.join(map(str, paths))}"
        )
    if fabric is None:
        if dumps.subnet is None:
            raise InputError("name the fabric (ibnetdiscover's output), or add opensm-subnet.lst")
        fabric = read_file(dumps.subnet, "opensm-subnet")
    return _Auditor(fabric, dumps, management, tuple(better)).run()


class _Auditor:
    def __init__(
        self, fabric: Fabric, dumps: Dumps, management: bool, better: tuple[str, ...]
    ) -> None:
        self.fabric, self.dumps = fabric, dumps
        self.management, self.candidates = management, better
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.settings = read_settings(dumps.config) if dumps.config else {}
        self.engine = ""
        self.version = ""
        self.links: tuple[LinkLoad, ...] = ()
        self.worst = self.mean = self.better_worst = float("nan")
        self.better = ""
        #: Why the service levels and lanes of packets are not known; empty when they are.
        self.unknown_levels = ""

    def wrong(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, text))

    def run(self) -> Audit:
        if self.dumps.log:
            self.read_log(log_text(self.dumps.log))
        spans = read_guid2lid(self.dumps.guid2lid) if self.dumps.guid2lid else {}
        given = np.asarray(self.fabric.lid, dtype=np.int32)
        seen = self.compare_seen() if self.dumps.subnet else None
        routes: TableRoutes | None = None
        judged: Validation | None = None
        if self.dumps.lfts:
            known = spans
            if seen is not None:
                # Rows without a GUID are for the ports that have those LIDs now.
                now = dict(zip(port_guids(self.fabric).tolist(), seen.tolist(), strict=True))
                known = {guid: span for guid, span in spans.items() if now.get(guid) == span[0]}
            loaded = load_tables(self.fabric, self.dumps.lfts, known)
            for kind, text in loaded.problems:
                self.wrong(kind, text)
            self.check_lids({"the tables": loaded.base, "the fabric": given}, seen, spans)
            routes = self.add_lanes(loaded.routes)
            judged = self.judge(routes)
            self.weigh(routes, judged)
        else:
            self.check_lids({"the fabric": given}, seen, spans)
            self.notes.append("no dump of tables, so no routes were judged (opensm -D 0x43)")
        order = ("unrouted", "loop", "deadlock", "no table", "dead port", "fallback", "LIDs")
        rank = {kind: place for place, kind in enumerate(order)}
        return Audit(
            fabric=self.fabric,
            routes=routes,
            engine=self.engine,
            version=self.version,
            findings=tuple(sorted(self.findings, key=lambda f: rank.get(f.kind, len(rank)))),
            notes=tuple(self.notes),
            validation=judged,
            worst=self.worst,
            mean=self.mean,
            links=self.links,
            better=self.better,
            better_worst=self.better_worst,
        )

    # -- the log -----------------------------------------------------------------------------

    def read_log(self, text: str) -> None:
        self.version = version(text)
        last = last_sweep(text)
        if last is None:
            self.notes.append("the log has no heavy sweep")
            return
        self.engine = last.engine
        asked = self.settings.get("routing_engine", "").split(",")[0].strip()
        if asked == "(null)":
            asked = ""
        if last.failed:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in last.failed)
            self.wrong("fallback", f"OpenSM routes with {last.engine or 'none'} ({reasons})")
        elif asked and last.engine and asked != last.engine:
            self.wrong("fallback", f"{asked} was asked for, and OpenSM routes with {last.engine}")
        named = self.settings.get("lfts_file", "(null)") != "(null)"
        if last.engine == "file" and self.dumps.config and not named:
            self.notes.append(
                "opensm.conf names no lfts_file: unless OpenSM was started with -U, it routes by "
                "minhop and calls it file"
            )
        if not last.up:
            said = complaints(last.errors)
            self.wrong("not up", f"the last sweep did not end with SUBNET UP{said}")
        elif last.grave:
            self.wrong("LIDs", f"the last sweep left ports out{complaints(last.grave)}")
        elif last.errors:
            count = len(last.errors)
            self.notes.append(f"{count} errors in the last sweep{complaints(last.errors)}")

    # -- LIDs --------------------------------------------------------------------------------

    def compare_seen(self) -> NDArray[np.int32]:
        """Compare the ports with those that OpenSM saw; their LIDs there are taken over."""
        fabric = self.fabric
        assert self.dumps.subnet
        seen = read_seen(self.dumps.subnet)
        lid = seen.lid
        guids = port_guids(fabric).tolist()
        strangers = sorted(lid.keys() - set(guids))
        if strangers:
            names = few([f"{guid:#018x}" for guid in strangers])
            self.wrong(
                "stale", f"OpenSM saw {len(strangers)} ports that are not in the fabric: {names}"
            )
        found = np.array([guid in lid for guid in guids])
        # A switch that OpenSM saw has shown it what its ports are cabled to.
        at = np.full(len(fabric.port_guid), -1)
        ends = fabric.num_endpoints
        at[fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1] = np.arange(ends)
        inner = fabric.num_ports[: fabric.num_switches]
        at[: inner.sum()] = ends + np.repeat(np.arange(len(inner)), inner)
        shown = np.flatnonzero(fabric.link_from < fabric.num_switches)
        shown = shown[found[ends + fabric.link_from[shown]]]
        beyond = at[fabric.port_offset[fabric.link_to[shown]] + fabric.link_to_port[shown] - 1]
        unseen = np.unique(beyond[(beyond >= 0) & ~found[beyond]]).tolist()
        if unseen:
            names = few([destination_name(fabric, place) for place in unseen])
            self.wrong("stale", f"OpenSM did not see {len(unseen)} ports of the fabric: {names}")
        without = [place for place, guid in enumerate(guids) if lid.get(guid) == 0]
        if without:
            names = few([destination_name(fabric, place) for place in without])
            self.wrong("LIDs", f"{len(without)} ports have no LID: {names}")
        base = np.array([lid.get(guid, 0) for guid in guids], dtype=np.int32)
        fabric = replace(fabric, lid=base)
        if not strangers and not unseen:
            missing, fault = cable_faults(fabric, seen, found)
            if fault:
                self.wrong("stale", fault)
                # Routes are judged by the cables that there are.
                fabric = fabric.without(cables=missing)
        self.fabric = fabric
        return base

    def check_lids(
        self,
        sources: dict[str, NDArray[np.int32]],
        seen: NDArray[np.int32] | None,
        spans: dict[int, tuple[int, int]],
    ) -> None:
        """Compare what the fabric, the tables, OpenSM's list of cables and guid2lid say."""
        fabric = self.fabric
        remembered = [spans.get(guid, (0, 0))[0] for guid in port_guids(fabric).tolist()]
        sources["guid2lid"] = np.array(remembered, dtype=np.int32)
        if seen is not None and not np.array_equal(seen, sources["the fabric"]):
            sources["opensm-subnet.lst"] = seen
        names = list(sources)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                a, b = sources[one], sources[other]
                differ = np.flatnonzero((a > 0) & (b > 0) & (a != b))
                if len(differ):
                    first = int(differ[0])
                    self.wrong(
                        "LIDs",
                        f"{len(differ)} ports have another LID in {one} than in {other}, such as "
                        f"{destination_name(fabric, first)}: {a[first]} and {b[first]}",
                    )
        owner: dict[int, int] = {}
        clashes = []
        for guid, (first_lid, last_lid) in spans.items():
            for lid in range(max(first_lid, 1), last_lid + 1):
                if owner.setdefault(lid, guid) != guid:
                    clashes.append(f"LID {lid} of {owner[lid]:#018x} and {guid:#018x}")
        shared = [
            f"LID {lid} of {destination_name(fabric, a)} and {destination_name(fabric, b)}"
            for lid, a, b in Lids(sources["the fabric"], fabric.lmc).clashes
        ]
        if shared:
            self.wrong("LIDs", f"the fabric gives {len(shared)} LIDs to two ports: {few(shared)}")
        if clashes:
            self.wrong("LIDs", f"guid2lid gives {len(clashes)} LIDs to two ports: {few(clashes)}")

    # -- routes ------------------------------------------------------------------------------

    def add_lanes(self, routes: TableRoutes) -> TableRoutes:
        """The lanes and service levels in force, where files tell them."""
        fabric = self.fabric
        if self.engine in _SECRET_LEVELS and not self.dumps.policy:
            self.unknown_levels = (
                f"{self.engine} gives pairs different service levels and writes them to no file"
            )
        if self.dumps.policy:
            levels = self.levels(read_qos_policy(fabric, self.dumps.policy), routes)
            if levels is not None:
                routes = replace(routes, sl=levels)
        if self.dumps.sl2vl:
            try:
                lanes = read_sl2vl(fabric, self.dumps.sl2vl)[0]
            except InputError as reason:
                self.wrong("lanes", str(reason))
                self.unknown_levels = "the dump of lanes does not fit the fabric"
                return routes
            used = np.unique(routes.sl).astype(np.int64) if np.size(routes.sl) else np.zeros(1, int)
            silent = used[np.any(lanes.tables[:, used] >= MAX_VLS, axis=0)]
            if len(silent):
                numbers = ", ".join(map(str, silent.tolist()))
                self.wrong(
                    "lanes",
                    f"switches drop packets of service level {numbers}: their tables give it "
                    f"VL 15, and lanes of data are 0 to {MAX_VLS - 1}",
                )
            data = np.where(lanes.tables < MAX_VLS, lanes.tables, 0).astype(np.uint8)
            routes = replace(routes, lanes=replace(lanes, tables=data))
        elif len(np.unique(routes.sl)) > 1:
            self.unknown_levels = "no opensm-sl2vl.dump says which lanes the service levels take"
        return routes

    def levels(self, matrix: NDArray[np.uint8], routes: TableRoutes) -> NDArray[np.uint8] | None:
        """Service levels by the row at the source; None when hosts of one row differ."""
        fabric, graph = self.fabric, self.fabric.graph
        count = fabric.num_endpoints
        found = np.zeros((graph.num_rows, fabric.num_destinations << routes.lmc), dtype=np.uint8)
        rows = graph.destination_row[:count]
        width = 1 << routes.lmc
        for row in np.unique(rows[rows >= 0]):
            here = np.flatnonzero(rows == row)
            own = matrix[here]
            # What a port would send itself counts for nothing.
            own[np.arange(len(here)), here] = own[(np.arange(len(here)) + 1) % len(here), here]
            if np.any(own != own[0]):
                self.unknown_levels = (
                    "the policy gives hosts of one switch different service levels to the same "
                    "destination"
                )
                return None
            found[row, : count * width] = np.repeat(own[0], width)
        return found

    def judge(self, routes: TableRoutes) -> Validation:
        fabric = self.fabric
        known = not self.unknown_levels
        judged = validate(fabric, routes, management=self.management, levels_known=known)
        lost = judged.num_unrouted_pairs - judged.num_disconnected_pairs
        hosts = fabric.num_hosts
        pairs = hosts * (hosts - 1)
        if lost:
            pair = judged.lost_pairs[0]
            names = " to ".join(fabric.host_names[int(host)] for host in pair)
            share = f"{lost:,} of {pairs:,} host pairs ({lost / pairs:.1%})"
            self.wrong("unrouted", f"{share} have no path, such as {names}")
        if judged.num_disconnected_pairs:
            self.notes.append(
                f"{judged.num_disconnected_pairs:,} host pairs are not even cabled together"
            )
        if len(judged.sent_out):
            self.wrong("own LID", judged.sent_out_text())
        if judged.num_loops:
            nodes = " -> ".join(fabric.node_names[node] for node in judged.loops[0])
            self.wrong("loop", f"{judged.num_loops} LIDs have a forwarding loop, such as {nodes}")
        if judged.credit_loops:
            example = judged.credit_loops[0].text(fabric)
            where = f"{len(judged.credit_loops)} set(s) of channels wait for each other"
            if judged.deadlock == "may":
                self.notes.append(
                    f"it may deadlock: {self.unknown_levels}, and if all packets shared one lane, "
                    f"{where}, such as {example}"
                )
            else:
                lanes = f"{judged.lanes} lane{'s' if judged.lanes > 1 else ''}"
                self.wrong("deadlock", f"{where} on {lanes}, such as {example}")
        if not lost and not judged.num_loops:
            free = "" if judged.credit_loops else ", and nothing can deadlock"
            self.notes.append(f"all {pairs:,} host pairs have a path{free}")
        return judged

    def weigh(self, routes: TableRoutes, judged: Validation) -> None:
        """Loads of all host pairs, and whether an engine of weft would do better."""
        fabric = self.fabric
        inner = np.flatnonzero(fabric.link_kind == LinkKind.SWITCH_SWITCH)
        if not len(inner):
            return
        loads, self.worst, self.mean = _weights(fabric, routes, inner)
        order = inner[np.argsort(-loads[inner], kind="stable")[:_NAMED_LINKS]]
        self.links = tuple(
            LinkLoad(fabric.link_name(int(link)), round(float(loads[link])))
            for link in order
            if loads[link] > 0
        )
        valid = judged.ok_where_connected or (
            judged.deadlock == "may" and not judged.num_loops
            and judged.num_unrouted_pairs == judged.num_disconnected_pairs
        )  # fmt: skip
        limit = self.worst if valid else float("inf")
        for name in self.candidates or BETTER:
            limit = self.compare(name, inner, limit)
        if not self.better and not valid and not self.candidates:
            for name in LAST_RESORT:
                limit = self.compare(name, inner, limit)
        said = (
            f"all host pairs put {self.worst:,.0f} flows on the most loaded link between switches, "
            f"{self.mean:,.1f} on the mean one: {_names(self.links)}"
        )
        if valid and self.better and self.better_worst <= UNBALANCED * self.worst:
            self.wrong("unbalanced", said)
        elif self.links:
            self.notes.append(said)
        if self.better and valid:
            self.notes.append(
                f"better: weft's {self.better}, worst {self.better_worst:,.0f} instead of "
                f"{self.worst:,.0f}"
            )
        elif self.better:
            self.notes.append(
                f"better: weft's {self.better}, which gives every pair a path and cannot deadlock, "
                f"worst {self.better_worst:,.0f}"
            )

    def compare(self, name: str, inner: NDArray[np.int64], limit: float) -> float:
        """Remember an engine whose most loaded link carries less; the new limit."""
        worst = self.worst_of(name, inner)
        if worst >= limit:
            return limit
        self.better, self.better_worst = name, worst
        return worst

    def worst_of(self, name: str, inner: NDArray[np.int64]) -> float:
        """Flows on the most loaded link under an engine of weft; infinite where it does not fit."""
        if name not in engines:
            return float("inf")
        try:
            routes: Routes = route(self.fabric, name)
        except NotApplicable:
            return float("inf")
        if not validate(self.fabric, routes).ok_where_connected:
            return float("inf")
        return _weights(self.fabric, routes, inner)[1]


def _weights(
    fabric: Fabric, routes: Routes, inner: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float, float]:
    """Flows per link, in units of the fastest cable between switches; worst and mean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flows = all_to_all_loads(fabric, routes).per_link
    rate = fabric.link_rate_gbps
    loads: NDArray[np.float64] = flows * (rate[inner].max() / rate)
    return loads, float(loads[inner].max()), float(loads[inner].mean())


def _names(links: Iterable[LinkLoad]) -> str:
    return few([f"{link.link} ({link.flows:,})" for link in links])
