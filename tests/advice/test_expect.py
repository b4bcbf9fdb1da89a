"""Measurements against a model: exact ones, planted faults, what bounds, and intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import weft
from weft.advice.expect.expect import expect, judged
from weft.advice.expect.programs import program_of
from weft.core.errors import InputError
from weft.measured.measurements import MEASUREMENT_COLUMNS, Measurements

SIZES = [2**power for power in range(0, 23, 2)]
OVERHEAD_NS, SWITCH_NS, EAGER = 400.0, 100.0, 2**40
#: Settings with which times are exact in closed form.
MODEL = {"overhead_ns": OVERHEAD_NS, "switch_latency_ns": SWITCH_NS, "eager_bytes": EAGER}


@pytest.fixture(scope="module")
def tree():
    fabric = weft.fabric("xgft:2;4,3;1,2")
    return fabric, weft.route(fabric, "minhop")


def _rows(operation: str, values: dict[int, float], **more: object) -> Measurements:
    """Return measurements of sizes; times in ns, or rates in Gb/s of bandwidths."""
    usual = {
        "source": "run.log", "line": 1, "benchmark": "osu", "program": "", "pairs": 1,
        "in_place": False, "from_machine": "", "to_machine": "", "system": "", "samples": 1,
    }  # fmt: skip
    column = "gbps" if "bandwidth" in operation else "time_ns"
    rows = [
        {**usual, "operation": operation, "size_bytes": size, column: value, **more}
        for size, value in values.items()
    ]
    schema = {name: column.dtype for name, column in MEASUREMENT_COLUMNS.items()}
    return Measurements(pl.DataFrame(rows, schema=schema))


def _given(fabric, routes, operation, **more):
    """Return what the model gives on a fabric, by size."""
    found = expect(fabric, routes, _rows(operation, dict.fromkeys(SIZES, 1.0), **more), **MODEL)
    return {at.size_bytes: at.expected for at in found.series[0].figures}


def _slower(fabric, part, factor):
    """Return the fabric with lower rates of some cables."""
    rates = np.where(part, fabric.cable_rate_gbps / factor, fabric.cable_rate_gbps)
    return replace(fabric, cable_rate_gbps=rates)


def test_times_of_benchmarks_have_a_closed_form(tree):
    fabric, routes = tree
    rate, wire_ns = float(fabric.link_rate_gbps[0]), 4 * float(fabric.cable_latency_ns[0])
    latency = OVERHEAD_NS * 2 + 3 * SWITCH_NS + wire_ns
    size = 2**22
    half = _given(fabric, routes, "latency")[size]
    assert half == pytest.approx(latency + 8 * size / rate)
    whole = _given(fabric, routes, "latency", program="ib_read_lat")[size]
    assert whole == pytest.approx(2 * latency + 8 * (size + 16) / rate, rel=1e-3)
    for program in ("osu_bw", "ib_write_bw"):
        assert _given(fabric, routes, "bandwidth", program=program)[size] == pytest.approx(
            rate, rel=1e-3
        )
    both = _given(fabric, routes, "bibandwidth", program="osu_bibw")[size]
    assert both == pytest.approx(2 * rate, rel=1e-3)


@pytest.mark.parametrize("operation", ["latency", "bandwidth", "allreduce", "alltoall", "barrier"])
def test_what_the_model_gives_is_as_expected(tree, operation):
    given = _given(*tree, operation)
    found = expect(*tree, _rows(operation, given), **MODEL)
    assert [each.status for each in found.series] == ["as expected"]
    assert [at.ratio for at in found.series[0].figures] == pytest.approx([1.0] * len(given))
    guess = "logs that do not say their ranks: 1 on each of 12 machines"
    if operation in ("latency", "bandwidth"):
        guess = "logs that name no machines of xgft:2;4,3;1,2: run from h0 to h11"
    assert found.notes == (
        guess, f"no interval of {len(given)} sizes with one sample, or equal ones; give more logs",
    )  # fmt: skip


def test_the_bound_moves_from_overhead_to_the_adapter(tree):
    found = expect(*tree, _rows("latency", _given(*tree, "latency")), **MODEL)
    bounds = [at.bound for at in found.series[0].figures]
    assert bounds[0].resource == "overhead"
    total = _given(*tree, "latency")[1]
    assert bounds[0].share == pytest.approx(2 * OVERHEAD_NS / total)
    assert bounds[-1].resource == "adapter"
    assert bounds[-1].share > 0.98


def test_the_bound_is_a_cable_between_switches_where_they_are_few(tree):
    fabric, routes = tree
    found = expect(fabric, routes, _rows("alltoall", {2**20: 1.0}), **MODEL)
    bound = found.series[0].figures[0].bound
    assert bound.resource == "cable between switches"
    # All 12 uplinks carry as much.
    name = bound.which.removesuffix(" or 11 links as busy")
    assert name in [fabric.link_name(link) for link in range(fabric.num_links)]
    without = expect(fabric, routes, _rows("alltoall", {8: 1.0}), switch_latency_ns=1e4)
    assert without.series[0].figures[0].bound.resource == "latency"


def test_a_slow_adapter_is_suspected_from_large_sizes_on(tree):
    fabric, routes = tree
    adapters = fabric.link_kind[::2] > 0
    given = _given(_slower(fabric, adapters, 2.0), routes, "latency")
    series = expect(fabric, routes, _rows("latency", given), **MODEL).series[0]
    assert series.status == "slow"
    assert series.verdict.startswith("slower than expected from 16 KiB on")
    assert series.suspect.startswith("Suspect adapter ")
    assert series.suspect.endswith("it gives 51% of its rate, by a constant factor.")


def test_a_slow_start_is_suspected_as_latency_with_its_time(tree):
    given = {size: value + 700.0 for size, value in _given(*tree, "latency").items()}
    series = expect(*tree, _rows("latency", given), **MODEL).series[0]
    assert series.verdict.startswith("slower than expected up to 16 KiB")
    assert series.suspect == "Suspect latency or overhead: sizes take 700 ns more than expected."


def test_a_resource_that_larger_sizes_clear_is_not_suspected(tree):
    given = {size: value for size, value in _given(*tree, "bandwidth").items() if size >= 2**16}
    slow = {size: value * (0.6 if size < 2**20 else 1) for size, value in given.items()}
    found = expect(*tree, _rows("bandwidth", slow), **MODEL)
    assert found.series[0].verdict.startswith("slower than expected up to 256 KiB")
    assert "larger sizes, which it bounds too, are as expected" in found.series[0].suspect


def test_a_faster_machine_means_wrong_parameters(tree):
    given = {size: 2 * value for size, value in _given(*tree, "bandwidth").items()}
    series = expect(*tree, _rows("bandwidth", given), **MODEL).series[0]
    assert (series.status, series.verdict[:35]) == ("fast", "faster than expected at all sizes: ")
    assert "is given as 2.00 times what it takes in fact" in series.suspect


def test_small_sizes_may_be_slow_and_large_ones_fast(tree):
    given = {
        size: value * (2 if size < 64 else 0.5) for size, value in _given(*tree, "latency").items()
    }
    series = expect(*tree, _rows("latency", given), **MODEL).series[0]
    assert series.status == "slow"
    slow, fast, _ = series.verdict.split("; ")
    assert slow == "slower than expected up to 16 bytes: ratio 2.00 to 2.00"
    assert fast == "faster than expected from 64 bytes on: ratio 0.50 to 0.50"


def test_a_rate_that_takes_a_part_of_the_time_is_not_given_as_a_share(tree):
    given = {size: 2 * value for size, value in _given(*tree, "bcast").items() if size >= 2**18}
    series = expect(*tree, _rows("bcast", given), tolerance=0.1, **MODEL).series[0]
    shares = [at.bound.share for at in series.figures]
    assert ("of its rate" in series.suspect) == (max(shares) >= 0.8)
    partly = [at._replace(bound=at.bound._replace(share=0.6)) for at in series.figures]
    assert judged(partly, 0.1)[2].endswith(
        "which is only 60% of the time: sizes take 2.00 times as long, by a constant factor."
    )


def test_both_ends_may_be_slow(tree):
    given = _given(*tree, "latency")
    slow = {size: value * (1 + (size < 64 or size > 2**18)) for size, value in given.items()}
    series = expect(*tree, _rows("latency", slow), **MODEL).series[0]
    assert "from 1 MiB on: ratio 2.00 to 2.00; slower than expected up to 16 b" in series.verdict


def test_a_single_size_outside_is_not_a_trend(tree):
    given = _given(*tree, "allreduce")
    given[SIZES[5]] *= 3
    series = expect(*tree, _rows("allreduce", given), **MODEL).series[0]
    assert series.status == "mixed"
    assert series.verdict.startswith("outside 20% only at 1 KiB; median ratio 1.00")


def test_intervals_are_those_of_runs_or_ranges(tree):
    given = _given(*tree, "latency")
    frames = [
        _rows("latency", {size: value * part for size, value in given.items()}).frame
        for part in (1.0, 1.2, 1.5)
    ]
    found = expect(*tree, Measurements(pl.concat(frames)), **MODEL)
    at = found.series[0].figures[0]
    assert at.interval == "95 % of 3 runs"
    # The geometric mean, with Student's interval of the logarithms.
    assert at.ratio == pytest.approx(1.8 ** (1 / 3))
    half = np.log([1.0, 1.2, 1.5]).std(ddof=1) * 4.302653 / 3**0.5
    assert at.high == pytest.approx(at.ratio * np.exp(half), rel=1e-5)
    assert found.series[0].status == "unclear"
    assert found.series[0].verdict.startswith("cannot be told: outside 20% at 1 bytes, 4 bytes, ")
    assert len(found.notes) == 1
    equal = expect(*tree, Measurements(pl.concat([frames[1]] * 3)), **MODEL)
    assert {at.interval for at in equal.series[0].figures} == {""}
    ranged = _rows("bandwidth", {2**22: 100.0}, least=80.0, most=125.0, samples=30)
    at = expect(*tree, ranged).series[0].figures[0]
    assert at.interval == "range of 30 runs"
    assert (at.low / at.ratio, at.high / at.ratio) == pytest.approx((0.8, 1.25))


def test_ranks_are_placed_machine_by_machine(tree):
    fabric, _ = tree
    row = _rows("allreduce", {8: 1.0}, ranks=24, nodes=12, line=7).frame.row(0, named=True)
    assert program_of(fabric, row).hosts.tolist() == np.repeat(np.arange(12), 2).tolist()
    pair = {**row, "operation": "latency", "from_machine": "h3", "to_machine": "h5"}
    assert program_of(fabric, pair).hosts.tolist() == [3, 5]
    assert program_of(fabric, {**pair, "to_machine": "x", "pairs": 2}).hosts.tolist() == [
        0, 0, 11, 11,
    ]  # fmt: skip
    for wrong in ({"nodes": 10}, {"ranks": 25}, {"benchmark": "nccl-tests"}):
        with pytest.raises(InputError, match=r"the log is of .* ranks on 1\d machines"):
            program_of(fabric, {**row, **wrong})


@pytest.mark.parametrize(
    ("operation", "size", "more", "error"),
    [
        ("sendrecv", 8, {}, "run.log:1: sendrecv is no collective of MPI"),
        ("bandwidth", 0, {}, "run.log:1: nothing is sent in this run"),
        ("allreduce", 8, {"ranks": 12 * 10**9}, "run.log:1: the log is of 12,000,000,000 ranks"),
        ("gather", 8, {"benchmark": "nccl-tests"}, "run.log:1: nccl: option collective: 'gather'"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_line(tree, operation, size, more, error):
    with pytest.raises(InputError) as raised:
        expect(*tree, _rows(operation, {size: 1.0}, **more))
    assert str(raised.value).startswith(error)


def test_the_packet_level_agrees_where_nothing_is_shared(tree):
    flow, packet = (
        expect(*tree, _rows("latency", {2**16: 1.0}), level=level, **MODEL).series[0].figures[0]
        for level in ("flow", "packet")
    )
    assert packet.expected == pytest.approx(flow.expected, rel=0.05)
    assert packet.expected != flow.expected
    assert packet.bound == flow.bound


def test_small_sizes_of_nccl_have_the_error_of_steps():
    """They are judged within a factor of 2, the others within the tolerance."""
    fabric = weft.fabric("xgft:2;2,8;1,8,rate=NDR", node="dgx-h100")
    routes = weft.route(fabric, "minhop")
    sizes = [2**power for power in (24, 26, 28, 30, 32)]
    more = {"benchmark": "nccl-tests", "program": "all_gather_perf", "ranks": 16, "nodes": 2}

    def result(*factors: float):
        values = {size: factor * at for size, factor, at in zip(sizes, factors, ideal, strict=True)}
        return expect(fabric, routes, _rows("allgather", values, **more)).series[0]

    ideal = [1.0] * len(sizes)
    ideal = [at.expected for at in result(*ideal).figures]
    rough = [at.tolerance == 1.0 for at in result(*[1.0] * len(sizes)).figures]
    assert rough == sorted(rough, reverse=True)
    assert set(rough) == {True, False}
    healthy = result(*np.where(rough, 1.8, 1.1))
    assert healthy.status == "as expected"
    assert "within a factor of 2 only" in healthy.verdict
    bus = sizes[-1] * 15 / 16 / (1.1 * ideal[-1])
    assert healthy.shown(1.1 * ideal[-1], sizes[-1]).endswith(f", {bus:.4g} GB/s")
    assert result(*np.where(rough, 1.8, 1.5)).status == "slow"
    assert result(*np.where(rough, 2.2, 1.1)).status != "as expected"
    sizes, ideal = sizes[:2], ideal[:2]
    assert [at.tolerance for at in result(1.8, 1.8).figures] == [1.0, 1.0]
    latency = {"ranks": 2, "nodes": 2}
    notes = expect(fabric, routes, _rows("latency", {8: 3000.0}, **latency)).notes
    assert any("give --overhead" in each for each in notes)
