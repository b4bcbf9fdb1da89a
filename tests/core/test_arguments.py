"""Public functions refuse wrong arguments with one line, never with a message of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

import weft
from weft.core import arguments
from weft.core.arguments import (
    finite_number,
    finite_numbers,
    need_memory,
    whole_number,
    whole_numbers,
)
from weft.core.errors import InputError, NotApplicable, WeftError
from weft.fabrics import FabricBuilder
from weft.routing import engine, route
from weft.sim.common.metrics import load_metrics
from weft.sim.flow.contention import PenaltyModel
from weft.sim.static.multipath import multipath_loads
from weft.workload.placement import place

TREE = weft.fabric("xgft:2;2,2;1,2")
ROUTES, CANDIDATES = weft.route(TREE, "minhop"), weft.route(TREE, "ecmp")
WORK = weft.load_workload("alltoall:size=4KiB", 4)


def builder(method: str, **given: Any) -> None:
    build = FabricBuilder("small", dimensions=2)
    build.switches(["a", "b"])
    getattr(build, method)(**given)
    build.fabric()


#: Functions of one argument, a number or an array, and a valid value of the argument.
CALLS: dict[str, tuple[Callable[[Any], object], object]] = {
    "sources": (lambda x: weft.link_loads(TREE, ROUTES, x, [1, 2]), [0, 1]),
    "destinations": (lambda x: weft.link_loads(TREE, ROUTES, [0, 1], x), [1, 2]),
    "weights": (lambda x: weft.link_loads(TREE, ROUTES, [0, 1], [1, 2], weights=x), [1, 0.5]),
    "offsets": (lambda x: weft.link_loads(TREE, ROUTES, [0, 1], [1, 2], lid_offset=x), 0),
    "samples": (lambda x: weft.bisection(TREE, ROUTES, x), 2),
    "seed": (lambda x: weft.bisection(TREE, ROUTES, 2, x), 1),
    "placement": (lambda x: place(TREE, 4, x), [3, 2, 1, 0]),
    "ranks": (lambda x: place(TREE, x), 4),
    "allowed hosts": (lambda x: place(TREE, 2, hosts=x), [3, 1]),
    "flow placement": (lambda x: weft.simulate(TREE, ROUTES, WORK, x), [3, 2, 1, 0]),
    "edges": (lambda x: weft.penalties(x, [1, 2]), [0, 3]),
    "sizes": (lambda x: weft.predict([0], [1], x), 100.0),
    "values": (load_metrics, [1.0, 2]),
    "splits": (lambda x: multipath_loads(TREE, CANDIDATES, [0], [1], x), [(1, 2)]),
    "path offsets": (lambda x: weft.source_routes(TREE, [0], [1], x, [1, 2]), [0, 2]),
    "cables out": (lambda x: TREE.without(cables=x), [0]),
    "switches out": (lambda x: TREE.without(switches=x), [0]),
    "faults": (lambda x: TREE.with_faults(cables=x), 1),
    "hosts of a pattern": (lambda x: weft.traffic(x, "shift"), 4),
    "ports": (lambda x: builder("switches", names=["x"], ports=x), 4),
    "levels": (lambda x: builder("switches", names=["x"], level=x), 1),
    "coordinates": (lambda x: builder("switches", names=["x"], coordinates=x), [[0, 1]]),
    "cables": (lambda x: builder("connect", a=0, b=1, cables=x), 3),
    "ends": (lambda x: builder("connect", a=x, b=[1]), [0]),
    "ports of ends": (lambda x: builder("connect", a=0, b=1, a_ports=x, b_ports=1), 2),
    "lengths": (lambda x: builder("connect", a=0, b=1, length_m=x), 2.5),
    "a coefficient": (lambda x: PenaltyModel(in_weight=x), 2),
}
BAD = [
    [[1], [1, 2]], "x", -1, 1.5, True, 2**40, 10**400, float("nan"), float("inf"), [0.5], ["a"],
    [None], {}, object(), [10**30], b"x", [-1, -1], [2**33] * 4, np.zeros((4, 0)), 1j, [[[0]]],
    "9" * 400, [True] * 4, set(),
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types_give_a_one_line_error(name: str) -> None:
    door, good = CALLS[name]
    door(good)
    refused = 0
    for bad in BAD:
        try:
            door(bad)
        except WeftError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 600  # noqa: PT017
    assert refused > len(BAD) / 2


NUMBERS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none(), st.complex_numbers()
)


@settings(max_examples=examples(300))
@given(values=st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=4), max_leaves=6))
def test_numbers_are_in_range_or_refused(values: Any) -> None:
    for kind, check in (
        (int, lambda: whole_numbers(values, "x", low=-5, high=7)),
        (float, lambda: finite_numbers(values, "x", low=-5)),
    ):
        try:
            result = check()
        except InputError as error:
            assert str(error).startswith("x")  # noqa: PT017
            continue
        assert result.tolist() == [kind(value) for value in values]
        assert result.ndim == 1
        assert (result >= -5).all()
    for kind, scalar in (
        (int, lambda: whole_number(values, "x", -5, 7)),
        (float, lambda: finite_number(values, "x")),
    ):
        try:
            # Whole numbers above 2^53 are rounded to floats.
            assert scalar() == kind(values)
        except InputError as error:
            assert str(error).startswith("x")  # noqa: PT017


def test_a_table_that_memory_cannot_hold_is_refused_with_its_size(monkeypatch) -> None:
    monkeypatch.setattr(arguments, "available_bytes", lambda: 3 << 30)
    with pytest.raises(NotApplicable, match=r"things would take 4 GiB of memory, and 3 GiB are fr"):
        need_memory(4 << 30, "things", "take fewer")
    need_memory(3 << 30, "things", "take fewer")
    build = FabricBuilder("wide")
    switches = build.switches([f"s{number}" for number in range(20_000)], ports=4)
    build.connect(switches[:-1], switches[1:])
    build.connect([0, 19_999], build.hosts(["h0", "h1"]))
    fabric = build.fabric()
    monkeypatch.setattr(arguments, "available_bytes", lambda: 300 << 20)
    for name in ("minhop", "ecmp", "lash", "nue", "dor"):
        with pytest.raises(NotApplicable, match=r"x 20,000 entries would take .* are free; use a"):
            route(fabric, name)


def test_pages_of_files_are_free_memory_of_a_cgroup(tmp_path, monkeypatch) -> None:
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    monkeypatch.setattr(arguments, "Path", lambda name: tmp_path / name.lstrip("/"))
    (group / "memory.max").write_text("8000\n")
    (group / "memory.current").write_text("7000\n")
    (group / "memory.stat").write_text("anon 900\nactive_file 500\ninactive_file 5500\nfile 6000\n")
    assert arguments.available_bytes() == 7000
    (group / "memory.max").write_text("max\n")
    assert arguments.available_bytes() is None


@pytest.mark.filterwarnings("ignore")
def test_engines_route_or_refuse_any_small_fabric() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        build = FabricBuilder("small")
        switches = build.switches([f"s{n}" for n in range(random.integers(0, 4))], ports=9)
        hosts = build.hosts([f"h{n}" for n in range(random.integers(0, 3))])
        for host in hosts:
            if len(switches) and random.random() < 0.5:
                build.connect(random.choice(switches), host)
        if len(switches) > 1 and random.random() < 0.5:
            build.connect(switches[:-1], switches[1:])
        fabric = build.fabric()
        for name in engine.names():
            try:
                routes = route(fabric, name)
                weft.validate(fabric, routes)
            except WeftError as error:
                assert "\n" not in str(error)  # noqa: PT017
