"""Arrays of fabrics, routes and workloads, and of copies of these, are read-only."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import weft
from weft.core.frozen import FrozenArrays, read_only
from weft.fabrics import Fabric, SwitchGraph
from weft.fabrics.arrays import FabricArrays
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes, VirtualLanes
from weft.routing.routes.mixed_tables import MixedTables
from weft.routing.structure.folded_clos import FoldedClos, Stage, find_folded_clos
from weft.sim.keys import KeySet, RoutingKey
from weft.sim.keys.alternatives import Alternatives, InstalledKey, installed_key
from weft.sim.keys.network import KeyNetwork, key_network
from weft.sim.keys.routes import KeyedRoutes
from weft.workload import Workload, load_workload
from weft.workload.jobs import Job, JobMix, combine
from weft.workload.patterns.pattern_registry import Pairs, traffic
from weft_calibration.measurements import Measurement

TREE = "xgft:2;4,4;1,2"


@cache
def tree() -> Fabric:
    fabric = weft.fabric(TREE)
    assert len(fabric.graph.edge_of_link)  # arrays that are computed on first use
    return fabric


def some_lanes() -> VirtualLanes:
    index = np.zeros(4, dtype=np.int32)
    base, ports = np.zeros(1, dtype=np.int64), np.full(1, 2, dtype=np.int32)
    return VirtualLanes(np.zeros((1, 16), dtype=np.uint8), index, base, ports)


def installed() -> InstalledKey:
    key = weft.keys(tree(), [0, 1], [5, 9])
    lids = np.ones((1, 2), dtype=np.int32)
    links = tree().graph.edge_link
    return installed_key(key, [key.column], lids, None, links)


#: A function per class that returns an object of the class.
EXAMPLES: dict[type, Callable[[], FrozenArrays]] = {
    FabricArrays: lambda: FabricArrays(
        **{each.name: getattr(tree(), each.name) for each in fields(FabricArrays)}
    ),
    Fabric: tree,
    SwitchGraph: lambda: tree().graph,
    VirtualLanes: some_lanes,
    Routes: lambda: Routes("none", "0", sl=np.zeros(3, dtype=np.uint8)),
    TableRoutes: lambda: weft.route(tree(), "updn"),
    PathRoutes: lambda: weft.route(tree(), "smodk"),
    CandidateRoutes: lambda: weft.route(weft.fabric("dragonfly:a=4,p=2,h=2"), "ugal"),
    Workload: lambda: load_workload("pingpong:sizes=8", 2),
    JobMix: lambda: combine([Job(load_workload("pingpong:sizes=8", 2), start_ns=5.0)], tree()),
    Pairs: lambda: traffic(4, "shift"),
    KeyedRoutes: lambda: KeyedRoutes(
        "keys", "0", weft.route(tree(), "updn"), (), sl=np.zeros(3, dtype=np.uint8)
    ),
    Stage: lambda: find_folded_clos(tree()).stages[0],
    FoldedClos: lambda: find_folded_clos(tree()),
    KeyNetwork: lambda: key_network(tree()),
    RoutingKey: lambda: weft.keys(tree(), [0, 1], [2, 3]),
    InstalledKey: installed,
    Alternatives: lambda: Alternatives.of(key_network(tree()), installed()),
    MixedTables: lambda: MixedTables.of(*[weft.route(tree(), name) for name in ("updn", "dmodk")]),
    KeySet: lambda: weft.workload_keys(tree(), load_workload("pingpong:sizes=8", 2)),
    Measurement: lambda: Measurement(
        "pair", [0], [1], [8], [1.0], statistics={"min_s": np.array([0.5])}
    ),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    **{
        f"pickle {protocol}": lambda value, protocol=protocol: pickle.loads(
            pickle.dumps(value, protocol)
        )
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}


def same(one: Any, other: Any) -> bool:
    """Return whether two objects have equal values, and arrays that are equally writable."""
    if isinstance(one, np.ndarray):
        equal = np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        return equal and one.flags.writeable == other.flags.writeable and one.dtype == other.dtype
    if isinstance(one, FrozenArrays):
        values = (  # addresses of arrays are not copied
            {name: value for name, value in vars(each).items() if name != "parts"}
            for each in (one, other)
        )
        return type(one) is type(other) and same(*values)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def subclasses(of: type) -> set[type]:
    direct = set(of.__subclasses__())
    return direct.union(*map(subclasses, direct))


def test_every_class_with_frozen_arrays_has_an_example() -> None:
    assert {each for each in subclasses(FrozenArrays) if is_dataclass(each)} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_copies_are_equal_and_equally_frozen(kind: type) -> None:
    original = EXAMPLES[kind]()
    assert type(original) is kind
    arrays = [getattr(original, each.name) for each in fields(original)]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    assert arrays
    assert not any(array.flags.writeable for array in arrays)
    for label, again in COPIES.items():
        assert same(original, again(original)), label


def test_kernels_get_the_arrays_of_a_copy() -> None:
    graph = weft.fabric(TREE).graph
    addresses = graph.parts.block.tolist()
    again = copy.deepcopy(graph)
    assert "parts" not in vars(again)
    assert again.parts.block.tolist() != addresses


class Odd(FrozenArrays):
    def __init__(self) -> None:
        self.fixed, self.free = read_only(np.arange(3)), np.arange(3)
        self.parts = ({"a": [read_only(np.arange(12).reshape(3, 4)[:, ::2])]}, self.fixed)


@pytest.mark.parametrize("method", COPIES)
def test_nested_and_writable_arrays_keep_their_flags(method: str) -> None:
    result = COPIES[method](Odd())
    assert not result.fixed.flags.writeable
    assert result.free.flags.writeable
    assert not result.parts[0]["a"][0].flags.writeable
    assert result.parts[1] is result.fixed


# -- kernels -------------------------------------------------------------------------------------


def kernels() -> list[Dispatcher]:
    modules = [each for name, each in sys.modules.items() if name.startswith("weft.kernels.")]
    objects = [value for module in modules for value in vars(module).values()]
    return [each for each in objects if isinstance(each, Dispatcher)]


def compiled() -> dict[str, set[str]]:
    return {
        f"{each.py_func.__module__}.{each.py_func.__qualname__}": set(map(str, each.signatures))
        for each in kernels()
    }


def run(fabric: Fabric, routes: Routes, workload: Workload) -> tuple[float, dict[str, set[str]]]:
    """Return the makespan, and the array types for which this process has compiled kernels."""
    return weft.simulate(fabric, routes, workload).makespan_ns, compiled()


def example() -> tuple[Fabric, Routes, Workload]:
    return tree(), weft.route(tree(), "updn"), load_workload("pingpong:sizes=8", 2)


@pytest.fixture(scope="module")
def here() -> tuple[float, dict[str, set[str]]]:
    return run(*example())


def test_copies_need_no_further_compilation(here) -> None:
    assert run(*copy.deepcopy(example())) == here


def test_another_process_compiles_the_same_kernels(here) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        makespan, there = pool.submit(run, *example()).result()
    assert makespan == here[0]
    assert any(there.values())
    assert all(there[name] <= here[1].get(name, set()) for name in there)
