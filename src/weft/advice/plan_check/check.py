"""What differs between a cable plan, or an earlier reading, and the fabric that was found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from weft.advice.plan_check.cabling import Cable, Cabling, Device, Matches, match
from weft.advice.plan_check.chains import Chain, End, Move, Pair, chains
from weft.core.columns import Column, frame_of_rows
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.severity import Severity
from weft.core.units import RATE_NAMES
from weft.core.words import few, natural_key
from weft.fabrics import NodeKind, rate_text

#: Least number of plugs that a systematic shift has.
LEAST_SHIFT = 3
#: A planned number may be the signalling rate, of which QDR carries 80 % as data.
_NOMINAL = 0.79

#: Kind of a difference -> severity. Where plugs are in wrong ports of the right devices, it is a
#: warning.
KINDS: Mapping[str, Severity] = {
    "missing cable": "error",
    "additional cable": "warning",
    "swapped cables": "error",
    "moved cables": "error",
    "shifted cables": "error",
    "exchanged devices": "error",
    "slower cable": "error",
    "narrower cable": "error",
    "faster cable": "note",
    "absent device": "error",
    "additional device": "warning",
    "renamed device": "note",
    "replaced device": "note",
    "unknown rows": "warning",
}

#: Kinds of differences of a whole device.
_DEVICES = ("absent device", "additional device", "renamed device", "replaced device")

CHECK_COLUMNS = {
    "number": Column(pl.Int32, "", "Number of the difference in the order of the list"),
    "kind": Column(pl.String, "", f"One of: {', '.join(KINDS)}"),
    "severity": Column(pl.String, "", "error, warning or note"),
    "line": Column(pl.Int32, "", "Line in the plan (null: none)"),
    "rack": Column(pl.String, "", "Rack of the node in the plan (null: not known)"),
    "unit": Column(pl.Int32, "U", "Height of the node in its rack (null: not known)"),
    "node": Column(pl.String, "", "Device with the plug, or of the first end (null: unknown rows)"),
    "port": Column(pl.Int32, "", "Port of the plug as found (null: not about a port)"),
    "right_rack": Column(pl.String, "", "Rack of the right device (null: not known or not moved)"),
    "right_node": Column(pl.String, "", "Planned device of a moved plug (null: not moved)"),
    "right_port": Column(pl.Int32, "", "Planned port of a moved plug (null: not moved)"),
    "peer_rack": Column(pl.String, "", "Rack of the other end of the cable (null: not known)"),
    "peer": Column(pl.String, "", "Device at the other end (null: not about a cable)"),
    "peer_port": Column(pl.Int32, "", "Port at the other end (null: not about a cable)"),
    "planned_gbps": Column(pl.Float64, "Gb/s", "Planned rate (null: not a difference of rates)"),
    "found_gbps": Column(pl.Float64, "Gb/s", "Rate found (null: not a difference of rates)"),
    "text": Column(pl.String, "", "The difference in words"),
    "action": Column(pl.String, "", "What to do"),
}


@dataclass(frozen=True)
class PlanDifference:
    """One difference; `rows` are those of `CHECK_COLUMNS`, without what they have in common."""

    kind: str
    severity: Severity
    text: str
    action: str
    rows: tuple[dict[str, Any], ...]

    @property
    def rack(self) -> str:
        """Rack of the work; empty if it is not known."""
        return self.rows[0].get("rack") or ""

    @property
    def place(self) -> str:
        """Node and port of the work, or the node; empty for rows of the plan."""
        node, port = self.rows[0].get("node") or "", self.rows[0].get("port")
        return node if port is None or self.kind in _DEVICES else f"{node}[{port}]"


@dataclass(frozen=True)
class PlanCheck:
    """Result of `check`."""

    plan: str
    found: str
    #: Whether the plan is an earlier reading of the same fabric, with the same GUIDs.
    readings: bool
    planned_cables: int
    found_cables: int
    #: Number of cables between the planned ports, whatever their rates.
    same_cables: int
    #: In order of rack, device and port.
    differences: tuple[PlanDifference, ...]
    #: What was assumed and what was not compared.
    notes: tuple[str, ...]

    def table(self) -> pl.DataFrame:
        """Return the differences, one row per cable, as a frame of `CHECK_COLUMNS`."""
        rows = []
        for number, each in enumerate(self.differences, 1):
            common = {"number": number, "kind": each.kind, "severity": each.severity}
            common |= {"text": each.text, "action": each.action}
            rows += [[{**common, **row}.get(name) for name in CHECK_COLUMNS] for row in each.rows]
        return frame_of_rows(CHECK_COLUMNS, rows)


def check(plan: Cabling, found: Cabling) -> PlanCheck:
    """Compare a plan, or an earlier reading, with the fabric that was found.

    Devices are matched by GUID, then by name (`match`). Plugs in wrong ports are the smallest
    number of moves that leads to the plan (`chains`); three or more moves of one kind at
    neighbouring ports are one difference.

    Raises
    ------
    InputError
        If no device of the plan was found.
    """
    matches = match(plan.devices, found.devices)
    if not matches.pairs:
        ours, theirs = (few([each.name for each in side.devices]) for side in (plan, found))
        raise InputError(
            f"no device of {plan.name} occurs in {found.name}, by GUID or by name: {ours} are not "
            f"among {theirs}; give {found.name} the names of the plan with --names"
        )
    return _Comparison(plan, found, matches).result()


def _place_key(device: Device) -> tuple[Any, ...]:
    return not device.rack, natural_key(device.rack), natural_key(device.name)


class _Comparison:
    """Both sides with one numbering of devices: in the order of their racks and names."""

    def __init__(self, plan: Cabling, found: Cabling, matches: Matches):
        self.plan, self.found, self.matches = plan, found, matches
        self.readings = plan.is_reading and matches.by_guid > 0
        self.planned_word, self.new = (
            ("earlier", "new") if self.readings else ("planned", "not planned")
        )
        devices, number_of = list(found.devices), dict(matches.pairs)
        for at, device in enumerate(plan.devices):
            if at in number_of:
                here = number_of[at]
                known = devices[here]
                name = known.name if self.readings else device.name
                devices[here] = known._replace(name=name, rack=device.rack, unit=device.unit)
            else:
                number_of[at] = len(devices)
                devices.append(device)
        order = sorted(range(len(devices)), key=lambda at: _place_key(devices[at]))
        rank = {at: number for number, at in enumerate(order)}
        self.devices = [devices[at] for at in order]
        self.absent = {rank[at] for at in range(len(found.devices), len(devices))}
        self.unplanned = set(rank.values()) - {rank[at] for at in number_of.values()}
        self.refused = list(plan.refused)
        usable = [cable for cable in plan.cables if not self._is_unclear(cable)]
        self.planned_cables = len(usable)
        self.plan_number = {at: rank[here] for at, here in number_of.items()}
        self.planned = _at_ports(usable, self.plan_number)
        self.actual = _at_ports(found.cables, rank)
        self.notes = list(plan.notes)
        self.differences: list[tuple[End, PlanDifference]] = []

    def _is_unclear(self, cable: Cable) -> bool:
        """Note a row whose device is the name of several adapters."""
        unclear = [number for number, _ in cable.ends if number in self.matches.several]
        if not unclear or cable.line is None:
            return False
        adapters = self.matches.several[unclear[0]]
        name = self.plan.devices[unclear[0]].name
        self.refused.append(
            (cable.line, f"{name} has the adapters {few(adapters)}; the port must name one")
        )
        return True

    def result(self) -> PlanCheck:
        if not self.readings:
            self._leave_out()
        self._absent_devices()
        planned, actual = self._ends(self.planned), self._ends(self.actual)
        same = [end for end, there in planned.items() if end < there and actual.get(end) == there]
        for end in same:
            self._compare_rates(end, planned[end])
        self._cables(planned, actual)
        if self.plan.is_reading:
            self._names()
        self._other_notes()
        return PlanCheck(
            self.plan.name, self.found.name, self.readings, self.planned_cables,
            len(self.found.cables), len(same),
            tuple(each for _, each in sorted(self.differences, key=lambda pair: pair[0])),
            tuple(self.notes),
        )  # fmt: skip

    @staticmethod
    def _ends(side: Mapping[End, tuple[End, Cable]]) -> dict[End, End]:
        return {end: there for end, (there, _) in side.items()}

    # -- what is compared ----------------------------------------------------------------------

    def _leave_out(self) -> None:
        """Leave out cables that plans do not list: inside a chassis, to hosts if none is named."""
        named = {self.devices[number].kind for number, _ in self.planned}
        count: Counter[str] = Counter()
        for end, (there, _) in list(self.actual.items()):
            if end > there or end in self.planned or there in self.planned:
                continue
            a, b = self.devices[end[0]], self.devices[there[0]]
            if NodeKind.AUXILIARY in (a.kind, b.kind) and NodeKind.AUXILIARY not in named:
                why = "to aggregation nodes or routers, of which the plan names none"
            elif a.box and a.box == b.box:
                why = "inside a chassis"
            elif NodeKind.HOST in (a.kind, b.kind) and NodeKind.HOST not in named:
                why = "to hosts, of which the plan names none"
            else:
                continue
            count[why] += 1
            del self.actual[end], self.actual[there]
        self.notes += [f"not compared: {count_text(n, 'cable')} {why}" for why, n in count.items()]

    def _absent_devices(self) -> None:
        cables: dict[int, list[Pair]] = {number: [] for number in sorted(self.absent)}
        for end, (there, _) in list(self.planned.items()):
            if end[0] in self.absent and not (there[0] in self.absent and there < end):
                cables[end[0]].append((end, there))
        for number, pairs in cables.items():
            if not pairs and not self.plan.is_reading:  # its rows are not understood
                continue
            instead: Counter[str] = Counter()
            for end, there in pairs:
                del self.planned[end], self.planned[there]
                other = self.actual[there][0][0] if there in self.actual else None
                if other in self.unplanned:
                    instead[self.devices[other].name] += 1
            has = count_text(len(pairs), f"{self.planned_word} cable")
            if pairs:
                has += f": {few([self._at(there) for _, there in pairs])}"
            for name, count in instead.most_common(1):
                has += f"; {name} has {count:,} of them"
            rows = [self._row(end, there) for end, there in pairs] or [self._row((number, 0))]
            text = f"{self.devices[number].name} was not found ({has})"
            self._add("absent device", text, f"check its power, name and cables ({has})", rows)

    def _compare_rates(self, end: End, there: End) -> None:
        wanted, has = self.planned[end][1], self.actual[end][1]
        if math.isnan(wanted.rate_gbps):
            return
        nominal = not wanted.rate_code and wanted.line is not None
        least, most = (_NOMINAL, 1 / _NOMINAL) if nominal else (1 - 1e-9, 1 + 1e-9)
        ratio = has.rate_gbps / wanted.rate_gbps
        if least <= ratio <= most:
            return
        lanes = [
            int(RATE_NAMES[each.rate_code].partition("x")[0]) if each.rate_code else 4
            for each in (wanted, has)
        ]
        narrow = lanes[1] < lanes[0] and ratio * lanes[0] / lanes[1] >= least
        kind = "narrower cable" if narrow else "slower cable" if ratio < 1 else "faster cable"
        rates = [rate_text(each.rate_gbps, each.rate_code) for each in (has, wanted)]
        text = f"{self._pair(end, there)} at {rates[0]}, not {rates[1]}"
        action = (
            f"clean or replace the cable to {self._far(there, end)}: {rates[0]}, not {rates[1]}"
        )
        if kind == "faster cable":
            action = f"none: {rates[0]}, not {rates[1]}"
        row = self._row(end, there, line=wanted.line)
        row |= {"planned_gbps": wanted.rate_gbps, "found_gbps": has.rate_gbps}
        self._add(kind, text, action, [row])

    # -- cables in wrong ports -----------------------------------------------------------------

    def _cables(self, planned: Mapping[End, End], actual: Mapping[End, End]) -> None:
        common = Counter(
            _step(Move(end, actual[end], right))
            for end, right in planned.items()
            if end in actual and actual[end] != right
        )

        def cost(move: Move) -> float:
            """Prefer what happens often, then plugs that stay at one device, or in one rack."""
            a, b = (self.devices[number] for number in (move.wrong[0], move.right[0]))
            apart = 0.0 if a is b else 1.0 if a.rack and a.rack == b.rack else 2.0
            return (apart + 0.5) / common[_step(move)]

        found = list(chains(planned, actual, cost))
        runs = _runs([move for chain in found for move in chain.moves], planned, actual)
        for chain in found:
            self._moves(chain, runs)
        self._shifts(list({id(run): run for run in runs.values()}.values()))
        self._left_over(
            [pair for chain in found for pair in chain.missing],
            [pair for chain in found for pair in chain.additional],
            actual,
        )

    def _moves(self, chain: Chain, runs: dict[Move, list[Move]]) -> None:
        """Add the moves of a chain that are in no run."""
        moves = [move for move in chain.moves if move not in runs]
        inside = {id(runs[move]): runs[move] for move in chain.moves if move in runs}
        if chain.closed and len(moves) == 1 and len(inside) == 1:  # a shift whose last is first
            (run,) = inside.values()
            run.append(moves[0])
            return
        if not moves:
            return
        if chain.closed:
            at = moves.index(min(moves, key=lambda move: move.wrong))
            moves = moves[at:] + moves[:at]
        kind = "moved cables"
        steps = [f"{self._at(m.wrong)} to {self._far(m.right, m.wrong)}" for m in moves]
        action = f"move the plug in {steps[0]}"
        if chain.closed and len(chain.moves) == len(moves) == 2:
            kind, first = "swapped cables", self._at(moves[0].wrong)
            action = (
                f"exchange the plugs in {first} and {self._far(moves[1].wrong, moves[0].wrong)}"
            )
        elif len(moves) > 1:
            order = "in a circle" if chain.closed else "in this order"
            action = f"move the plugs {order}: {', '.join(steps)}"
        self._add_moves(kind, action, moves)

    def _shifts(self, runs: Sequence[list[Move]]) -> None:
        """Add the runs; two that exchange the plugs of two devices are one difference."""
        back = {(_step(run[0]), frozenset(m.right[1] for m in run)): run for run in runs}
        done: set[int] = set()
        for (step, ports), run in back.items():
            if id(run) in done:
                continue
            wrong, right, _ = step
            other = back.get(((right, wrong, 0), ports)) if step[2] == 0 else None
            names = [self.devices[number].name for number in (right, wrong)]
            if other is not None and wrong != right:
                done.add(id(other))
                action = f"exchange the plugs of {names[0]} and {names[1]}, or the devices"
                self._add_moves("exchanged devices", action, [*run, *other])
                continue
            alike = [move for move in run if _step(move) == step]
            now = f"{names[1]}[{_ranges(move.wrong[1] for move in alike)}]"
            to = f"to {names[0]}[{_ranges(move.right[1] for move in alike)}]"
            if wrong == right:
                way = "up" if step[2] > 0 else "down"
                to = f"{count_text(abs(step[2]), 'port')} {way}"
            rest = [f", and {self._at(m.wrong)} to {self._at(m.right)}" for m in run[len(alike) :]]
            self._add_moves(
                "shifted cables", "".join([f"move the plugs in {now} {to}", *rest]), run
            )

    def _add_moves(self, kind: str, action: str, moves: Sequence[Move]) -> None:
        texts = [
            f"{self._at(m.kept)} leads to {self._at(m.wrong)}, not {self._at(m.right)}"
            for m in moves
        ]
        same_devices = all(move.wrong[0] == move.right[0] for move in moves)
        rows = [self._row(m.wrong, m.kept, m.right) for m in moves]
        text = "; ".join(texts)
        if kind in ("shifted cables", "exchanged devices"):
            text = f"{count_text(len(moves), 'cable')}: {texts[0]} and so on"
        self._add(kind, text, action, rows, "warning" if same_devices else None)

    def _left_over(
        self, missing: list[Pair], additional: list[Pair], actual: Mapping[End, End]
    ) -> None:
        """Add cables that share no port with a cable of the other side, or are one too many."""
        between: dict[frozenset[int], list[Pair]] = {}
        for pair in sorted(map(_sorted, missing), reverse=True):
            between.setdefault(frozenset(number for number, _ in pair), []).append(pair)
        new: dict[int, list[Pair]] = {number: [] for number in sorted(self.unplanned)}
        for a, b in sorted(map(_sorted, additional)):
            same = between.get(frozenset((a[0], b[0])))
            unplanned = next((end for end in (a, b) if end[0] in self.unplanned), None)
            if same:
                moves = [Move(b, a, same[-1][0]), Move(a, b, same[-1][1])]
                steps = " and ".join(
                    f"{self._at(m.wrong)} to {self._far(m.right, m.wrong)}" for m in moves
                )
                self._add_moves("moved cables", f"move both plugs: {steps}", moves)
                same.pop()
            elif unplanned is not None:
                new[unplanned[0]].append((unplanned, b if unplanned == a else a))
            else:
                action = f"unplug the cable to {self._far(b, a)}, or add it to the plan"
                text = f"{self._pair(a, b)} is {self.new}"
                self._add("additional cable", text, action, [self._row(a, b)])
        for a, b in (pair for pairs in between.values() for pair in pairs):
            busy = [f"{self._at(end)} has another cable now" for end in (a, b) if end in actual]
            hint = "; ".join(busy) or "both ports have no link"
            action = f"connect the cable to {self._far(b, a)} ({hint})"
            self._add("missing cable", f"no link {self._pair(a, b)}", action, [self._row(a, b)])
        used = {number for number, _ in self.actual}
        for number, pairs in new.items():
            if self.readings or number in used:
                name, count = self.devices[number].name, count_text(len(pairs), "cable")
                rows = [self._row(*pair) for pair in pairs] or [self._row((number, 0))]
                text = f"{name} is {self.new}, with {count}"
                self._add("additional device", text, "add it to the plan, or remove it", rows)

    # -- names and rows ------------------------------------------------------------------------

    def _names(self) -> None:
        for at, other in self.matches.pairs.items():
            old, new = self.plan.devices[at], self.found.devices[other]
            row = [self._row((self.plan_number[at], 0))]
            if old.guid and old.guid == new.guid and old.name != new.name:
                self._add("renamed device", f"{old.name} is now {new.name}", "none", row)
            elif old.guid and new.guid and old.guid != new.guid:
                text = f"{new.name} has another GUID: {new.guid:#018x}, not {old.guid:#018x}"
                self._add("replaced device", text, "none", row)

    def _other_notes(self) -> None:
        matched, every = len(self.matches.pairs), len(self.plan.devices)
        if 2 * matched < every:
            self.notes.append(f"only {matched:,} of {every:,} devices of the plan have names found")
        loosely = self.matches.loosely
        if loosely:
            self.notes.append(
                f"{count_text(len(loosely), 'name')} of the plan fit only without regard to case "
                f"and blanks: {few(loosely)}"
            )
        unknown = sum(math.isnan(cable.rate_gbps) for cable in self.plan.cables)
        if unknown:
            self.notes.append(f"no rate in the plan for {count_text(unknown, 'cable')}")
        if self.refused:
            rows = [{"line": line, "text": why} for line, why in sorted(self.refused)]
            listed = few([f"line {row['line']}: {row['text']}" for row in rows])
            count = count_text(len(rows), "row")
            text = f"{count} of the plan not compared: {listed}"
            self._add("unknown rows", text, "correct the plan", rows)

    def _add(
        self, kind: str, text: str, action: str, rows: list[dict[str, Any]],
        severity: Severity | None = None,
    ) -> None:  # fmt: skip
        rows.sort(key=lambda row: row.get("order", (len(self.devices), row.get("line"))))
        first = rows[0].get("order", (len(self.devices), 0))
        for row in rows:
            row.pop("order", None)
        each = PlanDifference(kind, severity or KINDS[kind], text, action, tuple(rows))
        self.differences.append((first, each))

    def _row(
        self, at: End, peer: End | None = None, right: End | None = None, line: int | None = None
    ) -> dict[str, Any]:
        device = self.devices[at[0]]
        row: dict[str, Any] = {"order": at, "rack": device.rack or None, "unit": device.unit}
        row |= {"node": device.name, "port": at[1] or None}
        for name, end in (("peer", peer), ("right", right)):
            if end is not None:
                other, node = self.devices[end[0]], name if name == "peer" else "right_node"
                row |= {
                    f"{name}_rack": other.rack or None,
                    node: other.name,
                    f"{name}_port": end[1],
                }
        known = self.planned.get(right or at) if peer else None
        row["line"] = line or (known[1].line if known and known[0] == peer else None)
        return row

    def _at(self, end: End) -> str:
        return f"{self.devices[end[0]].name}[{end[1]}]"

    def _far(self, end: End, near: End) -> str:
        """Return the name of a port, with its rack if it is another one."""
        rack = self.devices[end[0]].rack
        return self._at(end) + f" in {rack}" * (rack not in ("", self.devices[near[0]].rack))

    def _pair(self, a: End, b: End) -> str:
        return f"{self._at(a)} -- {self._at(b)}"


def _at_ports(cables: Iterable[Cable], number: Mapping[int, int]) -> dict[End, tuple[End, Cable]]:
    """Return the other end and the cable at each port, with other numbers of devices."""
    ports = {}
    for cable in cables:
        a, b = ((number[at], port) for at, port in cable.ends)
        ports[a], ports[b] = (b, cable), (a, cable)
    return ports


def _sorted(pair: Pair) -> Pair:
    return (min(pair), max(pair))


def _step(move: Move) -> tuple[int, int, int]:
    """Return what the moves of a systematic shift have in common."""
    return move.wrong[0], move.right[0], move.right[1] - move.wrong[1]


def _runs(
    moves: Sequence[Move], planned: Mapping[End, End], actual: Mapping[End, End]
) -> dict[Move, list[Move]]:
    """Return the moves of shifts: same step, at planned ports with no other cable between them."""
    to = {move.right: move for move in moves}
    runs: list[list[Move]] = []
    last: tuple[int, int, int] | None = None
    for end in sorted(planned):
        if end not in to and actual.get(end) != planned[end]:
            continue  # a missing cable, or the end of a cable whose other end is moved
        step = _step(to[end]) if end in to else None
        if step is not None:
            if step != last or runs[-1][-1].right[0] != end[0]:
                runs.append([])
            runs[-1].append(to[end])
        last = step
    return {move: run for run in runs if len(run) >= LEAST_SHIFT for move in run}


def _ranges(ports: Iterable[int]) -> str:
    """Return ports as text, such as ``1-18,20``."""
    parts: list[list[int]] = []
    for port in sorted(ports):
        if parts and port == parts[-1][-1] + 1:
            parts[-1].append(port)
        else:
            parts.append([port])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
