"""Forecasts of runs: counts of events and bytes against those of the run, and refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.simulate_runs import run

import weft
from weft.core.errors import NotApplicable, OutOfMemory
from weft.sim import forecast as forecasts
from weft.sim.flit import workloads as flit_level
from weft.sim.flow.engine import FlowState
from weft.sim.forecast import counted as counted_of
from weft.sim.forecast import memory_of
from weft.sim.options import RunSettings
from weft.sim.packet.state import PacketRunState
from weft.workload import load_workload, program_order
from weft.workload.collectives.collective_registry import Group
from weft.workload.placement import host_of_rank

TREE = "xgft:2;8,8;1,4"
#: Fabric, engine and options of a level with fixed paths.
FIXED = {
    "a tree": (TREE, "dmodk"),
    "a torus with lanes": ("torus:4x4x2", "dfsssp"),
    "hosts that forward": ("kns:k=4,n=2", "hdor"),
    "source routes": ("jellyfish:12,degree=4,hosts=2", "updn:roots=center"),
}
WORKLOADS = (
    "alltoall:size=64B", "alltoall:size=16385B", "allreduce-ring:size=1MiB", "permutation",
    "hotspot",
)  # fmt: skip


def counted(
    level: Any, fabric: Any, routes: Any, workload: Any, **options: Any
) -> dict[str, float]:
    hosts = host_of_rank(fabric, workload.num_ranks, "linear")
    return counted_of(RunSettings.at(level, options), level, fabric, routes, workload, hosts)


@pytest.mark.parametrize("case", FIXED)
@pytest.mark.parametrize("text", WORKLOADS)
def test_packet_hops_are_counted_exactly_before_the_run(case: str, text: str) -> None:
    spec, engine = FIXED[case]
    fabric = weft.fabric(spec)
    routes, workload = weft.route(fabric, engine), load_workload(text, fabric.num_hosts)
    for options in ({}, {"handshake": False}, {"hardware": weft.Hardware(mtu_bytes=512)}):
        result = weft.simulate(fabric, routes, workload, level="packet", **options)
        counts = counted("packet", fabric, routes, workload, **options)
        assert counts["hops"] == result.num_hops
        assert counts["units"] == result.conservation["injected_packets"]
        assert counts["messages"] == np.count_nonzero(result.arrived_ps[workload.messages] >= 0)


@pytest.mark.parametrize("text", ["alltoall:size=1KiB", "allreduce-ring:size=1MiB", "permutation"])
@pytest.mark.parametrize("routing", [None, "dor"])
def test_flit_hops_are_counted_exactly_before_the_run(text: str, routing: str | None) -> None:
    fabric = weft.fabric(TREE if routing is None else "torus:4x4")
    routes = weft.route(fabric, "dmodk") if routing is None else routing
    workload = load_workload(text, fabric.num_hosts)
    result = weft.simulate(fabric, routes, workload, level="flit")
    assert counted("flit", fabric, routes, workload)["hops"] == result.flit_hops


def test_hops_of_a_sample_of_pairs_and_of_drawn_paths_are_close(monkeypatch) -> None:
    fabric = weft.fabric("dragonfly:p=4,a=4,h=2")
    workload = load_workload("alltoall:size=1KiB", fabric.num_hosts)
    routes = weft.route(fabric, "valiant")
    for most in (forecasts.MOST_PAIRS, 500):
        monkeypatch.setattr(forecasts, "MOST_PAIRS", most)
        result = weft.simulate(fabric, routes, workload, level="packet")
        counts = counted("packet", fabric, routes, workload)
        assert counts["hops"] == pytest.approx(result.num_hops, rel=0.05)


def _bytes(state: Any, of_workload: set[int]) -> int:
    """Return the bytes of all arrays of a state but those of the workload and of the routes."""
    found: dict[int, int] = {}

    def add(part: Any) -> None:
        if isinstance(part, np.ndarray):
            while isinstance(part.base, np.ndarray):
                part = part.base
            if part.ctypes.data not in of_workload:
                found[part.ctypes.data] = part.nbytes
        elif isinstance(part, tuple):
            for each in part:
                add(each)

    add(state)
    return sum(found.values())


@pytest.mark.parametrize("level", ["flow", "packet", "flit"])
@pytest.mark.parametrize(
    ("spec", "text"),
    [(TREE, "alltoall-pairwise:size=64B"), (TREE, "allreduce-ring:size=64KiB"),
     ("xgft:3;6,6,6;1,6,6", "allreduce-recursive-doubling:size=64B")],
)  # fmt: skip
def test_bytes_of_arrays_are_those_allocated(level: Any, spec: str, text: str, monkeypatch) -> None:
    kept: list[Any] = []

    def keep(home: Any, name: str) -> None:
        make = getattr(home, name)

        def kept_too(*arguments: Any, **named: Any) -> Any:
            kept.append(made := make(*arguments, **named))
            return made

        monkeypatch.setattr(home, name, kept_too)

    for home, name in (
        (PacketRunState, "of"), (FlowState, "of"), (flit_level, "state"), (flit_level, "_ranks"),
    ):  # fmt: skip
        keep(home, name)
    fabric = weft.fabric(spec)
    routes, workload = weft.route(fabric, "dmodk"), load_workload(text, fabric.num_hosts)
    weft.simulate(fabric, routes, workload, level=level)
    states: Any = tuple(kept)
    if level == "flow":
        states = tuple((state.ranks, state.level, state.sharing) for state in kept)
    if level == "packet":
        states = tuple((state.net, state.ranks) for state in kept)
    own = {
        array.ctypes.data for array in [*vars(workload).values(), routes.table]
        if isinstance(array, np.ndarray)
    }  # fmt: skip
    counts, tables = counted(level, fabric, routes, workload), forecasts.costs()[level]
    expected = sum(
        counts[name] * each for kind in ("bytes", "reserved") for name, each in tables[kind].items()
    )
    # Besides, there are the routes of pairs, the messages of the workload and copies.
    assert expected == pytest.approx(_bytes(states, own), rel=0.15)
    used, reserved = memory_of(level, counts)
    assert used < 1.1 * reserved


def test_bytes_grow_with_lanes_and_queues() -> None:
    fabric = weft.fabric("torus:4x4x2")
    workload = load_workload("alltoall:size=64B", fabric.num_hosts)
    engines = ("minhop", "dfsssp")
    one, several = (
        memory_of("packet", counted("packet", fabric, weft.route(fabric, engine), workload))[0]
        for engine in engines
    )
    assert several - one == 88 * fabric.num_links * (weft.route(fabric, "dfsssp").num_vls - 1)
    queues = {"hardware": weft.Hardware(queues="voq")}
    routes = weft.route(fabric, "minhop")
    assert memory_of("packet", counted("packet", fabric, routes, workload, **queues))[0] > one


@pytest.mark.parametrize("level", ["static", "flow", "packet", "flit"])
def test_times_are_a_range_and_grow_with_the_events(level: Any) -> None:
    fabric = weft.fabric(TREE)
    routes = weft.route(fabric, "dmodk")
    told = [
        weft.forecast(fabric, routes, load_workload(f"alltoall:size={size}KiB", ranks), level=level)
        for size, ranks in ((64, 16), (256, 64))
    ]
    for each in told:
        assert 0 < each.least_s < each.most_s
        assert each.counts["operations"] > 0
        assert not each.shortage
        each.check()
    assert told[1].least_s > 2 * told[0].least_s


SCARCE = (TREE, "--workload", "alltoall-pairwise:size=64B", "--engine", "dmodk")


@pytest.fixture
def little_memory(monkeypatch) -> None:
    monkeypatch.setattr(forecasts, "_SMALL_BYTES", 0)
    monkeypatch.setattr("weft.sim.simulate.SMALL", 0)
    monkeypatch.setattr(forecasts, "available_bytes", lambda: 1_200_000)


def test_a_run_that_does_not_fit_is_refused_with_what_does(capsys, little_memory) -> None:
    status, out, err = run(capsys, *SCARCE, "--level", "packet")
    assert (status, out) == (2, "")
    assert err.startswith("weft: error: the packet level needs ")
    assert " of memory for 1," in err or " of memory for " in err
    assert "and 1.14 MiB are free; what fits: --level " in err
    assert err.count("\n") == 1
    fabric = weft.fabric(TREE)
    work = load_workload("alltoall-pairwise:size=64B", 64)
    with pytest.raises(OutOfMemory, match="what fits"):
        weft.simulate(fabric, weft.route(fabric, "dmodk"), work, level="packet")
    # What the message offers does fit.
    status, _, err = run(capsys, *SCARCE, "--level", "static")
    assert (status, err) == (0, "")


def test_runs_that_fit_are_done_beside_one_that_does_not(capsys, little_memory) -> None:
    status, out, _ = run(capsys, *SCARCE, "--level", "packet,static")
    assert status == 1
    assert "run 1 (out of memory): the packet level needs" in out


def test_a_ulimit_counts_what_is_reserved(little_memory, monkeypatch) -> None:
    fabric = weft.fabric(TREE)
    routes, work = weft.route(fabric, "dmodk"), load_workload("alltoall-pairwise:size=64B", 64)
    told = weft.forecast(fabric, routes, work, level="flow")
    monkeypatch.setattr(forecasts, "available_bytes", lambda: 2 * told.memory_bytes)
    assert not weft.forecast(fabric, routes, work, level="flow").shortage
    monkeypatch.setattr(forecasts, "free_addresses", lambda: told.memory_bytes)
    assert "are free" in weft.forecast(fabric, routes, work, level="flow").shortage


def test_a_dry_run_says_what_each_run_takes_and_runs_nothing(capsys, monkeypatch) -> None:
    words = (TREE, "--workload", "alltoall:size=64KiB", "--level", "flow,packet", "--dry-run")
    monkeypatch.setattr("weft.study.experiment.run_level.simulate", None)
    status, out, err = run(capsys, *words)
    assert (status, err) == (0, "")
    first, second, both = out.splitlines()
    assert first.startswith("run 1 (minhop, flow, maxmin, ")
    assert "less than 1 s" in first
    assert second.endswith("519,680 packet-hops") or "packet-hops" in second
    assert both.startswith("all runs: ")
    assert main_json(capsys, *words)[1]["counts"]["hops"] > 1e5


def main_json(capsys, *words: str) -> list[dict[str, Any]]:
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    found: list[dict[str, Any]] = json.loads(out)["forecasts"]
    return found


def test_a_dry_run_that_does_not_fit_is_refused(capsys, little_memory) -> None:
    status, _, err = run(capsys, *SCARCE, "--level", "packet", "--dry-run")
    assert status == 2
    assert "what fits" in err


def test_a_worker_has_one_thread_and_fast_forward_no_least_time(monkeypatch) -> None:
    fabric = weft.fabric(TREE)
    routes, workload = weft.route(fabric, "dmodk"), load_workload("permutation", fabric.num_hosts)
    monkeypatch.setattr("weft.core.pool.cores", lambda: 8)

    def told(**options: Any) -> weft.Forecast:
        return weft.forecast(fabric, routes, workload, level="packet", **options)

    one = told(threads=1)
    assert told().least_s == pytest.approx(one.least_s / 8)
    skipping = told(fast_forward=0.01)
    assert (skipping.least_s, skipping.most_s) == (0, one.most_s)
    assert skipping.text().endswith("(fast-forward may skip most of this time)")
    monkeypatch.setattr("multiprocessing.parent_process", object)
    assert told().least_s == one.least_s


def test_long_runs_are_announced(capsys, monkeypatch) -> None:
    monkeypatch.setattr("weft.sim.simulate.SMALL", 0)
    monkeypatch.setattr("weft.cli.simulate.TOLD_S", 0.0)
    words = (TREE, "--workload", "alltoall:size=64B", "--level", "flow,static")
    status, _, err = run(capsys, *words)
    assert status == 0
    lines = err.splitlines()
    assert [line[:17] for line in lines] == ["weft: run 1 of 2 ", "weft: run 2 of 2 "]
    assert all(" is expected to take less than 1 s" in line for line in lines)


def test_a_workload_that_memory_cannot_hold_is_refused_while_it_is_written(monkeypatch) -> None:
    monkeypatch.setattr("weft.core.arguments.available_bytes", lambda: 2**30)
    monkeypatch.setattr(program_order, "_UNCHECKED", 1000)
    monkeypatch.setattr(program_order, "_MORE_BYTES", 2**20)
    load_workload("alltoall-pairwise:size=64B", 16)  # 480 operations
    with pytest.raises(NotApplicable, match=r"operations or more would take .* use fewer ranks"):
        load_workload("alltoall-pairwise:size=64B", 64)
    # The sizes differ: both halves of the ring are known before the first message is added.
    monkeypatch.setattr(Group, "exchange", None)
    with pytest.raises(NotApplicable, match=r"of 16,128 operations or more would take"):
        load_workload("allreduce-ring:size=65B", 64)
