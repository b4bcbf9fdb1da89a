"""Audit of a running subnet from the files that its OpenSM dumped."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.alternatives import IN_PLACE, BetterEngine, alternatives
from weft.core.columns import Column, frame_of_rows
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.severity import SEVERITIES, Severity
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats import read_file
from weft.fabrics.formats.subnet_list import read_seen
from weft.fabrics.judged import EVERYBODY, Judged
from weft.routing.opensm.dumps import Dumps, find_dumps, load_tables
from weft.routing.opensm.lids import Lids, clash_summary, clash_texts, read_guid2lid
from weft.routing.opensm.log_files import read_logs
from weft.routing.opensm.osm_log import complaints, last_sweep, version
from weft.routing.opensm.ports import destination_name, port_guids
from weft.routing.opensm.qos import read_qos_policy
from weft.routing.opensm.sl2vl import read_sl2vl
from weft.routing.opensm.tables_folder import read_settings
from weft.routing.routes import MAX_VLS, TableRoutes
from weft.routing.validation.validate import Validation, validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import inner_links, relative_loads
from weft.subnet.live.verify import cable_faults

#: Engines of OpenSM that assign service levels to pairs without writing them to a file.
_SECRET_LEVELS = ("lash", "dfsssp", "torus-2QoS", "nue")
#: Loads are unbalanced if another engine's worst load is at most this share of the tables' worst
#: load.
UNBALANCED = 0.5
#: Maximum number of most loaded links in the report.
_NAMED_LINKS = 5
#: Kinds of notes that the verdict repeats if nothing is wrong.
_UNREAD = ("no log was read", "no heavy sweep", "no tables were read")

FINDING_COLUMNS = {
    "severity": Column(pl.String, "", "error, warning or note"),
    "kind": Column(pl.String, "", "Kind of the finding"),
    "item": Column(pl.String, "", "Port, switch, LID or pair that it counts (null: none)"),
    "text": Column(pl.String, "", "The finding in words"),
}


@dataclass(frozen=True)
class Finding:
    """One finding in the subnet."""

    #: Kind of the finding, one or two words.
    kind: str
    #: Description with names and numbers.
    text: str
    #: ``error``: a fault; ``warning``: the subnet works, but could be better; ``note``: something
    #: could not be checked.
    severity: Severity = "error"
    #: Names of all ports, switches or LIDs that the text counts; empty if it counts none.
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkLoad:
    """A link between switches, and its load by the flows of all host pairs.

    The load is the number of flows divided by the link's relative rate, as in `Audit.worst`.
    """

    link: str
    flows: int


@dataclass(frozen=True)
class Audit:
    """Result of `audit`."""

    #: The fabric and its routes; `routes` is None without a dump of tables.
    fabric: Fabric
    routes: TableRoutes | None
    #: Engine and version of OpenSM in its log, or empty.
    engine: str
    version: str
    #: Errors, warnings and notes, worst first.
    findings: tuple[Finding, ...]
    #: Facts that are not errors, and the texts of the findings that are notes.
    notes: tuple[str, ...]
    #: Result of the validator for the tables.
    validation: Validation | None
    #: Largest and mean load of the links between switches by the flows of all host pairs, divided
    #: by their rates relative to the fastest host cable, as in `weft.compare`; NaN without tables.
    worst: float
    mean: float
    #: The most loaded links that carry flows, in descending order of load.
    links: tuple[LinkLoad, ...]
    #: What to use instead of the tables, the smallest change first.
    alternatives: tuple[BetterEngine, ...] = ()

    @property
    def better(self) -> str:
        """Engine of the first alternative; empty if there is none."""
        return self.alternatives[0].engine if self.alternatives else ""

    @property
    def better_worst(self) -> float:
        """Largest load with `better`; NaN if there is none."""
        return self.alternatives[0].worst if self.alternatives else float("nan")

    @property
    def ok(self) -> bool:
        """Whether there are no errors; `open` tells if the routes may still deadlock."""
        return not self.count("error")

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def open(self) -> bool:
        """Whether the files are insufficient to decide if the routes can deadlock."""
        return self.validation is not None and self.validation.deadlock == "may"

    def text(self) -> str:
        """Return the report, with one line per finding and note."""
        fabric = self.fabric
        program = f"OpenSM {self.version}" if self.version else "OpenSM"
        size = f"{count_text(fabric.num_hosts, 'host')} and "
        size += count_text(fabric.num_switches, "switch")
        head = f"{program} on {size}"
        if self.engine:
            head += f", engine {self.engine}"
        if self.routes is not None and self.routes.lmc:
            head += f", LMC {self.routes.lmc}"
        errors, warnings_ = self.count("error"), self.count("warning")
        verdict = f"{errors} WRONG" if errors else "nothing wrong"
        if warnings_:
            verdict += f", {warnings_} warning{'s' * (warnings_ > 1)}"
        if self.ok:
            but = ["it may deadlock"] * self.open + [
                finding.kind for finding in self.findings if finding.kind in _UNREAD
            ]
            verdict += f", but {' and '.join(but)}" if but else ""
        shown = [finding for finding in self.findings if finding.severity != "note"]
        width = max((len(finding.kind) for finding in shown), default=0)
        word = {"error": "WRONG", "warning": "warning"}
        wide = max((len(word[finding.severity]) for finding in shown), default=0)
        lines = [f"{head}: {verdict}"]
        lines += [
            f"  {word[finding.severity]:<{wide}} {finding.kind:<{width}}  {finding.text}"
            for finding in shown
        ]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        judged = self.validation
        return {
            "ok": self.ok,
            "fabric": self.fabric.name,
            "hosts": self.fabric.num_hosts,
            "switches": self.fabric.num_switches,
            "engine": self.engine,
            "version": self.version,
            "findings": [
                vars(finding) | {"items": self.items(finding)} for finding in self.findings
            ],
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
            "alternatives": [vars(each) for each in self.alternatives],
        }

    def table(self) -> pl.DataFrame:
        """Return a frame of `FINDING_COLUMNS`, with a row for each item of each finding."""
        rows = [
            (finding.severity, finding.kind, item, finding.text)
            for finding in self.findings
            for item in (self.items(finding) or (None,))
        ]
        return frame_of_rows(FINDING_COLUMNS, rows)

    def items(self, finding: Finding) -> list[str]:
        """Return the names of everything that the text of a finding counts."""
        if finding.kind != "unrouted" or self.validation is None:
            return list(finding.items)
        names = self.fabric.host_names
        pairs = self.validation.unrouted_connected_pairs.tolist()
        return [f"{names[source]} to {names[target]}" for source, target in pairs]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def audit(
    paths: Sequence[str | Path],
    fabric: Fabric | None = None,
    *,
    management: bool = False,
    better: Sequence[str] = (),
    judged: Judged = EVERYBODY,
) -> Audit:
    """Find errors in a subnet.

    `paths`: folders and files that OpenSM wrote: any of opensm-lfts.dump, opensm-sl2vl.dump,
    opensm.log (also rotated and compressed), guid2lid, opensm-subnet.lst, opensm.conf and
    qos-policy.conf. `fabric`: fabric of the subnet, such as from ibnetdiscover; by default the one
    in opensm-subnet.lst. `management`: include paths from and to switches in the deadlock proof.
    `better`: engines to compare with the tables; by default those of OpenSM and some of weft.
    """
    dumps = find_dumps([Path(path) for path in paths])
    if dumps.lfts is None and not dumps.logs:
        raise InputError(
            f"found neither a dump of tables (opensm-lfts.dump, which opensm -D 0x43 writes) nor a "
            f"log in {', '.join(map(str, paths))}"
        )
    if fabric is None:
        if dumps.subnet is None:
            raise InputError(
                "there is no fabric: specify ibnetdiscover's output, or add opensm-subnet.lst"
            )
        fabric = read_file(dumps.subnet, "opensm-subnet")
    return _Auditor(judged.of(fabric), dumps, management, tuple(better)).run()


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
        self.worst = self.mean = float("nan")
        self.alternatives: tuple[BetterEngine, ...] = ()
        self.requested = ""
        #: Reason why the service levels and lanes of packets are not known; empty if they are.
        self.unknown_levels = ""

    def wrong(self, kind: str, text: str, items: Iterable[object] = ()) -> None:
        severity: Severity = "warning" if kind == "unbalanced" else "error"
        self.findings.append(Finding(kind, text, severity, tuple(map(str, items))))

    def note(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, text, "note"))
        self.notes.append(text)

    def run(self) -> Audit:
        if self.dumps.logs:
            text, unread = read_logs(self.dumps.logs)
            if unread:
                self.note("unread log", f"{unread}; it and older logs were not read")
            self.read_log(text)
        else:
            self.note(
                "no log was read",
                "no log was read (opensm.log), so engine, fallbacks and errors are unknown",
            )
        spans = read_guid2lid(self.dumps.guid2lid) if self.dumps.guid2lid else {}
        fabric_lids = np.asarray(self.fabric.lid, dtype=np.int32)
        seen = self.compare_seen() if self.dumps.subnet else None
        routes: TableRoutes | None = None
        judged: Validation | None = None
        if self.dumps.lfts:
            known = spans
            if seen is not None:
                # Entries of a dump without a GUID are for the ports that currently have those LIDs.
                now = dict(zip(port_guids(self.fabric).tolist(), seen.tolist(), strict=True))
                known = {guid: span for guid, span in spans.items() if now.get(guid) == span[0]}
            loaded = load_tables(self.fabric, self.dumps.lfts, known)
            for problem in loaded.problems:
                self.wrong(*problem)
            self.check_lids({"the tables": loaded.base, "the fabric": fabric_lids}, seen, spans)
            routes = self.add_lanes(loaded.routes)
            judged = self.judge(routes)
            self.weigh(routes, judged)
        else:
            self.check_lids({"the fabric": fabric_lids}, seen, spans)
            self.note(
                "no tables were read",
                "no dump of tables (opensm -D 0x43), so no routes were checked",
            )
        order = ("unrouted", "loop", "deadlock", "no table", "dead port", "fallback", "LIDs")
        rank = {kind: index for index, kind in enumerate(order)}
        self.findings.sort(
            key=lambda f: (SEVERITIES.index(f.severity), rank.get(f.kind, len(rank)))
        )
        return Audit(
            fabric=self.fabric,
            routes=routes,
            engine=self.engine,
            version=self.version,
            findings=tuple(self.findings),
            notes=tuple(self.notes),
            validation=judged,
            worst=self.worst,
            mean=self.mean,
            links=self.links,
            alternatives=self.alternatives,
        )

    # -- the log -----------------------------------------------------------------------------

    def read_log(self, text: str) -> None:
        self.version = version(text)
        last = last_sweep(text)
        if last is None:
            self.note("no heavy sweep", "the log has no heavy sweep, so OpenSM's engine is unknown")
            return
        self.engine = last.engine
        requested = self.settings.get("routing_engine", "").split(",")[0].strip()
        if requested == "(null)":
            requested = ""
        first = last.failed[0][0] if last.failed else requested
        self.requested = first if first != last.engine else ""
        if last.failed:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in last.failed)
            self.wrong("fallback", f"OpenSM routes with {last.engine or 'none'} ({reasons})")
        elif requested and last.engine and requested != last.engine:
            self.wrong("fallback", f"OpenSM routes with {last.engine}, not with {requested}")
        named = self.settings.get("lfts_file", "(null)") != "(null)"
        if last.engine == "file" and self.dumps.config and not named:
            self.note(
                "no lfts_file",
                "opensm.conf has no lfts_file: unless OpenSM was started with -U, its engine "
                "'file' routes by minhop",
            )
        if not last.up:
            errors = complaints(last.errors)
            self.wrong("not up", f"the last sweep did not end with SUBNET UP{errors}")
        elif last.grave:
            self.wrong("LIDs", f"the last sweep omitted ports{complaints(last.grave)}")
        elif logged := [line for line in last.errors if not self.expected(line)]:
            count = f"{len(logged)} error{'s' * (len(logged) > 1)}"
            self.note("log", f"{count} in the last sweep{complaints(logged)}")

    def expected(self, error: str) -> bool:
        """Return whether an error says that the policy is missing that `weft.live` does not write.

        It names one in the folder of dumps, so that OpenSM does not read that of the machine.
        """
        policy = Path(self.settings.get("qos_policy_file", ""))
        dumped = Path(self.settings.get("dump_files_dir", ""))
        return f"opening QoS policy file {policy}" in error and policy.parent == dumped

    # -- LIDs --------------------------------------------------------------------------------

    def compare_seen(self) -> NDArray[np.int32]:
        """Compare ports and cables with OpenSM's list; use the list's LIDs, and return them."""
        fabric = self.fabric
        assert self.dumps.subnet
        seen = read_seen(self.dumps.subnet)
        lid = seen.lid
        guids = port_guids(fabric).tolist()
        strangers = [f"{guid:#018x}" for guid in sorted(lid.keys() - set(guids))]
        if strangers:
            number = count_text(len(strangers), "port")
            text = f"OpenSM discovered {number} not in the fabric: {few(strangers)}"
            self.wrong("stale", text, strangers)
        known = np.array([guid in lid for guid in guids])
        # OpenSM discovers all ports that are cabled to a switch that it has discovered.
        at = np.full(len(fabric.port_guid), -1)
        ends = fabric.num_endpoints
        at[fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1] = np.arange(ends)
        inner = fabric.num_ports[: fabric.num_switches]
        at[: inner.sum()] = ends + np.repeat(np.arange(len(inner)), inner)
        shown = np.flatnonzero(fabric.link_from < fabric.num_switches)
        shown = shown[known[ends + fabric.link_from[shown]]]
        beyond = at[fabric.port_offset[fabric.link_to[shown]] + fabric.link_to_port[shown] - 1]
        unseen = np.unique(beyond[(beyond >= 0) & ~known[beyond]]).tolist()
        if unseen:
            listed = [destination_name(fabric, destination) for destination in unseen]
            number = count_text(len(unseen), "port")
            text = f"OpenSM did not discover {number} of the fabric: {few(listed)}"
            self.wrong("stale", text, listed)
        without = [destination for destination, guid in enumerate(guids) if lid.get(guid) == 0]
        if without:
            listed = [destination_name(fabric, destination) for destination in without]
            text = f"{count_text(len(without), 'port')} without a LID: {few(listed)}"
            self.wrong("LIDs", text, listed)
        base = np.array([lid.get(guid, 0) for guid in guids], dtype=np.int32)
        fabric = replace(fabric, lid=base)
        if not strangers and not unseen:
            missing, fault = cable_faults(fabric, seen, known)
            if fault:
                self.wrong("stale", fault)
                # Validate the routes on the cables that exist.
                fabric = fabric.without(cables=missing)
        self.fabric = fabric
        return base

    def check_lids(
        self,
        sources: dict[str, NDArray[np.int32]],
        seen: NDArray[np.int32] | None,
        spans: dict[int, tuple[int, int]],
    ) -> None:
        """Compare the LIDs in the fabric, the tables, OpenSM's list of cables and guid2lid."""
        fabric = self.fabric
        remembered = [spans.get(guid, (0, 0))[0] for guid in port_guids(fabric).tolist()]
        sources["guid2lid"] = np.array(remembered, dtype=np.int32)
        if seen is not None and not np.array_equal(seen, sources["the fabric"]):
            sources["opensm-subnet.lst"] = seen
        for (one, a), (other, b) in combinations(sources.items(), 2):
            differ = [
                f"{destination_name(fabric, int(port))}: {a[port]} and {b[port]}"
                for port in np.flatnonzero((a > 0) & (b > 0) & (a != b))
            ]
            if differ:
                number = count_text(len(differ), "port")
                text = f"{number} with different LIDs in {one} and in {other}, for example"
                self.wrong("LIDs", f"{text} {differ[0]}", differ)
        owner: dict[int, int] = {}
        clashes = []
        for guid, (first_lid, last_lid) in spans.items():
            for lid in range(max(first_lid, 1), last_lid + 1):
                if owner.setdefault(lid, guid) != guid:
                    clashes.append(f"LID {lid} of {owner[lid]:#018x} and {guid:#018x}")
        shared = clash_texts(fabric, Lids(sources["the fabric"], fabric.lmc))
        for where, texts in (("the fabric", shared), ("guid2lid", clashes)):
            if texts:
                self.wrong("LIDs", f"in {where}, {clash_summary(texts)}", texts)

    # -- routes ------------------------------------------------------------------------------

    def add_lanes(self, routes: TableRoutes) -> TableRoutes:
        """Return routes with the lanes and service levels of the files, if there are any."""
        fabric = self.fabric
        if self.engine in _SECRET_LEVELS and not self.dumps.policy:
            self.unknown_levels = (
                f"{self.engine} assigns service levels to pairs without writing them to a file"
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
                    f"switches drop packets of service level {numbers}: their tables map it to "
                    f"VL 15, but lanes of data are 0 to {MAX_VLS - 1}",
                )
            data = np.where(lanes.tables < MAX_VLS, lanes.tables, 0).astype(np.uint8)
            routes = replace(routes, lanes=replace(lanes, tables=data))
        elif len(np.unique(routes.sl)) > 1:
            self.unknown_levels = (
                "the lanes of service levels are unknown without opensm-sl2vl.dump"
            )
        return routes

    def levels(self, matrix: NDArray[np.uint8], routes: TableRoutes) -> NDArray[np.uint8] | None:
        """Return service levels, uint8 [rows, LIDs]; None if they differ for sources at one row."""
        fabric, graph = self.fabric, self.fabric.graph
        count = fabric.num_endpoints
        sl = np.zeros((graph.num_rows, fabric.num_destinations << routes.lmc), dtype=np.uint8)
        rows = graph.destination_row[:count]
        width = 1 << routes.lmc
        for row in np.unique(rows[rows >= 0]):
            here = np.flatnonzero(rows == row)
            own = matrix[here]
            # Ignore the service level from a port to itself.
            own[np.arange(len(here)), here] = own[(np.arange(len(here)) + 1) % len(here), here]
            if np.any(own != own[0]):
                self.unknown_levels = (
                    "the policy gives hosts of one switch different service levels to the same "
                    "destination"
                )
                return None
            sl[row, : count * width] = np.repeat(own[0], width)
        return sl

    def judge(self, routes: TableRoutes) -> Validation:
        fabric = self.fabric
        known = not self.unknown_levels
        judged = validate(fabric, routes, management=self.management, levels_known=known)
        unrouted = judged.num_unrouted_pairs - judged.num_disconnected_pairs
        hosts = fabric.num_hosts
        pairs = hosts * (hosts - 1)
        if unrouted:
            pair = judged.unrouted_connected_pairs[0]
            names = " to ".join(fabric.host_names[int(host)] for host in pair)
            share = f"{unrouted:,} of {pairs:,} host pairs ({unrouted / pairs:.1%})"
            self.wrong("unrouted", f"{share} have no path, for example {names}")
        if judged.num_disconnected_pairs:
            text = f"no cables connect {judged.num_disconnected_pairs:,} host pairs"
            self.note("disconnected", text)
        if len(judged.sent_out):
            self.wrong("own LID", judged.sent_out_text())
        if judged.num_loops:
            nodes = " -> ".join(fabric.node_names[node] for node in judged.loops[0])
            self.wrong(
                "loop", f"{judged.num_loops} LIDs have a forwarding loop, for example {nodes}"
            )
        if judged.credit_loops:
            example = judged.credit_loops[0].text(fabric)
            where = f"{len(judged.credit_loops)} set(s) of channels wait for each other"
            if judged.deadlock == "may":
                self.note(
                    "may deadlock",
                    f"it may deadlock: {self.unknown_levels}; if all packets share one lane, "
                    f"{where}, for example {example}",
                )
            else:
                lanes = f"{judged.lanes} lane{'s' if judged.lanes > 1 else ''}"
                loops = (loop.text(fabric) for loop in judged.credit_loops)
                self.wrong("deadlock", f"{where} on {lanes}, for example {example}", loops)
        if not unrouted and not judged.num_loops:
            free = "" if judged.credit_loops else ", and the routes are deadlock-free"
            self.notes.append(f"all {pairs:,} host pairs have a path{free}")
        return judged

    def weigh(self, routes: TableRoutes, judged: Validation) -> None:
        """Report the link loads for flows of all host pairs, and what to use instead."""
        fabric = self.fabric
        inner = np.flatnonzero(inner_links(fabric))
        if not len(inner) or fabric.num_hosts < 2:
            return
        valid = judged.ok_where_connected or (
            judged.deadlock == "may" and not judged.num_loops
            and judged.num_unrouted_pairs == judged.num_disconnected_pairs
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loads = relative_loads(fabric, all_to_all_loads(fabric, routes).per_link)
            result, found = alternatives(
                fabric, routes, judged, in_place=self.engine,
                requested=self.requested,
                engines=self.candidates, valid=valid,
            )  # fmt: skip
        self.worst, self.mean = float(loads[inner].max()), float(loads[inner].mean())
        order = inner[np.argsort(-loads[inner], kind="stable")[:_NAMED_LINKS]]
        self.links = tuple(
            LinkLoad(fabric.link_name(int(link)), round(float(loads[link])))
            for link in order
            if loads[link] > 0
        )
        self.alternatives = tuple(found)
        links = [f"{link.link} ({link.flows:,})" for link in self.links]
        loads_text = (
            f"flows of all host pairs: {self.worst:,.0f} on the most loaded link between switches, "
            f"{self.mean:,.1f} on average: {few(links)}"
        )
        if valid and any(each.worst <= UNBALANCED * self.worst for each in found):
            self.wrong("unbalanced", loads_text, links)
        elif self.links:
            self.notes.append(loads_text)
        (place,) = (o for o in result.outcomes if o.name == IN_PLACE)
        assert place.bisection is not None
        now = f"{self.worst:,.0f} and {place.bisection.mean:.1%} now"
        for each in found:
            lanes = "1 lane" if each.lanes == 1 else f"{each.lanes} lanes"
            word = "cure" if each.cures else "better"
            worse = ", but with worse loads" if each.worse else ""
            self.notes.append(
                f"{word}{worse}: {each.change}; {lanes}, largest load {each.worst:,.0f}, bisection "
                f"bandwidth {each.bandwidth:.1%} ({now})"
            )
