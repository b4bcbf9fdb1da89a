"""BookSim's configuration as fabric, routing, routers and traffic of the flit level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core.errors import InputError, WeftError, source_name
from weft.core.files import read_text
from weft.sim.flit.booksim.grammar import call, items, parse
from weft.sim.flit.booksim.keys import DEFAULTS
from weft.sim.flit.booksim.run import BookSimRun, Channels
from weft.sim.flit.booksim.values import Values
from weft.sim.flit.router import MOST_PORTS, Allocator, Arbiter, Router
from weft.sim.flit.traffic import Load
from weft.workload.patterns import traffic

#: Largest number of nodes, that of fabrics.
MOST_NODES = 20_000_000
#: Flits of an output queue that stands for one without limit.
OUTPUT_QUEUE = 16


@dataclass(frozen=True)
class Function:
    """A routing function of BookSim as one of weft."""

    #: Name of the routing by coordinates, or of the engine of routes.
    routing: str
    #: Policy of the engine's routes; None for a routing by coordinates.
    policy: str | None = None
    #: Whether it is the same algorithm, and not just a similar one.
    same: bool = True
    #: How they differ.
    difference: str = ""
    #: Virtual channels that BookSim needs, and those that weft has instead of `num_vcs`; 0 for any
    #: number.
    least: int = 0
    lanes: int = 0


#: For each topology: routing functions that have a counterpart.
ROUTINGS: dict[str, dict[str, Function]] = {
    "mesh": {
        "dor": Function("dor"),
        "dim_order": Function("dor"),
        "valiant": Function("valiant"),
        "min_adapt": Function(
            "adaptive", same=False,
            difference="BookSim bids for all ports of shortest paths at once, and compares no "
            "loads",
        ),
    },
    "torus": {
        "dim_order": Function(
            "dor",
            difference="in BookSim a packet has one half of the virtual channels on the whole of a "
            "ring, by whether it will cross the end of the ring",
        ),
        "dim_order_bal": Function(
            "dor",
            difference="in BookSim a packet that will cross the end of a ring has the second half "
            "of the virtual channels from the start",
        ),
        "valiant": Function("valiant"),
        "min_adapt": Function(
            "adaptive", same=False,
            difference="BookSim uses virtual channels 0, 1 and 3 only, and compares no loads",
        ),
    },
    "fattree": {
        "nca": Function("nca-random"),
        "anca": Function(
            "nca-adaptive", same=False,
            difference="BookSim compares two random ports, weft all that lead up",
        ),
    },
    "flatfly": {
        "ran_min": Function("dor"),
        "valiant": Function(
            "valiant",
            difference="in BookSim a packet that passes its destination on the way to the random "
            "router ends",
        ),
        "ugal": Function(
            "ugal", "ugal:threshold=2", same=False,
            difference="the rule is the same, but BookSim draws intermediate routers in another "
            "way",
        ),
    },
    "dragonflynew": {
        "min": Function(
            "ugal", "ecmp", least=2, lanes=3,
            difference="packets use two virtual channels on their way in BookSim and in weft, "
            "which has a third one that only endpoints use",
        ),
        "ugal": Function(
            "ugal", "ugal:threshold=90", same=False, least=3, lanes=3,
            difference="BookSim compares loads q <= 2 q' + 30; the rule of weft is the same for "
            "paths of 3 and of 6 links, and it draws groups, not nodes",
        ),
    },
}  # fmt: skip
#: Further topologies of BookSim, and routing functions of these and of the others.
OTHER_ROUTINGS: dict[str, tuple[str, ...]] = {
    "mesh": (
        "xy_yx", "adaptive_xy_yx", "romm", "romm_ni", "planar_adapt", "dim_order_ni",
        "dim_order_pni", "chaos",
    ),
    "torus": ("dim_order_ni", "valiant_ni", "chaos"),
    "flatfly": ("xyyx", "adaptive_xyyx", "ugal_xyyx", "ugal_pni"),
    "cmesh": (), "fly": (), "qtree": (), "tree4": (), "anynet": (),
}  # fmt: skip

ALLOCATORS: dict[str, Allocator] = {
    "islip": "islip",
    "separable_input_first": "input-first",
    "separable_output_first": "output-first",
}
ARBITERS: dict[str, Arbiter] = {"round_robin": "round-robin", "matrix": "least-recent"}
OTHER_ALLOCATORS = ("max_size", "pim", "loa", "wavefront", "rr_wavefront", "select")

PATTERNS = {
    "uniform": "uniform", "bitcomp": "complement", "transpose": "transpose",
    "bitrev": "bit-reversal", "shuffle": "shuffle", "tornado": "tornado", "neighbor": "neighbour",
    "randperm": "random-permutation", "hotspot": "hot-spot",
}  # fmt: skip


def read_booksim(
    path: str | Path, changes: Iterable[str] = (), *, lenient: bool = False
) -> BookSimRun:
    """Read a configuration file of BookSim 2.

    Keys without influence on the results are passed over. Every other key or value that is unknown
    or has no counterpart is named in one error. `BookSimRun.notes` states what differs in detail.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    changes
        Assignments after those of the file, as on BookSim's command line: ``injection_rate=0.2``.
    lenient
        Use similar values for those without a counterpart, or leave them out, and say so in the
        notes. Topology, routing function and traffic must have a counterpart in any case.

    Raises
    ------
    InputError
        If the file is not in BookSim's grammar, or has keys or values without a counterpart.
    """
    if isinstance(changes, str):
        changes = (changes,)
    file = source_name(path)
    given = [*parse(read_text(path), file)]
    for change in changes:
        given += parse(f"{change};", f"change {change!r}", numbered=False)
    values = Values(given, lenient=lenient)
    values.fixed()
    fabric, nodes, channels = _topology(values)
    function = _function(values) if fabric else Function("")
    load = _load(values)
    pattern = _pattern(values, nodes)
    router = _router(values, load)
    router["lanes"] = function.lanes or router["lanes"]
    _simulation(values, load)
    values.check(file)
    try:
        made = Load(**load, pattern=pattern)
        routers = Router(**router)
    except InputError as error:
        raise InputError(f"gives settings that weft refuses: {error.message}", file=file) from None
    notes, replaced = (tuple(dict.fromkeys(each)) for each in (values.notes, values.replaced))
    return BookSimRun(
        file, fabric, function.routing, routers, made, channels, notes, function.policy, replaced
    )


# -- network ---------------------------------------------------------------------------------------


def _topology(values: Values) -> tuple[str, int, Channels]:
    """Return the spec of the fabric, the number of nodes, and the channels."""
    nothing = "", 0, Channels()
    name, k, n = values.text("topology"), values.whole("k"), values.whole("n")
    if name not in ROUTINGS:
        known = ", ".join(ROUTINGS)
        lacks = f"weft does not read {name}; " if name in OTHER_ROUTINGS else ""
        values.refuse("topology", f"{lacks}expected one of {known}")
        return nothing
    if name == "torus" and k < 3:
        values.refuse("k", "expected 3 or more: rings of two have two cables in BookSim only")
        return nothing
    if k < 2 - (name == "dragonflynew"):
        values.refuse("k", "expected 2 or more")
        return nothing
    nodes = 2 * k * k * (2 * k * k + 1) if name == "dragonflynew" else k ** min(max(n, 1), 64)
    if n < 1 or nodes > MOST_NODES or (name == "dragonflynew" and n > 1):
        most = "1" if name == "dragonflynew" else f"at most {MOST_NODES:,} nodes"
        values.refuse("n", f"expected a number of 1 or more and {most}")
        return nothing
    if name == "dragonflynew":
        return f"dragonfly:p={k},a={2 * k},h={k}", nodes, Channels((1,), 10, groups=100)
    if name == "fattree":
        return f"kary-n-tree:k={k},n={n}", nodes, Channels()
    by_plan = values.whole("use_noc_latency") == 1
    if name == "flatfly":
        return _flattened_butterfly(values, k, n, by_plan)
    spec = f"{name}:{'x'.join([str(k)] * n)}"
    return spec, nodes, Channels((1,), 2 if by_plan and name == "torus" else 1)


def _flattened_butterfly(
    values: Values, k: int, n: int, by_plan: bool
) -> tuple[str, int, Channels]:
    c, x, xr = values.whole("c"), values.within("x", 1), values.within("xr", 1)
    for key, equal in (("y", x), ("yr", xr)):
        if values.whole(key) != equal:
            values.refuse(key, f"BookSim wants the same value for {key.replace('y', 'x')}")
    if c != xr * xr:
        values.refuse("c", "BookSim wants c = xr yr nodes on a router")
    if n > 4:
        values.refuse("n", "BookSim has at most 4 dimensions")
    spec = f"flattened-butterfly:k={k},n={n + 1},hosts={c}"
    channels = Channels(_host_channels(xr), plan=(x, xr, xr)) if by_plan else Channels()
    return spec, c * k**n, channels


def _host_channels(side: int) -> tuple[int, ...]:
    """Return the latencies of the nodes of a router, which lie in a square around it."""
    low, high = -(side // 2), side // 2
    across = along = low
    found = []
    for _ in range(side * side):
        if side % 2 == 0:
            along, across = along or 1, across or 1
        found.append(1 + max(abs(along) - 1, 0) + max(abs(across) - 1, 0))
        along += 1
        if along > high:
            along, across = low, across + 1
    return tuple(found)


def _function(values: Values) -> Function:
    """Return the routing function."""
    topology, name = values.text("topology"), values.text("routing_function")
    known = ROUTINGS[topology]
    if name not in known:
        lacks = f"weft has no {name}; " if name in OTHER_ROUTINGS.get(topology, ()) else ""
        values.refuse(
            "routing_function", f"{lacks}expected one of {', '.join(known)} for {topology}"
        )
        return Function("")
    ours = known[name]
    if not ours.same:
        policy = "" if ours.policy is None else f" with policy {ours.policy}"
        values.lack("routing_function", ours.difference, f"{ours.routing}{policy} instead")
    elif ours.difference:
        values.note("routing_function", ours.difference)
    lanes = values.whole("num_vcs")
    if lanes < ours.least:
        values.refuse("num_vcs", f"{name} of {topology} needs {ours.least}")
    elif ours.lanes and lanes != ours.lanes:
        values.note("num_vcs", f"{ours.lanes} in weft, for {name}")
    return ours


# -- traffic ---------------------------------------------------------------------------------------


def _load(values: Values) -> dict[str, Any]:
    """Return rate, sizes and size of replies."""
    if values.flag("use_read_write"):
        sizes, reply, mean = _messages(values)
    else:
        sizes, reply = _packets(values), 0
        mean = _mean(sizes)
    rate = values.real("injection_rate")
    if values.flag("injection_rate_uses_flits"):
        rate /= mean
    if not 0 < rate <= 1:
        values.refuse("injection_rate", "expected more than 0, and at most a packet in a cycle")
        rate = 1.0
    rate *= _mean(sizes)
    if rate > 1:
        values.lack(
            "injection_rate", f"{rate:g} flits in a cycle; an endpoint generates one at most", "1"
        )
    return {"rate": min(rate, 1.0), "size": sizes, "reply": reply}


def _mean(sizes: tuple[tuple[int, float], ...]) -> float:
    return sum(size * share for size, share in sizes)


def _packets(values: Values) -> tuple[tuple[int, float], ...]:
    """Return the sizes of packets and their shares."""
    sizes, weights = values.numbers("packet_size"), values.numbers("packet_size_rate")
    if not sizes or min(sizes) < 1:
        values.refuse("packet_size", "expected sizes of 1 or more")
        sizes = [1]
    if not weights or min(weights) < 0:
        values.refuse("packet_size_rate", "expected weights of 0 or more")
        weights = [1]
    weights = (weights + weights[-1:] * len(sizes))[: len(sizes)]
    if not sum(weights):
        values.refuse("packet_size_rate", "expected a weight above 0")
        weights = [1] * len(sizes)
    total = sum(weights)
    pairs = zip(sizes, weights, strict=True)
    return tuple((size, weight / total) for size, weight in pairs if weight)


def _messages(values: Values) -> tuple[tuple[tuple[int, float], ...], int, float]:
    """Return sizes of requests, size of replies, and BookSim's mean size of a packet."""
    kinds = ("read", "write")
    requests = [values.within(f"{kind}_request_size", 1) for kind in kinds]
    replies = [values.within(f"{kind}_reply_size", 1) for kind in kinds]
    share = values.real("write_fraction")
    if not 0 <= share <= 1:
        values.refuse("write_fraction", "expected 0 to 1")
        share = 0.5
    shares = (1 - share, share)
    used = [kind for kind, part in zip(kinds, shares, strict=True) if part]
    if len({size for size, part in zip(replies, shares, strict=True) if part}) > 1:
        values.lack(
            "write_reply_size", "replies have one size here", f"{replies[0]} flits, as for reads"
        )
    lanes = values.whole("num_vcs")
    for kind in used:
        for what, first in (("request", 0), ("reply", lanes // 2)):
            last = first + lanes // 2 - 1
            ends = {f"{kind}_{what}_begin_vc": first, f"{kind}_{what}_end_vc": last}
            for key, expected in ends.items():
                if values.whole(key) != expected:
                    values.lack(
                        key,
                        "requests have the first half of the virtual channels here, replies the "
                        "second",
                        f"{expected} instead",
                    )
    values.note(
        "use_read_write",
        "in BookSim a node with a reply to send generates no request in that cycle, and requests "
        "and replies share one source queue",
    )
    sizes = tuple((size, part) for size, part in zip(requests, shares, strict=True) if part)
    reply = replies[kinds.index(used[0])]
    return sizes, reply, (sum(requests) + sum(replies)) // 2


def _pattern(values: Values, nodes: int) -> str:
    """Return the traffic pattern, and note the nodes that send to themselves."""
    listed = values.text("traffic")
    parts = items(listed)
    if len(parts) > 1:
        values.note("traffic", "there is one class of traffic, so the first pattern counts")
    name, given = call(parts[0] if parts else listed)
    if name not in PATTERNS:
        values.refuse("traffic", f"expected one of {', '.join(PATTERNS)}")
        return "uniform"
    if not nodes:
        return "uniform"
    if name == "uniform":
        values.note(
            "traffic",
            f"1 in {nodes:,} packets is for the sending node in BookSim, none here",
        )
        return "uniform"
    if values.text("topology") == "flatfly" and values.whole("c") > 1:
        values.refuse(
            "traffic",
            "BookSim numbers the nodes of a flattened butterfly by their place on the floor plan, "
            "weft by router; expected uniform",
        )
        return "uniform"
    options = _options(values, name, given)
    pattern = PATTERNS[name] + (f":{options}" if options else "")
    try:
        flows = len(traffic(nodes, pattern))
    except WeftError as error:
        values.refuse("traffic", str(error))
        return "uniform"
    if flows < nodes:
        values.note(
            "traffic",
            f"{nodes - flows:,} of {nodes:,} nodes send to themselves in BookSim, nothing here",
        )
    return pattern


def _options(values: Values, name: str, given: list[str]) -> str:
    """Return the options of a pattern as text."""
    try:
        numbers = [int(text) for text in given]
    except ValueError:
        if name != "hotspot":
            values.refuse("traffic", "expected whole numbers as parameters")
        numbers = []
    if name in ("tornado", "neighbor"):
        own = [values.whole(key) for key in ("k", "n", "xr")]
        k, n, xr = (numbers + own[len(numbers) :])[:3]
        return f"dims={'x'.join([str(k * xr)] * min(max(n, 1), 64))}"
    if name == "randperm":
        seed = [*numbers, values.whole("perm_seed")][0]
        values.lack("traffic", "weft draws another permutation", "one with the same seed")
        return f"fixed_points=true,seed={max(seed, 0)}"
    if name == "hotspot":
        hot = items(given[0]) if given else []
        if len(hot) != 1 or not hot[0].isdecimal():
            values.refuse("traffic", "expected one hot node, as in hotspot({5})")
            return ""
        values.lack(
            "traffic", "in BookSim the hot node sends to itself", "it sends to some other node"
        )
        return f"fraction=1,hosts={hot[0]}"
    return ""


# -- routers ---------------------------------------------------------------------------------------


def _router(values: Values, load: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the routers."""
    lanes = values.within("num_vcs", 1)
    found: dict[str, Any] = {"lanes": lanes, "atomic": values.flag("wait_for_tail_credit")}
    found |= _buffers(values, lanes) | _delays(values) | _allocation(values)
    speedup = values.within("input_speedup", 1)
    if speedup > 1:
        values.note(
            "input_speedup",
            "BookSim ties each virtual channel to one input of the switch, weft does not",
        )
    found["input_speedup"] = min(speedup, lanes)
    _output(values, found)
    largest = max(load["reply"], *(size for size, _ in load["size"]))
    if values.flag("hold_switch_for_packet") and largest > 1:
        values.lack(
            "hold_switch_for_packet",
            "BookSim also gives the switch away when the buffer is empty or there is no credit",
            "hold_switch" if not found["output_buffer"] else "left out",
        )
        found["hold_switch"] = not found["output_buffer"]
    return found


def _buffers(values: Values, lanes: int) -> dict[str, int]:
    """Return the sizes of buffers."""
    policy, total = values.text("buffer_policy"), values.whole("buf_size")
    each = values.within("vc_buf_size", 1)
    if policy == "private":
        return {"buffer": total // lanes if total > 0 else each}
    if policy != "shared":
        values.lack("buffer_policy", "expected private or shared", f"private, {each} flits")
        return {"buffer": each}
    if total < 0:
        total = lanes * each
    if values.whole("private_bufs") not in (-1, lanes):
        values.lack("private_bufs", "each virtual channel has its own part here", str(lanes))
    each = values.whole("private_buf_size")
    each = total // lanes if each < 0 else each
    for key in ("private_buf_start_vc", "private_buf_end_vc"):
        if values.whole(key) != -1:
            values.lack(key, "each virtual channel has its own part here")
    if each < 1 or lanes * each > total:
        values.refuse("private_buf_size", f"expected 1 flit or more, and {total} in all at most")
        each = 1
    values.note(
        "buffer_policy", "in BookSim a packet under way keeps places that its channel has freed"
    )
    return {"buffer": each, "shared_buffer": max(total - lanes * each, 0)}


def _delays(values: Values) -> dict[str, Any]:
    """Return the delays, such that each flit takes as long as in BookSim.

    A flit arrives a cycle later in BookSim, whose channels have a register. This cycle is in
    `vc_delay`, or in `routing_delay` of speculative routers, so that it also passes between a tail
    and the next packet of the virtual channel, as in BookSim.
    """
    route, vc = values.within("routing_delay", 0), values.within("vc_alloc_delay", 1)
    switch = values.within("sw_alloc_delay", 1)
    cross = values.whole("st_prepare_delay") + values.whole("st_final_delay")
    if cross < 1:
        values.refuse("st_final_delay", "expected 1 or more together with st_prepare_delay")
    if switch > 1:
        values.lack(
            "sw_alloc_delay",
            "in BookSim a virtual channel sends a flit in each sw_alloc_delay cycles only",
            "a longer switch_delay",
        )
    speculative = values.flag("speculative")
    if vc > 1 and speculative:
        values.lack("vc_alloc_delay", "speculation saves all of it here", "saved")
    elif vc > 1:
        values.note("vc_alloc_delay", "in BookSim a failed allocation takes as long, here a cycle")
    found = {
        "routing_delay": route + speculative,
        "vc_delay": vc + (not speculative),
        "switch_delay": switch - 1 + max(cross, 1),
        "credit_delay": values.within("credit_delay", 0) + 1,
        "speculative": speculative,
    }
    stages = max(vc, switch, cross, route)
    if values.real("internal_speedup") == 2 and stages == 1 and not speculative:
        # Two steps of the router in a cycle: a stage of a cycle takes half of one.
        before, after = (route + 1) // 2 + 1, (route + 2) // 2 - (route + 1) // 2
        found |= {"routing_delay": 0, "vc_delay": before, "switch_delay": after}
    return found


def _output(values: Values, found: dict[str, Any]) -> None:
    """Add speed-up of outputs and their queues."""
    internal, output = values.real("internal_speedup"), values.within("output_speedup", 1)
    queue = values.whole("output_buffer_size")
    if queue != -1 and queue < 1:
        values.refuse("output_buffer_size", "expected 1 or more, or -1 for no limit")
    found["output_buffer"] = 0
    if internal == 1 and output == 1:
        return
    if internal < 1:
        values.refuse("internal_speedup", "expected 1 or more")
        return
    factor = max(round(internal), 1)
    queue = max(queue if queue > 0 else OUTPUT_QUEUE, factor * output)
    instead = f"output queues of {queue} flits for each virtual channel"
    if internal != 1:
        values.lack(
            "internal_speedup",
            "weft's routers take one step in a cycle",
            f"input_speedup and output_speedup of {factor}, and {instead}",
        )
    if output != 1:
        values.lack("output_speedup", "BookSim ties inputs to outputs of the switch", instead)
    found["input_speedup"] = min(factor * found["input_speedup"], found["lanes"])
    found["output_speedup"] = min(factor * output, MOST_PORTS)
    found["output_buffer"] = queue


def _allocation(values: Values) -> dict[str, Any]:
    """Return allocator, iterations and arbiter of the switch."""
    found: dict[str, Any] = {"allocator": "islip", "iterations": 1, "arbiter": "round-robin"}
    name, given = call(values.text("sw_allocator"))
    if name in OTHER_ALLOCATORS:
        values.lack("sw_allocator", f"expected one of {', '.join(ALLOCATORS)}", "islip instead")
    elif name not in ALLOCATORS:
        values.refuse("sw_allocator", f"expected one of {', '.join(ALLOCATORS)}")
    elif name == "islip":
        if given and not (given[0].isdecimal() and int(given[0])):
            values.refuse("sw_allocator", "expected a number of iterations, as in islip(2)")
        elif given:
            found["iterations"] = int(given[0])
    else:
        found["allocator"] = ALLOCATORS[name]
        arbiter = given[0] if given else "round_robin"
        if arbiter in ARBITERS:
            found["arbiter"] = ARBITERS[arbiter]
        else:
            values.lack(
                "sw_allocator", f"expected one of the arbiters {', '.join(ARBITERS)}", "round_robin"
            )
    lanes = call(values.text("vc_allocator"))[0]
    if lanes in (*ALLOCATORS, *OTHER_ALLOCATORS):
        values.note("vc_allocator", "weft gives virtual channels to ports in turn, one by one")
    else:
        values.lack("vc_allocator", "virtual channels are allocated before the switch")
    for key in ("alloc_iters", "arb_type"):
        if values.value(key) != DEFAULTS[key]:
            values.note(key, "BookSim's routers do not read it; it takes islip(2) or so")
    _priority(values, found, separable=name.startswith("separable") and lanes[:4] == "sepa")
    if values.flag("speculative"):
        _speculation(values, name)
    return found


def _priority(values: Values, found: dict[str, Any], *, separable: bool) -> None:
    """Let the oldest packet go first, if BookSim does."""
    priority = values.text("priority")
    if priority == "age":
        if separable:
            found["arbiter"] = "age"
            values.note("priority", "of equal ages, BookSim serves in turn, weft in order")
        else:
            values.lack(
                "priority", "only separable allocators obey it everywhere in BookSim", "none"
            )
    elif priority not in ("none", "class"):
        values.lack("priority", "expected none, class or age", "none")
    if priority != "none" and values.flag("vc_priority_donation"):
        values.lack("vc_priority_donation", "packets keep their priority")


def _speculation(values: Values, allocator: str) -> None:
    """Note how speculation differs."""
    masks = values.flag("spec_mask_by_reqs")
    checks = [values.flag(key) for key in ("spec_check_elig", "spec_check_cred")]
    if values.text("spec_sw_allocator") != "prio":
        values.lack("spec_sw_allocator", "expected prio", "prio")
        if masks:
            values.lack("spec_mask_by_reqs", "speculative grants yield to other grants")
    elif allocator == "islip":
        values.note(
            "speculative", "BookSim's islip lets speculative requests compete with the others"
        )
    if any(checks):
        values.note("speculative", "weft also bids if no virtual channel is free or has a credit")


# -- simulation ------------------------------------------------------------------------------------


def _simulation(values: Values, load: dict[str, Any]) -> None:
    """Add warm-up, measurement and seed to the settings of the load."""
    kind = values.text("sim_type")
    if kind == "throughput":
        values.note("sim_type", "weft also counts the latency of packets that arrive afterwards")
    elif kind != "latency":
        values.refuse("sim_type", "expected latency or throughput")
    period, most = values.within("sample_period", 1), values.within("max_samples", 1)
    before = values.whole("warmup_periods")
    if before < 1:
        values.lack("warmup_periods", "the warm-up has a fixed length", "3")
        before = int(DEFAULTS["warmup_periods"])
    if before >= most:
        values.refuse("max_samples", f"expected more than warmup_periods, {before}")
    load["warmup"], load["measure"] = before * period, max(most - before, 1) * period
    values.note(
        "max_samples",
        f"weft measures {load['measure']:,} cycles; BookSim may end earlier, by its thresholds",
    )
    seed = values.value("seed")
    if not isinstance(seed, int) or seed < 0:
        values.lack("seed", "expected a number of 0 or more", "0")
        seed = 0
    load["seed"] = seed
