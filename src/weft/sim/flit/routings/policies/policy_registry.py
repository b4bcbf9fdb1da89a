"""The registry of policies of the flit level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weft.core.errors import NotApplicable
from weft.kernels.flit.net import FlitNet
from weft.kernels.flit.routing import candidates
from weft.kernels.flit.routing.common import nothing
from weft.kernels.records import record
from weft.routing.routes import CandidateRoutes
from weft.routing.routes.intermediates import detours, routed_rows
from weft.sim.common.policies import usual_of
from weft.sim.flit import policy
from weft.sim.flit.network import Links
from weft.sim.flit.routings.routing_registry import Routing, fixed


@dataclass(frozen=True)
class FlitPolicy:
    """A policy with its options.

    Parameters
    ----------
    pick, send
        Kernels, as in `weft.kernels.flit.routing.candidates`.
    enter, adaptive
        As in `weft.sim.flit.routings.routing_registry.Routing`.
    via
        Which packets the policy sends via intermediates, if their routes have any.
    turns
        Whether packets decide at each switch of their source's intermediate.
    remote
        Whether the kernels read the state of other nodes.
    threshold
        Load by which the minimal path may be more loaded.
    """

    pick: Any
    send: Any = candidates.stay
    enter: Any = nothing
    adaptive: bool = False
    via: Literal["none", "some", "all"] = "none"
    turns: bool = False
    remote: bool = False
    threshold: int = 0


def bind(spec: str | None, links: Links, routes: CandidateRoutes, lanes: int) -> Routing:
    """Return routes with candidates and a policy as a routing.

    `spec`: name of the policy, with options; None for the usual one. `lanes`: virtual channels of
    each class of traffic, a multiple of the virtual lanes of the routes.

    Raises `NotApplicable` if the policy does not fit the routes, or they miss a path.
    """
    if spec is None:
        spec = usual_of(routes.engine, policy)
    entry, options = policy.parse(spec)
    chosen: FlitPolicy = entry.function(**policy.bind(entry, options))
    _check(entry.name, chosen, routes)
    fabric, graph = links.fabric, links.fabric.graph
    rows = graph.destination_row[: links.ends]
    lengths, to_via, via_row = detours(fabric, routes)
    starts = np.flatnonzero(routes.via >= 0) if chosen.turns else np.unique(rows)
    missing = np.argwhere(~routed_rows(fabric, routes)[np.ix_(np.unique(rows), starts)])
    if len(missing):
        ends = (starts[missing[0, 1]], np.unique(rows)[missing[0, 0]])
        names = " to ".join(fabric.node_names[graph.row_node[row]] for row in ends)
        raise NotApplicable(
            f"there is no path from {names} in the {routes.engine} routes of {fabric.name}"
        )
    lane = routes.set_lane
    if not len(lane):
        lane = np.full(len(routes.set_edge), routes.lanes.tables[0, int(routes.sl)], np.uint8)
    via = routes.via if len(routes.via) else np.full(graph.num_rows, -1, dtype=np.int32)
    rules = record(
        candidates.RULES, each=lanes // routes.num_vls, turns=chosen.turns,
        threshold=chosen.threshold,
    )  # fmt: skip
    near, far = (np.minimum(each, 255).astype(np.uint8) for each in (lengths, to_via))
    arrays = candidates.Candidates(
        rules, rows, routes.set_id, routes.set_offset,
        links.output_of[graph.edge_link[routes.set_edge]], lane, graph.edge_row[routes.set_edge],
        via, routes.via_set, routes.turn_set, near, far, via_row,
    )  # fmt: skip
    return Routing(
        f"{routes.engine} with {entry.name}", candidates.route_of(chosen.send, chosen.pick),
        fixed(arrays), chosen.enter, chosen.adaptive, chosen.remote, choices,
    )  # fmt: skip


def choices(net: FlitNet, row: int, slot: int) -> list[tuple[int, int]]:
    """Return the outputs and lanes of a packet's candidates, see `Routing.choices`."""
    routes, packet, rules = net.routes, net.packets[slot], net.rules
    goal, via = routes.row[packet["destination"]], packet["via"]
    shift, each = int(packet["kind"]) * int(rules.class_lanes), int(routes.rules.each)
    if via < 0 and row == goal:
        last = int(net.inputs["tail"][packet["destination"]])
        return [(last, (1 << int(rules.class_lanes)) - 1 << shift)]
    group = routes.set_id[goal, row] if via < 0 else routes.via_set[via, row]
    source = routes.row[net.origins["source"][slot]]
    if via < 0 and routes.rules.turns and routes.via[row] == routes.via[source]:
        early = routes.turn_set[goal, row]
        group = early if early >= 0 else group
    return [
        (int(routes.output[at]), (1 << each) - 1 << int(routes.lane[at]) * each + shift)
        for at in range(routes.set_offset[group], routes.set_offset[group + 1])
    ]


def _check(name: str, chosen: FlitPolicy, routes: CandidateRoutes) -> None:
    """Refuse a policy that does not fit the routes."""
    if not routes.lanes.is_uniform:
        raise NotApplicable("the flit level takes candidates without lanes by input port")
    if chosen.via != "none" and not routes.num_intermediates:
        raise NotApplicable(
            f"policy {name} sends packets via intermediates, and {routes.engine} has none; engines "
            "such as ugal and valiant do"
        )
    if routes.num_intermediates and not routes.direct and chosen.via != "all":
        raise NotApplicable(
            f"{routes.engine} sends every packet via an intermediate, and policy {name} does not; "
            "valiant does"
        )
    if chosen.turns and not len(routes.turn_set):
        raise NotApplicable(
            f"policy {name} needs a virtual lane for packets that turn to an intermediate after "
            "their first hop: engine ugal with progressive=true"
        )
