"""Hot spots and those who only pass by: every figure of docs/congestion-control.md, run again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.packet_runs import puts

import weft
from weft import CongestionControl, Hardware
from weft.fabrics import Fabric, FabricBuilder
from weft.sim.packet import PacketResult
from weft.workload import Workload, WorkloadBuilder

PAGE = (Path(__file__).parents[2] / "docs" / "congestion-control.md").read_text()
#: Of all links; payload that victims of the fat tree ask for, and that on the wire.
GBPS, ASKED = 32.0, 16.0
WIRE = ASKED * 2074 / 2048
SPAN_NS = 10e6


def table(header: str) -> list[tuple[str, ...]]:
    """Cells of the rows of the page's table whose header begins so."""
    (lines,) = [part for part in PAGE.split("\n\n") if part.startswith(f"| {header} |")]
    return [tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in lines.splitlines()[2:]]


def settings(cell: str) -> CongestionControl | None:
    """What the column of control, or that of settings, says."""
    if cell in ("no", "yes", "usual"):
        return None if cell == "no" else CongestionControl()
    name, value = cell.strip("`").split("=")
    return CongestionControl(**{name: int(value)})  # type: ignore[arg-type]


def as_told(found: list[float], cells: tuple[str, ...]) -> list[str]:
    """Rates, to as many places as the cells have."""
    return [
        f"{rate:.{len(cell.partition('.')[2])}f}" for rate, cell in zip(found, cells, strict=True)
    ]


# -- runs ------------------------------------------------------------------------------------------


def received_gbps(result: PacketResult, host: int) -> float:
    fabric = result.fabric
    link = int(np.flatnonzero(fabric.link_to == fabric.host_nodes[host])[0])
    return float(result.wire_bytes[link].sum() * 8000 / result.end_ps)


def sent_gbps(result: PacketResult, host: int) -> float:
    fabric = result.fabric
    link = int(np.flatnonzero(fabric.link_from == fabric.host_nodes[host])[0])
    return float(result.wire_bytes[link].sum() * 8000 / result.end_ps)


def run(
    fabric: Fabric, work: Workload, engine: str, queues: str, control: CongestionControl | None
) -> PacketResult:
    hardware = Hardware(queues=queues, congestion_control=control)  # type: ignore[arg-type]
    routes = weft.route(fabric, engine)
    return weft.simulate(
        fabric, routes, work, hardware=hardware, max_time_ns=SPAN_NS, level="packet"
    )


@cache
def two_switches(local: int, queues: str, control: CongestionControl | None) -> list[float]:
    """What the hot spot and B receive, and A sends.

    Host 0, A, and `local` others send to host 2, host 1, B, to host 3 by the same trunk as A.
    """
    builder = FabricBuilder("hot spot", rate=GBPS)
    switches = builder.switches(["s0", "s1"])
    hosts = [0, 0] + [1] * (2 + local)
    builder.connect(switches[hosts], builder.hosts([f"h{n}" for n in range(len(hosts))]))
    builder.connect(switches[[0]], switches[[1]])
    to_hot = [(4 + n, 2, 80_000_000) for n in range(local)]
    work = puts(len(hosts), (0, 2, 80_000_000), (1, 3, 80_000_000), *to_hot)
    found = run(builder.fabric(), work, "minhop", queues, control)
    return [received_gbps(found, 2), received_gbps(found, 3), sent_gbps(found, 0)]


@cache
def tree_traffic(victims_ask: bool) -> Workload:
    """Three hosts of each of three leaves send to host 0; the fourth one to another leaf."""
    builder = WorkloadBuilder(16)
    packets = np.arange(int(SPAN_NS * ASKED / 8 / 2048))
    for leaf in (1, 2, 3):
        for source in range(3):
            builder.put(4 * leaf + source, 0, 60_000_000)
        victim, goal = 4 * leaf + 3, 4 * (leaf % 3 + 1)
        if victims_ask:
            for packet in packets:
                builder.put(victim, goal, 2048, release_ns=packet * 2048 * 8 / ASKED)
        else:
            builder.put(victim, goal, 60_000_000)
    return builder.build()


@cache
def fat_tree(
    victims_ask: bool, queues: str, control: CongestionControl | None
) -> tuple[float, list[float], float]:
    """What the hot spot receives, what each victim's goal does, and what a contributor sends."""
    fabric = weft.fabric(f"xgft:2;4,4;1,4,rate={GBPS}")
    found = run(fabric, tree_traffic(victims_ask), "dmodk", queues, control)
    goals = [received_gbps(found, host) for host in (4, 8, 12)]
    sent = [sent_gbps(found, 4 * leaf + source) for leaf in (1, 2, 3) for source in range(3)]
    return received_gbps(found, 0), goals, float(np.mean(sent))


# -- the page's tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", table("queues"), ids=" ".join)
def test_two_switches_are_as_the_page_tells_them(row: tuple[str, ...]) -> None:
    queues, local, control, *told, closed = row
    found = two_switches(int(local), queues, settings(control))
    assert as_told(found, tuple(told)) == told
    if control == "no":
        # The trunk's buffer fills with packets for the hot spot, and as they leave it in turn, the
        # victim moves as fast as they do: the hot spot's rate over its incoming ports.
        assert float(closed) == GBPS / (int(local) + 1)
        assert found[1] == pytest.approx(float(closed), rel=0.005)


@pytest.mark.parametrize("row", table("victims ask for"), ids=" ".join)
def test_the_fat_tree_is_as_the_page_tells_it(row: tuple[str, ...]) -> None:
    asked, queues, control, *told = row
    assert asked in ("all", f"{WIRE:.1f}")
    root, goals, contributor = fat_tree(asked != "all", queues, settings(control))
    assert as_told([root, float(np.mean(goals)), contributor], tuple(told)) == told


@pytest.mark.parametrize("row", table("setting | hot spot"), ids=" ".join)
def test_other_settings_are_as_the_page_tells_them(row: tuple[str, ...]) -> None:
    setting, *told = row
    control = settings(setting)
    root, goals, _ = fat_tree(True, "voq", control)
    found = [*two_switches(3, "voq", control), root, float(np.mean(goals))]
    assert as_told(found, tuple(told)) == told


# -- what they are to show -------------------------------------------------------------------------


@pytest.mark.parametrize("local", [3, 7])
def test_a_victim_gets_its_rate_back_while_the_hot_spot_stays_busy(local: int) -> None:
    hot, victim, _ = two_switches(local, "voq", None)
    assert hot == pytest.approx(GBPS, rel=0.001)
    hot, victim, _ = two_switches(local, "voq", CongestionControl())
    assert hot > 0.95 * GBPS
    assert victim > 0.75 * GBPS


def test_victims_in_a_fat_tree_get_all_that_they_ask_for() -> None:
    hot, goals, _ = fat_tree(True, "voq", None)
    assert [hot, *goals] == pytest.approx([GBPS, *[GBPS / 9] * 3], rel=0.002)
    hot, goals, _ = fat_tree(True, "voq", CongestionControl())
    assert hot > 0.97 * GBPS
    assert goals == pytest.approx([WIRE] * 3, rel=0.001)
