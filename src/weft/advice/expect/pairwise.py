"""Pairwise runs: one figure for each pair of machines, and which parts of the fabric are slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.expect.slow_parts import PathParts, baseline, slow_parts
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
    "from_machine": Column(pl.String, "", "Machine or adapter at one end"),
    "to_machine": Column(pl.String, "", "Machine or adapter at the other end"),
    "measured": Column(pl.Float64, "Gb/s or ns", "Measured bandwidth or time"),
    "expected": Column(pl.Float64, "Gb/s or ns", "What the flow level expects"),
    "speed": Column(pl.Float64, "", "Speed by the expected one, in units of that of most pairs"),
    "explained": Column(pl.Float64, "", "`speed` according to the suspects"),
}
#: Size of messages whose rates stand for a bandwidth.
_LARGE_BYTES = 2**26
#: Share of the expected bandwidth below which the expectation itself is doubted.
_DOUBTFUL = 0.7


@dataclass(frozen=True)
class Suspect:
    """A slow part, with all that the figures cannot tell apart from it."""

    #: ``machine n3``, ``adapter n3 mlx5_0``, ``cable leaf1[4] - spine2[1]`` or ``rail 2``. Several
    #: if each pair has either all of them on its path or none.
    names: tuple[str, ...]
    #: Further parts that explain the figures nearly as well.
    perhaps: tuple[str, ...]
    #: Its bandwidth by that of a healthy one, or the latency that it adds (ns); 95 % interval.
    value: float
    low: float
    high: float
    #: Number of figures that it slows, and probability of such a part on a healthy fabric.
    figures: int
    chance: float


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
    #: Speed of most pairs by the expected one, and relative standard deviation of a figure.
    typical: float
    noise: float
    #: float64 [links]: number of figures, or parts of them, that cross each link.
    crossings: NDArray[np.float64]
    #: Names of cables between switches that no figure crosses.
    untested: tuple[str, ...]

    def __str__(self) -> str:
        what = "latency" if self.is_latency else "bandwidth"
        said = [
            f"Most of {len(self.pairs):,} pairs reach {self.typical:.1%} of the expected speed "
            f"({what}); the noise of a figure is {self.noise:.1%}."
        ]
        if not self.is_latency and self.typical < _DOUBTFUL:
            said.append("Check the expectation: the rate of adapters, or how many a pair uses.")
        for each in self.suspects:
            effect = (
                f"adds {each.value:,.0f} ns ({each.low:,.0f} to {each.high:,.0f})"
                if self.is_latency
                else f"gives {each.value:.1%} of its bandwidth ({each.low:.1%} to {each.high:.1%})"
            )
            said.append(f"Slow: {' or '.join(each.names)} {effect}.")
            if len(each.names) > 1:
                said.append("The same pairs use them, so the figures cannot say which.")
            if each.perhaps:
                said.append(f"Nearly as likely: {few(each.perhaps)}.")
            if each.figures == 1:
                said.append("One figure alone shows this: repeat it.")
        if not self.suspects:
            said.append("No machine, adapter or cable stands out.")
        if self.untested:
            said.append(f"No pair uses {len(self.untested):,} cables: {few(self.untested)}.")
        return "\n".join(said)


class _Paths(NamedTuple):
    """Paths of flows: a figure has one for each pair of adapters and direction."""

    #: int64 [flows]: figure; float64 [flows]: rate in bytes per ns, or time in ns.
    figure: NDArray[np.int64]
    expected: NDArray[np.float64]
    #: int64, int64 and float64 [entries]: flow, link, and share of the flow on the link.
    flow: NDArray[np.int64]
    link: NDArray[np.int64]
    share: NDArray[np.float64]


def pairwise(fabric: Fabric, routes: Routes, runs: pl.DataFrame, **options: Any) -> Pairwise:
    """Find what is slow from one figure for each pair of machines.

    The bandwidth of a path is that of its slowest part; latencies of parts add up. A bandwidth
    between machines with several adapters is taken as divided equally among these, in order; a
    latency, as that of the first ones.

    Parameters
    ----------
    fabric, routes
        The fabric as planned, and its routes.
    runs
        Measurements of one operation and size: columns `from_machine`, `to_machine` (machines or
        adapters), `operation`, `size_bytes`, `gbps` or else `time_ns`, and `round`: figures of
        one round were measured at once, those without a round alone.
    **options
        Settings of the flow level.

    Raises
    ------
    InputError
        If there are fewer than three figures, one is not positive, a machine is not in the fabric,
        or a pair is one machine.
    """
    is_latency = runs["gbps"].fill_nan(None).null_count() == len(runs)
    measured = runs["time_ns" if is_latency else "gbps"].cast(pl.Float64).to_numpy()
    if len(runs) < 3:
        raise InputError(f"pairwise runs need at least three figures, not {len(runs)}")
    for row in np.flatnonzero(~(measured > 0) | ~np.isfinite(measured)).tolist():
        raise InputError(f"expected a figure above 0, not {measured[row]}", **_place(runs, row))
    paths = _paths(fabric, routes, runs, is_latency, options)
    flows = np.bincount(paths.figure)
    if is_latency:
        expected = np.bincount(paths.figure, paths.expected) / flows
        typical = float(np.exp(-baseline(np.log(measured / expected))[0]))
        # What is added to the time, in units of the noise, which grows with the time.
        shortfall = measured * typical / expected - 1
    else:
        slowest = np.full(len(runs), np.inf)
        np.minimum.at(slowest, paths.figure, paths.expected)
        expected = 8 * slowest * flows / _directions(runs)
        short = np.log(expected / measured)
        typical = float(np.exp(-baseline(short)[0]))
        shortfall = short + np.log(typical)
    parts, names = _parts(fabric, runs, paths, expected, is_latency)
    found, explained, noise = slow_parts(parts, shortfall)
    suspects = []
    for part in found:
        margin = part.error * float(student_t(max(len(runs) - 2, 1)))
        effects = part.effect, max(part.effect - margin, 0.0), part.effect + margin
        values = [effect / typical if is_latency else np.exp(-effect) for effect in effects]
        value, *interval = map(float, values)
        perhaps = tuple(" or ".join(names[other]) for other in part.others)
        suspects.append(
            Suspect(
                names[part.part], perhaps, value, min(interval), max(interval),
                part.figures, part.chance,
            )
        )  # fmt: skip
    table = {
        "from_machine": runs["from_machine"], "to_machine": runs["to_machine"],
        "measured": measured, "expected": expected,
        "speed": 1 / (1 + shortfall) if is_latency else np.exp(-shortfall),
        "explained": 1 / (1 + explained) if is_latency else np.exp(-explained),
    }  # fmt: skip
    between = np.flatnonzero(fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
    crossings = np.bincount(paths.link, paths.share, minlength=fabric.num_links)
    untested = between[crossings[2 * between] + crossings[2 * between + 1] == 0].tolist()
    return Pairwise(
        fabric, is_latency, frame(PAIR_COLUMNS, table), tuple(suspects), typical, noise,
        crossings.astype(np.float64),
        tuple(_cable(fabric, cable) for cable in untested),
    )  # fmt: skip


def _place(runs: pl.DataFrame, row: int) -> dict[str, Any]:
    """Return file and line of a figure, if they are known."""
    return (
        {"file": runs["source"][row], "line": runs["line"][row]} if "line" in runs.columns else {}
    )


def _directions(runs: pl.DataFrame) -> int:
    """Return in how many directions data flow: in one only if a bandwidth is measured."""
    return 1 if runs["operation"][0] == "bandwidth" else 2


def _rounds(runs: pl.DataFrame) -> NDArray[np.int64]:
    """Return the number of the round of each figure; a figure without one has its own."""
    numbers: dict[object, int] = {}
    keys = (name or row for row, name in enumerate(runs["round"]))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _paths(
    fabric: Fabric, routes: Routes, runs: pl.DataFrame, is_latency: bool, options: dict[str, Any]
) -> _Paths:
    """Return the paths of all figures, and what the flow level expects."""
    hosts_of = {name: [host] for host, name in enumerate(fabric.host_names)} | dict(fabric.machines)
    ends: list[tuple[int, int, int]] = []
    for row, (a, b) in enumerate(zip(runs["from_machine"], runs["to_machine"], strict=True)):
        for name in (a, b):
            if name not in hosts_of:
                hint = did_you_mean(name, hosts_of) or (
                    f"; its machines are {few([*hosts_of])}, which a table renames (--machines)"
                )
                text = f"{fabric.name} has no machine {name!r}{hint}"
                raise InputError(text, **_place(runs, row))
        pairs = list(zip(hosts_of[a], hosts_of[b], strict=False))[: 1 if is_latency else None]
        if fabric.machine_of_host[pairs[0][0]] == fabric.machine_of_host[pairs[0][1]]:
            raise InputError(f"{a} and {b} are one machine", **_place(runs, row))
        for one, other in pairs:
            ends += [(row, one, other), (row, other, one)][: _directions(runs)]
    figure, source, target = np.array(ends, dtype=np.int64).T
    alone = is_latency or not (runs["round"] != "").any()
    builder = WorkloadBuilder(2 * len(figure), name="pairwise runs")
    size = runs["size_bytes"].to_numpy()[figure]
    sends = np.arange(len(figure))
    if is_latency:
        builder.send(sends, sends + len(sends), size)
        builder.recv(sends + len(sends), sends, size)
    else:
        # A round begins when the slowest round possible before it has ended.
        size = np.maximum(size, _LARGE_BYTES)
        lasts_ns = 0 if alone else 16.0 * size.sum() / fabric.link_rate_gbps.min()
        release_ns = _rounds(runs)[figure] * lasts_ns
        builder.put(sends, sends + len(sends), size, release_ns=release_ns)
    if alone:
        options = {**options, "sharing": "none"}
    result = simulate(fabric, routes, builder.build(), np.append(source, target), **options)
    network, route = result.network, result.route[: len(sends)]
    links = np.diff(network.route_offset)[route]
    first = np.cumsum(links) - links
    at = np.arange(links.sum()) + np.repeat(network.route_offset[route] - first, links)
    if is_latency:
        expected = result.ended_ns[len(sends) :] - result.posted_ns[: len(sends)]
    else:
        took = result.arrived_ns - result.left_ns
        expected = size / (took[: len(sends)] - network.route_latency_ns[route])
    share = network.route_share[at] if len(network.route_share) else np.ones(len(at))
    link = network.route_link[at].astype(np.int64)
    return _Paths(figure, expected, np.repeat(sends, links), link, share)


def _parts(
    fabric: Fabric,
    runs: pl.DataFrame,
    paths: _Paths,
    expected: NDArray[np.float64],
    is_latency: bool,
) -> tuple[PathParts, list[tuple[str, ...]]]:
    """Return the parts on the path of each figure, and their names.

    Parts that are on the same paths become one with several names. A part on all paths is left
    out: it is in the speed of most pairs.
    """
    figure, link = paths.figure[paths.flow], paths.link
    if is_latency:
        weight = paths.share / expected[figure] / np.bincount(paths.figure)[figure]
    else:
        load = paths.share * paths.expected[paths.flow]
        _, at = np.unique(_rounds(runs)[figure] * fabric.num_links + link, return_inverse=True)
        headroom = fabric.link_rate_gbps[link] / 8 / np.bincount(at, load)[at]
        weight = np.maximum(np.log(headroom), 0.0)
    ends = np.append(fabric.link_from[link], fabric.link_to[link]).astype(np.int64)
    host = ends - fabric.num_switches
    is_host = (host >= 0) & (host < fabric.num_hosts)
    host, entry = host[is_host], np.flatnonzero(is_host) % len(link)
    # Numbers of cables, then of adapters, of machines and of rails.
    begin = np.cumsum((0, fabric.num_cables, fabric.num_hosts, fabric.num_nodes))
    column, of = [link >> 1, begin[1] + host], [np.arange(len(link)), entry]
    if len(fabric.machines) < fabric.num_hosts:
        column += [begin[2] + fabric.machine_of_host[host], begin[3] + fabric.ordinal_of_host[host]]
        of += [entry, entry]
    entry, number = np.concatenate(of), np.concatenate(column)
    key = number * len(runs) + figure[entry]
    order = np.argsort(key, kind="stable")
    key, first = np.unique(key[order], return_index=True)
    weight = (np.add if is_latency else np.minimum).reduceat(weight[entry[order]], first)
    number, figure = np.divmod(key, len(runs))
    same: dict[bytes, list[int]] = {}
    pieces: list[slice] = []
    starts = np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(number))
    for piece in map(slice, starts[:-1], starts[1:]):
        if piece.stop - piece.start == len(runs):
            continue
        content = figure[piece].tobytes() + (weight[piece] * expected.max()).round(6).tobytes()
        if content not in same:
            pieces.append(piece)
        same.setdefault(content, []).insert(0, int(number[piece.start]))
    at = np.concatenate([np.r_[piece] for piece in pieces]) if pieces else np.zeros(0, np.int64)
    part = np.repeat(np.arange(len(pieces)), [piece.stop - piece.start for piece in pieces])
    act: Any = "sum" if is_latency else "slowest"
    names = [tuple(_name(fabric, each, begin) for each in numbers) for numbers in same.values()]
    return PathParts(figure[at], part, weight[at], len(runs), len(pieces), act), names


def _name(fabric: Fabric, number: int, begin: NDArray[np.int64]) -> str:
    """Return the name of a part by its number; `begin`: first number of each kind."""
    kind = int(np.searchsorted(begin, number, side="right")) - 1
    number -= int(begin[kind])
    if kind == 0:
        return f"cable {_cable(fabric, number)}"
    if kind == 1:
        several = "adapter" if fabric.machine_model is None else "processor"
        kind_name = "machine" if fabric.adapters_of_host[number] == 1 else several
        return f"{kind_name} {fabric.host_names[number]}"
    if kind == 2:
        return f"machine {fabric.machine_names[number - fabric.num_switches]}"
    return f"rail {number}"


def _cable(fabric: Fabric, cable: int) -> str:
    """Return the name of a cable: the ports at its ends."""
    ends = (fabric.link_from, fabric.link_from_port), (fabric.link_to, fabric.link_to_port)
    return " - ".join(
        f"{fabric.node_names[node[2 * cable]]}[{port[2 * cable]}]" for node, port in ends
    )
