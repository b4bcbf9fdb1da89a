"""Round trips of fabrics: weft writes a file, ibsim runs it, and weft reads ibnetdiscover."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import require_tools, simulator
from tests.processes import PATIENCE_S
from tests.reading import reader_of

from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric, FabricBuilder, NodeKind, Parts
from weft.fabrics.formats import FormatWarning, read_file, write_fabric
from weft.fabrics.topology import build

read = reader_of("ibnetdiscover")

pytestmark = pytest.mark.oracle


def discovered(fabric: Fabric, folder: Path, format_name: str, *options: str) -> Fabric:
    """Return the fabric after a round trip through a file, ibsim and ibnetdiscover."""
    require_tools("ibsim", "ibsim-run", "ibnetdiscover")
    net = folder / "fabric.net"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        write_fabric(fabric, net, format_name)
    with simulator(net, fabric) as environment:
        run = subprocess.run(
            ["ibsim-run", "ibnetdiscover", *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    # Output and messages are in one stream, as after a redirection in a shell.
    assert "ibwarn: [" in run.stderr
    with pytest.warns(FormatWarning, match="with messages"):
        return read(run.stderr + run.stdout, "discovered")


End = tuple[int, int]


def wiring(fabric: Fabric) -> dict[frozenset[End], str]:
    """Return the rate of each cable by its two ends (node GUID, port)."""
    guids = fabric.node_guid.tolist()
    ends = [
        (guids[node], port)
        for node, port in zip(
            fabric.link_from.tolist(), fabric.link_from_port.tolist(), strict=True
        )
    ]
    rates = [RATE_NAMES[code] for code in fabric.cable_rate_code.tolist()]
    return {frozenset(ends[2 * c : 2 * c + 2]): rate for c, rate in enumerate(rates)}


def by_guid(fabric: Fabric) -> dict[int, tuple[int, int, str, int, int]]:
    """Return the kind, number of ports, description, vendor and device of each node by GUID."""
    return {
        int(fabric.node_guid[node]): (
            int(fabric.node_kind[node]),
            int(fabric.num_ports[node]),
            fabric.descriptions[node],
            int(fabric.vendor_id[node]),
            int(fabric.device_id[node]),
        )
        for node in range(fabric.num_nodes)
    }


def lids(fabric: Fabric) -> dict[End, tuple[int, int]]:
    """Return LID and LMC of each endpoint and switch (port 0)."""
    owners = [
        *zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True),
        *((switch, 0) for switch in range(fabric.num_switches)),
    ]
    values = zip(owners, fabric.lid.tolist(), fabric.lmc.tolist(), strict=True)
    return {(int(fabric.node_guid[node]), port): (lid, lmc) for (node, port), lid, lmc in values}


def same(result: Fabric, fabric: Fabric) -> None:
    assert wiring(result) == wiring(fabric)
    assert by_guid(result) == by_guid(fabric)
    assert lids(result) == lids(fabric)


@pytest.mark.parametrize("format_name", ["ibsim", "ibnetdiscover"])
@pytest.mark.parametrize(
    "spec",
    [
        "xgft:2;4,4;1,2,rate=4xQDR",
        "xgft:3;2,3,4;1,2,3,rate=4xEDR,host_rate=2xHDR",
        "xgft:2;3,3;1,3;1,2,rate=12xDDR,host_rate=4xFDR",
    ],
)
def test_generated_trees_survive_a_round_trip(spec: str, format_name: str, tmp_path: Path) -> None:
    fabric = build(spec)
    same(discovered(fabric, tmp_path, format_name), fabric)


def test_a_shuffled_tree_survives_a_round_trip(tmp_path: Path) -> None:
    fabric = build("xgft:2;4,4;1,2,rate=4xHDR").shuffled(7)
    same(discovered(fabric, tmp_path, "ibsim"), fabric)


def test_several_ports_and_parallel_cables_survive_a_round_trip(tmp_path: Path) -> None:
    maker = FabricBuilder("dual rail", rate="4xSDR")
    switches = maker.switches(["left", "right"], ports=24)
    hosts = maker.hosts([f"h{number}" for number in range(6)], ports=3)
    maker.connect(switches[:1], switches[1:], cables=4, rate="12xQDR")
    maker.connect(hosts, switches[:1].repeat(6))
    maker.connect(hosts, switches[1:].repeat(6), rate="1xDDR")
    same(discovered(maker.fabric(), tmp_path, "ibsim"), maker.fabric())


def test_fdr10_is_seen_on_devices_that_report_it(tmp_path: Path) -> None:
    """ibnetdiscover queries only known devices, and reports the ports of other devices as QDR."""
    parts = Parts.of(build("xgft:1;4;1,rate=4xFDR10"))
    parts.vendor_id[:], parts.device_id[:] = 0x2C9, 0x1003
    parts.device_id[0] = 0xC738
    fabric = Fabric.of(parts)
    same(discovered(fabric, tmp_path, "ibsim"), fabric)


@pytest.mark.parametrize("format_name", ["ibsim", "ibnetdiscover"])
def test_a_real_cluster_survives_a_round_trip(
    shared: Path, format_name: str, tmp_path: Path
) -> None:
    folder = shared / "fabrics"
    fabric = read_file(folder / "psmn-x5.ibnetdiscover", names=folder / "psmn-x5.node-name-map")
    result = discovered(fabric, tmp_path, format_name)
    same(result, fabric)
    assert sorted(wiring(result).values()).count("4xDDR") == 23


@pytest.mark.parametrize("options", [["-g"], ["-f"], ["-m"], ["-s"], ["-g", "-f"]], ids="".join)
def test_output_with_other_options_is_read(
    options: list[str], shared: Path, tmp_path: Path
) -> None:
    """Output may be grouped by chassis, have long names of rates or hops, or progress messages."""
    fabric = read_file(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    same(discovered(fabric, tmp_path, "ibnetdiscover", *options), fabric)


def test_names_that_look_like_syntax_survive_a_round_trip(tmp_path: Path) -> None:
    """Descriptions and labels may look like options, LIDs and ends of records."""
    parts = Parts.of(build("xgft:1;6;1,rate=4xQDR"))
    parts.descriptions = [
        "switch w=8 s=1",
        "node=1 HCA-1",
        "speed=9 lid 77 lmc 3",
        "# [1]",
        "base port 0 lid 5",
        "x" * 63,
        "plain",
    ]
    parts.names[1:3] = ["host w=8", 'a "quoted" #1']
    parts.lid = {(0, 0): (5, 0), (1, 1): (6, 1), (2, 1): (9, 0)}
    fabric = Fabric.of(parts)
    same(discovered(fabric, tmp_path, "ibsim"), fabric)


def test_routers_and_aggregation_nodes_survive_a_round_trip(tmp_path: Path) -> None:
    """ibsim 0.10 runs routers at 4xSDR whatever the file says. Everything else must be equal."""
    parts = Parts.of(build("xgft:1;3;1,rate=4xSDR"))
    parts.kind[2:] = NodeKind.AUXILIARY
    parts.descriptions[3] = "Mellanox Technologies Aggregation Node"
    fabric = Fabric.of(parts)
    result = discovered(fabric, tmp_path, "ibsim")
    same(result, fabric)
    assert np.count_nonzero(result.node_kind == NodeKind.AUXILIARY) == 2


def test_labels_are_node_ids_of_ibsim(tmp_path: Path) -> None:
    """A client that attaches to the label of a node is attached to that node."""
    require_tools("ibsim", "ibsim-run", "ibnetdiscover")
    fabric = build("xgft:2;2,2;1,1,rate=4xQDR").shuffled(2)
    net = tmp_path / "fabric.net"
    write_fabric(fabric, net)
    with simulator(net, fabric) as environment:
        for host in (0, fabric.num_hosts - 1):
            node = fabric.num_switches + host
            run = subprocess.run(
                ["ibsim-run", "ibnetdiscover"],
                env={**environment, "SIM_HOST": fabric.node_names[node]},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
            assert f"# Initiated from node {int(fabric.node_guid[node]):016x}" in run.stdout
