"""Machines with several adapters: their grouping, order, roles and traffic."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.machine_fabrics import rail_fabric

import weft
from weft.advice.io_nodes.loads import SiteLoads
from weft.advice.io_nodes.settings import IoSettings, Site
from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics import FabricBuilder, NodeKind
from weft.fabrics.formats import FormatWarning, write_fabric
from weft.fabrics.judged import Judged
from weft.fabrics.roles import ROLES, role_of_name
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.static.all_to_all import all_to_all_users, loads_between_machines
from weft.sim.static.loads import flow_loads, host_flows, link_users
from weft.workload import WorkloadBuilder
from weft.workload.jobs import Job, combine
from weft.workload.placement import place


def names_of(fabric, hosts):
    return [fabric.host_names[host] for host in hosts]


def gpu(*adapters):
    return [f"gpu{machine:02d} mlx5_{adapter}" for machine, adapter in adapters]


# -- placement -------------------------------------------------------------------------------------


def test_ranks_per_host_counts_the_ranks_of_a_machine_rail_by_rail() -> None:
    fabric = rail_fabric()
    placed = place(fabric, 6, "hosts:gpu[02-03]", ranks_per_host=3)
    assert names_of(fabric, placed) == gpu((2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2))
    # More ranks than adapters take another turn.
    placed = place(fabric, 6, ranks_per_host=6)
    assert names_of(fabric, placed) == gpu((0, 0), (0, 1), (0, 2), (0, 3), (0, 0), (0, 1))
    # Without ranks per host, each adapter gets one rank.
    assert names_of(fabric, place(fabric, 5)) == gpu((0, 0), (0, 1), (0, 2), (0, 3), (1, 0))


def test_distributions_and_orders_take_machines() -> None:
    fabric = rail_fabric()
    cyclic = place(fabric, 6, hosts="gpu[01-03]", ranks_per_host=2, distribution="cyclic")
    assert names_of(fabric, cyclic) == gpu((1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1))
    last = place(fabric, 4, "last", ranks_per_host=2)
    assert names_of(fabric, last) == gpu((6, 0), (6, 1), (7, 0), (7, 1))
    for spec in ("random", "random:over=seats", "block", "cyclic", "spread", "apart", "strided"):
        placed = place(fabric, 32, spec, ranks_per_host=4)
        assert sorted(placed.tolist()) == list(range(32)), spec


def test_only_allowed_adapters_of_a_machine_get_ranks() -> None:
    fabric = rail_fabric()
    hosts = ["gpu01 mlx5_3", "gpu01 mlx5_1", "gpu02"]
    placed = place(fabric, 8, hosts=hosts, ranks_per_host=4)
    assert names_of(fabric, placed) == gpu(
        (1, 1), (1, 3), (1, 1), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)
    )


def test_devices_are_ordered_by_their_numbers() -> None:
    fabric = rail_fabric(machines=1, adapters=11, per_group=1)
    order = np.argsort([f"{number}" for number in range(11)])
    parts = weft.fabrics.parts.Parts.of(fabric)
    hosts = np.flatnonzero(parts.kind == 1)
    shuffled = [parts.names[host] for host in hosts[order]]
    for host, name in zip(hosts, shuffled, strict=True):
        parts.names[host] = name
    mixed = weft.Fabric.of(parts)
    placed = place(mixed, 11, ranks_per_host=11)
    assert names_of(mixed, placed) == gpu(*((0, number) for number in range(11)))


def test_too_many_ranks_are_refused_by_machines() -> None:
    fabric = rail_fabric()
    with pytest.raises(InputError, match=r"9 ranks do not fit on the 2 machines of the hosts that"):
        place(fabric, 9, hosts="gpu[01-02]", ranks_per_host=4)
    with pytest.raises(InputError, match="the machine of gpu00 mlx5_0 has 3 ranks; expected at"):
        place(fabric, 3, [0, 1, 2], ranks_per_host=2)


def test_a_rank_file_may_name_machines(tmp_path: Path) -> None:
    fabric = rail_fabric()
    file = tmp_path / "ranks"
    file.write_text("rank 1=gpu01 slot=1\nrank 0=gpu01 slot=0\nrank 2=+n2 slot=0\nrank 3=+n2\n")
    placed = place(fabric, 4, f"file:{file}", ranks_per_host=2)
    assert names_of(fabric, placed) == gpu((1, 0), (1, 1), (2, 0), (2, 1))


def test_jobs_do_not_share_a_machine() -> None:
    fabric = rail_fabric()
    pair = WorkloadBuilder(2).build()
    mix = combine([Job(pair, "a", ranks_per_host=2), Job(pair, "b", ranks_per_host=2)], fabric)
    assert names_of(fabric, mix.hosts) == gpu((0, 0), (0, 1), (1, 0), (1, 1))
    jobs = [Job(pair, "a", ranks_per_host=2), Job(pair, "b", [2, 3])]
    with pytest.raises(InputError, match="rank 0 is on host gpu00 mlx5_0, where job a runs"):
        combine(jobs, fabric)


# -- traffic ---------------------------------------------------------------------------------------


def scatter(ranks):
    """Return a workload in which rank 0 sends 100 kB to each other rank, one after the other."""
    builder = WorkloadBuilder(ranks)
    for rank in range(1, ranks):
        builder.send([0], [rank], [10**5])
        builder.recv([rank], [0], [10**5])
    return builder.build()


@pytest.mark.parametrize("level", ["static", "flow", "packet", "flit"])
def test_traffic_within_a_machine_does_not_enter_the_fabric(level: str) -> None:
    fabric = rail_fabric()
    routes = route(fabric, "minhop")
    inside = weft.simulate(fabric, routes, scatter(4), [0, 1, 2, 3], level=level)
    one_host = weft.simulate(fabric, routes, scatter(4), [0, 0, 0, 0], level=level)
    carried = {"flit": "flits", "packet": "wire_bytes"}.get(level, "carried_bytes")
    assert inside.links()[carried].sum() == 0
    assert inside.makespan_ns == one_host.makespan_ns
    assert inside.phases().equals(one_host.phases())
    # Two of the three messages to adapters of another machine change the rail.
    outside = weft.simulate(fabric, routes, scatter(4), [0, 4, 5, 6], level=level)
    links = outside.links()
    assert links.filter(links[carried] > 0)["kind"].n_unique() == 3


@pytest.mark.parametrize("level", ["flow", "packet", "flit"])
def test_load_sweeps_measure_the_fabric_between_all_adapters(level: str) -> None:
    fabric = rail_fabric(machines=4, adapters=2)
    alone = fabric.renamed({guid: f"h{at}" for at, guid in enumerate(fabric.node_guid.tolist())})
    one, other = (
        weft.sweep(each, ["minhop"], loads=[0.2], level=level, pattern="shift", processes=1)
        for each in (fabric, alone)
    )
    assert one.equals(other)


def test_keys_have_no_flows_within_a_machine() -> None:
    fabric = rail_fabric()
    found = weft.workload_keys(fabric, scatter(6), [0, 1, 2, 3, 4, 5])
    assert [key.destinations.tolist() for key in found.keys] == [[4, 5]]


@pytest.mark.parametrize("name", ["minhop", "ecmp", "valiant"])
def test_an_all_to_all_has_no_flows_within_machines(name: str) -> None:
    fabric = rail_fabric(machines=5, adapters=3, per_group=3, lacking=((4, 1),))
    if name == "valiant":
        plain = build("dragonfly:p=2,a=4,h=2")
        guids = plain.node_guid[plain.host_nodes].tolist()
        fabric = plain.renamed({g: f"n{h // 2} mlx5_{h % 2}" for h, g in enumerate(guids)})
    routes = route(fabric, name)
    source, target = np.divmod(np.arange(fabric.num_hosts**2), fabric.num_hosts)
    away = fabric.apart(source, target)
    flows = host_flows(fabric, source[away], target[away], lmc=routes.lmc)
    found = loads_between_machines(fabric, routes)
    assert found.per_link == pytest.approx(flow_loads(fabric, routes, flows).per_link)
    assert (found.flows, found.unrouted) == (len(flows.sources), 0)
    if not routes.settled:
        return
    links = np.arange(fabric.num_links)
    row = fabric.graph.row_node[fabric.graph.destination_row]
    listed = link_users(fabric, routes, flows, links)
    for groups, users in zip(all_to_all_users(fabric, routes, links), listed, strict=True):
        pairs = Counter(zip(row[flows.sources[users]], row[flows.destinations[users]], strict=True))
        ends = zip(groups.source, groups.destination, strict=True)
        assert dict(zip(ends, groups.flows, strict=True)) == pairs


def test_comparisons_and_runs_say_machines(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = str(tmp_path / "fabric.ibnetdiscover")
    write_fabric(rail_fabric(machines=4, adapters=2), path)
    main(["compare", path, "--engine", "minhop", "--pattern", "shift,all-to-all", "--samples", "2"])
    assert "hosts 8; machines 4 with 8 adapters;" in capsys.readouterr().out
    main(["simulate", path, "--workload", "shift", "--ranks-per-host", "2", "--json"])
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["ranks"], job["hosts"], job["machines"]) == (8, 8, 4)
    # A ring of all adapters: half of its flows stay within machines.
    result = weft.compare(weft.fabric(path), ["minhop"], ["shift"], samples=2)
    assert result.runs[0].flows.sum() == 4 * 4


# -- roles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("rack2-oss03", "storage"),
        ("NODE001", "compute"),
        ("ufm1", "subnet-manager"),
        ("login-gpu1", "management"),
        ("lnet04.ib", "gateway"),
        ("psm2", "unknown"),
        ("nodelete", "unknown"),
        ("h7", "unknown"),
    ],
)
def test_roles_come_from_whole_words_of_names(name: str, role: str) -> None:
    assert role_of_name(name) == role
    assert role in ROLES


def test_hosts_are_judged_by_role() -> None:
    fabric = rail_fabric(machines=4)
    named = fabric.renamed(
        {
            int(fabric.node_guid[fabric.find_node(f"gpu03 mlx5_{n}")]): f"oss1 mlx5_{n}"
            for n in range(4)
        }
    )
    assert named.roles == ("compute",) * 12 + ("storage",) * 4
    assert Judged(hosts="role=compute").of(named).host_names == named.host_names[:12]
    assert Judged(without="role=storage,gpu00").of(named).host_names == named.host_names[4:12]
    assert place(named, 2, hosts="role=storage").tolist() == [12, 13]
    with pytest.raises(InputError, match="has the role gateway; there are 12 compute, 4 storage"):
        Judged(hosts="role=gateway").of(named)
    with pytest.raises(InputError, match=r"unknown role 'storag' \(did you mean 'storage'\?\)"):
        Judged(hosts="role=storag").of(named)
    # Variants keep roles.
    assert named.without(cables=[0]).roles == named.roles


# -- tables of machines ----------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "fabric.ibnetdiscover"
    write_fabric(rail_fabric(machines=4, adapters=2), path)
    return str(path)


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "machines.csv"
    path.write_text(text)
    return path


def test_a_table_gives_machines_and_roles(source: str, tmp_path: Path) -> None:
    guid = int(weft.fabric(source).node_guid[weft.fabric(source).find_node("gpu02 mlx5_1")])
    text = (
        "# site\nmachine,adapter,role\n"
        "gpu00,gpu00 mlx5_0,storage\n"
        f"twin,gpu01 mlx5_0\ntwin,{guid:#x},gateway\n"
        "gpu[01-02],,management\ngpu*,,compute\n"
    )
    fabric = weft.fabric(source, machines=table(tmp_path, text))
    assert fabric.machines == {
        "gpu00": [0, 1], "twin": [2, 5], "gpu01": [3], "gpu02": [4], "gpu03": [6, 7]
    }  # fmt: skip
    assert dict(zip(fabric.host_names, fabric.roles, strict=True)) == {
        "gpu00 mlx5_0": "storage", "gpu00 mlx5_1": "storage",
        "gpu01 mlx5_0": "gateway", "gpu01 mlx5_1": "management",
        "gpu02 mlx5_0": "management", "gpu02 mlx5_1": "gateway",
        "gpu03 mlx5_0": "compute", "gpu03 mlx5_1": "compute",
    }  # fmt: skip


def test_the_nodes_of_slurm_compute(source: str, tmp_path: Path) -> None:
    conf = "SwitchName=a Nodes=gpu[00-01],h1 # two\nSwitchName=top Switches=a\n"
    block = "- topology: a\n  block:\n    blocks:\n    - block: b\n      nodes: gpu[00-01],h1\n"
    nodes = "ClusterName=x\nNodeName=DEFAULT CPUs=2\nNodeName=gpu[00-01],h1 CPUs=4\n"
    for text in (conf, block, nodes):
        with pytest.warns(FormatWarning, match="does not have 1 of its names: h1"):
            fabric = weft.fabric(source, machines=table(tmp_path, text))
        assert set(fabric.roles) == {"compute"}
    with pytest.raises(InputError, match=r"machines.csv:2: expected key=value, found 'machine'"):
        weft.fabric(source, machines=table(tmp_path, "SwitchName=a Nodes=gpu03\nmachine\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# x\n", "has only comments"),
        ("machine\n", "expected the columns machine,adapter, machine,role, or all three"),
        ("machine,rol\n", "unknown column"),
        ("machine,role,role\n", "unknown second column"),
        ("machine,role\na,b,c\n", r":2: has 3 values; expected machine,role"),
        ("machine,role\na,\n", ":2: gives a neither an adapter nor a role"),
        ("machine,role\n,compute\n", ":2: names no machine"),
        ("machine,role\na,computer\n", ":2: unknown role 'computer'"),
        (
            "machine,role\na,compute\na,storage\n",
            ":3: a has role storage here and compute in line 2",
        ),
        ("machine,adapter\na,x\nb,x\n", ":3: x is in machine b here and a in line 2"),
        ("machine,role\na[1-,compute\n", ":2: host list"),
        ("machine,adapter\na,leaf0-0\n", ":2: leaf0-0 is not the adapter of a host"),
        ("machine,adapter\na,gpu00 mlx5_0\nb,H-{guid}\n", ":3: H-.* is in machine b here and in a"),
        (f'"{"m" * 200_000}",role\n', ":1: is not CSV"),
        ("NodeName=gpu[0-\n", ":1: host list"),
        ("machine,role\na[1-999999],compute\nb[1-9],compute\n", ":3: .* more than 1,000,000 names"),
        ('machine,role\n"a,compute\n', ":2: is not CSV"),
    ],
)
def test_a_wrong_table_is_one_error(source: str, tmp_path: Path, text: str, message: str) -> None:
    fabric = weft.fabric(source)
    text = text.replace("{guid}", f"{int(fabric.node_guid[fabric.num_switches]):016x}")
    with pytest.raises(InputError, match=message):
        weft.fabric(source, machines=table(tmp_path, text))


def test_a_system_guid_joins_adapters_unless_their_names_contradict() -> None:
    build_ = FabricBuilder("guids")
    names = ["a", "b", "n1 mlx5_0", "n2 mlx5_0", "n3 mlx5_0", "n3 mlx5_1", "c"]
    build_.connect(build_.switches(["s"]).repeat(len(names)), build_.hosts(names))
    parts = build_.parts()
    parts.system_guid[parts.kind == NodeKind.HOST] = [1, 1, 2, 2, 3, 4, 4]
    machines = weft.Fabric.of(parts).machines
    assert machines == {"a": [0, 1], "n1": [2], "n2": [3], "n3": [6, 4, 5]}


def test_fabrics_of_one_adapter_a_machine_have_no_groups() -> None:
    fabric = build("xgft:2;4,4;1,2")
    assert fabric.machine_of_host.tolist() == fabric.host_nodes.tolist()
    assert set(fabric.roles) == {"unknown"}
    assert place(fabric, 6, ranks_per_host=2).tolist() == [0, 0, 1, 1, 2, 2]


# -- I/O nodes -------------------------------------------------------------------------------------


def test_io_nodes_are_machines_without_a_subnet_manager() -> None:
    fabric = rail_fabric(machines=6, adapters=2, per_group=3)
    names = {
        int(fabric.node_guid[fabric.num_switches + host]): name.replace("gpu00", "opensm1")
        for host, name in enumerate(fabric.host_names)
    }
    fabric = fabric.renamed(names)
    placed = weft.place_io(fabric, 2, confirm="flow", compute=2, moves=20)
    machines = {"gpu01", "gpu02", "gpu03", "gpu04", "gpu05"}
    for each in placed.candidates:
        io, compute, clients = (each.hosts(role) for role in ("io", "compute", "clients"))
        assert len(io) == len(compute) == 2
        assert sorted([*io, *compute, *clients]) == sorted(machines), each.name
        # Each takes part with all its adapters.
        assert len(each.loads.site.io) == len(each.loads.site.compute) == 4
    with pytest.raises(InputError, match="has 5 with a cable and without a subnet manager"):
        weft.place_io(fabric, 3, compute=3)
    given = weft.place_io(fabric, "opensm1", confirm="flow", compute=2)
    assert given.io_nodes == ["opensm1"]


def test_clients_of_shared_io_nodes_load_no_link_within_their_machine() -> None:
    fabric = rail_fabric(machines=2, adapters=2, per_group=2)
    routes = route(fabric, "minhop")
    site = Site(io=np.array([1], np.int32), clients=np.array([0, 2], np.int32),
                compute=np.array([0, 2], np.int32))  # fmt: skip
    loads = SiteLoads(fabric, routes, site, IoSettings(io_nodes=1, shared=True))
    flows = host_flows(fabric, [2], [1], lmc=routes.lmc)
    assert loads.io("write").tolist() == flow_loads(fabric, routes, flows).per_link.tolist()
