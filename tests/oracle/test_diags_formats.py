"""Readers of what the programs of infiniband-diags print about a simulated subnet."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.test_ibsim_formats import by_guid
from tests.oracle.tools import require_tools

from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric, FabricBuilder, NodeKind
from weft.fabrics.formats import FormatWarning, read_file
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle

RATES = ["1xSDR", "4xSDR", "4xDDR", "4xQDR", "12xQDR", "4xFDR", "1xEDR", "4xEDR", "8xEDR", "4xHDR"]
#: A port by the GUID of the port, that of the switch for switches, and its number.
End = tuple[int, int]


def connected(seed: int) -> Fabric:
    """Return a random connected fabric with parallel cables, mixed rates and two-port adapters."""
    random = np.random.default_rng(seed)
    build = FabricBuilder(f"connected {seed}")
    count = int(random.integers(2, 7))
    switches = build.switches([f"sw {number}" for number in range(count)], ports=18)

    def connect(one: int, other: int) -> None:
        build.connect([one], [other], rate=RATES[random.integers(len(RATES))])

    for number in range(1, count):
        connect(switches[number], switches[random.integers(number)])
    for _ in range(int(random.integers(5))):
        connect(*random.choice(switches, 2, replace=False))
    for number in range(int(random.integers(2, 9))):
        ports = 1 if number == 0 else int(random.integers(1, 3))
        (host,) = build.hosts([f"node{number} HCA-1"], ports=ports)
        for _ in range(int(random.integers(1, ports + 1))):
            connect(host, random.choice(switches))
    return build.fabric()


@pytest.fixture(scope="module", params=range(12))
def printed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Fabric]:
    """Return a folder of what the programs print, and the fabric as ibnetdiscover describes it."""
    require_tools("opensm", "ibsim", "ibnetdiscover", "iblinkinfo", "saquery", "ibswitches")
    folder = tmp_path_factory.mktemp("printed")
    with live(connected(request.param)) as subnet:

        def keep(name: str, *commands: Sequence[str]) -> Path:
            path = folder / name
            path.write_text("".join(subnet.run(command) for command in commands))
            return path

        real = read(keep("ibnetdiscover", ["ibnetdiscover"]))
        keep("grouped", ["ibnetdiscover", "-g"])
        keep("full", ["ibnetdiscover", "-f"])
        keep("ports", ["ibnetdiscover", "-p"])
        keep("links", ["iblinkinfo"])
        keep("line", ["iblinkinfo", "-l"])
        keep("settings", ["iblinkinfo", "-p", "-l"])
        keep("switches-only", ["iblinkinfo", "--switches-only"])
        keep("names", ["ibswitches"], ["ibhosts"])
        # ibsim transfers one packet of an answer, so each record is asked for by itself.
        known = sorted(set(real.lid.tolist()) - {0})
        ports = [
            f"{real.lid[real.num_endpoints + switch]}/{port}"
            for switch, port in zip(
                real.link_from.tolist(), real.link_from_port.tolist(), strict=True
            )
            if switch < real.num_switches
        ]
        own = zip(real.lid.tolist(), real.endpoint_port.tolist(), strict=False)
        ports += [f"{lid}/{port}" for lid, port in own] + [f"{known[0]}/17"]
        keep("NR", *(["saquery", "NR", str(lid)] for lid in known))
        keep("LR", *(["saquery", "LR", str(lid)] for lid in known))
        keep("PIR", *(["saquery", "PIR", port] for port in ports))
    return folder, real


def read(path: Path, *also: Path) -> Fabric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return read_file(path, also=also)


def ends(fabric: Fabric) -> list[End]:
    """Return the end at which each link begins."""
    slots = fabric.port_offset[fabric.link_from] + fabric.link_from_port - 1
    guids = np.where(
        fabric.node_kind[fabric.link_from] == NodeKind.SWITCH,
        fabric.node_guid[fabric.link_from],
        fabric.port_guid[slots],
    )
    return list(zip(guids.tolist(), fabric.link_from_port.tolist(), strict=True))


def cables(fabric: Fabric) -> dict[frozenset[End], str]:
    at = ends(fabric)
    rates = [RATE_NAMES[code] for code in fabric.cable_rate_code.tolist()]
    return {frozenset(at[2 * cable : 2 * cable + 2]): rate for cable, rate in enumerate(rates)}


def nodes(fabric: Fabric) -> dict[frozenset[End], tuple[int, str]]:
    """Return kind and description by the cabled ports of each node."""
    at: dict[int, set[End]] = {}
    for node, end in zip(fabric.link_from.tolist(), ends(fabric), strict=True):
        at.setdefault(node, set()).add(end)
    return {
        frozenset(ends): (int(fabric.node_kind[node]), fabric.descriptions[node])
        for node, ends in at.items()
    }


def lids(fabric: Fabric) -> dict[End, int]:
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    owners = [
        *zip(fabric.port_guid[slots].tolist(), fabric.endpoint_port.tolist(), strict=True),
        *((guid, 0) for guid in fabric.node_guid[: fabric.num_switches].tolist()),
    ]
    return dict(zip(owners, fabric.lid.tolist(), strict=True))


def same(found: Fabric, real: Fabric) -> None:
    assert cables(found) == cables(real)
    assert nodes(found) == nodes(real)
    assert lids(found) == lids(real)


@pytest.mark.sampled(3)
def test_each_program_describes_the_fabric_that_ibnetdiscover_finds(
    printed: tuple[Path, Fabric],
) -> None:
    folder, real = printed
    for name in ("grouped", "full", "ports", "links", "line", "settings"):
        same(read(folder / name), real)
    with pytest.warns(FormatWarning) as said:
        only = read_file(folder / "switches-only")
    lost = sum(each.message.lost for each in said if isinstance(each.message, FormatWarning))
    assert only.num_cables + lost == real.num_cables
    assert cables(only).items() <= cables(real).items()


@pytest.mark.sampled(3)
def test_records_of_the_subnet_administration_are_the_fabric(printed: tuple[Path, Fabric]) -> None:
    folder, real = printed
    found = read(folder / "LR", folder / "NR", folder / "PIR")
    same(found, real)
    assert by_guid(found) == by_guid(real)
    together = folder / "together"
    together.write_text("".join((folder / name).read_text() for name in ("PIR", "LR", "NR")))
    same(read(together), real)
    # LIDs and names of one program, cables of another.
    same(read(folder / "LR", folder / "ports", folder / "PIR"), real)
