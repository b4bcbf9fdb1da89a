"""Contract of every model of machines that comes with weft."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import weft
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.machine_model import MachineModel, machine_model, node_model
from weft.routing import engine
from weft.routing.routes import PathRoutes

MODELS = node_model.names()


def spec_for(model: MachineModel) -> str:
    """Return a small tree that two or more machines fit."""
    leaves, hosts = max(2, model.num_rails), 2 * model.adapters // model.num_rails
    return f"leaf-spine:leaves={leaves},spines=2,hosts={hosts},rate={model.adapter_gbps:g}"


def machines(name: str) -> Fabric:
    return weft.fabric(spec_for(machine_model(name)), node=name)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_states_the_source_of_every_value(name: str) -> None:
    model = machine_model(name)
    assert model.name == name
    assert model.summary
    given = {field.name for field in fields(model) if getattr(model, field.name) != field.default}
    assert given - {"name", "summary", "source", "kind", "near"} <= set(model.source)
    assert all(len(text) > 5 for text in model.source.values())


@pytest.mark.parametrize("name", MODELS)
def test_every_engine_of_the_subnet_routes_its_machines(name: str) -> None:
    fabric, model = machines(name), machine_model(name)
    subnet = weft.fabric(spec_for(model))
    assert fabric.subnet.digest == subnet.digest
    assert fabric.num_hosts == len(fabric.machines) * model.processors
    refused: list[str] = []
    for entry in engine:
        try:
            theirs = weft.route(subnet, entry.name) if not entry.facts.get("file") else None
        except weft.WeftError:
            continue
        try:
            routes = weft.route(fabric, entry.name)
        except NotApplicable as reason:
            assert isinstance(theirs, PathRoutes) or theirs.num_intermediates
            refused.append(str(reason))
            continue
        ours = weft.validate(fabric, routes)
        assert (ours.ok, ours.lanes) == (True, weft.validate(subnet, theirs).lanes), entry.name
    assert refused
    assert all("machines" in reason for reason in refused)


@pytest.mark.parametrize("level", ["static", "flow", "packet"])
@pytest.mark.parametrize("name", MODELS)
def test_every_level_runs_its_machines(name: str, level: str) -> None:
    fabric = machines(name)
    work = weft.collective_workload("allreduce:size=4096", fabric.num_hosts)
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), work, level=level)
    if level == "static":
        return
    assert result.makespan_ns > 0


@pytest.mark.parametrize("level", ["flow", "packet"])
@pytest.mark.parametrize("name", MODELS)
def test_a_message_takes_the_time_of_its_links(name: str, level: str) -> None:
    fabric, model = machines(name), machine_model(name)
    builder = weft.WorkloadBuilder(2)
    builder.rank(0).send(1, 2**20)
    builder.rank(1).recv(0, 2**20)
    inside, away = [0, 1], [0, model.processors]
    routes, took = weft.route(fabric, "minhop"), {}
    options = {} if level == "flow" else {"hardware": weft.Hardware(header_bytes=0)}
    for pair in (inside, away):
        run = weft.simulate(
            fabric, routes, builder.build(), pair, level=level, switch_latency_ns=100.0,
            eager_bytes=2**30, **options,
        )  # fmt: skip
        offset, link = routes.links(fabric, weft_flows(fabric, pair))
        rate = fabric.link_rate_gbps[link].min()
        expected = 2**20 * 8 / rate + fabric.cable_latency_ns[link >> 1].sum()
        took[tuple(pair)] = run.makespan_ns - expected - 100.0 * (len(link) - 1)
        assert offset[1] == len(link)
    slack = 4 * 4096 * 8 / 100 if level == "packet" else 1e-6  # store and forward of a packet
    assert all(-1.0 <= rest <= slack for rest in took.values()), took
    if model.scale_up_gbps:
        assert fabric.link_rate_gbps.max() == model.scale_up_gbps
    in_links = fabric.is_scale_up[: fabric.num_host_endpoints].sum()
    assert in_links == (fabric.num_hosts if model.scale_up_gbps else 0)


def weft_flows(fabric: Fabric, pair: list[int]):
    from weft.sim.static.loads import host_flows

    return host_flows(fabric, pair[:1], pair[1:])


def test_two_gpus_at_one_pcie_switch_share_its_adapter() -> None:
    fabric = machines("pcie-8gpu")
    routes = weft.route(fabric, "minhop")
    out = np.flatnonzero(fabric.adapter[fabric.link_from] == 0)
    loads = weft.link_loads(fabric, routes, [0, 1, 2], [8, 9, 11])
    uplink = out[fabric.adapter[fabric.link_to[out]] == -1]
    assert loads[uplink].tolist() == [2]
    assert fabric.link_rate_gbps[uplink].tolist() == [200]
    across = weft.link_loads(fabric, routes, [0, 1], [2, 7])
    names = {fabric.link_name(link) for link in np.flatnonzero(across)}
    assert {"m0 pcie0[4] -> m0 pcie1[4]", "m0 pcie0[6] -> m0 pcie3[4]"} <= names
