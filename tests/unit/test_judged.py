"""`--hosts` and `--without`: hosts that keep their paths but are not judged."""

import json

import numpy as np
import pytest

from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics import FabricBuilder, NodeKind
from weft.fabrics.formats import write_fabric
from weft.fabrics.judged import Judged
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.validation.validate import validate
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


def tables(fabric, routes):
    """Return the entries of all switches by the GUID of the destination."""
    nodes = (*fabric.endpoint_node, *range(fabric.num_switches))
    return {int(fabric.node_guid[node]): routes.table[d].tolist() for d, node in enumerate(nodes)}


@pytest.mark.parametrize(
    "judged", [Judged(without="adm[0-2]"), Judged(hosts="n[0-7]"), Judged("n[0-7],adm0", "adm0")]
)
def test_other_hosts_keep_their_paths_but_have_no_traffic(judged) -> None:
    whole, part = cluster(), judged.of(cluster())
    assert (part.num_hosts, part.num_cables) == (8, whole.num_cables)
    assert int((part.node_kind == NodeKind.AUXILIARY).sum()) == 3
    routes = route(part, "minhop")
    assert validate(part, routes).ok
    loads = all_to_all_loads(part, routes)
    assert loads.flows == 8 * 7
    stub = part.find_cable("stub[1]")
    assert loads.per_link[2 * stub : 2 * stub + 2].tolist() == [0, 0]
    # The subnet manager routes all adapters, judged or not: its tables are the same.
    for engine in ("minhop:balance=opensm", "updn:balance=opensm", "dfsssp:balance=opensm"):
        ours, theirs = (tables(fabric, route(fabric, engine)) for fabric in (part, whole))
        assert ours == theirs


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
