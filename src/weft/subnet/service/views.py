"""Conversions between bodies of HTTP requests and answers and the state of the service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.core.registry import did_you_mean
from weft.fabrics import Fabric
from weft.sim.keys.alternatives import InstalledKey
from weft.subnet.service import makers, models
from weft.subnet.service.ledger import BASE, Application, Phase, Refused
from weft.subnet.service.service import Given, Service

T = TypeVar("T")
#: Flows whose paths take longer to write down than others should wait.
_MANY_FLOWS = 2000


def host_numbers(fabric: Fabric, names: list[str], *, wholes: bool = False) -> list[int]:
    """Return the numbers of hosts: one for each name, or all of each machine with `wholes`.

    The adapters of a machine that is named several times take turns.
    """
    known = number_of_host(fabric)
    numbers: list[int] = []
    turns: Counter[str] = Counter()
    for name in names:
        adapters = fabric.machines.get(name, [])
        if name in known:
            numbers.append(known[name])
        elif wholes and adapters:
            numbers += adapters
        elif turns[name] < len(adapters):
            numbers.append(adapters[turns[name]])
            turns[name] += 1
        elif adapters:
            raise Refused(
                "unknown_host",
                f"{name} is named {turns[name] + 1} times and has {len(adapters)} adapters, one "
                "for each rank",
            )
        else:
            raise Refused(
                "unknown_host", f"{fabric.name} has no host {name}{did_you_mean(name, list(known))}"
            )
    return numbers


@lru_cache(maxsize=1)
def number_of_host(fabric: Fabric) -> dict[str, int]:
    """Return the number of each host by name, and by machine if that has one adapter.

    Batch systems know machines, such as ``node001``, and not their adapters.
    """
    alone = {name: hosts[0] for name, hosts in fabric.machines.items() if len(hosts) == 1}
    return alone | {name: number for number, name in enumerate(fabric.host_names)}


def phase_specs(phases: list[models.PhaseRequest] | None) -> list[makers.PhaseSpec] | None:
    """Return phases as `weft.subnet.service.makers.expand` takes them."""
    if phases is None:
        return None
    # One of both is given, as checked by the model.
    return [(each.name, str(each.pattern) if each.flows is None else each.flows) for each in phases]


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


def paths_json(
    service: Service, application: Application, phase: str, key: InstalledKey | None, number: int
) -> str:
    """Return as JSON how each flow of a phase is sent with an alternative of a key.

    It is a list of `models.Path`; for many flows those would take several times as long.
    """
    of, lids = application.phases[phase], service.subnet.base_lid
    rank = np.zeros(service.fabric.num_hosts, dtype=np.int32)
    rank[application.hosts] = np.arange(len(application.hosts))
    bits = np.zeros(len(of.sources), dtype=np.uint8)
    if number != BASE and key is not None:
        bits = key.lid_offset[number]
    dlids = ["null"] * len(bits) if lids is None else (lids[of.destinations] + bits).tolist()
    columns = rank[of.sources].tolist(), rank[of.destinations].tolist(), bits.tolist(), dlids
    # A loop, in which other threads have their turn.
    texts = [
        f'{{"source":{source},"destination":{destination},"path_bits":{bit},"dlid":{dlid}}}'
        for source, destination, bit, dlid in zip(*columns, strict=True)
    ]
    return f"[{','.join(texts)}]"


async def grant(service: Service, given: Given, *, with_paths: bool) -> str:
    """Return a grant as JSON."""
    granted = given.granted
    text = grant_without_paths(given).model_dump_json()
    if not with_paths:
        return text
    listed = await _apart(
        given.application.phases[granted.phase].sources, paths_json, service, given.application,
        granted.phase, given.key, granted.alternative,
    )  # fmt: skip
    return f"{text.removesuffix('null}')}{listed}}}"


def grant_without_paths(given: Given) -> models.Grant:
    """Return a grant without the list of its paths."""
    granted = given.granted
    return models.Grant(
        **vars(granted), lease_s=granted.lease_ns / 1e9,
        contention=given.contention, base_contention=given.base_contention,
    )  # fmt: skip


async def key_answer(
    service: Service, application: Application, summary: models.KeySummary, key: InstalledKey | None
) -> str:
    """Return the key of a phase, with the paths of its alternatives, as JSON."""
    text = models.KeyAnswer(**summary.model_dump(), alternatives_paths=[]).model_dump_json()
    sources = application.phases[summary.phase].sources
    every = []
    for number in range(0 if key is None else key.num_alternatives):
        paths = await _apart(sources, paths_json, service, application, summary.phase, key, number)
        every.append(f'{{"number":{number},"paths":{paths}}}')
    return f"{text.removesuffix('[]}')}[{','.join(every)}]}}"


async def _apart(flows: NDArray[np.int32], function: Callable[..., T], *arguments: Any) -> T:
    """Call a function, in another thread if there are many flows."""
    if len(flows) < _MANY_FLOWS:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


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
        grants=[models.GrantSummary(**vars(each)) for each in ledger.grants.values()],
        contention=keys,
        base_contention=base,
        meetings=meetings(service, on_base=False),
        base_meetings=meetings(service, on_base=True),
        subnet=models.SubnetState(
            manager="opensm" if service.subnet.managed else "none",
            missing_cables=[service.fabric.cable_name(cable) for cable in service.subnet.missing],
            reloads=service.subnet.reloads, last_reload_s=service.subnet.last_reload_s,
            problem=service.problems.get("subnet", ""),
        ),
        problems=list(service.problems.values()),
    )  # fmt: skip


def meetings(service: Service, *, on_base: bool, most: int = 20) -> list[models.Meeting]:
    """Return the links on which most flows of several keys meet.

    `on_base`: whether all granted keys take the base routes.
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
