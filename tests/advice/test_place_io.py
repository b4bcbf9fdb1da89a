"""Placement of I/O nodes: bandwidths known by hand, the search, runs, reasons and errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft.advice.io_nodes.loads import SiteLoads
from weft.advice.io_nodes.settings import IoSettings, Site
from weft.advice.io_nodes.sites import Roles, named_candidates, searched
from weft.advice.io_nodes.traffic import Extent, bandwidths, compute_workload, io_workload
from weft.cli import main
from weft.core.errors import InputError, NotApplicable
from weft.workload import Kind

#: 4 leaves of 4 hosts with 2 uplinks each: leaf l has the hosts h4l to h4l+3.
SLIM = weft.fabric("xgft:2;4,4;1,2")
DMODK = weft.route(SLIM, "dmodk")
RATE = SLIM.host_rate_gbps
QUICK = {"repeats": 2, "randoms": 1, "moves": 20, "finalists": 2, "confirm": "flow"}


def loads_of(io: list[int], *, fabric=SLIM, routes=DMODK, clients=None, **options) -> SiteLoads:
    """Return the loads of I/O nodes; by default all other hosts are clients and compute."""
    others = np.setdiff1d(np.arange(fabric.num_hosts), io).astype(np.int32)
    site = Site(
        np.array(io, dtype=np.int32),
        others if clients is None else np.array(clients, dtype=np.int32),
        others,
    )
    return SiteLoads(fabric, routes, site, IoSettings(io_nodes=io, **options))


# -- static figures ------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["write", "read"])
def test_one_io_node_on_each_leaf_is_limited_by_its_own_cable(direction) -> None:
    # Each of 4 cables carries a quarter of the data of 12 clients.
    limit = loads_of([0, 5, 10, 15]).limit(direction)
    assert limit.gbps == pytest.approx(RATE / 3)
    ends = SLIM.link_to if direction == "write" else SLIM.link_from
    assert set(ends[limit.links] - SLIM.num_switches) == {0, 5, 10, 15}


@pytest.mark.parametrize("direction", ["write", "read"])
def test_four_io_nodes_on_a_leaf_are_limited_by_its_uplinks(direction) -> None:
    # The 12 clients, all on other leaves, share 2 uplinks; the cables of hosts allow twice as much.
    loads = loads_of([12, 13, 14, 15])
    limit = loads.limit(direction)
    assert limit.gbps == pytest.approx(RATE / 6)
    assert loads.limit(direction, cables_of_hosts=True).gbps == pytest.approx(RATE / 3)
    leaf = SLIM.find_node("s1-3")
    near, far = SLIM.link_to[limit.links], SLIM.link_from[limit.links]
    if direction == "read":
        near, far = far, near
    assert near.tolist() == [leaf, leaf]
    assert sorted(SLIM.node_names[node] for node in far) == ["s2-0", "s2-1"]
    # The destination determines the spine: half of the I/O nodes, or half of the clients.
    users = (12, 2) if direction == "write" else (6, 4)
    assert loads.crossing(int(limit.links[0]), direction) == users


def test_a_share_of_writes_adds_both_directions() -> None:
    # A quarter of the data in the other direction leaves three quarters for the full cable.
    loads = loads_of([0, 5, 10, 15], write_share=0.75)
    assert loads.worst == "mix"
    assert loads.client_gbps == pytest.approx(RATE / 3 / 0.75)


def test_a_shared_io_node_does_not_use_itself() -> None:
    # Each of 16 clients divides its data among the other I/O nodes: 12/4 + 3/3 at each I/O node.
    loads = loads_of([0, 5, 10, 15], clients=list(range(16)))
    assert loads.client_gbps == pytest.approx(RATE / 4)
    assert not (loads.demand.clients == loads.demand.nodes).any()


@pytest.mark.parametrize(
    ("choice", "used"), [("cyclic", [0, 5, 10, 15] * 3), ("block", np.repeat([0, 5, 10, 15], 3))]
)
def test_a_fixed_choice_gives_each_io_node_the_same_number_of_clients(choice, used) -> None:
    loads = loads_of([0, 5, 10, 15], choice=choice)
    assert loads.demand.nodes.tolist() == list(used)
    assert loads.demand.weights.tolist() == [1.0] * 12


def test_jobs_whose_loads_add_up_to_more_than_a_cable_keep_a_part() -> None:
    # Both jobs fill the cable of each I/O node: on it, clients write at RATE/3 each (12 of them, a
    # quarter each) and one compute rank receives at RATE.
    io = np.array([0, 5, 10, 15], dtype=np.int32)
    clients = np.setdiff1d(np.arange(16), io).astype(np.int32)
    chosen = IoSettings(io_nodes=4, pattern="shift", write_share=1.0)
    same = SiteLoads(SLIM, DMODK, Site(io, clients, np.array([15, 14], dtype=np.int32)), chosen)
    apart = SiteLoads(SLIM, DMODK, Site(io, clients, np.array([13, 14], dtype=np.int32)), chosen)
    assert same.kept == pytest.approx(1 / 2)
    assert apart.kept > 0.7


# -- sites and search ----------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", ["xgft:2;4,4;1,2", "torus:4x4", "dragonfly:p=2,a=4,h=1"])
def test_the_search_is_never_worse_than_a_named_placement(spec) -> None:
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, "nue")
    chosen = IoSettings(io_nodes=3, moves=60, seed=5)
    roles = Roles.of(fabric, chosen)
    sites, _ = named_candidates(roles, routes)
    best = max(each.loads.client_gbps for each in sites)
    for start in sites:
        found = searched(roles, routes, start)
        if found is not None:
            assert found.loads.better(start.loads)
            assert found.loads.client_gbps >= start.loads.client_gbps
            assert len(set(found.loads.site.io.tolist())) == 3
    result = weft.place_io(fabric, 3, routes, seed=5, **QUICK)
    assert max(each.loads.client_gbps for each in result.candidates) >= best


def test_the_search_leaves_a_full_leaf() -> None:
    roles = Roles.of(SLIM, IoSettings(io_nodes=4, placements=["last"], randoms=0, moves=200))
    (clustered,), _ = named_candidates(roles, DMODK)
    found = searched(roles, DMODK, clustered)
    assert found is not None
    assert found.loads.client_gbps == pytest.approx(RATE / 3)  # twice the clustered placement


def test_equal_sites_are_one_candidate_with_all_names() -> None:
    roles = Roles.of(SLIM, IoSettings(io_nodes=4, randoms=0, placements=["strided", "cyclic"]))
    (site,), _ = named_candidates(roles, DMODK)
    assert site.placements == ("strided", "cyclic")


@pytest.mark.parametrize(
    ("options", "clients", "compute"),
    [
        ({}, set(range(12)), set(range(12))),
        ({"compute": 5}, set(range(5, 12)), set(range(5))),
        ({"clients": 5}, set(range(7, 12)), set(range(7))),
        ({"compute": "h[2-4]"}, {0, 1, *range(5, 12)}, {2, 3, 4}),
        ({"compute": 4, "clients": 3}, {4, 5, 6}, {0, 1, 2, 3}),
        ({"clients": "h[0-1]", "compute": 3}, {0, 1}, {2, 3, 4}),
        ({"shared": True}, set(range(16)), set(range(16))),
        ({"shared": True, "compute": 8}, set(range(8, 16)), set(range(8))),
        ({"shared": True, "compute": 16}, set(range(16)), set(range(16))),
    ],
)
def test_each_job_gets_its_hosts(options, clients, compute) -> None:
    roles = Roles.of(SLIM, IoSettings(io_nodes=4, placements=["last"], randoms=0, **options))
    ((_, io),) = roles.placements()
    site = roles.site(io, "linear")
    assert site.io.tolist() == [12, 13, 14, 15]
    assert set(site.clients.tolist()) == clients
    assert set(site.compute.tolist()) == compute


def test_given_io_nodes_leave_only_the_jobs_to_place() -> None:
    result = weft.place_io(
        SLIM, "h[4-7]", DMODK, compute=6, compute_placements=["linear", "last"], **QUICK
    )
    assert {tuple(each.hosts()) for each in result.candidates} == {("h4", "h5", "h6", "h7")}
    assert {each.compute_placements for each in result.candidates} == {("linear",), ("last",)}


# -- traffic and runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("write_share", [0.0, 0.25, 1.0])
def test_transactions_have_the_share_of_writes_and_one_is_outstanding(write_share) -> None:
    loads = loads_of([0, 5, 10, 15])
    chosen = IoSettings(io_nodes=4, write_share=write_share)
    extent = Extent(1e5, 10, 65536, 400)
    work = io_workload(loads.site, chosen, extent)
    data = work.messages[work.size_bytes[work.messages] != 64]  # without requests
    writes = work.kind[data] == Kind.PUT
    assert len(data) == 12 * 400
    assert writes.mean() == pytest.approx(write_share, abs=0.03)
    # A write is between a client and an I/O node, a read the other way round.
    assert (work.rank[data[writes]] < 12).all()
    assert (work.rank[data[~writes]] >= 12).all()
    # Every operation of a client but the first waits for one before it.
    first = work.op_offset[:12]
    waits = np.diff(work.dep_offset)
    for rank in range(12):
        assert (waits[first[rank] : work.op_offset[rank + 1]] == 0).sum() == 1


@pytest.mark.parametrize("level", ["flow", "packet"])
@pytest.mark.parametrize("write_share", [0.0, 1.0, None])
def test_io_alone_gets_what_the_full_cables_allow(level, write_share) -> None:
    # Each I/O node has a leaf of its own and always 3 clients with a transaction outstanding, so at
    # least one direction of its cable is full.
    chosen = IoSettings(io_nodes=4, write_share=write_share, choice="cyclic")
    site = loads_of([0, 5, 10, 15]).site
    extent = Extent.of(site, chosen, RATE)
    hosts = np.concatenate((site.clients, site.io))
    job = {"io": (io_workload(site, chosen, extent), hosts)}
    rate = bandwidths(SLIM, DMODK, job, level, extent.until_ns, 0)["io"]
    directions = 2 if write_share is None else 1
    assert 0.93 * 4 * RATE <= rate <= 1.03 * 4 * RATE * directions


def test_a_compute_job_of_neighbours_on_a_leaf_gets_the_rate_of_its_cables() -> None:
    chosen = IoSettings(io_nodes=1, pattern="shift")
    job = {"compute": (compute_workload(4, chosen, 40), np.arange(4, dtype=np.int32))}
    until = 40 * chosen.compute_bytes * 8 / RATE
    rate = bandwidths(SLIM, DMODK, job, "flow", until, 0)["compute"]
    assert rate == pytest.approx(4 * RATE, rel=0.05)


def test_only_ranks_on_shared_io_nodes_suffer_as_in_the_paper() -> None:
    """Petrini et al. 2003, section 5.7: clustered I/O nodes, of the I/O job or the compute job."""
    fabric = weft.fabric("xgft:2;4,4;1,4")
    result = weft.place_io(
        fabric, 4, "dmodk", shared=True, compute=8, placements=["last"],
        compute_placements=["linear", "last"],
        **{**QUICK, "randoms": 0, "moves": 0, "confirm": "packet"},
    )  # fmt: skip
    lost = {each.compute_placements[0]: each.confirmed.interference for each in result.candidates}
    assert lost["linear"] == pytest.approx(0.0, abs=0.02)
    assert lost["last"] > 0.1
    assert result.best.compute_placements[0] == "linear"


# -- the result ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slim():
    return weft.place_io(SLIM, 4, "dmodk", **{**QUICK, "confirm": "packet"})


def test_the_recommended_hosts_are_on_different_leaves(slim) -> None:
    assert len({int(name[1:]) // 4 for name in slim.io_nodes}) == 4
    assert slim.best.loads.client_gbps == pytest.approx(RATE / 3)
    stages = [each.stage for each in slim.candidates]
    assert stages == sorted(stages, reverse=True)
    assert stages[0] == 2


def test_the_reasons_name_the_cables_and_the_rates(slim) -> None:
    text = "\n".join(slim.reasons())
    assert text.startswith("Recommended: I/O nodes on h[")
    assert f"If all 12 clients write at once, each gets {RATE / 3:.3g} Gb/s" in text
    assert "the I/O nodes' own cables are full" in text
    (line,) = [line for line in slim.reasons() if f"gets {RATE / 6:.3g} Gb/s" in line]
    assert line.startswith(("Second: last", "Clustered: last"))
    assert "2 links are full, s2-0[4] -> s1-3[5], s2-1[4] -> s1-3[6]" in line
    assert "the first carries the data of 12 clients and 2 I/O nodes" in line
    assert f"The cables of hosts would allow {RATE / 3:.3g} Gb/s." in line


def test_equal_seeds_give_equal_results(slim) -> None:
    again = weft.place_io(SLIM, 4, "dmodk", **{**QUICK, "confirm": "packet"})
    assert again.table.equals(slim.table)
    other = weft.place_io(SLIM, 4, "dmodk", seed=9, **QUICK)
    assert not other.table["flow_io_gbps"].equals(slim.table["flow_io_gbps"])


def test_routes_that_can_deadlock_are_replaced_unless_asked_for() -> None:
    torus = weft.fabric("torus:5x5")
    result = weft.place_io(torus, 2, **QUICK)
    assert result.engine == "nue"
    assert result.notes == ("minhop's routes can deadlock on this fabric; nue's cannot.",)
    assert weft.place_io(torus, 2, "minhop", **QUICK).engine == "minhop"
    assert weft.place_io(SLIM, 2, **QUICK).engine == "minhop"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["ecmp", "valiant"])
def test_routes_with_a_choice_of_paths_have_no_count_of_users(engine) -> None:
    fabric = weft.fabric("xgft:2;4,4;1,2" if engine == "ecmp" else "dragonfly:p=2,a=4,h=2")
    result = weft.place_io(fabric, 4, engine, placements=["last"], **{**QUICK, "confirm": "packet"})
    assert "carries the data" not in "\n".join(result.reasons())
    assert result.best.confirmed is not None


def test_the_flit_level_confirms_with_lanes_for_the_routes() -> None:
    """Routes of 3 virtual lanes need a multiple of 3, and the usual number of lanes is 4."""
    fabric, chosen = weft.fabric("torus:5x5"), IoSettings(io_nodes=2, compute=4)
    routes = weft.route(fabric, "nue:max_vls=3")
    assert routes.num_vls == 3
    job = {"compute": (compute_workload(4, chosen, 24), np.arange(4, dtype=np.int32))}
    until = 24 * chosen.compute_bytes * 8 / RATE
    rates = [
        bandwidths(fabric, routes, job, level, until, 0)["compute"] for level in ("flow", "flit")
    ]
    assert rates[1] == pytest.approx(rates[0], rel=0.1)


def test_the_flit_level_confirms_the_best() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,2")
    quick = {**QUICK, "randoms": 0, "moves": 0, "finalists": 1, "confirm": "flit"}
    result = weft.place_io(fabric, 4, "dmodk", placements=["last", "cyclic"], **quick)
    best = result.best
    assert best.confirmed is not None
    assert best.flow is not None
    assert 0.5 < best.confirmed.compute_alone / best.flow.compute_alone < 1.05
    assert any(line.startswith("At the flit level the I/O job gets") for line in result.reasons())


def test_a_placement_that_does_not_fit_is_named() -> None:
    result = weft.place_io(weft.fabric("bcube:n=3,k=1"), 2, **QUICK)
    assert "forwards packets itself" in result.refused["cyclic"]
    assert result.table["bound_gbps"].null_count() == len(result.table)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("io", "options", "message"),
    [
        (0, {}, "io_nodes must be at least 1, not 0"),
        (17, {}, "17, and 2 hosts for a job: 19 hosts are needed, and .* has 16"),
        (15, {}, "17 hosts are needed"),
        (2, {"compute": 15}, "io_nodes 2, compute 15: 17 hosts are needed"),
        (2, {"compute": 1}, "compute must be at least 2, not 1"),
        (2, {"clients": 0}, "clients must be at least 1, not 0"),
        (2, {"clients": 13}, "17 hosts are needed"),
        ("h99", {}, r"io_nodes: no host 'h99' in .*\(did you mean"),
        ("h[1-2", {}, "io_nodes: host list"),
        ("s1-0", {}, "io_nodes: s1-0 is a switch, not a host"),
        ("h1", {"compute": "h[1-3]"}, "h1: listed for both io_nodes and compute"),
        ("h0", {"compute": "h[1-3]", "clients": "h3"}, "h3: listed for both compute and clients"),
        ("h1", {"clients": "h1", "shared": True}, "the only client is the only I/O node"),
        (4, {"placements": ["lst"]}, r"unknown placement 'lst' \(did you mean"),
        (4, {"pattern": "unifrom"}, "unknown traffic pattern 'unifrom'"),
        (4, {"choice": "fixed"}, "choice: 'fixed' does not fit"),
        (4, {"write_share": 1.5}, "write_share: 1.5 does not fit"),
        (4.5, {}, "io_nodes: 4.5 does not fit: expected a number of hosts, or a list of hosts"),
        (True, {}, "io_nodes: True does not fit"),
    ],
)
def test_wrong_input_is_refused(io, options, message) -> None:
    with pytest.raises(InputError, match=message):
        weft.place_io(SLIM, io, DMODK, **options)


def test_hosts_without_a_path_are_refused() -> None:
    apart = SLIM.without(switches=["s2-0", "s2-1"])
    with pytest.raises(InputError, match="pairs of these hosts have no path"):
        weft.place_io(apart, 2, **QUICK)


def test_a_pattern_that_needs_another_number_of_hosts_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="bit-reversal"):
        weft.place_io(SLIM, 4, DMODK, pattern="bit-reversal", **QUICK)


# -- the command ---------------------------------------------------------------------------------

WORDS = (
    "place-io", "xgft:2;4,4;1,2", "--io-nodes", "4", "--engine", "dmodk", "--repeats", "1",
    "--randoms", "0", "--moves", "0", "--finalists", "1", "--placement", "last,strided",
)  # fmt: skip


def test_the_command_prints_a_table_and_the_reasons(capsys, tmp_path) -> None:
    path = tmp_path / "candidates.csv"
    assert main([*WORDS, "--table", str(path)]) == 0
    out, _ = capsys.readouterr()
    assert "Recommended: I/O nodes on h[0,4,8,12] (placement strided)." in out
    assert "│ last" in out
    assert path.read_text().startswith("placement,compute_placement,io_nodes,write_gbps,read_gbps,")


def test_json_has_the_candidates_and_the_recommended_hosts(capsys) -> None:
    assert main([*WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        "candidates", "engine", "margin", "notes", "reasons", "recommended", "refusals"
    }  # fmt: skip
    assert found["recommended"]["io"] == ["h0", "h4", "h8", "h12"]
    assert len(found["recommended"]["clients"]) == 12
    first, second = found["candidates"]
    assert first["placement"] == "strided"
    assert second["limit"] == "s2-0[4] -> s1-3[5]"
    assert second["write_gbps"] == pytest.approx(RATE / 6)
    assert first["confirmed_interference"] == pytest.approx(
        1 - first["confirmed_compute_gbps"] / first["confirmed_compute_alone_gbps"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--io-nodes", "0"], "--io-nodes must be at least 1, not 0"),
        (["--io-nodes", "4", "--compute", "13"], "--io-nodes 4, --compute 13: 17 hosts are needed"),
        (["--io-nodes", "4", "--repeats", "0"], "--repeats: '0' does not fit"),
    ],
)
def test_errors_name_the_option(capsys, words, message) -> None:
    assert main(["place-io", "xgft:2;4,4;1,2", *words]) == 2
    assert message in capsys.readouterr().err
