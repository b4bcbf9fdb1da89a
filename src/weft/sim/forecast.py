"""Forecast of a run: what it has to do, and the time and memory that this takes, before it begins.

What a run has to do is counted from its workload and its routes. Each thing that is counted takes
time, of which it waits for memory in part, and bytes; ``costs.toml`` has both, as a benchmark has
measured them. How long one wait for memory takes on this machine, with as much data as the run has,
is measured when a run seems long.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import available_bytes, bytes_text, free_addresses
from weft.core.counts import count_text
from weft.core.pool import free_cores
from weft.fabrics import Fabric
from weft.kernels.memory_latency import chase
from weft.kernels.program.dag import depths
from weft.routing.routes import Routes
from weft.sim.common.programs import numbered, queue_pairs
from weft.sim.common.progress import TOLD_S, Forecast, rolled_note
from weft.sim.common.windows import OP_BYTES
from weft.sim.flit.workloads import cycles_of
from weft.sim.flow.engine import LAYING
from weft.sim.flow.network import lay_routes
from weft.sim.methods import CHOOSING
from weft.sim.options import Level, RunSettings
from weft.sim.static.loads import host_flows
from weft.workload import Kind, Workload

if TYPE_CHECKING:
    from weft.sim.packet.rolled import PacketWindows

#: Level -> levels that need less, the most detailed first.
COARSER: Mapping[Level, tuple[Level, ...]] = {
    "static": (), "flow": ("static",), "packet": ("flow", "static"), "flit": ("flow", "static"),
}  # fmt: skip
#: Pairs of hosts up to which each path is followed; of more, as many are.
MOST_PAIRS = 2**16
#: Memory below which no run is refused.
_SMALL_BYTES = 2**28
#: Steps and messages that are looked at to learn how messages share links.
_STEPS, _MOST_MESSAGES = 8, 2**14
#: Most other messages whose rate a message changes when it begins or ends, on average; by
#: measurement, more have no effect, since rates of most are limited elsewhere.
_MOST_CHANGES = 32
#: Loads of a measurement of the wait for memory, how often it is repeated (the shortest counts),
#: and the least and the largest size of its data.
_LOADS, _TIMES, _LEAST_DATA, _MOST_DATA = 20_000, 5, 2**14, 2**27


def forecast_of(
    chosen: RunSettings, level: Level, fabric: Fabric, routes: Routes | str, workload: Workload,
    hosts: NDArray[np.int32], windows: PacketWindows | None = None,
) -> Forecast:  # fmt: skip
    """Return the forecast of a run.

    `chosen`: its settings. `hosts` [ranks]: host of each rank. `windows`: those of a rolled
    workload, of which `workload` is the first.
    """
    counts = counted(chosen, level, fabric, routes, workload, hosts)
    needed, reserved = memory_of(level, counts)
    if windows is not None:
        counts, needed = _of_windows(counts, level, windows, _options(chosen, level, routes))
    known = costs()
    seconds = seconds_of(level, counts, known["machine"]["wait_ns"])
    if 2 * seconds > TOLD_S:
        seconds = seconds_of(level, counts, wait_ns(data_of(level, counts)))
    spread, most = known[level]["spread"], seconds * known[level]["spread"]
    # Threads share the time, at best evenly.
    threads = (chosen.threads or free_cores()) if level in ("packet", "flit") else 1
    may_skip = chosen.fast_forward or windows is not None
    least = 0.0 if may_skip else seconds / spread / threads
    note = "fast-forward may skip most of this time" if chosen.fast_forward else ""
    if windows is not None:  # refused when a window cannot grow
        note = rolled_note(counts["window"], counts["operations"])
        note += "; rounds that come again are skipped"
        return Forecast(level, counts, needed, least, most, "", note)
    addresses = free_addresses()
    free = available_bytes() if needed > _SMALL_BYTES else None
    shortage = ""
    if addresses is not None and reserved > addresses:  # a ulimit counts what is reserved
        shortage = _shortage(chosen, level, fabric, routes, counts, 1, addresses)
    elif free is not None and needed > free:
        shortage = _shortage(chosen, level, fabric, routes, counts, 0, free)
    return Forecast(level, counts, needed, least, most, shortage, note)


def _of_windows(
    counts: Mapping[str, float], level: Level, windows: PacketWindows, options: Mapping[str, Any]
) -> tuple[dict[str, float], int]:
    """Return the counts of a rolled workload, for those of its first window, and its memory.

    All messages are taken to be like those of the first window, but for their sizes.
    """
    piece, brief, work = windows.piece, windows.brief, windows.work
    most = windows.most(work.num_ops)
    packets = float(
        (windows.times * _units(level, brief.size_bytes[brief.messages], options)).sum()
    )
    share = packets / max(_units(level, piece.size_bytes[piece.messages], options).sum(), 1)
    laid = {**counts, "operations": most + brief.num_ops, "dependencies": 2 * most}
    whole = {name: counts[name] * share for name in ("units", "hops", "contended_hops")}
    whole |= {"operations": work.num_ops, "messages": work.num_messages, "window": most}
    return {**counts, **whole}, memory_of(level, laid)[0] + OP_BYTES * most


@cache
def costs() -> Mapping[str, Any]:
    """Return the costs of each level, and the machine on which they were measured."""
    return tomllib.loads((files("weft.sim") / "costs.toml").read_text(encoding="utf-8"))


def seconds_of(level: Level, counts: Mapping[str, float], wait_ns: float) -> float:
    """Return the time of a run; each cost is a time in ns and a number of waits for memory."""
    table: Mapping[str, tuple[float, float]] = costs()[level]["time"]
    return sum(counts[name] * (ns + waits * wait_ns) for name, (ns, waits) in table.items()) / 1e9


def memory_of(level: Level, counts: Mapping[str, float]) -> tuple[int, int]:
    """Return the bytes that a run uses, and those that it reserves."""
    arrays, copies, reserved = (
        sum(counts[name] * each for name, each in costs()[level].get(table, {}).items())
        for table in ("bytes", "copies", "reserved")
    )
    return int(arrays + copies), int(arrays + max(reserved, copies))


def data_of(level: Level, counts: Mapping[str, float]) -> int:
    """Return the bytes that a run reads and writes again and again, as a power of two."""
    data = sum(counts[name] * each for name, each in costs()[level]["data"].items())
    return min(max(1 << int(data).bit_length(), _LEAST_DATA), _MOST_DATA)


@cache
def wait_ns(data_bytes: int) -> float:
    """Measure how long a load from so much data takes on this machine if it is waited for."""
    lines = np.random.default_rng(1).permutation(data_bytes // 64) * 8
    following = np.zeros(data_bytes // 8, dtype=np.int64)
    following[lines] = np.roll(lines, -1)
    chase(following, 1)  # compiles
    best = np.inf
    for _ in range(_TIMES):
        began = time.perf_counter()
        chase(following, _LOADS)
        best = min(best, time.perf_counter() - began)
    return best * 1e9 / _LOADS


def _shortage(
    chosen: RunSettings, level: Level, fabric: Fabric, routes: Routes | str,
    counts: Mapping[str, float], which: int, free: int,
) -> str:  # fmt: skip
    """Return that a run does not fit into memory, and what does.

    `which`: 0 if the bytes in use are too many, 1 if the reserved ones are.
    """
    needed = memory_of(level, counts)[which]
    fits = []
    for other in COARSER[level] if isinstance(routes, Routes) and routes.settled else ():
        added = _parts(chosen, other, fabric, routes, counts)
        if (less := memory_of(other, {**counts, **added})[which]) <= free:
            fits.append(f"--level {other} ({bytes_text(less)})")
    of_fabric = {name: counts[name] * (name in OF_FABRIC) for name in counts}
    if (fixed := memory_of(level, of_fabric)[which]) < free:
        messages = counts["messages"]
        most = messages * (free - fixed) / (needed - fixed)
        fits.append(f"{most:,.0f} messages instead of {messages:,.0f}")
    return (
        f"the {level} level needs {bytes_text(needed)} of memory for "
        f"{count_text(int(counts['operations']), 'operation')} on "
        f"{count_text(fabric.num_links, 'link')}, and {bytes_text(free)} are free; what fits: "
        f"{', or '.join(fits) or 'a smaller fabric'}"
    )


# -- counts ----------------------------------------------------------------------------------------


def counted(
    chosen: RunSettings, level: Level, fabric: Fabric, routes: Routes | str, workload: Workload,
    hosts: NDArray[np.int32],
) -> dict[str, float]:  # fmt: skip
    """Count what a run has to do; docs/scaling.md explains the names.

    Packets, flits and their hops are exact for up to `MOST_PAIRS` pairs of hosts with fixed paths.
    """
    options = _options(chosen, level, routes)
    eager, handshake = options.get("eager_bytes", 0), options.get("handshake", False)
    queues = queue_pairs(fabric, workload, hosts, eager, handshake)
    kind, size = workload.kind[queues.ops], workload.size_bytes[queues.ops]
    sent = kind != Kind.RECV
    units = np.where(sent, _units(level, size, options), 0)
    answered = (kind == Kind.SEND) & (size > eager) & handshake
    control = options["hardware"].control_bytes if level in CHOOSING else 0
    units += (answered | ~sent) * _units(level, control, options)
    every = queues.source.astype(np.int64) * fabric.num_hosts + queues.target
    key, pair = numbered(every, fabric.num_hosts**2)
    weight = np.bincount(pair, weights=units, minlength=len(key))
    some = np.linspace(0, len(key) - 1, min(len(key), MOST_PAIRS)).astype(np.int64)
    links, _ = _paths(level, fabric, routes, key[some], options)
    hops = float(links @ weight[some])
    if len(some) < len(key):
        hops *= float(weight.sum() / weight[some].sum())
    depth = depths(workload.dep_offset, workload.dep)[queues.ops[sent]]
    under_way = np.bincount(depth)
    steps = np.flatnonzero(under_way)
    most = min(len(steps), max(min(_STEPS, _MOST_MESSAGES // max(under_way.max(initial=0), 1)), 1))
    steps = steps[np.linspace(0, len(steps) - 1, most).astype(np.int64)]
    used, shared, apart, looked = 0.0, 0.0, 0.0, 0
    for step in steps.tolist():
        mine = np.flatnonzero(depth == step)
        number = min(len(mine), _MOST_MESSAGES // len(steps))
        mine = mine[np.linspace(0, len(mine) - 1, number).astype(np.int64)]
        length, link = _paths(level, fabric, routes, every[sent][mine], options)
        if len(link):
            load = np.bincount(link) * (under_way[step] / number)
            busiest = np.maximum.reduceat(load[link], np.cumsum(length) - length)
            used += float((load > 0).sum()) * under_way[step] / number
            shared += float(busiest.sum())
            alike = np.unique(np.stack([busiest, length]), axis=1).shape[1] == 1
            apart += number * (not alike)
            looked += number
    total, sharing, uneven = float(units.sum()), shared / max(looked, 1), apart / max(looked, 1)
    counts: dict[str, float] = {
        "operations": workload.num_ops, "dependencies": len(workload.dep),
        "messages": int(sent.sum()), "host_pairs": len(key),
        "queues": len(queues.key) * queues.queues(options.get("rendezvous", "get")),
        "units": total, "hops": hops,
        "contended_hops": hops * (1 - 1 / max(sharing, 1)),
        "rate_changes": total * uneven * min(max(sharing, 1), _MOST_CHANGES),
        "solved_links": total * uneven * float(links.mean() if len(links) else 0),
        "path_links": len(key) * float(links.mean() if len(links) else 0),
        "longest": int(links.max(initial=1)),
        "at_once": min(int(under_way.max(initial=0)), len(queues.key)),
        "used_links": used / max(len(steps), 1),
    }  # fmt: skip
    return counts | _parts(chosen, level, fabric, routes, counts)


#: Counts of the fabric, which no workload changes.
OF_FABRIC = ("links", "lanes", "buffers", "places", "mail", "hosts", "histogram")


def _parts(
    chosen: RunSettings, level: Level, fabric: Fabric, routes: Any, counts: Mapping[str, float]
) -> dict[str, float]:
    """Count the parts of a fabric at a level, and of what messages occupy there."""
    options = _options(chosen, level, routes)
    links = fabric.num_links
    if level == "flow":
        slots, room = max(2 * counts["queues"], 128), 1 << int(counts["longest"] - 1).bit_length()
        split = options["multipath"] == "split" and not routes.settled
        return {
            "links": links, "slots": slots, "slot_links": slots * room,
            "once_links": counts["at_once"] * room, "split_links": split * counts["path_links"],
        }  # fmt: skip
    if level == "packet":
        hardware, ports = options["hardware"], np.diff(fabric.graph.row_base)
        links += 2 * int((fabric.graph.row_node >= fabric.num_switches).sum())
        into = fabric.graph.link_row[fabric.graph.link_row >= 0]
        queues = int(ports[into].sum()) if hardware.queues == "voq" else links
        return {"links": links, "lanes": links * routes.num_vls, "buffers": queues * routes.num_vls}
    if level == "static":
        return {"links": links}
    largest = int(_units("flit", options["hardware"].mtu_bytes, options))
    longest = int(cycles_of(fabric, options["flit_bytes"])[1].max(initial=1))
    router = options["router"].sized(largest, longest)
    lanes = links << (router.lanes - 1).bit_length()
    lag = max(router.switch_delay, router.credit_delay) + longest
    return {
        "links": links, "lanes": lanes, "hosts": fabric.num_hosts, "histogram": 1,
        "places": lanes * (router.buffer + router.shared_buffer + 2 * router.output_buffer),
        "mail": (links + fabric.num_hosts) << (lag + 1).bit_length(),
    }  # fmt: skip


def _units(level: Level, size: Any, options: Mapping[str, Any]) -> Any:
    """Return the packets, flits or (at other levels) messages of messages by size in bytes."""
    if level not in CHOOSING:
        return np.ones_like(size)
    hardware = options["hardware"]
    full, rest = np.divmod(size, hardware.mtu_bytes)
    last = (rest > 0) | (full == 0)
    if level == "packet":
        return full + last
    whole, part = (
        np.maximum(-(-(payload + hardware.header_bytes) // options["flit_bytes"]), 1)
        for payload in (hardware.mtu_bytes, rest)
    )
    return full * whole + last * part


def _paths(
    level: Level, fabric: Fabric, routes: Routes | str, key: NDArray[np.int64],
    options: Mapping[str, Any],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # fmt: skip
    """Return the number of links of paths between hosts, and the links if they are known.

    `key`: source host x number of hosts + destination host of each path. Where packets have a
    choice, the path is drawn at random.
    """
    graph = fabric.graph
    source, target = np.divmod(key, fabric.num_hosts)
    if isinstance(routes, str):  # a routing by coordinates, most of which take shortest paths
        first, last = (graph.destination_row[fabric.host_endpoint[end]] for end in (source, target))
        rows, at = np.unique(first, return_inverse=True)
        return graph.hops(rows)[at, last].astype(np.int64) + 2, np.zeros(0, dtype=np.int32)
    if level == "flow":
        network = lay_routes(
            fabric, routes, source, target, **{key: options[key] for key in LAYING}
        )
        return np.diff(network.route_offset), network.route_link
    flows = host_flows(fabric, source, target, ports=options["ports"], lmc=routes.lmc)
    seeds = np.arange(1, len(source) + 1, dtype=np.uint64)
    offset, link, about, about_link = routes.drawn_links(fabric, flows, seeds)
    links = np.diff(offset)
    if len(about):  # paths via an intermediate, where there is no direct one
        begin = np.where(links > 0, offset[:-1], len(link) + about[:-1])
        links = np.where(links > 0, links, np.diff(about))
        step = np.arange(links.sum()) - np.repeat(np.cumsum(links) - links, links)
        link = np.concatenate((link, about_link))[np.repeat(begin, links) + step]
    if level == "packet":  # a host that forwards has a link from its adapter, and one back
        inside = graph.destination_link < 0
        if inside[flows.sources].any() or inside[flows.destinations].any():
            return links + inside[flows.sources] + inside[flows.destinations], link[:0]
    return links, link


def _options(chosen: RunSettings, level: Level, routes: Any) -> dict[str, Any]:
    """Return the options of a level by name."""
    if level == "flow":
        return chosen.flow
    if level == "static":
        return {"ports": chosen.ports}
    return chosen.packet(routes) if level == "packet" else chosen.flit(routes)
