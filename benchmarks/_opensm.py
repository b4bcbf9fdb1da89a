"""One run of the real OpenSM on a simulated fabric: its tables, lanes and routing phase.

The routing phase begins when its log says ``building routing with '...'`` and ends when the first
table is sent, at the first line of ``osm_req.c`` that follows: hop counts, tables and lanes are
made in between, in one thread; nothing is discovered or sent. Its log is silent in that time, as
only that module is traced.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning
from weft.opensm.files.lfts import read_lfts
from weft.opensm.live.subnet import live
from weft.routes import TableRoutes

#: Seconds after which a run of OpenSM is given up; its lash takes 1,300 for 5,832 hosts.
LIMIT_S = 3600

_TIME = re.compile(r"(\w{3} \d\d \d\d:\d\d:\d\d \d{6}) \[")


@dataclass(frozen=True)
class Run:
    """What one sweep of OpenSM gave and took.

    `routes` are its tables, all on one lane; `lanes` is how many its log says that it needs, 1
    where it says nothing; `routing_s` is the routing phase in s.
    """

    routes: TableRoutes
    lanes: int
    routing_s: float


def missing_tools() -> str:
    """Programs that a run needs and that are not installed."""
    names = ("opensm", "ibsim", "dump_fts")
    return ", ".join(name for name in names if shutil.which(name) is None)


def opensm_run(fabric: Fabric, engine: str) -> Run:
    """Route a fabric with an engine of the real OpenSM.

    Raises
    ------
    NotApplicable
        When the engine refuses the fabric, with what OpenSM says of it.
    RuntimeError
        When the log shows no routing phase.
    """
    with tempfile.TemporaryDirectory() as name:
        modules = Path(name) / "modules"
        modules.write_text("osm_ucast_mgr.c 0x07\nosm_req.c 0x13\n")
        with live(
            fabric,
            engine,
            options={"per_module_logging_file": str(modules)},
            timeout_s=LIMIT_S,
            keep=Path(name) / "live",
        ) as subnet:
            log = subnet.log.read_text(errors="replace")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FormatWarning)
                routes = read_lfts(fabric, subnet.folder / "opensm-lfts.dump")
    needed = re.findall(r"Lanes needed: (\d+)", log)
    return Run(routes, int(needed[-1]) if needed else 1, _routing_phase(log))


def _routing_phase(log: str) -> float:
    begin = 0.0
    for line in log.splitlines():
        if "building routing with" in line:
            begin = _seconds(line)
        elif begin and "osm_prepare_req_set: [" in line:
            return _seconds(line) - begin
    raise RuntimeError("OpenSM's log shows no routing phase")


def _seconds(line: str) -> float:
    found = _TIME.match(line)
    assert found
    # The log has no year; a leap year has every day.
    return datetime.strptime(f"2024 {found[1]}", "%Y %b %d %H:%M:%S %f").timestamp()
