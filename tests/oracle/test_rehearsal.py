"""Rehearsals with the real OpenSM: what weft says of each moment is what ibtracert finds then."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.irregular import irregular
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S

from weft.fabrics import Fabric
from weft.routing import route
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.lids import read_guid2lid
from weft.routing.opensm.tables_folder import GUID2LID
from weft.routing.routes import TableRoutes
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
    is expected.
    """
    for patience_ms in (100, 5000)[: 1 + expected]:
        done = subprocess.run(
            ["ibtracert", "-t", str(patience_ms), *map(str, lids.tolist())],
            env={**subnet.environment, "SIM_HOST": subnet.sim_host(host)},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return True
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
