"""Conversions between bodies of HTTP requests and answers and the state of the service."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from weft.core.registry import did_you_mean
from weft.core.words import few
from weft.fabrics import Fabric
from weft.service import makers, models
from weft.service.ledger import BASE, Application, Granted, Phase, Refused
from weft.service.service import Service


def host_numbers(fabric: Fabric, names: list[str]) -> list[int]:
    """Return the numbers of hosts.

    Raises
    ------
    Refused
        If there is no such host, or the machine of this name has several adapters.
    """
    known = number_of_host(fabric)
    for name in names:
        if name in fabric.machines and name not in known:
            adapters = [fabric.host_names[host] for host in fabric.machines[name]]
            raise Refused(
                "unknown_host",
                f"{name} has {len(adapters)} adapters; expected one of {few(adapters)}",
            )
        if name not in known:
            raise Refused(
                "unknown_host",
                f"{fabric.name} has no host {name}{did_you_mean(name, list(known))}",
            )
    return [known[name] for name in names]


@lru_cache(maxsize=1)
def number_of_host(fabric: Fabric) -> dict[str, int]:
    """Return the number of each host by name, and by machine if that has one adapter.

    Batch systems know machines, such as ``node001``, and not their adapters.
    """
    alone = {name: hosts[0] for name, hosts in fabric.machines.items() if len(hosts) == 1}
    return alone | {name: number for number, name in enumerate(fabric.host_names)}


def phase_specs(phases: list[models.PhaseRequest] | None) -> list[makers.PhaseSpec] | None:
    """Return phases as `weft.service.makers.expand` takes them."""
    if phases is None:
        return None
    specs: list[makers.PhaseSpec] = []
    for phase in phases:
        spec = phase.pattern if phase.flows is None else phase.flows
        assert spec is not None  # as checked by the model
        specs.append((phase.name, spec))
    return specs


def key_summary(service: Service, application: str, phase: Phase) -> models.KeySummary:
    """Return the key of a phase without its paths."""
    return models.KeySummary(
        phase=phase.name, state=phase.state.value, flows=len(phase.sources),
        alternatives=0 if phase.key is None else phase.key.num_alternatives,
        generation=phase.generation, reason=phase.reason,
        granted=(application, phase.name) in service.ledger.grants,
    )  # fmt: skip


def application_answer(service: Service, application: Application) -> models.ApplicationAnswer:
    """Return an application and its keys."""
    names = service.fabric.host_names
    return models.ApplicationAnswer(
        name=application.name,
        hosts=[names[host] for host in application.hosts],
        keys=[key_summary(service, application.name, each) for each in application.phases.values()],
    )


def paths(service: Service, application: str, phase: Phase, alternative: int) -> list[models.Path]:
    """Return how each flow of a phase is sent with an alternative of its key."""
    hosts = service.ledger.application(application).hosts
    rank = {host: number for number, host in enumerate(hosts.tolist())}
    lids = service.base_lid
    bits = np.zeros(len(phase.sources), dtype=np.uint8)
    if alternative != BASE and phase.key is not None:
        bits = phase.key.lid_offset[alternative]
    return [
        models.Path(
            source=rank[source], destination=rank[destination], path_bits=bit,
            dlid=None if lids is None else int(lids[destination]) + bit,
        )
        for source, destination, bit in zip(
            phase.sources.tolist(), phase.destinations.tolist(), bits.tolist(), strict=True
        )
    ]  # fmt: skip


def grant(
    service: Service, granted: Granted, contention: tuple[int, ...], *, with_paths: bool
) -> models.Grant:
    """Return a grant."""
    listed = None
    if with_paths:
        phase = service.ledger.phase(granted.application, granted.phase)
        listed = paths(service, granted.application, phase, granted.alternative)
    return models.Grant(
        application=granted.application, phase=granted.phase, alternative=granted.alternative,
        generation=granted.generation, since_ns=granted.since_ns,
        lease_s=granted.lease_ns / 1e9, until_ns=granted.until_ns,
        contention=contention[0], base_contention=contention[1], paths=listed,
    )  # fmt: skip


def state_of(service: Service) -> models.State:
    """Return the state of the service."""
    ledger = service.ledger
    keys, base = service.contention
    return models.State(
        version=service.version,
        time_ns=ledger.now_ns,
        fabric=service.fabric.name,
        hosts=service.fabric.num_hosts,
        applications=[application_answer(service, each) for each in ledger.applications.values()],
        grants=[
            models.GrantSummary(
                application=each.application, phase=each.phase, alternative=each.alternative,
                since_ns=each.since_ns, until_ns=each.until_ns,
            )
            for each in ledger.grants.values()
        ],
        contention=keys,
        base_contention=base,
        meetings=meetings(service, on_base=False),
        base_meetings=meetings(service, on_base=True),
        subnet=models.SubnetState(
            manager="none" if service.installer is None else "opensm",
            missing_cables=[service.fabric.cable_name(cable) for cable in service.missing],
            reloads=service.reloads, last_reload_s=service.last_reload_s,
            problem=service.problems.get("subnet", ""),
        ),
        problems=list(service.problems.values()),
    )  # fmt: skip


def meetings(service: Service, *, on_base: bool, most: int = 20) -> list[models.Meeting]:
    """Return the links on which most flows of several keys meet.

    Parameters
    ----------
    service
        The service.
    on_base
        Whether all granted keys take the base routes.
    most
        Largest number of links.
    """
    ledger, network = service.ledger, service.network
    loads = ledger.base_loads if on_base else ledger.loads
    busiest = np.flatnonzero(loads > 1)
    busiest = busiest[np.argsort(-loads[busiest], kind="stable")][:most]
    keys: dict[int, list[str]] = {int(load): [] for load in busiest}
    for (application, name), granted in ledger.grants.items():
        phase = ledger.phase(application, name)
        used = phase.base_flows if on_base else phase.flows
        if used is None or granted.alternative == BASE:
            continue
        first, end = used.start[
            [0, 1] if on_base else [granted.alternative, granted.alternative + 1]
        ]
        for load in np.intersect1d(used.load[first:end], busiest).tolist():
            keys[load].append(f"{application}/{name}")
    graph = service.fabric.graph
    return [
        models.Meeting(
            link=service.fabric.link_name(int(graph.edge_link[network.edge[load]])),
            flows=int(loads[load]), keys=names,
        )
        for load, names in keys.items()
    ]  # fmt: skip
