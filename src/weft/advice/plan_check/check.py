"""What differs between a cable plan, or an earlier reading, and the fabric that was found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from weft.advice.plan_check.chains import Chain, Move, chains
from weft.advice.plan_check.match import Matches, match
from weft.core.columns import Column, frame_of_rows
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.severity import Severity
from weft.core.units import RATE_NAMES
from weft.core.words import few, natural_key
from weft.fabrics import NodeKind, rate_text
from weft.fabrics.cabling import Cable, Cabling, End, Pair
from weft.fabrics.formats.hostlist import compress

#: Least number of plugs that a systematic shift has.
LEAST_SHIFT = 3
#: A nominal rate may be that of the signals, of which QDR carries 80 % as data.
_NOMINAL = 0.79

#: Kind of a difference -> severity. Plugs in wrong ports of the right devices are a warning.
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
    "peer_node": Column(pl.String, "", "Device at the other end (null: not about a cable)"),
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
    def place(self) -> str:
        """Node and port of the work, or the node; empty for rows of the plan."""
        node, port = self.rows[0].get("node") or "", self.rows[0].get("port")
        return node if port is None or "device" in self.kind else f"{node}[{port}]"


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
            common = {**vars(each), "number": number}
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
    matches = match(plan, found)
    if not matches.pairs:
        ours, theirs = (few([each.name for each in side.devices]) for side in (plan, found))
        raise InputError(
            f"no device of {plan.name} occurs in {found.name}, by GUID or by name: {ours} are not "
            f"among {theirs}; give {found.name} the names of the plan with --names"
        )
    return _Comparison(plan, found, matches).result()


class _Comparison:
    """Both sides with one numbering of devices: in the order of their racks and names."""

    def __init__(self, plan: Cabling, found: Cabling, matches: Matches):
        self.plan, self.found, self.matches = plan, found, matches
        self.readings = not plan.is_list and matches.by_guid > 0
        self.was, self.new = ("earlier", "new") if self.readings else ("planned", "not planned")
        devices, number_of = list(found.devices), dict(matches.pairs)
        for at, device in enumerate(plan.devices):
            here = number_of.setdefault(at, len(devices))
            if here == len(devices):
                devices.append(device)
            name = devices[here].name if self.readings else device.name
            devices[here] = devices[here]._replace(name=name, rack=device.rack, unit=device.unit)
        keys = [(not d.rack, natural_key(d.rack), natural_key(d.name)) for d in devices]
        order = sorted(range(len(devices)), key=keys.__getitem__)
        rank = {at: number for number, at in enumerate(order)}
        self.devices = [devices[at] for at in order]
        self.plan_number = {at: rank[here] for at, here in number_of.items()}
        self.absent = sorted(rank[at] for at in range(len(found.devices), len(devices)))
        self.unplanned = sorted(set(rank.values()) - set(self.plan_number.values()))
        self.refused = list(plan.refused)
        usable = [cable for cable in plan.cables if not self._is_unclear(cable)]
        #: Cable at each port of both sides, and the other end of those that are compared.
        self.plan_cable, self.planned = _at_ports(usable, self.plan_number)
        self.found_cable, self.actual = _at_ports(found.cables, rank)
        self.notes: list[str] = []
        self.differences: list[tuple[End, PlanDifference]] = []

    def _is_unclear(self, cable: Cable) -> bool:
        """Refuse a row whose device is the name of several adapters."""
        unclear = [number for number, _ in cable.ends if number in self.matches.several]
        if not unclear or cable.line is None:
            return False
        name, adapters = self.plan.devices[unclear[0]].name, self.matches.several[unclear[0]]
        why = f"{name} has the adapters {few(adapters)}; the port must name one"
        self.refused.append((cable.line, why))
        return True

    def result(self) -> PlanCheck:
        if not self.readings:
            self._leave_out()
        self._absent_devices()
        same = [
            end
            for end, there in self.planned.items()
            if end < there and self.actual.get(end) == there
        ]
        for end in same:
            self._compare_rates(end, self.planned[end])
        self._cables()
        self._names()
        self._other_notes()
        differences = [each for _, each in sorted(self.differences, key=lambda pair: pair[0])]
        if self.refused:
            rows = [{"line": line, "text": why} for line, why in sorted(self.refused)]
            listed = few([f"line {row['line']}: {row['text']}" for row in rows])
            text = f"{count_text(len(rows), 'row')} of the plan not compared: {listed}"
            kind = "unknown rows"
            differences.append(PlanDifference(kind, KINDS[kind], text, text, tuple(rows)))
        return PlanCheck(
            self.plan.name, self.found.name, self.readings, len(self.plan_cable) // 2,
            len(self.found.cables), len(same), tuple(differences), tuple(self.notes),
        )  # fmt: skip

    # -- what is compared ----------------------------------------------------------------------

    def _leave_out(self) -> None:
        """Leave out cables that plans do not list: inside a chassis, to hosts if none is named."""
        named = {self.devices[number].kind for number, _ in self.planned}
        count: Counter[str] = Counter()
        for end, there in list(self.actual.items()):
            if end > there or end in self.planned or there in self.planned:
                continue
            a, b = self.devices[end[0]], self.devices[there[0]]
            unnamed = {a.kind, b.kind} - named
            if NodeKind.AUXILIARY in unnamed:
                why = "to aggregation nodes or routers, of which the plan names none"
            elif a.box and a.box == b.box:
                why = "inside a chassis"
            elif NodeKind.HOST in unnamed:
                why = "to hosts, of which the plan names none"
            else:
                continue
            count[why] += 1
            del self.actual[end], self.actual[there]
        self.notes += [f"not compared: {count_text(n, 'cable')} {why}" for why, n in count.items()]

    def _absent_devices(self) -> None:
        cables: dict[int, list[Pair]] = {number: [] for number in self.absent}
        has_planned = Counter(number for number, _ in self.planned if number in cables)
        for end, there in list(self.planned.items()):
            # A cable between two absent devices counts for the one with more cables.
            more = has_planned[end[0]] >= has_planned[there[0]]
            if end[0] in cables and more and end in self.planned:
                cables[end[0]].append((end, there))
                del self.planned[end], self.planned[there]
        for number, pairs in cables.items():
            # Its cables count for other devices, or its rows are not understood.
            if not pairs and (has_planned[number] or self.plan.is_list):
                continue
            has = count_text(len(pairs), f"{self.was} cable")
            if pairs:
                has += f": {few([self._at(there) for _, there in pairs])}"
            text = f"{self.devices[number].name} was not found ({has})"
            action = f"check its power, name and cables ({has})"
            self._add("absent device", text, action, [(*pair, None) for pair in pairs], number)

    def _compare_rates(self, end: End, there: End) -> None:
        wanted, has = self.plan_cable[end], self.found_cable[end]
        least, most = (_NOMINAL, 1 / _NOMINAL) if wanted.nominal else (1 - 1e-9, 1 + 1e-9)
        ratio = has.rate_gbps / wanted.rate_gbps
        if has.rate_gbps == self.found.assumed_gbps or wanted.rate_gbps == self.plan.assumed_gbps:
            return
        if math.isnan(ratio) or least <= ratio <= most:
            return
        lanes = [
            int(RATE_NAMES[each.rate_code].partition("x")[0]) if each.rate_code else 4
            for each in (wanted, has)
        ]
        narrow = lanes[1] < lanes[0] and ratio * lanes[0] / lanes[1] >= least
        kind = "narrower cable" if narrow else "slower cable" if ratio < 1 else "faster cable"
        rates = [rate_text(each.rate_gbps, each.rate_code) for each in (has, wanted)]
        now = f"{rates[0]}, not {rates[1]}"
        todo = f"clean or replace the cable to {self._far(there, end)}: {now}"
        action = f"none: {now}" if ratio > 1 else todo
        gbps = {"planned_gbps": wanted.rate_gbps, "found_gbps": has.rate_gbps}
        self._add(kind, f"{self._pair(end, there)}: {now}", action, [(end, there, None)], more=gbps)

    # -- cables in wrong ports -----------------------------------------------------------------

    def _cables(self) -> None:
        common = Counter(
            _step(Move(end, self.actual[end], right))
            for end, right in self.planned.items()
            if end in self.actual and self.actual[end] != right
        )

        def cost(move: Move) -> float:
            """Prefer what happens often, then plugs at one device, in one rack, or of one kind."""
            a, b = (self.devices[number] for number in (move.wrong[0], move.right[0]))
            apart = 0.5 if a is b else 1.5 if a.rack and a.rack == b.rack else 2.5
            return (apart + (a.kind != b.kind)) / common[_step(move)]

        found = list(chains(self.planned, self.actual, cost))
        runs = _runs([move for chain in found for move in chain.moves], self.planned, self.actual)
        for chain in found:
            self._moves(chain, runs)
        self._shifts(list({id(run): run for run in runs.values()}.values()))
        self._left_over(
            [pair for chain in found for pair in chain.missing],
            [pair for chain in found for pair in chain.additional],
        )

    def _moves(self, chain: Chain, runs: dict[Move, list[Move]]) -> None:
        """Add the moves of a chain that are in no run."""
        moves = [move for move in chain.moves if move not in runs]
        inside = {id(runs[move]): runs[move] for move in chain.moves if move in runs}
        if chain.closed and len(moves) == 1 and len(inside) == 1:  # a shift whose last is first
            inside.popitem()[1].append(moves[0])
            return
        circle = chain.closed and not inside
        if circle:
            at = moves.index(min(moves, key=lambda move: move.wrong))
            moves = moves[at:] + moves[:at]
        if circle and len(moves) == 2:
            a, b = (move.wrong for move in moves)
            action = f"exchange the plugs in {self._at(a)} and {self._far(b, a)}"
            self._add_moves("swapped cables", action, moves)
        elif moves:
            order = " in a circle:" if circle else " in this order:"
            plugs = f"plugs{order}" if len(moves) > 1 else "plug in"
            self._add_moves("moved cables", f"move the {plugs} {self._steps(moves)}", moves)

    def _shifts(self, runs: Sequence[list[Move]]) -> None:
        """Add the runs; two that exchange the plugs of two devices are one difference."""
        by_ports = {(_step(run[0]), frozenset(m.right[1] for m in run)): run for run in runs}
        while by_ports:
            (step, ports), run = by_ports.popitem()
            wrong, right, up = step
            names = [self.devices[number].name for number in (wrong, right)]
            other = None if up or wrong == right else by_ports.pop(((right, wrong, 0), ports), None)
            if other is not None:
                action = f"exchange the plugs of {' and '.join(sorted(names))}, or the devices"
                self._add_moves("exchanged devices", action, [*run, *other])
                continue
            alike = [move for move in run if _step(move) == step]
            now, to = (
                f"{name}{compress(f'p{end[1]}' for end in ends)[1:]}"
                for name, ends in zip(names, list(zip(*alike, strict=True))[1:], strict=True)
            )
            way = f"{count_text(abs(up), 'port')} {'up' if up > 0 else 'down'}"
            action = f"move the plugs in {now} {way if wrong == right else f'to {to}'}"
            last = run[len(alike) :]
            self._add_moves(
                "shifted cables", action + ", and " * bool(last) + self._steps(last), run
            )

    def _steps(self, moves: Sequence[Move]) -> str:
        return ", ".join(f"{self._at(m.wrong)} to {self._far(m.right, m.wrong)}" for m in moves)

    def _add_moves(self, kind: str, action: str, moves: Sequence[Move]) -> None:
        texts = [
            f"{self._at(m.kept)} leads to {self._at(m.wrong)}, not {self._at(m.right)}"
            for m in moves
        ]
        text = "; ".join(texts)
        if kind in ("shifted cables", "exchanged devices"):
            text = f"{count_text(len(moves), 'cable')}: {texts[0]} and so on"
        ends = [(move.wrong, move.kept, move.right) for move in moves]
        same_devices = all(move.wrong[0] == move.right[0] for move in moves)
        self._add(kind, text, action, ends, severity="warning" if same_devices else KINDS[kind])

    def _left_over(self, missing: list[Pair], additional: list[Pair]) -> None:
        """Add cables that share no port with a cable of the other side, or are one too many."""
        between: dict[frozenset[int], list[Pair]] = {}
        for pair in sorted(map(_sorted, missing), reverse=True):
            between.setdefault(frozenset(number for number, _ in pair), []).append(pair)
        new: dict[int, list[Pair]] = {number: [] for number in self.unplanned}
        for a, b in sorted(map(_sorted, additional)):
            planned = between.get(frozenset((a[0], b[0])))
            if planned:
                right = planned.pop()
                moves = [Move(b, a, right[0]), Move(a, b, right[1])]
                self._add_moves("moved cables", f"move both plugs: {self._steps(moves)}", moves)
            elif a[0] in new or b[0] in new:
                at, there = (a, b) if a[0] in new else (b, a)
                new[at[0]].append((at, there))
            else:
                action = f"unplug the cable to {self._far(b, a)}, or add it to the plan"
                text = f"{self._pair(a, b)} is {self.new}"
                self._add("additional cable", text, action, [(a, b, None)])
        for a, b in (pair for pairs in between.values() for pair in pairs):
            busy = [f"{self._at(e)} has another cable now" for e in (a, b) if e in self.actual]
            hint = "; ".join(busy) or "both ports have no link"
            action = f"connect the cable to {self._far(b, a)} ({hint})"
            self._add("missing cable", f"no link {self._pair(a, b)}", action, [(a, b, None)])
        used = {number for number, _ in self.actual}
        for number, pairs in new.items():
            if self.readings or number in used:
                has = f", with {count_text(len(pairs), 'cable')}" if pairs else ""
                text = f"{self.devices[number].name} is {self.new}{has}"
                ends = [(*pair, None) for pair in pairs]
                self._add(
                    "additional device", text, "add it to the plan, or remove it", ends, number
                )

    # -- names and rows ------------------------------------------------------------------------

    def _names(self) -> None:
        for at, other in self.matches.pairs.items():
            old, new = self.plan.devices[at], self.found.devices[other]
            number = self.plan_number[at]
            if at in self.matches.by_place:
                text = f"{new.name} has the cables of {old.name}"
                action = f"check which device it is: {text}"
                self._add("replaced device", text, action, [], number, "warning")
            elif self.plan.is_list or not old.guid:
                continue
            elif old.guid == new.guid and old.name != new.name:
                text = f"{old.name} is now {new.name}"
                self._add("renamed device", text, "none", [], number)
            elif new.guid and old.guid != new.guid:
                text = f"{new.name} has another GUID: {new.guid:#018x}, not {old.guid:#018x}"
                self._add("replaced device", text, "none", [], number)

    def _other_notes(self) -> None:
        plan, loosely = self.plan, self.matches.loosely
        unknown = sum(math.isnan(cable.rate_gbps) for cable in plan.cables)
        matched = len(self.matches.pairs) - len(self.matches.by_place)
        every = len(plan.devices)
        notes = {
            f"only {matched:,} of {every:,} devices of the plan were found by name; see --names":
                2 * matched < every,
            f"{count_text(len(loosely), 'name')} of the plan fit only without regard to case and "
            f"blanks: {few(loosely)}": loosely,
            f"{count_text(plan.repeated, 'row')} of the plan repeat a cable": plan.repeated,
            f"no rate in the plan for {count_text(unknown, 'cable')}": unknown,
            f"rates that are not understood: {few(sorted(map(repr, plan.not_rates)))}":
                plan.not_rates,
        }  # fmt: skip
        self.notes += [text for text, applies in notes.items() if applies]
        self.notes += [
            f"rates of {side.assumed_gbps:g} Gb/s in {side.name} not compared: some are assumed"
            for side in (plan, self.found)
            if any(cable.rate_gbps == side.assumed_gbps for cable in side.cables)
        ]

    def _add(
        self, kind: str, text: str, action: str, ends: Sequence[tuple[End, End | None, End | None]],
        number: int = 0, severity: Severity | None = None, more: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Add a difference; `ends`: port, other end and right port of each row."""
        rows = [self._row(*each) | dict(more or {}) for each in sorted(ends)]
        place = min(ends)[0] if ends else (number, 0)
        each = PlanDifference(
            kind, severity or KINDS[kind], text, action, tuple(rows or [self._row(place)])
        )
        self.differences.append((place, each))

    def _row(self, at: End, peer: End | None = None, right: End | None = None) -> dict[str, Any]:
        row: dict[str, Any] = {"unit": self.devices[at[0]].unit}
        for name, end in (("", at), ("peer_", peer), ("right_", right)):
            if end is not None:
                device = self.devices[end[0]]
                row |= {f"{name}rack": device.rack or None, f"{name}node": device.name}
                row[f"{name}port"] = end[1] or None
        known = self.plan_cable.get(right or at)
        return row | {"line": known.line if known and peer in known.ends else None}

    def _at(self, end: End) -> str:
        return f"{self.devices[end[0]].name}[{end[1]}]"

    def _far(self, end: End, near: End) -> str:
        """Return the name of a port, with its rack if it is another one."""
        rack = self.devices[end[0]].rack
        return self._at(end) + f" in {rack}" * (rack not in ("", self.devices[near[0]].rack))

    def _pair(self, a: End, b: End) -> str:
        return f"{self._at(a)} -- {self._at(b)}"


def _at_ports(
    cables: Iterable[Cable], number: Mapping[int, int]
) -> tuple[dict[End, Cable], dict[End, End]]:
    """Return the cable at each port, and its other end, with other numbers of devices."""
    at_port: dict[End, Cable] = {}
    other: dict[End, End] = {}
    for cable in cables:
        a, b = ((number[at], port) for at, port in cable.ends)
        at_port |= dict.fromkeys((a, b), cable._replace(ends=(a, b)))
        other |= {a: b, b: a}
    return at_port, other


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
            if step != last:
                runs.append([])
            runs[-1].append(to[end])
        last = step
    return {move: run for run in runs if len(run) >= LEAST_SHIFT for move in run}
