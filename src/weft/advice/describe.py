"""Description of a fabric as pairs of name and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from weft.advice.faults import Fault, fault_rows, faults
from weft.core.counts import count_text
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, rates_text
from weft.fabrics.rails import MachineKind, machine_facts, machine_kinds
from weft.fabrics.topology import closed_form
from weft.fabrics.topology.measures import bisection_upper_bound, hops
from weft.routing import route
from weft.routing.structure.fat_tree import find_fat_tree
from weft.sim.static.all_to_all import all_to_all_loads

#: Largest number of switches for which the bisection is searched; for more, this takes minutes.
MAX_SEARCH = 1500


def bisection_lower_bound(fabric: Fabric) -> int | None:
    """Return a lower bound on the number of cables between two equal halves of the hosts.

    If all-to-all traffic is split over all minimal paths, the most loaded link carries L flows. In
    each direction, (n/2)^2 flows cross any split of n hosts into halves. The split thus cuts at
    least (n/2)^2 / L cables.

    Returns None if some pair of hosts is not connected.
    """
    loads = all_to_all_loads(fabric, route(fabric, "ecmp"))
    if loads.unrouted or not loads.per_link.any():
        return None
    half = fabric.num_hosts // 2
    return int(np.ceil(half * (fabric.num_hosts - half) / loads.per_link.max() - 1e-9))


def describe(fabric: Fabric, found: Sequence[Fault] | None = None) -> list[tuple[str, str]]:
    """Return pairs of name and value that describe a fabric.

    `found`: its faults, if they are known already.
    """
    if fabric.machine_model is not None:
        (_, *rows), model = describe(fabric.subnet, found), fabric.machine_model
        called = {"hosts": "adapters", "machines": "cabling"}
        inside = [*machine_facts(fabric), ("machine model", model.summary)]
        return [("name", fabric.name), *inside, *((called.get(n, n), text) for n, text in rows)]
    ports = np.bincount(fabric.num_ports[: fabric.num_switches])
    rows = [
        ("name", fabric.name),
        ("hosts", f"{fabric.num_hosts:,}"),
        ("switches", f"{fabric.num_switches:,}"),
        (
            "switch ports",
            ", ".join(_switches(int(ports[p]), int(p)) for p in np.flatnonzero(ports)) or "none",
        ),
        ("cables", f"{fabric.num_cables:,}"),
        ("rates", rates_text(fabric)),
    ]
    rows[2:2] = _machine_rows(fabric.whole)
    others = fabric.whole.num_hosts - fabric.num_hosts
    if others:
        rows.append(("hosts that are not judged", f"{others:,}"))
    auxiliary = fabric.num_nodes - fabric.num_switches - fabric.num_hosts - others
    if auxiliary:
        rows.append(("auxiliary adapters", f"{auxiliary:,}"))
    alone = int((fabric.host_endpoint < 0).sum())
    if alone:
        rows.append(("hosts without a cable", f"{alone:,}"))
    if fabric.num_hosts > 1:
        span, mean = hops(fabric)
        rows.append(("diameter", "disconnected" if span is None else f"{span} links, host to host"))
        if mean is not None:
            rows.append(("mean distance", f"{mean:.3f} links, host to host"))
    rows.extend(_bisection_rows(fabric))
    try:
        tree = find_fat_tree(fabric.whole)
        form = "; ".join(",".join(map(str, values)) for values in (tree.m, tree.w, tree.p))
        rows.append(("recognised as", f"PGFT({len(tree.m)}; {form})"))
    except NotApplicable as error:
        rows.append(("complete fat tree", f"no: {error.reason}"))
    rows.extend(fault_rows(faults(fabric) if found is None else found))
    return rows


def _machine_rows(fabric: Fabric) -> list[tuple[str, str]]:
    """Return rows on machines and roles, if there are machines with several adapters, or roles."""
    if len(fabric.machines) == fabric.num_hosts and not fabric.assigned:
        return []
    kinds = {name: kind for kind in machine_kinds(fabric) for name in kind.machines}
    lines = Counter(
        _kind_text(kinds[name]) if name in kinds else f"of {count_text(len(hosts), 'adapter')}"
        for name, hosts in fabric.machines.items()
    )
    text = [f"{count_text(count, 'machine')} {line}" for line, count in lines.most_common()]
    for name, device in zip(fabric.host_names, fabric.devices, strict=True):
        if device and name.endswith(device) and " " not in name:
            text.append(f"joined by names of one word, such as {name}")
            break
    roles = Counter(fabric.roles[hosts[0]] for hosts in fabric.machines.values())
    return [
        ("machines", "\n".join(text)),
        ("roles", ", ".join(f"{count:,} {role}" for role, count in roles.most_common())),
    ]  # fmt: skip


def _kind_text(kind: MachineKind) -> str:
    rails = len(kind.rails)
    how = f", rail-optimised, {rails} rails" if rails > 1 else ", not rail-optimised" * rails
    return f"of {kind.adapters} adapters{how}"


def _switches(count: int, ports: int) -> str:
    return f"{count:,} switch{'es' * (count != 1)} with {ports} port{'s' * (ports != 1)}"


def _bisection_rows(fabric: Fabric) -> list[tuple[str, str]]:
    known = closed_form(fabric)
    rows = []
    if known is not None and known.bisection_cables is not None:
        rows.append(("bisection", f"{known.bisection_cables:,} cables ({known.source})"))
        return rows
    if fabric.num_switches > MAX_SEARCH:
        return [("bisection", f"not searched for more than {MAX_SEARCH:,} switches")]
    if fabric.num_hosts < 2:
        return []
    low = bisection_lower_bound(fabric) if fabric.num_switches else None
    high = bisection_upper_bound(fabric)
    text = f"at most {high:,} cable{'' if high == 1 else 's'} (best split found)"
    if low is not None:
        text = f"at least {low:,} (all-to-all over minimal paths), " + text
    return [("bisection bounds", text)]
