"""`--hosts` and `--without`: hosts that keep their paths but are not judged."""

import json

import numpy as np
import pytest

from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import FabricBuilder, NodeKind
from weft.fabrics.formats import write_fabric
from weft.fabrics.judged import Judged
from weft.fabrics.topology import build
from weft.routing import engine, route
from weft.routing.routes import PathRoutes, TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.flit.run import simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.static.all_to_all import all_to_all_loads


def cluster():
    """Build two leaf switches with four hosts each, and a third one with three hosts behind SDR."""
    builder = FabricBuilder("cluster")
    leaves = builder.switches(["leaf0", "leaf1", "stub"])
    spines = builder.switches(["spine0", "spine1"])
    builder.connect(leaves[:2].repeat(2), np.tile(spines, 2), rate="4xHDR")
    builder.connect(leaves[2:], spines[:1], rate="4xSDR")
    builder.connect(leaves[:2].repeat(4), builder.hosts([f"n{i}" for i in range(8)]), rate="4xHDR")
    builder.connect(leaves[2:].repeat(3), builder.hosts([f"adm{i}" for i in range(3)]),
                    rate="4xSDR")  # fmt: skip
    return builder.fabric()


ADMIN = Judged(without="adm[0-2]")


def attempt(fabric, name):
    """Return the routes of an engine, or why there are none."""
    try:
        return route(fabric, name)
    except (InputError, NotApplicable) as reason:
        return str(reason)


def contents(fabric, routes, among):
    """Return what routes hold, by the names of ends; source routes between some hosts."""
    names = [fabric.node_names[node] for node in fabric.endpoint_node]
    if isinstance(routes, TableRoutes):
        level = np.broadcast_to(routes.sl, routes.table.T.shape)
        ports = [f"{name}[{port}]" for name, port in zip(names, fabric.endpoint_port, strict=True)]
        ends = [*ports, *fabric.node_names[: fabric.num_switches]]
        return {
            (end, which): (routes.table[lid].tolist(), level[:, lid].tolist())
            for at, end in enumerate(ends)
            for which, lid in enumerate(range(at << routes.lmc, (at + 1) << routes.lmc))
        }
    if isinstance(routes, PathRoutes):
        found = {}
        for path, pair in enumerate(routes.pair.tolist()):
            start, end = (names[each] for each in divmod(pair, fabric.num_host_endpoints))
            edges = routes.edge[routes.offset[path] : routes.offset[path + 1]]
            found[start, end] = edges.tolist()
        return {ends: edges for ends, edges in found.items() if among >= set(ends)}
    return [routes.set_id.tolist(), routes.set_offset.tolist(), routes.set_edge.tolist()]


@pytest.mark.parametrize("judged", [ADMIN, Judged("n[0-7]"), Judged("n[0-7],adm0", "adm0")])
def test_other_hosts_keep_their_paths_but_have_no_traffic(judged) -> None:
    whole, part = cluster(), judged.of(cluster())
    assert (part.num_hosts, part.num_cables) == (8, whole.num_cables)
    assert int((part.node_kind == NodeKind.AUXILIARY).sum()) == 3
    assert (part.whole.digest, part.whole.node_names) == (whole.digest, whole.node_names)
    routes = route(part, "minhop")
    assert validate(part, routes).ok
    loads = all_to_all_loads(part, routes)
    assert loads.flows == 8 * 7
    stub = part.find_cable("stub[1]")
    assert loads.per_link[2 * stub : 2 * stub + 2].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("fabric", "judged"),
    [
        (cluster(), ADMIN),
        (build("xgft:2;4,4;1,4"), Judged("h9,h2,h5,h7,h0")),
        (build("torus:3x3,hosts=2"), Judged(without="h0.1.1,h2.2.0")),
        (build("dragonfly:p=2,a=4,h=2"), Judged(without="h[0-3].0.[0-1],h5.2.1")),
    ],
    ids=["cluster", "tree", "torus", "dragonfly"],
)
def test_routes_do_not_depend_on_the_hosts_that_are_judged(fabric, judged) -> None:
    part = judged.of(fabric)
    fitting = 0
    for name in engine.names():
        found = [attempt(each, name) for each in (fabric, part)]
        if isinstance(found[0], str):
            assert found[0] == found[1]
            continue
        found[1].check(part)
        fitting += 1
        among = set(part.host_names)
        of_all, of_some = (
            contents(f, each, among) for f, each in zip((fabric, part), found, strict=True)
        )
        assert of_all == of_some
    assert fitting >= 8


@pytest.mark.parametrize("engine", ["minhop", "dmodk:lmc=1", "lash"])
def test_figures_count_the_flows_between_judged_hosts_on_the_tables_of_all(engine) -> None:
    """A twin follows the tables of the whole fabric from host to host, one hop at a time."""
    whole = build("xgft:2;4,4;1,2")
    names = ["h1", "h4", "h6", "h11", "h13", "h15"]
    routes = route(whole, engine)
    count: dict[str, int] = {}
    for start in names:
        for end in set(names) - {start}:
            destination = int(whole.host_endpoint[whole.find_node(end) - whole.num_switches])
            node = whole.find_node(start)
            port = 1
            while True:
                link = int(whole.port_link[whole.port_offset[node] + port - 1])
                name = whole.link_name(link)
                count[name] = count.get(name, 0) + 1
                node = int(whole.link_to[link])
                if whole.node_names[node] == end:
                    break
                port = int(routes.table[destination << routes.lmc, node])
    part = Judged(",".join(names)).of(whole)
    loads = all_to_all_loads(part, route(part, engine)).per_link
    assert {part.link_name(at): int(loads[at]) for at in np.flatnonzero(loads)} == count


def test_variants_of_a_fabric_keep_the_hosts_that_are_judged() -> None:
    part = ADMIN.of(cluster()).without(cables=["leaf0[2]"])
    assert part.num_hosts == 8
    assert part.whole.digest == cluster().without(cables=["leaf0[2]"]).digest
    # Of judged hosts, others can be left out later.
    assert Judged(without=part.host_names[0]).of(part).whole.digest == part.whole.digest


@pytest.mark.parametrize(
    ("judged", "fault"),
    [
        (Judged(without="adm[0-3]"), "no host 'adm3' in cluster"),
        (Judged(hosts="leaf0"), "leaf0 is a switch, not a host"),
        (Judged(hosts="n[0-"), "the brackets do not match"),
        (Judged(hosts="n0", without="n0"), "no host of cluster is left"),
    ],
)
def test_wrong_hosts_are_refused(judged, fault) -> None:
    with pytest.raises(InputError, match=fault.replace("[", r"\[")):
        judged.of(cluster())


def test_other_hosts_cannot_be_named_in_jobs_and_flows(tmp_path, capsys) -> None:
    path, flows = str(tmp_path / "cluster.ibnetdiscover"), tmp_path / "flows.txt"
    write_fabric(cluster(), path, "ibnetdiscover")
    flows.write_text("n0 adm1\n")
    for words in (
        ["keys", path, "--flows", str(flows), "--without", "adm[0-2]"],
        ["simulate", path, "--workload", "shift", "--hosts", "n0,adm1", "--without", "adm1"],
    ):
        assert main(words) == 2
        assert "adm1 is not among the hosts that are judged" in capsys.readouterr().err


def test_hosts_that_forward_are_all_judged() -> None:
    with pytest.raises(InputError, match="forward packets"):
        Judged(hosts="h0.0").of(build("bcube:n=2,k=1"))


def test_commands_judge_only_the_hosts_of_the_list(tmp_path, capsys) -> None:
    path = str(tmp_path / "cluster.ibnetdiscover")
    write_fabric(cluster(), path, "ibnetdiscover")
    few = ["--engine", "minhop", "--pattern", "all-to-all", "--samples", "5", "--json"]
    loads = []
    for more in ([], ["--without", "adm[0-2]"], ["--hosts", "n[0-7]"]):
        assert main(["compare", path, *few, *more]) == 0
        (row,) = json.loads(capsys.readouterr().out)["patterns"]
        loads.append((row["busiest_link"].startswith("stub"), row["contention"]))
    assert loads[0][0]
    assert loads[1] == loads[2]
    assert loads[1][1] < loads[0][1]
    assert main(["info", path, "--without", "adm[0-2]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fabric"]["hosts"] == 8
    assert main(["route", path, "--without", "adm[0-2]", "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs_by_hops"]
    assert sum(pairs) == 8 * 7
    assert main(["compare", path, *few, "--without", "adm9"]) == 2
    assert "no host 'adm9'" in capsys.readouterr().err


def test_commands_that_draw_traffic_draw_it_between_judged_hosts(tmp_path, capsys) -> None:
    path = str(tmp_path / "cluster.ibnetdiscover")
    write_fabric(cluster(), path, "ibnetdiscover")
    few = ["--without", "adm[0-2]"]
    for level in ("flow", "static", "flit"):
        out = tmp_path / level
        words = ["simulate", path, "--workload", "all-to-all", "--level", level, "--json"]
        assert main([*words, *few, "--out", str(out), "--csv"]) == 0
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        assert run["messages"] == 8 * 7
    for words in (["sweep", path, "--level", "flow"], ["flits", path, "--measure", "100"]):
        totals = []
        for more in ([], few):
            assert main([*words, "--load", "0.2", *more, "--json"]) == 0
            totals.append(json.loads(capsys.readouterr().out)["loads"][0])
        assert totals[0] != totals[1]
    assert main(["place-io", path, "--io-nodes", "2", "--confirm", "flow", *few, "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)["recommended"]
    assert sorted([*chosen["io"], *chosen["compute"]]) == [f"n{i}" for i in range(8)]


def test_flits_go_between_judged_hosts_only() -> None:
    part = ADMIN.of(cluster())
    result = simulate_flits(
        part, route(part, "minhop"), load=Load(rate=0.3, pattern="all-to-all", measure=300)
    )
    links = result.links().filter(result.links()["flits"] > 0)
    assert set(links["kind"]) == {"host-switch", "switch-switch", "switch-host"}
    assert not any("adm" in name or "stub" in name for name in links["name"])


def test_files_of_experiments_name_the_hosts_that_are_judged(tmp_path, capsys) -> None:
    path = tmp_path / "cluster.ibnetdiscover"
    write_fabric(cluster(), str(path), "ibnetdiscover")
    file = tmp_path / "run.toml"
    file.write_text(
        f'fabric = {{ source = "{path.name}", without = "adm[0-2]" }}\n'
        '[[job]]\nworkload = "all-to-all"\n'
    )
    assert main(["simulate", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["messages"] == 8 * 7
    assert main(["simulate", str(file), "--without", "adm0"]) == 2
    assert "set fabric.without there" in capsys.readouterr().err
