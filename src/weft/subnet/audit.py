"""Audit of a running subnet from the files that its OpenSM dumped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.alternatives import IN_PLACE, BetterEngine, alternatives
from weft.advice.comparison import Comparison, adaptive_gains
from weft.advice.faults import faults
from weft.advice.irregular import fabric_levels
from weft.core.columns import frame_of_rows
from weft.core.counts import count_text, counted
from weft.core.errors import InputError, NotApplicable
from weft.core.severity import SEVERITIES, Severity
from weft.core.words import few
from weft.counters.read import read_counters
from weft.fabrics import Fabric, variants
from weft.fabrics.formats.format_registry import FormatWarning
from weft.fabrics.formats.subnet_list import read_seen
from weft.fabrics.judged import EVERYBODY, Judged
from weft.routing.opensm.dumps import DumpTables, load_tables
from weft.routing.opensm.lft_lines import untold_text
from weft.routing.opensm.lids import Lids, clash_summary, clash_texts, read_guid2lid
from weft.routing.opensm.log_files import read_logs
from weft.routing.opensm.osm_log import complaints, last_sweep, version
from weft.routing.opensm.ports import destination_name, port_guids
from weft.routing.opensm.qos import read_qos_policy
from weft.routing.opensm.sl2vl import read_sl2vl
from weft.routing.opensm.tables_folder import read_settings
from weft.routing.routes import MAX_VLS, CandidateRoutes, Routes, TableRoutes
from weft.routing.structure.torus import find_tori
from weft.routing.validation.validate import Validation, validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import inner_links, relative_loads
from weft.subnet.cable_errors import cable_errors
from weft.subnet.evidence import Evidence, find_evidence
from weft.subnet.finding import FINDING_COLUMNS, Finding, of_faults, of_reading, worst_first
from weft.subnet.live.verify import cable_faults
from weft.subnet.manager_checks import (
    doubled_names,
    idle_lmc,
    misplaced_manager,
    slurm_faults,
    unaligned_lids,
    wrong_roots,
)

#: Engines of OpenSM that assign service levels to pairs without writing them to a file.
_SECRET_LEVELS = ("lash", "dfsssp", "torus-2QoS", "nue")
#: Loads are unbalanced if another engine's worst load is at most this share of the tables' worst
#: load.
UNBALANCED = 0.5
#: Kinds of errors that other routes can remove.
_CURED = ("unrouted", "loop", "deadlock", "may deadlock", "fallback")
#: Kinds of what readers say of files that lack cables.
_PARTIAL = ("incomplete", "lost cables", "unknown ports")
#: Maximum number of most loaded links in the report.
_NAMED_LINKS = 5


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

    #: The fabric and its routes, static and adaptive; None without a dump of such tables.
    fabric: Fabric
    routes: TableRoutes | None
    adaptive: CandidateRoutes | None
    #: Engine and version of OpenSM in its log, or empty.
    engine: str
    version: str
    #: Errors, warnings and notes, worst first.
    findings: tuple[Finding, ...]
    #: Facts that are no findings.
    notes: tuple[str, ...]
    #: What could not be judged, and the evidence that is missing for it.
    unknown: tuple[str, ...]
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
    #: Load of each link, float64 [links], as in `worst`; None without tables.
    loads: NDArray[np.float64] | None = None
    #: Comparison of the tables with engines; None without tables.
    comparison: Comparison | None = None
    #: Settings of ``opensm.conf``; empty without that file.
    settings: Mapping[str, str] = field(default_factory=dict)

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
        """Whether there are no errors."""
        return not self.count("error")

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def text(self) -> str:
        """Return the report: findings, worst first, facts, and what could not be judged."""
        fabric = self.fabric
        program = f"OpenSM {self.version}" if self.version else "Subnet"
        size = f"{count_text(fabric.num_hosts, 'host')} and "
        size += count_text(fabric.num_switches, "switch")
        head = f"{program} of {size}"
        if self.engine:
            head += f", engine {self.engine}"
        if self.routes is not None and self.routes.lmc:
            head += f", LMC {self.routes.lmc}"
        counts = [(each, self.count(each)) for each in SEVERITIES]
        verdict = ", ".join(count_text(count, each) for each, count in counts if count)
        if not self.findings:
            verdict = "nothing found"
        if self.unknown:
            verdict += f"; {count_text(len(self.unknown), 'point')} could not be judged"
        lines = [f"{head}: {verdict}"]
        for finding in self.findings:
            lines.append(f"{finding.severity} {finding.kind}: {finding.text}")
            costs, do = finding.cost, finding.action
            lines += [f"  {word}: {what}" for word, what in (("costs", costs), ("do", do)) if what]
        lines += self.notes
        lines += [f"not judged: {each}" for each in self.unknown]
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
                vars(finding)
                | {"items": self.items(finding), "faults": [vars(each) for each in finding.faults]}
                for finding in self.findings
            ],
            "notes": list(self.notes),
            "not_judged": list(self.unknown),
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
        rows = []
        for finding in self.findings:
            items: list[str | None] = [*self.items(finding)] or [None]
            for item, fault in zip_longest(items, finding.faults):
                cable: tuple[object, ...] = (None,) * 5
                if fault is not None:
                    cable = fault.node, fault.port, fault.peer, fault.peer_port, fault.lost_gbps
                rows.append(
                    (finding.severity, finding.kind, item, finding.text, *cable, finding.cost,
                     finding.action)
                )  # fmt: skip
        return frame_of_rows(FINDING_COLUMNS, rows)

    def items(self, finding: Finding) -> list[str]:
        """Return the names of everything that the text of a finding counts."""
        if finding.kind != "unrouted" or self.validation is None:
            return list(finding.items)
        names = self.fabric.host_names
        pairs = self.validation.unrouted_connected_pairs.tolist()
        return [f"{names[source]} to {names[target]}" for source, target in pairs]


def is_torus(fabric: Fabric) -> bool:
    """Return whether the fabric is a torus or mesh, with at most two missing cables."""
    try:
        return bool(find_tori(fabric))
    except NotApplicable:
        return False


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def audit(
    paths: Sequence[str | Path],
    fabric: Fabric | None = None,
    *,
    format: str | None = None,
    names: str | Path | None = None,
    management: bool = False,
    better: Sequence[str] = (),
    judged: Judged = EVERYBODY,
    weigh: bool = True,
) -> Audit:
    """Find what is wrong with a fabric and its subnet manager, from whatever files there are.

    `paths`, `fabric`, `format`, `names`: see `weft.subnet.evidence.find_evidence`. `management`:
    include paths from and to switches in the deadlock proof. `better`: engines to compare with the
    tables; by default those of OpenSM and some of weft. `judged`: hosts whose traffic counts.
    `weigh`: whether loads are computed, and compared with those of engines.
    """
    found = find_evidence(paths, fabric=fabric, format=format, names=names)
    return _Auditor(found, judged, management, tuple(better), weigh).run()


#: One or several files.
_Found = TypeVar("_Found")


class _Auditor:
    def __init__(
        self,
        evidence: Evidence,
        judged: Judged,
        management: bool,
        better: tuple[str, ...],
        weighs: bool,
    ) -> None:
        self.evidence, self.dumps = evidence, evidence.dumps
        self.fabric = judged.of(evidence.fabric)
        self.management, self.candidates, self.weighs = management, better, weighs
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.unknown: list[str] = []
        self.settings = read_settings(self.dumps.config) if self.dumps.config else {}
        self.engine = ""
        self.version = ""
        self.links: tuple[LinkLoad, ...] = ()
        self.worst = self.mean = float("nan")
        self.alternatives: tuple[BetterEngine, ...] = ()
        self.loads: NDArray[np.float64] | None = None
        self.comparison: Comparison | None = None
        self.requested = ""
        #: Reason why the service levels and lanes of packets are not known; empty if they are.
        self.unknown_levels = ""

    def wrong(
        self,
        kind: str,
        text: str,
        items: Iterable[object] = (),
        severity: Severity = "error",
        cost: str = "",
        action: str = "",
    ) -> None:
        self.findings.append(Finding.of(kind, text, severity, items, cost, action))

    def run(self) -> Audit:
        self.findings += of_reading(self.evidence.said)
        self.findings += self.faults_of_cables()
        log = ""
        if self.dumps.logs:
            log, unread = read_logs(self.dumps.logs)
            if unread:
                self.unknown.append(f"{unread}; it and older logs were not read")
            self.read_log(log)
        else:
            self.unknown.append("engine, fallbacks and errors of the SM: no log (opensm.log)")
        spans = read_guid2lid(self.dumps.guid2lid) if self.dumps.guid2lid else {}
        fabric_lids = np.asarray(self.fabric.lid, dtype=np.int32)
        seen = self.compare_seen() if self.dumps.subnet else None
        routes: TableRoutes | None = None
        adaptive: CandidateRoutes | None = None
        judged: Validation | None = None
        tables = self.dumps.adaptive or self.dumps.lfts
        if tables:
            known = spans
            if seen is not None:
                # Entries of a dump without a GUID are for the ports that currently have those LIDs.
                now = dict(zip(port_guids(self.fabric).tolist(), seen.tolist(), strict=True))
                known = {guid: span for guid, span in spans.items() if now.get(guid) == span[0]}
            loaded = load_tables(self.fabric, tables, known)
            for problem in loaded.problems:
                self.wrong(*problem)
            self.check_lids({"the tables": loaded.base, "the fabric": fabric_lids}, seen, spans)
            if loaded.untold and self.leaves_out_untold(loaded):
                loaded = load_tables(self.fabric, tables, known)
            routes = self.add_lanes(loaded.routes)
            judged = self.judge(routes)
            adaptive = loaded.candidates(self.fabric)
            if adaptive is not None:
                judged = self.judge_groups(adaptive, judged, loaded)
            if self.weighs:
                self.weigh(routes if adaptive is None else adaptive, judged)
        else:
            self.check_lids({"the fabric": fabric_lids}, seen, spans)
            self.unknown.append(
                "paths, loops, deadlocks and loads: no tables (opensm-lfts.dump of opensm -D 0x43, "
                "ibdiagnet2.fdbs, ibdiagnet2.far)"
            )
        folders = tuple(dict.fromkeys(path.parent for path in self.dumps.files()))
        self.findings += [
            *doubled_names(self.fabric),
            *unaligned_lids(self.fabric),
            *misplaced_manager(self.fabric, log),
            *wrong_roots(self.fabric, self.settings, self.engine, folders),
            *(idle_lmc(self.fabric, routes) if routes is not None else ()),
            *self.optional(self.counted_errors, self.dumps.counters, "errors of cables"),
            *self.optional(
                lambda file: slurm_faults(self.fabric, file), self.dumps.slurm, "Slurm's topology"
            ),
        ]
        self.note_missing_evidence()
        return Audit(
            fabric=self.fabric,
            routes=routes,
            adaptive=adaptive,
            engine=self.engine,
            version=self.version,
            findings=tuple(worst_first(self.findings)),
            notes=tuple(self.notes),
            unknown=tuple(self.unknown),
            validation=judged,
            worst=self.worst,
            mean=self.mean,
            links=self.links,
            alternatives=self.alternatives,
            loads=self.loads,
            comparison=self.comparison,
            settings=self.settings,
        )

    def faults_of_cables(self) -> list[Finding]:
        """Return the faults of the fabric; if files lack cables, those by absence are warnings."""
        found = of_faults(faults(self.fabric))
        if not any(each.kind in _PARTIAL for each in self.evidence.said):
            return found
        self.unknown.append(
            "whether cables are missing and hosts cut off: the files do not list all cables"
        )
        return [
            replace(each, severity="warning")
            if each.severity == "error" and each.kind in ("missing cable", "disconnected host")
            else each
            for each in found
        ]

    def counted_errors(self, files: Sequence[Path]) -> list[Finding]:
        """Return errors that ports have counted, and what was left out of the files."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FormatWarning)
            counters = read_counters(files, self.fabric, timed=False)
        said = (each.message for each in caught if isinstance(each.message, FormatWarning))
        return [*of_reading(said), *cable_errors(counters)]

    def optional(
        self, check: Callable[[_Found], Iterable[Finding]], found: _Found | None, what: str
    ) -> list[Finding]:
        """Return the findings about files without which everything else can be judged."""
        try:
            return list(check(found)) if found else []
        except InputError as reason:
            self.unknown.append(f"{what}: {reason}")
            return []

    def note_missing_evidence(self) -> None:
        """List what the files that are missing would have shown, and the files without use."""
        fabric = self.fabric
        if unused := self.evidence.unused:
            count = count_text(len(unused), "file")
            kinds = "of no known use, or of a kind that another file has"
            self.unknown.append(f"{count}, {kinds}: {few(unused)}")
        if any(each.kind in ("cable errors", "links down") for each in self.findings):
            self.unknown.append(
                "rates of errors: counters have no time of their last reset, and the narrow ones "
                "stop at 15, 255 or 65,535"
            )
        if not self.evidence.independent:
            self.unknown.append("what the SM does not see: only its own list describes the fabric")
        if not self.dumps.adaptive and self.engine.startswith("ar_"):
            self.unknown.append("adaptive groups of ports: no adaptive tables (ibdiagnet2.far)")
        tables = self.dumps.adaptive or self.dumps.lfts
        if tables and not self.dumps.sl2vl and not self.unknown_levels:
            self.unknown.append(
                "lanes other than VL 0: no SL-to-VL tables (opensm-sl2vl.dump), so deadlocks are "
                "judged for VL 0 only"
            )
        if not self.dumps.config:
            self.unknown.append("the settings of the SM: no opensm.conf")
        if not fabric.lid.any() and not self.dumps.guid2lid:
            self.unknown.append("LIDs: no file has them")
        if fabric_levels(fabric) is None and not is_torus(fabric):
            self.unknown.append("missing cables: neither a tree nor a torus, and no plan to check")

    # -- the log -----------------------------------------------------------------------------

    def read_log(self, text: str) -> None:
        self.version = version(text)
        last = last_sweep(text)
        if last is None:
            self.unknown.append("the engine of the SM: the log has no heavy sweep")
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
            self.wrong(
                "no lfts_file",
                "opensm.conf has no lfts_file: unless OpenSM was started with -U, its engine "
                "'file' routes by minhop",
                severity="note",
            )
        if not last.up:
            errors = complaints(last.errors)
            self.wrong("not up", f"the last sweep did not end with SUBNET UP{errors}")
        elif last.grave:
            self.wrong("LIDs", f"the last sweep omitted ports{complaints(last.grave)}")
        elif logged := [line for line in last.errors if not self.expected(line)]:
            count = f"{len(logged)} error{'s' * (len(logged) > 1)}"
            self.wrong("log", f"{count} in the last sweep{complaints(logged)}", severity="note")

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
            text = f"OpenSM discovered {counted(strangers, 'port', 'not in the fabric')}"
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
            text = f"OpenSM did not discover {counted(listed, 'port', 'of the fabric')}"
            self.wrong("stale", text, listed)
        without = [destination for destination, guid in enumerate(guids) if lid.get(guid) == 0]
        if without:
            listed = [destination_name(fabric, destination) for destination in without]
            self.wrong("LIDs", counted(listed, "port", "without a LID"), listed)
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

    def leaves_out_untold(self, loaded: DumpTables) -> bool:
        """Leave out the traffic of the host whose entries the dump does not tell, if there is one.

        Return whether the fabric is another one then.
        """
        fabric, lid = self.fabric, loaded.untold
        ports = np.flatnonzero((loaded.base == 0) & np.isin(fabric.lid, (0, lid)))
        name = destination_name(fabric, int(ports[0])) if len(ports) == 1 else "a port"
        self.unknown.append(f"paths to {name}: {untold_text(lid)}")
        kept = ~np.isin(fabric.host_endpoint, ports)
        if len(ports) != 1 or kept.all() or not kept.any():
            return False
        self.fabric = Fabric.of(variants.judged(fabric, kept))
        return True

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
            to = np.bincount(judged.unrouted_pairs[:, 1], minlength=hosts)
            connected = np.unique(judged.unrouted_connected_pairs[:, 1])
            cut = int((to[connected] >= hosts - 1).sum())
            cost = f"{count_text(cut, 'host')} unreachable by all others" if cut else ""
            self.wrong("unrouted", f"{share} have no path, for example {names}", cost=cost)
        if judged.num_disconnected_pairs:
            text = f"no cables connect {judged.num_disconnected_pairs:,} host pairs"
            self.wrong("disconnected", text, severity="note")
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
                self.wrong(
                    "may deadlock",
                    f"{self.unknown_levels}; if all packets share one lane, {where}, for example "
                    f"{example}",
                    severity="warning",
                )
            else:
                lanes = f"{judged.lanes} lane{'s' if judged.lanes > 1 else ''}"
                loops = (loop.text(fabric) for loop in judged.credit_loops)
                self.wrong("deadlock", f"{where} on {lanes}, for example {example}", loops)
        if not unrouted and not judged.num_loops:
            free = "" if judged.credit_loops else ", and the routes are deadlock-free"
            self.notes.append(f"all {pairs:,} host pairs have a path{free}")
        return judged

    def judge_groups(
        self, routes: CandidateRoutes, static: Validation, loaded: DumpTables
    ) -> Validation:
        """Report what is wrong with adaptive routes only, and return their validation.

        `static`: validation of the ports that packets take if they may not choose.
        """
        judged = validate(self.fabric, routes, management=self.management)
        more = judged.num_unrouted_pairs - static.num_unrouted_pairs
        if more > 0:
            text = f"{count_text(more, 'host pair')} without a path by groups of ports"
            self.wrong("unrouted", text)
        if judged.credit_loops and not static.credit_loops:
            loops = [loop.text(self.fabric) for loop in judged.credit_loops]
            text = f"by groups of ports, {count_text(len(loops), 'set')} of channels wait for each "
            self.wrong("deadlock", f"{text}other, for example {loops[0]}", loops)
        elif not judged.credit_loops and not static.credit_loops:
            both = validate(self.fabric, loaded.joined(self.fabric), management=self.management)
            if both.credit_loops:
                loops = [loop.text(self.fabric) for loop in both.credit_loops]
                self.wrong(
                    "may deadlock",
                    "groups of ports and static ports have no credit loops apart, but not proved "
                    f"so on one lane together: {loops[0]}", loops, "warning",
                )  # fmt: skip
            else:
                self.notes.append("adaptive groups of ports are deadlock-free")
        return judged

    def weigh(self, routes: Routes, judged: Validation) -> None:
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
        self.loads = loads
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
        cures = [each.change for each in found if each.cures]
        if cures:
            self.findings = [
                replace(each, action=cures[0]) if each.kind in _CURED else each
                for each in self.findings
            ]
        lighter = [each for each in found if each.worst <= UNBALANCED * self.worst]
        if valid and lighter:
            best = lighter[0]
            cost = f"{self.worst / best.worst:.1f} times the largest load of {best.engine}"
            self.wrong("unbalanced", loads_text, links, "warning", cost=cost, action=best.change)
        elif self.links:
            self.notes.append(loads_text)
        self.comparison = result
        if isinstance(routes, CandidateRoutes):
            self.notes += adaptive_gains(result)
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
