"""Pairs and credit loops of OpenSM's tables, judged by weft's audit and by ibdmchk of ibutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.oracle.irregular import irregular
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats import read_file
from weft.routing.validation.validate import validate
from weft.subnet.audit import audit
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle


def checked(folder: Path) -> tuple[int, int, bool]:
    """Return what ibdmchk finds: pairs of adapters, pairs without a path, and a credit loop."""
    require_tools("ibdmchk")
    (folder / "opensm.mcfdbs").touch()
    files = [str(folder / name) for name in ("opensm-subnet.lst", "opensm.fdbs", "opensm.mcfdbs")]
    words = ["ibdmchk", "-s", files[0], "-f", files[1], "-m", files[2]]
    text = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, errors="replace"
    ).stdout
    pairs = re.search(r"(?:Scanned: *|missing paths out of:)(\d+) (?:CA to CA )?paths", text)
    loops = re.search(r"no credit loops found", text), re.search(r"[Cc]redit loop", text)
    assert pairs, text[-2000:]
    lost = len(set(re.findall(r"-E- Fail to find a path from:(\S+) +to:(\S+)", text)))
    return int(pairs[1]), lost, loops[0] is None and loops[1] is not None


def dumped(fabric: Fabric, engine: str, folder: Path) -> None:
    try:
        with live(fabric, engine, keep=folder):
            pass
    except NotApplicable:  # OpenSM fell back to another engine, whose tables are as good here
        pass


@pytest.mark.sampled(6)
@pytest.mark.parametrize("engine", ["minhop", "updn", "dor", "ftree"])
@pytest.mark.parametrize("seed", range(30))
def test_pairs_and_credit_loops_are_those_of_ibdmchk(
    seed: int, engine: str, tmp_path: Path
) -> None:
    require_tools("opensm", "ibsim", "ibsim-run", "ibdmchk")
    dumped(irregular(seed), engine, tmp_path / "dumps")
    pairs, lost, loop = checked(tmp_path / "dumps")
    actual = audit([tmp_path / "dumps"])
    assert actual.routes is not None
    judged = validate(actual.fabric, actual.routes)
    # OpenSM lists the part of the fabric that it reaches, without islands.
    adapters = read_file(tmp_path / "dumps" / "opensm-subnet.lst").num_endpoints
    assert pairs == adapters * (adapters - 1)
    assert lost == judged.num_unrouted_pairs - judged.num_disconnected_pairs
    assert loop == bool(judged.credit_loops)
