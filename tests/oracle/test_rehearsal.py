"""Rehearsals with the real OpenSM: what weft says of each moment is what ibtracert finds then."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.irregular import irregular
from tests.oracle.tools import require_tools

from weft.cli import main
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.lids import read_guid2lid
from weft.routing.opensm.tables_folder import GUID2LID
from weft.routing.routes import TableRoutes
from weft.subnet.live.processes import end_process
from weft.subnet.live.rehearsal import HeldTables, Rehearsal, rehearse
from weft.subnet.live.subnet import Subnet
from weft.subnet.live.verify import lids_of

pytestmark = pytest.mark.oracle

#: Cases of `make test` and of `make validate`.
FEW, ALL = 3, 50
#: Pairs that are traced at a moment, of those with and of those without a path.
PAIRS = 10
#: Programs that use ibsim at a time; it has room for ten.
CLIENTS = 3
#: Seconds after which a program hangs.
HANGS_S = 30.0
NEW = ("updn", "minhop", "dfsssp", "ftree")


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "dump_fts", "ibtracert")
    # Each client of ibsim creates a folder in its working folder.
    monkeypatch.chdir(tmp_path)


class Tracer:
    """Compares what weft says of pairs at each moment with ibtracert, run on the source.

    ibtracert reaches a host if packets reach it, and its answers come back.
    """

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.traced = {True: 0, False: 0}

    def __call__(self, subnet: Subnet, moment: HeldTables) -> None:
        whole, fabric = subnet.initial_fabric, moment.fabric
        base = lids_of(whole, read_guid2lid(subnet.folder / GUID2LID)).base
        hosts = np.flatnonzero(fabric.host_endpoint >= 0)
        there = np.flatnonzero(whole.host_endpoint >= 0)
        pairs = {(a, b) for a in hosts.tolist() for b in there.tolist() if a != b}
        unrouted = moment.validation.unrouted_pairs.tolist()
        # ibsim sends the answer of the destination back by the tables, too.
        without = {pair for a, b in unrouted for pair in ((a, b), (b, a))} & pairs
        for reached, some in ((True, sorted(pairs - without)), (False, sorted(without))):
            picked = self.random.permutation(len(some))[:PAIRS]
            with ThreadPoolExecutor(CLIENTS) as pool:
                found = pool.map(
                    lambda pair, way=reached: trace(
                        subnet, pair[0], base[whole.host_endpoint[list(pair)]], way
                    ),
                    [some[at] for at in picked],
                )
            names = [tuple(fabric.host_names[host] for host in some[at]) for at in picked]
            wrong = [name for name, got in zip(names, found, strict=True) if got != reached]
            assert not wrong, (moment.name, reached, wrong)
            self.traced[reached] += len(picked)


def trace(subnet: Subnet, host: int, lids: np.ndarray, expected: bool) -> bool:
    """Return whether ibtracert finds the path between two LIDs, run on the host of the first.

    A packet that is not answered may be lost, or late on a busy machine: patience decides if a path
    is expected. A client of ibsim may also hang at its end, seldom.
    """
    for patience_ms in (100, 5000, 5000)[: 1 + 2 * expected]:
        with subprocess.Popen(
            ["ibtracert", "-t", str(patience_ms), *map(str, lids.tolist())],
            env={**subnet.environment, "SIM_HOST": subnet.sim_host(host)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                if process.wait(HANGS_S) == 0:
                    return True
            except subprocess.TimeoutExpired:
                end_process(process)
    return False


def rehearsed(seed: int, folder: Path) -> tuple[Fabric, Rehearsal, Tracer]:
    """Rehearse a random change with random failures, and trace pairs at each moment."""
    random = np.random.default_rng(seed)
    fabric = irregular(seed)
    new = route(fabric, list(np.roll(NEW, -int(random.integers(len(NEW))))))
    present = None
    if seed % 2:
        present = folder / "present.lfts"
        tables = route(fabric, "minhop")
        assert isinstance(tables, TableRoutes)
        present.write_text(lft_dump(fabric, tables))
    parts = [("random",), ("random-switch",), ("random", "random")][int(random.integers(3))]
    tracer = Tracer(seed)
    result = rehearse(fabric, new, before=present, fail=parts, seed=seed, look=tracer)
    return fabric, result, tracer


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.slow] if seed >= FEW else []) for seed in range(ALL)],
)
def test_pairs_are_reached_if_and_only_if_weft_says_so(seed: int, tmp_path: Path) -> None:
    _, result, tracer = rehearsed(seed, tmp_path)
    assert tracer.traced[True]
    assert [moment.changed_entries for moment in result.moments[:1]] == [0]


TREE = "xgft:2;3,3;1,3"


def test_present_tables_come_back_after_two_steps_and_the_failure_of_a_switch_with_hosts() -> None:
    """The file of the way back is for the whole fabric, also while a part of it is gone."""
    fabric = irregular(14)
    present = route(fabric, "minhop")
    assert isinstance(present, TableRoutes)
    Path("present.lfts").write_text(lft_dump(fabric, present))
    new = route(fabric, "updn:roots=center")
    assert isinstance(new, TableRoutes)
    leaf = fabric.graph.row_node[fabric.graph.destination_row[fabric.host_endpoint.max()]]
    name = fabric.node_names[int(leaf)]
    result = rehearse(fabric, new, before="present.lfts", fail=[name], at=2)
    moments = {moment.name: moment for moment in result.moments}
    assert [*moments] == [
        "before", "load, step 1 of 2", "load, step 2 of 2", f"failure of {name}", "OpenSM's sweep",
        "back, step 1 of 2", "back, step 2 of 2", "repair",
    ]  # fmt: skip
    assert result.problems == ()
    first, held = moments["before"], {name: each.routes.table for name, each in moments.items()}
    known = present.table != present.no_path
    assert np.array_equal(held["before"][known], present.table[known])
    assert np.array_equal(held["repair"], held["before"])
    hosts = fabric.num_host_endpoints
    assert np.array_equal(held["load, step 2 of 2"][:hosts], new.table[:hosts])
    changes = [moment.changed_entries > 0 for moment in result.moments]
    assert changes == [False, True, True, False, False, True, True, True]
    apart = moments[f"failure of {name}"].validation
    assert apart.num_disconnected_pairs > first.validation.num_disconnected_pairs
    # Only cables failed: the switch comes back with those of the new tables.
    assert [bool(moment.loops_between) for moment in result.moments] == [False] * 7 + [True]
    assert result.risks[0].startswith("during repair, while entries change, packets can deadlock")


def test_a_mixture_that_can_deadlock_is_not_safe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torus = ["opensm", "export", "torus:4x4", "--out"]
    assert main([*torus, "old", "--engine", "updn:roots=center"]) == 0
    assert main([*torus, "new", "--engine", "lash", "--before", "old"]) == 0
    capsys.readouterr()
    words = ["opensm", "rehearse", "torus:4x4", "--tables", "new", "--before", "old"]
    assert main([*words, "--json", "--report", "page.html", "--fail", "s0.0[2]"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["safe"] is False
    assert found["failed"] == ["s0.0[2]"]
    load = found["moments"][1]
    assert (load["moment"], load["deadlock"], load["between"]) == ("load", "no", "deadlock")
    assert (
        load["changed_entries"]
        == json.loads(Path("new/weft.json").read_text())["change"]["entries"]
    )
    assert "during load, while entries change, packets can deadlock" in found["problems"][0]
    assert "NOT SAFE TO LOAD." in Path("page.html").read_text()
    lanes = ["opensm", "export", "torus:5x5", "--engine", "dfsssp", "--out", "lanes"]
    assert main(lanes) == 0
    words = ["opensm", "rehearse", "torus:5x5", "--engine", "dfsssp"]
    assert main([*words, "--before", "lanes"]) == 2
    assert "present tables in lanes use service levels" in capsys.readouterr().err
    # With OpenSM's dor, which can deadlock itself, nothing becomes worse.
    assert main(["opensm", "rehearse", "torus:5x5", "--tables", "new", "--real", "dor"]) == 2
    assert main([*words, "--real", "dor"]) == 0
    assert "no worse than the present tables, which can deadlock" in capsys.readouterr().out


def test_lanes_are_those_of_the_tables_that_are_loaded() -> None:
    """Tables of dfsssp have no deadlock with its service levels, and can deadlock without."""
    fabric = load("torus:5x5")
    new = route(fabric, "dfsssp")
    assert isinstance(new, TableRoutes)
    Path("same.lfts").write_text(lft_dump(fabric, new))
    result = rehearse(fabric, new, before="same.lfts", fail=["s0.0[2]"])
    assert [moment.changed_entries for moment in result.moments] == [0] * 6
    assert [moment.deadlock for moment in result.moments] == ["can", *["no"] * 3, "can", "can"]
    assert result.verdict == "no worse than the present tables, which can deadlock"


def test_opensm_runs_in_the_largest_part_and_the_way_back_is_judged() -> None:
    """The first leaf is cut off, so that OpenSM is not on its hosts."""
    fabric = load(TREE)
    uplinks = [f"s1-0[{port}]" for port in (4, 5, 6)]
    result = rehearse(fabric, route(fabric, "dmodk"), engine="ftree", fail=uplinks)
    assert result.failed == tuple(uplinks)
    between = result.table()["between"].to_list()
    assert between == [None, "safe", None, between[3], "no deadlock", "no deadlock"]
    back = result.moments[-2]
    assert back.validation.num_disconnected_pairs == 2 * 3 * 6
    assert back.lost_pairs == 0
    assert result.verdict == "safe to load and to take back"
    # Entries around the failed cable lead up again, while others still lead as before.
    small = load("leaf-spine:leaves=3,spines=2,hosts=2")
    result = rehearse(small, route(small, "updn:roots=center"), fail=["leaf0[3]"])
    assert result.problems == ()
    assert result.verdict == "safe to load, but not to take back while the parts are failed"


def test_a_refusal_on_the_way_back_is_a_note() -> None:
    """OpenSM's ftree does not route a tree without some cables, and falls back to minhop."""
    fabric = load("xgft:3;2,2,2;1,2,2")
    result = rehearse(fabric, route(fabric, "dmodk"), engine="ftree", fail=["s2-0"])
    assert result.problems == ()
    assert [moment.name for moment in result.moments][-2:] == ["back to ftree", "repair"]
    assert result.notes[0].startswith("back to ftree: OpenSM's ftree refuses xgft:3;2,2,2;1,2,2: ")
    assert "it fell back to minhop" in result.notes[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--engine", "updn", "--fail", "s9-9"], "no switch, machine or cable"),
        (["--engine", "updn", "--fail", "s1-0[77]"], "s1-0 has ports 1 to 6, not 77"),
        (["--engine", "updn", "--fail", "h0", "--sm-host", "h0"], "cuts off h0, on which OpenSM"),
        (["--engine", "updn", "--real", "updown"], "OpenSM has no routing engine 'updown'"),
        (["--engine", "updn", "--at", "2"], "loaded in 1 step; there is no step 2"),
        (["--engine", "updn:lmc=1", "--before", "."], "contains neither"),
        (["--engine", "updn", "--tables", "."], "either --engine (weft) or --tables"),
        (["--engine", "updn", "--real", "updn", "--before", "."], "only one of --before"),
        (["--engine", "ecmp"], "OpenSM loads forwarding tables, but ecmp has none"),
        (["--engine", "updn", "--real", "torus-2QoS"], "torus-2QoS"),
    ],
)
def test_what_cannot_be_rehearsed_is_one_clear_error(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opensm", "rehearse", TREE, *words]) == 2
    printed = capsys.readouterr()
    assert error in printed.err
    assert printed.err.count("weft: error") == 1
    assert not printed.out
