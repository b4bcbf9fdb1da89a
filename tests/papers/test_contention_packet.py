"""The contention-graph model compared with the packet level."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from weft import predict
from weft_papers.contention import packets as packet
from weft_papers.contention.study import FIGURE_4, contention_model

LONG = next(each for each in packet.TOLD if each.hardware.quantum_bytes)
#: Fourth graph of figure 2: node 0 sends to two nodes; both also receive at full rate from others.
BESIDE_FULL_RATE = ([0, 0, 3, 4], [1, 2, 1, 2])


def penalties(graph: packet.Graph, variant: packet.Variant, size: int = 1 << 22) -> np.ndarray:
    """Return the time of each communication of a graph over the time of a communication alone."""
    nodes = max(max(each) for each in graph) + 1
    (result,), alpha = packet.measure([graph], variant, nodes, size)
    return result.time_s / (alpha * size)


def test_long_quanta_give_the_papers_penalties() -> None:
    """While node 0 sends a quantum to node 1, node 3 has half of node 1's link, node 4 all of 2's.

    Quanta to node 2 are the reverse. On average each communication of node 0 has rate 1/4 and the
    other two have 3/4: penalties 4 and 4/3. The other two end at 4/3; then node 0 has 2/3 of each
    message left, which it sends at rate 1/2 until 8/3.
    """
    result = penalties(BESIDE_FULL_RATE, LONG, 1 << 24)
    assert result == pytest.approx([8 / 3, 8 / 3, 4 / 3, 4 / 3], rel=0.015)
    assert result == pytest.approx(predict(*BESIDE_FULL_RATE, 1.0, 0.0, 1.0), rel=0.015)
    # Quanta of one packet interleave with the switch's round robin, and all have rate 1/2.
    assert penalties(BESIDE_FULL_RATE, packet.Variant("short")) == pytest.approx([2] * 4, rel=0.002)


@pytest.mark.parametrize("name", FIGURE_4)
def test_long_quanta_give_the_papers_measured_times(name: str) -> None:
    """Times agree within 1 %; the paper's own model is off by up to 6 %."""
    edges = FIGURE_4[name]
    graph = [a for a, _ in edges], [b for _, b in edges]
    result = penalties(graph, LONG, packet.MEASURED_BYTES)
    measured = np.array(packet.MEASURED_4[name]) / packet.MEASURED_ALONE
    assert result == pytest.approx(measured, rel=0.01)
    assert np.abs(penalties(graph, packet.TOLD[0]) / measured - 1).max() > 0.05


def test_figure_4_b_by_hand() -> None:
    """Long quanta; communications a 0->1, b 0->2, c 3->1, d 4->1 and e 5->1.

    A quantum to node 1 has 1/4 of its link and so takes four times as long as one to node 2: a and
    b have rate 1/5. c, d and e have 1/4 for 4/5 of the time and 1/3 for the rest, 4/15 on average.
    They end at 3.75 (measured 3.743, the paper's model 3.5). Then a and b have rate 1/2 and end at
    4.25 (measured 4.225).
    """
    edges = FIGURE_4["B"]
    graph = [a for a, _ in edges], [b for _, b in edges]
    result = penalties(graph, LONG, 1 << 24)
    assert result == pytest.approx([4.25, 4.25, 3.75, 3.75, 3.75], rel=0.005)


def test_late_credits_keep_an_adapter_below_its_rate() -> None:
    """Two packets leave per round trip: 0.94 us, two cables, routing and a packet's duration."""
    variant = packet.TOLD[1]
    trip_ns = 940 + 2 * 10 + 100 + 2074 * 8 / packet.RATE_GBPS
    _, alpha = packet.measure([([0], [1])], variant, 2)
    assert 8e-9 / alpha == pytest.approx(2 * 2048 * 8 / trip_ns, rel=0.002)


def test_starts_differ_and_are_not_part_of_the_times() -> None:
    late = packet.Variant("late", start_ns=1e5)
    (apart, shared), alpha = packet.measure([([0, 2], [1, 3]), ([0, 2], [1, 1])], late, 5, 1 << 16)
    _, alone = packet.measure([], packet.Variant("x"), 5, 1 << 16)
    assert alpha == pytest.approx(alone)
    assert apart.time_s == pytest.approx([alone * (1 << 16)] * 2)
    assert shared.time_s.max() < 2 * alone * (1 << 16)


def test_the_study_reports_errors_by_variant_and_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    reported = (LONG,)
    monkeypatch.setattr(packet, "TOLD", reported)
    monkeypatch.setattr(packet, "VARIANTS", (*reported, packet.Variant("packets")))
    study = contention_model(edges=2, graphs=2, shapes=2, packet_graphs=12, out=tmp_path)
    result = study.packets
    assert result is not None
    assert result.variants["variant"].to_list() == ["quantum 64 KiB", "packets"]
    assert result.variants["mean_error"][0] < result.variants["mean_error"][1]
    assert result.errors["edges"].to_list() == list(range(2, 13))
    assert result.errors["graphs"].to_list() == [2] + [1] * 10
    assert result.measured["error"].abs().max() < 1
    fitted, random = result.fitted.iter_rows(named=True)
    assert fitted["fitted_mean"] < fitted["paper_mean"]
    assert fitted["graphs"] == "all of up to 4"
    assert random["paper_max"] == result.variants["max_error"][0]
    text = study.text()
    assert "Packet level: 12 random graphs" in text
    assert "+- " in text
    assert (tmp_path / "packet_variants.csv").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [0, 1, 4])
def test_an_interrupt_leaves_the_variants_that_are_done(monkeypatch, number: int) -> None:
    @functools.wraps(packet.packet_times)
    def times(shared, case, watch):
        if case.variant == packet.VARIANTS[number]:
            raise KeyboardInterrupt
        return real(shared, case, watch)

    real = packet.packet_times
    monkeypatch.setattr(packet, "packet_times", times)
    study = contention_model(edges=2, graphs=2, shapes=2, packet_graphs=3)
    printed = f"{number} of {len(packet.VARIANTS)} variants"
    assert study.partial == printed
    assert f"Partial, interrupted: {printed} at the packet level" in study.text()
    names = [variant.name for variant in packet.VARIANTS[:number]]
    assert study.packets.variants["variant"].to_list() == names
    reported = {variant.name for variant in packet.TOLD} & set(names)
    for table, columns in study.packets.tables().values():
        assert table.columns == list(columns)
        assert set(table["variant"]) in (reported, set(names))


def test_without_packets_the_study_gives_the_command_for_them() -> None:
    study = contention_model(edges=1, graphs=1, shapes=1)
    assert study.packets is None
    assert "--packet-graphs 200" in study.text()
