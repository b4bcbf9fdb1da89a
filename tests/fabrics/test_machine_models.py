"""Models of machines: files, cabling, variants of the fabric, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.machine_fabrics import rail_fabric

import weft
from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics.arrays import OUTSIDE
from weft.fabrics.judged import Judged
from weft.fabrics.machine_cabling import with_model
from weft.fabrics.machine_model import machine_model
from weft.sim.static.loads import host_flows

TREE = "leaf-spine:leaves=8,spines=2,hosts=4,rate=4xNDR"

OWN = """summary = "two GPUs"
kind = "gpu"
processors = 2
adapters = 1
adapter_gbps = 400
pcie_gbps = 252
[source]
"""


def leaves(fabric: weft.Fabric, machine: str) -> list[str]:
    row = fabric.graph.destination_row[fabric.host_endpoint[fabric.machines[machine]]]
    return [fabric.node_names[at] for at in row]


def test_rails_spread_a_machine_over_leaf_switches_and_leaf_does_not() -> None:
    rails = weft.fabric(TREE, node="dgx-h100")
    assert leaves(rails, "m0") == leaves(rails, "m3") == [f"leaf{at}" for at in range(8)]
    own = weft.fabric(TREE.replace("hosts=4", "hosts=8"), node="dgx-h100", cabling="leaf")
    assert [set(leaves(own, f"m{at}")) for at in range(8)] == [{f"leaf{at}"} for at in range(8)]
    rack = weft.fabric("leaf-spine:leaves=4,spines=2,hosts=36,rate=4xNDR", node="gb200-nvl72")
    assert leaves(rack, "m1") == [f"leaf{at % 4}" for at in range(72)]
    assert rack.subnet.host_names[18] == rack.descriptions[rack.host_nodes[72]]


def test_machines_of_a_file_keep_their_adapters_and_other_hosts_remain() -> None:
    subnet = rail_fabric(8, 8, lacking=((2, 5),))
    fabric = with_model(subnet, machine_model("dgx-h100"))
    assert fabric.num_hosts == subnet.num_hosts == 63
    assert fabric.host_names[8] == "gpu01 gpu0"
    assert fabric.host_names[-1] == "gpu02 mlx5_7"
    assert fabric.machines["gpu03"] == list(range(16, 24))
    assert list(fabric.ordinal_of_host[16:24]) == list(range(8))
    assert fabric.subnet.machines == subnet.machines
    with pytest.raises(InputError, match=r"no machine of rails has 72 adapters, .* of 7, 8"):
        with_model(subnet, machine_model("gb200-nvl72"))


def test_guids_and_lids_of_adapters_stay() -> None:
    parts = weft.Fabric.of
    subnet = weft.fabric("leaf-spine:leaves=4,spines=2,hosts=2,rate=4xHDR")
    from weft.fabrics import Parts

    given = Parts.of(subnet)
    given.lid = {(at, 1): (at, 0) for at in subnet.host_nodes.tolist()} | {(1, 0): (1, 0)}
    given.port_guid = {(at, 1): 5000 + at for at in subnet.host_nodes.tolist()}
    subnet = parts(given)
    for model in ("pcie-8gpu", "cpu-2nic", "cpu-1nic"):
        fabric = with_model(subnet, machine_model(model))
        for name in ("lid", "port_guid", "node_guid", "descriptions", "node_names"):
            assert list(getattr(fabric.subnet, name)) == list(getattr(subnet, name)), model
        of_adapters = fabric.port_guid[fabric.node_kind[fabric.slot_node] == 1]
        assert len(set(of_adapters.tolist())) == len(of_adapters)


def test_faults_are_outside_machines_and_a_lost_adapter_leaves_the_scale_up_network() -> None:
    fabric = weft.fabric(
        TREE, node="dgx-h100", faults=weft.Faults(random_cables=6, random_switches=1)
    )
    gone = weft.fabric(TREE, node="dgx-h100")
    assert gone.num_cables - fabric.num_cables >= 6
    assert sum("scale-up" in name for name in fabric.node_names) == 4
    cut = gone.without(cables=["m0 gpu0[2]"])
    assert int((cut.host_endpoint < 0).sum()) == 1
    assert cut.subnet.num_hosts == 32
    routes = weft.route(cut, "minhop")
    assert weft.link_loads(cut, routes, [0, 1], [1, 0]).sum() == 4
    found = weft.validate(cut, routes)
    assert found.ok_where_connected
    assert found.num_disconnected_pairs == 62


@pytest.mark.parametrize("engine", ["minhop", "ecmp"])
def test_judged_processors_keep_their_paths(engine: str) -> None:
    whole = weft.fabric(TREE, node="dgx-h100")
    some = Judged(hosts="m1,m2 gpu4,m2 gpu5,m2 gpu6,m2 gpu7").of(whole)
    assert list(some.ordinal_of_host) == [*range(8), 4, 5, 6, 7]
    assert some.num_hosts == 12
    assert some.subnet.num_hosts == 32
    numbers = [whole.find_node(name) - whole.num_switches for name in some.host_names]
    for pairs in ([(0, 7)], [(0, 8)]):
        a, b = np.array(pairs).T
        ours = weft.link_loads(some, weft.route(some, engine), a, b)
        theirs = weft.link_loads(
            whole, weft.route(whole, engine), np.array(numbers)[a], np.array(numbers)[b]
        )
        loads = [
            {name: load for name, load in zip(f.link_names, its, strict=True) if load}
            for f, its in ((some, ours), (whole, theirs))
        ]
        assert loads[0] == loads[1]


def test_lengths_of_cables_leave_what_machines_add() -> None:
    fabric = weft.fabric(TREE, node="dgx-h100")
    short, long = (fabric.with_lengths(np.full(fabric.num_cables, m)) for m in (2.0, 12.0))
    assert long.cable_latency_ns - short.cable_latency_ns == pytest.approx(50.0)
    again = fabric.with_lengths(np.full(fabric.num_cables, np.nan))
    assert again.cable_latency_ns == pytest.approx(fabric.cable_latency_ns)


def test_sockets_of_a_real_cluster_share_its_adapters(shared: Path) -> None:
    cluster = shared / "fabrics" / "psmn-x5.ibnetdiscover"
    with pytest.raises(InputError, match=r"give a file of a model with adapter_gbps = 32$"):
        weft.fabric(cluster, node="cpu-1nic")
    model = replace(machine_model("cpu-1nic"), adapter_gbps=32.0)
    subnet, fabric = weft.fabric(cluster), weft.fabric(cluster, node=model)
    assert fabric.num_hosts == 2 * subnet.num_hosts == 178
    assert fabric.subnet.digest == subnet.digest
    for engine in ("minhop", "updn"):
        ours, theirs = (weft.route(each, engine) for each in (fabric, subnet))
        assert weft.validate(fabric, ours).ok
        pair = weft.link_loads(fabric, ours, [0, 1], [20, 21])
        outside = fabric.adapter[fabric.link_to] == OUTSIDE
        outside &= fabric.adapter[fabric.link_from] == OUTSIDE
        alone = weft.link_loads(subnet, theirs, [0], [10])
        assert pair[outside].sum() == 2 * (alone.sum() - 2)


def test_fabrics_without_machines_have_the_flows_they_had() -> None:
    flows = host_flows(weft.fabric("xgft:2;2,2;1,2"), [0, 1], [1, 3])
    assert (flows.sources.tolist(), flows.destinations.tolist()) == ([0, 1], [1, 3])


def test_the_command_counts_machines_and_switches_of_the_subnet(capsys, tmp_path: Path) -> None:
    own = tmp_path / "pair.toml"
    own.write_text(OWN)
    assert main(["info", TREE, "--node", str(own), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["fabric"]
    assert facts["machines"] == "32 of pair with 64 processors and 32 adapters"
    assert (facts["hosts"], facts["switches"], facts["cables"]) == (64, 10, 48)
    assert main(["list", "nodes", "--json"]) == 0
    assert "gb200-nvl72" in capsys.readouterr().out
    assert main(["list", "dgx-a100"]) == 0
    assert "scale_up_gbps = 1920.0: 12 NVLinks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (TREE, {"node": "dgx-a100"}, r"200 Gb/s, but .* 4xNDR, 400 Gb/s; give the spec rate=HDR$"),
        (TREE, {"node": "dgx-h10"}, r"'dgx-h10' \(did you mean 'dgx-h100'\?\)"),
        (TREE, {"node": "dgx-h100", "cabling": "leaf"}, r"8 at each of 1 .* leaf0 have 4 hosts"),
        (TREE, {"cabling": "leaf"}, r"cabling is given without a model"),
        (TREE, {"node": "dgx-h100", "cabling": "x"}, r"'x'"),
        (TREE.replace("=8", "=6"), {"node": "dgx-h100"}, r"at 6 leaf .* not a multiple of 8"),
        ("bcube:n=2,k=1,rate=4xNDR", {"node": "dgx-h100"}, r"forward or have several cables"),
    ],
)
def test_what_does_not_fit_is_one_error(spec: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        weft.fabric(spec, **options)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("processors = 2\n", "", r"pair.toml: processors: is missing"),
        ("adapters = 1", "adapters = 0", r"pair.toml:4: adapters: "),
        ("adapters", "adapter", r"pair.toml:4: adapter: is unknown \(did you mean 'adapters'\?\)"),
        (
            "processors = 2",
            "processors = true",
            r"pair.toml:3: processors: expected a whole number",
        ),
        ("= 2", "= 1025", r"pair.toml:3: processors: expected 1024 or less"),
        ("= 400", "= nan", r"pair.toml:5: adapter_gbps: expected a finite number"),
        ("= 400", "= -1", r"pair.toml:5: adapter_gbps: expected 0 or more"),
        ("adapters = 1", "adapters = 3", r"pair.toml:4: 3 adapters for 2 processors"),
        ("= 1", "= 1\nnear = [0, -1]", r"pair.toml:5: near lists 2 adapters, \[-1, 0\]"),
        ("adapters = 1", "adapters = 1\nnear = [0, 1]", r"pair.toml:5: near lists 2 adapters"),
        ("adapters = 1", "adapters = 1\nrails = 2", r"pair.toml:5: 1 adapters .* 2 rails"),
        ("pcie_gbps = 252\n", "", r"pair.toml: adapter 0 has a PCIe switch, but pcie_gbps is 0"),
        ("adapters = 1", "adapters = 2", r"pair.toml: nothing connects the processors"),
        ("kind", "kind =", r"pair.toml:2: is not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "pair.toml"
    path.write_text(OWN.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        weft.fabric(TREE, node=path)


@pytest.mark.parametrize(
    "words", [("opensm", "export", "--engine", "minhop", "--out", "x"), ("flits",)]
)
def test_commands_of_the_subnet_say_so(capsys, words: tuple[str, ...]) -> None:
    assert main([*words, TREE, "--node", "dgx-h100"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_model_is_given_once_and_before_hosts_are_judged() -> None:
    model = machine_model("dgx-h100")
    with pytest.raises(InputError, match="already"):
        with_model(weft.fabric(TREE, node=model), model)
    with pytest.raises(InputError, match="not judged"):
        with_model(Judged(hosts="h0.0").of(weft.fabric(TREE)), model)
