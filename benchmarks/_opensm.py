"""Runs of the real OpenSM on a simulated fabric: its tables, lanes and routing phase.

The routing phase starts at the log line ``building routing with '...'`` and ends when the first
table is sent, at the next line of ``osm_req.c``. In this phase one thread computes hop counts,
tables and lanes; discovery and transfer of tables are excluded. Only ``osm_req.c`` is traced, so
that logging takes no time within the phase.
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
from weft.routing.opensm.lfts import read_lfts
from weft.routing.routes import TableRoutes
from weft.subnet.live.subnet import live

#: Time limit of a run of OpenSM in s; its lash takes 1,300 s for 5,832 hosts.
LIMIT_S = 3600

_TIME = re.compile(r"(\w{3} \d\d \d\d:\d\d:\d\d \d{6}) \[")


@dataclass(frozen=True)
class Run:
    """Result and time of one sweep of OpenSM.

    `routes` are OpenSM's tables, all on one lane; `lanes` is the number of needed lanes in OpenSM's
    log, or else 1; `routing_s` is the time of the routing phase in s.
    """

    routes: TableRoutes
    lanes: int
    routing_s: float


def missing_tools() -> str:
    """Return the required programs that are not installed."""
    names = ("opensm", "ibsim", "dump_fts")
    return ", ".join(name for name in names if shutil.which(name) is None)


def opensm_run(fabric: Fabric, engine: str) -> Run:
    """Route a fabric with an engine of the real OpenSM.

    Raises
    ------
    NotApplicable
        If the engine refuses the fabric; the message has OpenSM's reason.
    RuntimeError
        If the log has no routing phase.
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
    raise RuntimeError("OpenSM's log has no routing phase")


def _seconds(line: str) -> float:
    match = _TIME.match(line)
    assert match
    # The log has no year; a leap year accepts every day.
    return datetime.strptime(f"2024 {match[1]}", "%Y %b %d %H:%M:%S %f").timestamp()
