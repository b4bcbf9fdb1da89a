"""The contention-graph model beside the packet level."""

from __future__ import annotations

import numpy as np
import pytest

from weft import predict
from weft.studies.contention import packets as packet
from weft.studies.contention.study import FIGURE_4, contention_model

LONG = next(each for each in packet.TOLD if each.hardware.quantum_bytes)
#: Out of one node to two, each of which gets a full-rate communication as well: figure 2, 4th.
BESIDE_FULL_RATE = ([0, 0, 3, 4], [1, 2, 1, 2])


def penalties(graph: packet.Graph, variant: packet.Variant, size: int = 1 << 22) -> np.ndarray:
    """Times of a graph over that of one communication alone."""
    nodes = max(max(each) for each in graph) + 1
    (found,), alpha = packet.measure([graph], variant, nodes, size)
    return found.time_s / (alpha * size)


def test_long_turns_give_the_papers_penalties() -> None:
    """While node 0 sends its turn to 1 it has half of 1's link, and 4 all of 2's; then the other.

    So each of its communications goes at a half for half of the time, 1/4, and the others at 3/4:
    penalties 4 and 4/3. Those end at 4/3; 0's have 2/3 left and go at 1/2: 8/3.
    """
    found = penalties(BESIDE_FULL_RATE, LONG, 1 << 24)
    assert found == pytest.approx([8 / 3, 8 / 3, 4 / 3, 4 / 3], rel=0.015)
    assert found == pytest.approx(predict(*BESIDE_FULL_RATE, 1.0, 0.0, 1.0), rel=0.015)
    # Turns of a packet meet those of the switch, and all go at a half.
    assert penalties(BESIDE_FULL_RATE, packet.Variant("short")) == pytest.approx([2] * 4, rel=0.002)


@pytest.mark.parametrize("name", FIGURE_4)
def test_long_turns_give_the_papers_measured_times(name: str) -> None:
    """Within 1 %, where its own model is off by up to 6 %."""
    edges = FIGURE_4[name]
    graph = [a for a, _ in edges], [b for _, b in edges]
    found = penalties(graph, LONG, packet.MEASURED_BYTES)
    measured = np.array(packet.MEASURED_4[name]) / packet.MEASURED_ALONE
    assert found == pytest.approx(measured, rel=0.01)
    assert np.abs(penalties(graph, packet.TOLD[0]) / measured - 1).max() > 0.05


def test_figure_4_b_by_hand() -> None:
    """0->1 0->2 3->1 4->1 5->1, long turns: a has 1/4 of 1's link while it sends there.

    A turn to 1 takes four times as long as one to 2, so a and b have 1/5 each. c, d and e have 1/4
    for 4/5 of the time and 1/3 for the rest: 4/15. They end at 3.75, where the paper measured 3.743
    and its model has 3.5; a and b then share what is left at 1/2 each and end at 4.25 (4.225).
    """
    edges = FIGURE_4["B"]
    graph = [a for a, _ in edges], [b for _, b in edges]
    found = penalties(graph, LONG, 1 << 24)
    assert found == pytest.approx([4.25, 4.25, 3.75, 3.75, 3.75], rel=0.005)


def test_credits_too_late_leave_an_adapter_below_its_rate() -> None:
    """Two packets each round trip: (0.94 us and twice the cable) + routing + a packet's time."""
    variant = packet.TOLD[1]
    trip_ns = 940 + 2 * 10 + 100 + 2074 * 8 / packet.RATE_GBPS
    _, alpha = packet.measure([([0], [1])], variant, 2)
    assert 8e-9 / alpha == pytest.approx(2 * 2048 * 8 / trip_ns, rel=0.002)


def test_starts_differ_and_are_not_part_of_the_times() -> None:
    fabric, routes = packet.one_switch(5)
    apart = ([0, 2], [1, 3])
    (alone,) = packet.packet_times(([0], [1]), 1 << 16, packet.Variant("x"), fabric, routes)
    late = packet.Variant("late", start_ns=1e5)
    assert packet.packet_times(apart, 1 << 16, late, fabric, routes) == pytest.approx([alone] * 2)
    met = packet.packet_times(([0, 2], [1, 1]), 1 << 16, late, fabric, routes)
    assert met.max() < 2 * alone


def test_the_study_tells_errors_by_variant_and_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    told = (LONG,)
    monkeypatch.setattr(packet, "TOLD", told)
    monkeypatch.setattr(packet, "VARIANTS", (*told, packet.Variant("packets")))
    study = contention_model(edges=2, graphs=2, shapes=2, packet_graphs=12, out=tmp_path)
    found = study.packets
    assert found is not None
    assert found.variants["variant"].to_list() == ["quantum 64 KiB", "packets"]
    assert found.variants["mean_error"][0] < found.variants["mean_error"][1]
    assert found.errors["edges"].to_list() == list(range(2, 13))
    assert found.errors["graphs"].to_list() == [2] + [1] * 10
    assert found.measured["error"].abs().max() < 1
    fitted, random = found.fitted.iter_rows(named=True)
    assert fitted["fitted_mean"] < fitted["paper_mean"]
    assert fitted["graphs"] == "all of up to 4"
    assert random["paper_max"] == found.variants["max_error"][0]
    text = study.text()
    assert "Packet level: 12 random graphs" in text
    assert "+- " in text
    assert (tmp_path / "packet_variants.csv").exists()


@pytest.mark.parametrize("number", [0, 1, 4])
def test_an_interrupt_leaves_the_variants_that_are_done(monkeypatch, number: int) -> None:
    def measure(graphs, variant, *more, **options):
        if variant is packet.VARIANTS[number]:
            raise KeyboardInterrupt
        return measured(graphs, variant, *more, **options)

    measured = packet.measure
    monkeypatch.setattr(packet, "measure", measure)
    study = contention_model(edges=2, graphs=2, shapes=2, packet_graphs=3)
    said = f"{number} of {len(packet.VARIANTS)} variants"
    assert study.partial == said
    assert f"Partial, interrupted: {said} at the packet level" in study.text()
    names = [variant.name for variant in packet.VARIANTS[:number]]
    assert study.packets.variants["variant"].to_list() == names
    told = {variant.name for variant in packet.TOLD} & set(names)
    for table, columns in study.packets.tables().values():
        assert table.columns == list(columns)
        assert set(table["variant"]) in (told, set(names))


def test_without_packets_the_study_says_how_to_have_them() -> None:
    study = contention_model(edges=1, graphs=1, shapes=1)
    assert study.packets is None
    assert "--packet-graphs 200" in study.text()
