"""Hot spots and their victims: every figure of docs/congestion-control.md, simulated again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.packet_runs import puts

import weft
from weft import CongestionControl, Hardware
from weft.fabrics import Fabric, FabricBuilder
from weft.sim.packet.result import PacketResult
from weft.workload import Workload, WorkloadBuilder

PAGE = (Path(__file__).parents[2] / "docs" / "congestion-control.md").read_text()
#: Rate of all links; rate that victims of the fat tree offer, without and with packet headers.
GBPS, ASKED = 32.0, 16.0
WIRE = ASKED * 2074 / 2048
SPAN_NS = 10e6


def table(header: str) -> list[tuple[str, ...]]:
    """Return the cells of the page's table whose header starts with `header`."""
    (lines,) = [part for part in PAGE.split("\n\n") if part.startswith(f"| {header} |")]
    return [tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in lines.splitlines()[2:]]


def settings(cell: str) -> CongestionControl | None:
    """Return the settings that a table cell names; None for a run without congestion control."""
    if cell in ("no", "yes", "defaults"):
        return None if cell == "no" else CongestionControl()
    name, value = cell.strip("`").split("=")
    return CongestionControl(**{name: int(value)})  # type: ignore[arg-type]


def formatted(rates: list[float], cells: tuple[str, ...]) -> list[str]:
    """Format rates with as many decimals as the cells have."""
    return [
        f"{rate:.{len(cell.partition('.')[2])}f}" for rate, cell in zip(rates, cells, strict=True)
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
    """Return the rates received by the hot spot and by B's destination, and sent by A.

    Host 0 (A) and `local` hosts beside the hot spot send to it, host 2. Host 1 (B) sends to
    host 3 over the same trunk as A.
    """
    builder = FabricBuilder("hot spot", rate=GBPS)
    switches = builder.switches(["s0", "s1"])
    hosts = [0, 0] + [1] * (2 + local)
    builder.connect(switches[hosts], builder.hosts([f"h{n}" for n in range(len(hosts))]))
    builder.connect(switches[[0]], switches[[1]])
    to_hot = [(4 + n, 2, 80_000_000) for n in range(local)]
    work = puts(len(hosts), (0, 2, 80_000_000), (1, 3, 80_000_000), *to_hot)
    result = run(builder.fabric(), work, "minhop", queues, control)
    return [received_gbps(result, 2), received_gbps(result, 3), sent_gbps(result, 0)]


@cache
def tree_traffic(victims_ask: bool) -> Workload:
    """Return messages of three leaves: three hosts of each send to host 0, one to another leaf."""
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
    """Return the rates received by the hot spot and by the destination of each victim, and the mean
    rate sent by a contributor.
    """
    fabric = weft.fabric(f"xgft:2;4,4;1,4,rate={GBPS}")
    result = run(fabric, tree_traffic(victims_ask), "dmodk", queues, control)
    goals = [received_gbps(result, host) for host in (4, 8, 12)]
    sent = [sent_gbps(result, 4 * leaf + source) for leaf in (1, 2, 3) for source in range(3)]
    return received_gbps(result, 0), goals, float(np.mean(sent))


# -- the page's tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", table("queues"), ids=" ".join)
def test_rates_of_two_switches_are_those_of_the_page(row: tuple[str, ...]) -> None:
    queues, local, control, *expected, closed = row
    rates = two_switches(int(local), queues, settings(control))
    assert formatted(rates, tuple(expected)) == expected
    if control == "no":
        # The trunk's buffer fills with packets for the hot spot. They leave it alternately with the
        # victim's packets: both flows get what the hot spot grants one of its local + 1 senders.
        assert float(closed) == GBPS / (int(local) + 1)
        assert rates[1] == pytest.approx(float(closed), rel=0.005)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("row", table("victims ask for"), ids=" ".join)
def test_rates_of_the_fat_tree_are_those_of_the_page(row: tuple[str, ...]) -> None:
    offered, queues, control, *expected = row
    assert offered in ("all", f"{WIRE:.1f}")
    root, goals, contributor = fat_tree(offered != "all", queues, settings(control))
    assert formatted([root, float(np.mean(goals)), contributor], tuple(expected)) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", table("setting | hot spot"), ids=" ".join)
def test_rates_with_other_settings_are_those_of_the_page(row: tuple[str, ...]) -> None:
    setting, *expected = row
    control = settings(setting)
    root, goals, _ = fat_tree(True, "voq", control)
    rates = [*two_switches(3, "voq", control), root, float(np.mean(goals))]
    assert formatted(rates, tuple(expected)) == expected


# -- conclusions of the page -----------------------------------------------------------------------


@pytest.mark.parametrize("local", [3, 7])
def test_a_victim_recovers_most_of_its_rate_while_the_hot_spot_stays_busy(local: int) -> None:
    hot, victim, _ = two_switches(local, "voq", None)
    assert hot == pytest.approx(GBPS, rel=0.001)
    hot, victim, _ = two_switches(local, "voq", CongestionControl())
    assert hot > 0.95 * GBPS
    assert victim > 0.75 * GBPS


def test_victims_in_a_fat_tree_get_their_offered_rate() -> None:
    hot, goals, _ = fat_tree(True, "voq", None)
    assert [hot, *goals] == pytest.approx([GBPS, *[GBPS / 9] * 3], rel=0.002)
    hot, goals, _ = fat_tree(True, "voq", CongestionControl())
    assert hot > 0.97 * GBPS
    assert goals == pytest.approx([WIRE] * 3, rel=0.001)
