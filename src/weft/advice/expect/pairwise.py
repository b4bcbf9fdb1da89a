"""Pairwise runs: one figure for each pair of machines, and the parts of the fabric that are slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.expect.slow_parts import Parts, SlowPart, baseline, slow_parts
from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.student import student_t
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.arrays import LinkKind
from weft.routing.routes import Routes
from weft.sim.simulate import simulate
from weft.workload import WorkloadBuilder

PAIR_COLUMNS: Mapping[str, Column] = {
    "from_machine": Column(pl.String, "", "Machine or adapter that sends"),
    "to_machine": Column(pl.String, "", "Machine or adapter that receives"),
    "size_bytes": Column(pl.Int64, "B", "Size of the messages"),
    "gbps": Column(pl.Float64, "Gb/s", "Measured bandwidth (null: a time was measured)"),
    "time_ns": Column(pl.Float64, "ns", "Measured time (null: a bandwidth was measured)"),
    "expected": Column(pl.Float64, "Gb/s or ns", "What the flow level expects"),
    "speed": Column(
        pl.Float64, "", "Measured by expected speed, divided by that of most pairs: 1 is healthy"
    ),
    "explained": Column(pl.Float64, "", "This speed according to the suspects"),
}
#: Operations whose figure is that of one direction; all others use both.
_ONE_WAY = ("bandwidth",)
#: Size of messages whose rates stand for a bandwidth that comes without size.
_LARGE_BYTES = 2**26
#: Share of the expected bandwidth of most pairs below which the expectation is doubted.
_DOUBTFUL = 0.7


@dataclass(frozen=True)
class Suspect:
    """A slow part, with all that the figures cannot tell apart from it."""

    #: Names of the part: ``machine n3``, ``adapter n3 mlx5_0``, ``cable leaf1[4] - spine2[1]``,
    #: ``rail 2``. Several if each pair has either all of them on its path or none.
    names: tuple[str, ...]
    #: Further parts that explain the figures nearly as well.
    perhaps: tuple[str, ...]
    #: Bandwidth by the healthy one, or latency added (ns), with 95 % interval.
    value: float
    interval: tuple[float, float]
    #: Number of figures that show it, and probability that chance does.
    figures: int
    chance: float

    def __str__(self) -> str:
        return " or ".join(self.names)


@dataclass(frozen=True, eq=False)
class Pairwise:
    """What pairwise runs say about the parts of a fabric."""

    fabric: Fabric
    #: Whether the figures are times; otherwise they are bandwidths.
    is_latency: bool
    #: One row for each figure; see `PAIR_COLUMNS`.
    pairs: pl.DataFrame
    #: Slow parts, the one that explains most first.
    suspects: tuple[Suspect, ...]
    #: Measured by expected speed of most pairs, and relative standard deviation of a figure.
    typical: float
    noise: float
    #: Names of cables between switches that no figure crosses.
    untested: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """What the figures say, in one paragraph."""
        what = "latency" if self.is_latency else "bandwidth"
        said = [
            f"Most pairs reach {self.typical:.1%} of the expected speed ({what}), with a noise of "
            f"{self.noise:.1%} a figure."
        ]
        if not self.is_latency and self.typical < _DOUBTFUL:
            said.append("So check the expectation: the rate of the adapters, or how many are used.")
        for suspect in self.suspects:
            low, high = suspect.interval
            effect = (
                f"adds {suspect.value:,.0f} ns ({low:,.0f} to {high:,.0f})"
                if self.is_latency
                else f"gives {suspect.value:.0%} ({low:.0%} to {high:.0%}) of its bandwidth"
            )
            said.append(f"Slow: {suspect} {effect}, as {suspect.figures} figures show.")
            if len(suspect.names) > 1:
                said.append(
                    "These are on the path of the same pairs, so the figures cannot say which."
                )
            if suspect.figures == 1:
                said.append("One figure alone shows it: repeat the measurement.")
            if suspect.perhaps:
                said.append(f"Nearly as likely: {few(suspect.perhaps)}.")
        if not self.suspects:
            said.append("No machine, adapter or cable stands out.")
        if self.untested:
            said.append(
                f"No pair crosses {len(self.untested):,} cables between switches, such as "
                f"{self.untested[0]}: nothing is known of them."
            )
        return " ".join(said)


class _Flows(NamedTuple):
    """Flows of figures: a figure has one for each pair of adapters and direction."""

    figure: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]


class _Paths(NamedTuple):
    """Links of flows, and what the flow level expects."""

    #: int64, int64 and float64 [entries]: flow, link, and share of the flow on the link.
    flow: NDArray[np.int64]
    link: NDArray[np.int64]
    share: NDArray[np.float64]
    #: float64 [flows]: rate in bytes per ns, or time in ns.
    expected: NDArray[np.float64]


def pairwise(fabric: Fabric, routes: Routes, runs: pl.DataFrame, **options: Any) -> Pairwise:
    """Find what is slow from one figure for each pair of machines.

    A bandwidth is that of the slowest part of a path, and latencies of parts add up. A figure by
    machines with several adapters is taken as divided equally among these, in order; a latency, as
    that of the first ones.

    Parameters
    ----------
    fabric, routes
        The fabric as planned, and its routes.
    runs
        Measurements of one operation and size: columns `from_machine`, `to_machine` (machines or
        adapters), `operation`, `size_bytes`, `gbps` or `time_ns`. Figures with equal values in a
        column `round` were measured at once; without it, each pair alone.
    **options
        Settings of the flow level.

    Raises
    ------
    InputError
        If there are fewer than three pairs, the fabric lacks a machine, a pair is one machine, or
        a figure is not positive.
    """
    runs = runs.filter(pl.col("from_machine") != "")
    is_latency = bool(runs["gbps"].fill_nan(None).null_count() == len(runs))
    value = runs["time_ns" if is_latency else "gbps"].cast(pl.Float64).to_numpy()
    if len(runs) < 3:
        raise InputError(f"pairwise runs need at least three pairs of machines, not {len(runs)}")
    wrong = np.flatnonzero(~(value > 0) | ~np.isfinite(value))
    if len(wrong):
        raise InputError(
            f"{_place(runs, wrong[0])}expected a figure above 0, not {value[wrong[0]]}"
        )
    flows = _flows(fabric, runs, is_latency)
    paths = (_latencies if is_latency else _rates)(fabric, routes, runs, flows, options)
    count = len(runs)
    expected = np.zeros(count)
    if is_latency:
        one_way = np.bincount(flows.figure, minlength=count)
        expected = np.bincount(flows.figure, paths.expected, minlength=count) / one_way
        ratio = value / expected
        typical = np.exp(baseline(np.log(ratio))[0])
        shortfall = ratio / typical - 1
    else:
        slowest = np.full(count, np.inf)
        np.minimum.at(slowest, flows.figure, paths.expected)
        expected = 8 * slowest * np.bincount(flows.figure, minlength=count) / _directions(runs)
        short = np.log(expected / value)
        typical = np.exp(baseline(short)[0])
        shortfall = short - np.log(typical)
    parts, names, scale_ns = _parts(fabric, flows, paths, _rounds(runs), expected, is_latency)
    found, noise = slow_parts(parts, shortfall)
    explained = parts.explained(
        [part.column for part in found], np.array([p.effect for p in found])
    )
    slower = 1 + (shortfall if is_latency else np.expm1(shortfall))
    table = frame(
        PAIR_COLUMNS,
        {
            **{name: runs[name] for name in ("from_machine", "to_machine", "size_bytes")},
            **{name: runs[name].fill_nan(None) for name in ("gbps", "time_ns")},
            "expected": expected,
            "speed": 1 / slower,
            "explained": 1 / (1 + explained) if is_latency else np.exp(-explained),
        },
    )
    between = np.flatnonzero(fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
    untested = np.setdiff1d(between, paths.link >> 1)
    return Pairwise(
        fabric, is_latency, table,
        tuple(_suspect(part, names, count, scale_ns * typical) for part in found),
        float(1 / typical), noise, tuple(_cable(fabric, cable) for cable in untested.tolist()),
    )  # fmt: skip


def _place(runs: pl.DataFrame, row: int) -> str:
    """Return file and line of a figure, if they are known."""
    if not {"source", "line"} <= set(runs.columns):
        return f"pair {row + 1}: "
    return f"{runs['source'][row]}:{runs['line'][row]}: "


def _directions(runs: pl.DataFrame) -> int:
    return 1 if runs["operation"][0] in _ONE_WAY else 2


def _rounds(runs: pl.DataFrame) -> NDArray[np.int64]:
    """Return the number of the round of each figure; each figure has its own without rounds."""
    if "round" not in runs.columns:
        return np.arange(len(runs))
    return np.unique(runs["round"].to_numpy(), return_inverse=True)[1].astype(np.int64)


def _flows(fabric: Fabric, runs: pl.DataFrame, is_latency: bool) -> _Flows:
    """Return the flows of each figure."""
    number = {name: [host] for host, name in enumerate(fabric.host_names)}
    number |= {name: list(hosts) for name, hosts in fabric.machines.items()}
    figure, source, target = [], [], []
    for row, ends in enumerate(zip(runs["from_machine"], runs["to_machine"], strict=True)):
        for name in ends:
            if name not in number:
                raise InputError(
                    f"{_place(runs, row)}{fabric.name} has no machine or adapter {name!r}"
                    f"{did_you_mean(name, number)}"
                )
        a, b = (number[name] for name in ends)
        if fabric.machine_of_host[a[0]] == fabric.machine_of_host[b[0]]:
            raise InputError(f"{_place(runs, row)}{ends[0]} and {ends[1]} are one machine")
        for one, other in list(zip(a, b, strict=False))[: 1 if is_latency else None]:
            both = [(one, other), (other, one)][: _directions(runs)]
            for sender, receiver in both:
                figure.append(row)
                source.append(sender)
                target.append(receiver)
    return _Flows(*(np.array(values, dtype=np.int64) for values in (figure, source, target)))


def _entries(network: Any, route: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
    """Return flow, link and share of each link of the routes of flows."""
    begin, end = network.route_offset[route], network.route_offset[route + 1]
    flow = np.repeat(np.arange(len(route)), end - begin)
    at = np.arange(len(flow)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
    at += np.repeat(begin, end - begin)
    share = network.route_share[at] if len(network.route_share) else np.ones(len(at))
    return flow, network.route_link[at].astype(np.int64), share


def _rates(
    fabric: Fabric, routes: Routes, runs: pl.DataFrame, flows: _Flows, options: Mapping[str, Any]
) -> _Paths:
    """Return the paths of flows and their rates, those of a round at once."""
    alone = "round" not in runs.columns
    count = len(flows.figure)
    builder = WorkloadBuilder(2 * count, name="pairwise runs")
    size = np.maximum(runs["size_bytes"].to_numpy()[flows.figure], _LARGE_BYTES)
    release = np.zeros(count)
    if not alone:
        # A round begins when the slowest possible one before it has ended.
        slowest = fabric.link_rate_gbps.min() / 8
        release = _rounds(runs)[flows.figure] * (2.0 * size.max() * count / slowest)
    builder.put(np.arange(count), np.arange(count) + count, size, release_ns=release)
    result = simulate(
        fabric, routes, builder.build(), np.concatenate((flows.source, flows.target)),
        **{**options, **({"sharing": "none"} if alone else {})},
    )  # fmt: skip
    route = result.route[:count]
    took = result.arrived_ns[:count] - result.left_ns[:count]
    rate = size / (took - result.network.route_latency_ns[route])
    return _Paths(*_entries(result.network, route), rate)


def _latencies(
    fabric: Fabric, routes: Routes, runs: pl.DataFrame, flows: _Flows, options: Mapping[str, Any]
) -> _Paths:
    """Return the paths of flows and the time of each message, each alone."""
    count = len(flows.figure)
    builder = WorkloadBuilder(2 * count, name="pairwise runs")
    size = runs["size_bytes"].to_numpy()[flows.figure]
    sends, receives = np.arange(count), np.arange(count) + count
    builder.send(sends, receives, size)
    builder.recv(receives, sends, size)
    result = simulate(
        fabric, routes, builder.build(), np.concatenate((flows.source, flows.target)),
        **{**options, "sharing": "none"},
    )  # fmt: skip
    took = result.ended_ns[count:] - result.posted_ns[:count]
    return _Paths(*_entries(result.network, result.route[:count]), took)


def _parts(
    fabric: Fabric,
    flows: _Flows,
    paths: _Paths,
    rounds: NDArray[np.int64],
    expected: NDArray[np.float64],
    is_latency: bool,
) -> tuple[Parts, list[tuple[str, ...]], float]:
    """Return the parts on the path of each figure, their names, and ns per unit of a latency.

    Parts that are on the same paths become one with several names. A part on all paths is left
    out: it is in the speed of most pairs.
    """
    figure = flows.figure[paths.flow]
    if is_latency:
        scale_ns = float(np.median(expected))
        weight = paths.share * scale_ns / expected[figure]
        weight /= np.bincount(flows.figure, minlength=len(expected))[figure]
    else:
        scale_ns = 0.0
        load = paths.share * paths.expected[paths.flow]
        _, at = np.unique(rounds[figure] * fabric.num_links + paths.link, return_inverse=True)
        total = np.bincount(at, load)[at]
        weight = np.maximum(np.log(fabric.link_rate_gbps[paths.link] / 8 / total), 0.0)
    hosts, cables = fabric.num_hosts, fabric.num_cables
    machine = np.unique(fabric.machine_of_host, return_inverse=True)[1]
    machines = int(machine.max()) + 1
    # Ends of a flow: the links at its adapters, of which each adapter is a part.
    node = np.concatenate((fabric.link_from[paths.link], fabric.link_to[paths.link]))
    host = node - fabric.num_switches
    ends = np.flatnonzero((host >= 0) & (host < hosts))
    entry = ends % len(paths.link)
    host = host[ends]
    columns, entries = [paths.link >> 1, cables + host], [np.arange(len(paths.link)), entry]
    if machines < hosts:
        columns += [
            cables + hosts + machine[host],
            cables + hosts + machines + fabric.ordinal_of_host[host],
        ]
        entries += [entry, entry]
    column, entry = np.concatenate(columns), np.concatenate(entries)
    key = column * len(expected) + figure[entry]
    order = np.argsort(key, kind="stable")
    key, first = np.unique(key[order], return_index=True)
    weight = weight[entry[order]]
    combine = np.add if is_latency else np.minimum
    weight = combine.reduceat(weight, first) if len(first) else weight
    column, figure = np.divmod(key, len(expected))
    kinds: dict[bytes, list[int]] = {}
    begin = np.searchsorted(column, np.arange(column.max() + 2))
    for number in np.unique(column).tolist():
        part = slice(begin[number], begin[number + 1])
        if len(np.unique(figure[part])) == len(expected):
            continue
        content = figure[part].tobytes() + np.round(weight[part], 6).tobytes()
        kinds.setdefault(content, []).append(number)
    names: list[tuple[str, ...]] = []
    chosen = []
    for numbers in kinds.values():
        chosen.append(numbers[0])
        names.append(tuple(_name(fabric, number, machines) for number in reversed(numbers)))
    pieces = [slice(begin[number], begin[number + 1]) for number in chosen]
    return (
        Parts(
            figure=np.concatenate([figure[piece] for piece in pieces] or [figure[:0]]),
            column=np.repeat(
                np.arange(len(pieces)), [piece.stop - piece.start for piece in pieces]
            ),
            weight=np.concatenate([weight[piece] for piece in pieces] or [weight[:0]]),
            figures=len(expected),
            columns=len(pieces),
            combination="sum" if is_latency else "slowest",
        ),
        names,
        scale_ns,
    )


def _name(fabric: Fabric, number: int, machines: int) -> str:
    """Return the name of a part: cables, then adapters, machines and rails."""
    if number < fabric.num_cables:
        return f"cable {_cable(fabric, number)}"
    number -= fabric.num_cables
    if number < fabric.num_hosts:
        several = fabric.adapters_of_host[number] > 1
        return f"{'adapter' if several else 'machine'} {fabric.host_names[number]}"
    number -= fabric.num_hosts
    if number < machines:
        first = np.unique(fabric.machine_of_host)[number]
        return f"machine {fabric.machine_names[first - fabric.num_switches]}"
    return f"rail {number - machines}"


def _cable(fabric: Fabric, cable: int) -> str:
    """Return the name of a cable: the ports at its ends."""
    return " - ".join(
        f"{fabric.node_names[node]}[{port}]"
        for node, port in (
            (fabric.link_from[2 * cable], fabric.link_from_port[2 * cable]),
            (fabric.link_to[2 * cable], fabric.link_to_port[2 * cable]),
        )
    )


def _suspect(
    part: SlowPart, names: Sequence[tuple[str, ...]], figures: int, scale_ns: float
) -> Suspect:
    """Return a slow part with its names and its effect as people say it."""
    margin = part.error * float(student_t(max(figures - 2, 1)))
    low, high = max(part.effect - margin, 0.0), part.effect + margin
    if scale_ns:
        value, interval = part.effect * scale_ns, (low * scale_ns, high * scale_ns)
    else:
        value, interval = float(np.exp(-part.effect)), (float(np.exp(-high)), float(np.exp(-low)))
    perhaps = tuple(" or ".join(names[other]) for other in part.others)
    return Suspect(names[part.column], perhaps, value, interval, part.figures, part.chance)
