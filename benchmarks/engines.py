"""Routing time of weft's engines beside the real OpenSM's, on the same fabric in the same run.

XGFT(3; 12,12,12; 1,12,12) of 1,728 hosts by default; with ``--large`` XGFT(3; 18,18,18; 1,18,18)
of 5,832 hosts, where OpenSM's lash alone takes over twenty minutes.

OpenSM's routing phase begins when its log says ``building routing with '...'`` and ends when the
first table is sent, at the first line of ``osm_req.c`` that follows: hop counts, tables and lanes
are made in between, nothing is discovered or sent. Its log is silent in that time, as only that
module is traced. weft's time is that of `weft.route` on a fabric that is there, the least of
three; OpenSM's of one run. Compiling weft's kernels, once per installation, stands apart.

Needs opensm and ibsim (Debian: opensm ibsim-utils).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import weft
from weft.errors import NotApplicable
from weft.fabrics import Fabric
from weft.formats import FormatWarning, write_file
from weft.routing import engine as registry

ENGINES = ("minhop", "updn", "ftree", "sssp", "dfsssp", "lash", "nue", "dor")
FABRIC = "xgft:3;12,12,12;1,12,12"
LARGE_FABRIC = "xgft:3;18,18,18;1,18,18"
#: What `python -m benchmarks --large` sets.
LARGE = "WEFT_BENCHMARK_LARGE"
#: Engines that give service levels, which OpenSM asks for with QoS only.
WITH_QOS = ("dfsssp", "lash")
#: Seconds after which a run of OpenSM is given up; its lash takes 1,300 on the large fabric.
LIMIT_S = 3600

_LINE = re.compile(r"(\w{3} \d\d \d\d:\d\d:\d\d \d{6}) \[")


@dataclass(frozen=True)
class Phase:
    """What one run of OpenSM took: its routing phase, the whole run, and processor time, in s.

    `engine` is what made the tables in the end, which need not be what was asked for.
    """

    engine: str
    routing_s: float
    whole_s: float
    processor_s: float


def opensm_routing_phase(fabric: Fabric, engine: str, options: Sequence[str] = ()) -> Phase:
    """Run one sweep of the real OpenSM on ibsim and time its routing phase.

    Parameters
    ----------
    fabric
        What to route.
    engine
        OpenSM's name of it.
    options
        More arguments of opensm.

    Raises
    ------
    RuntimeError
        When ibsim does not start, or the log shows no routing phase.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        net = folder / "net.txt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            write_file(fabric, net, "ibsim")
        first = re.search(r'^(?:Ca|Hca)\s+\d+\s+"([^"]+)"', net.read_text(), re.MULTILINE)
        assert first
        (folder / "cache").mkdir()
        (folder / "modules").write_text("osm_ucast_mgr.c 0x07\nosm_req.c 0x13\n")
        (folder / "opensm.conf").write_text(f"per_module_logging_file {folder}/modules\n")
        log = folder / "opensm.log"
        with _simulator(net, fabric) as environment:
            environment |= {
                "SIM_HOST": first[1],
                "OSM_CACHE_DIR": str(folder / "cache"),
                "OSM_TMP_DIR": name,
            }
            command = ["ibsim-run", "opensm", "-o", "-e", "-F", f"{folder}/opensm.conf"]
            command += ["-f", str(log), "-D", "0x03", "--dump_files_dir", name, "-R", engine]
            before = os.times()
            start = time.perf_counter()
            subprocess.run(
                [*command, *options],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT_S,
                check=True,
            )
            whole = time.perf_counter() - start
            after = os.times()
        processor = after.children_user + after.children_system
        processor -= before.children_user + before.children_system
        return Phase(*_read_log(log), whole, processor)


def _read_log(log: Path) -> tuple[str, float]:
    """The engine that made the tables and the seconds from its start to the first table sent."""
    used, begin, end = "", 0.0, 0.0
    with log.open(errors="replace") as lines:
        for line in lines:
            if "building routing with" in line:
                begin, end = _seconds(line), 0.0
            elif begin and not end and "osm_prepare_req_set: [" in line:
                end = _seconds(line)
            elif done := re.search(r"(\S+) tables configured", line):
                used = done[1]
                break
    if not used or not end:
        raise RuntimeError("OpenSM's log shows no routing phase")
    return used, end - begin


def _seconds(line: str) -> float:
    found = _LINE.match(line)
    assert found
    # The log has no year; a leap year has every day.
    return datetime.strptime(f"2024 {found[1]}", "%Y %b %d %H:%M:%S %f").timestamp()


@contextmanager
def _simulator(net: Path, fabric: Fabric) -> Iterator[dict[str, str]]:
    """Run ibsim on a net; yields the environment in which its clients find it."""
    environment = {**os.environ, "IBSIM_SOCKNAME": f"weft-{uuid.uuid4().hex[:12]}"}
    room = {
        "-N": fabric.num_nodes + 1,
        "-S": fabric.num_switches + 1,
        "-P": int(fabric.num_ports.sum()) + fabric.num_switches + 1,
    }
    sizes = [text for flag, size in room.items() for text in (flag, str(size))]
    log = net.with_suffix(".log")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["ibsim", "-s", "-n", *sizes, str(net)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 60
        while "Network simulator ready" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"ibsim did not start: {log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield environment
    finally:
        process.terminate()
        process.wait(60)


def weft_routing_time(fabric: Fabric, engine: str, times: int = 3) -> tuple[float, float]:
    """Least seconds of routing a fabric, kernels compiled before, and the cores in use in it."""
    weft.route(weft.fabric("xgft:3;3,3,3;1,3,3"), engine)
    fabric.graph, fabric.digest  # noqa: B018  what discovery gives OpenSM
    best, cores = float("inf"), 1.0
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        weft.route(fabric, engine)
        took = time.perf_counter() - start
        if took < best:
            best, cores = took, (time.process_time() - used) / took
    return best, cores


def compile_time(engine: str) -> float:
    """Seconds that the first routing takes longer with an empty cache of kernels than later."""
    code = (
        "import time, weft\n"
        "fabric = weft.fabric('xgft:3;3,3,3;1,3,3')\n"
        "start = time.perf_counter()\n"
        f"weft.route(fabric, {engine!r})\n"
        "first = time.perf_counter() - start\n"
        "start = time.perf_counter()\n"
        f"weft.route(fabric, {engine!r})\n"
        "print(first - (time.perf_counter() - start))\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def main() -> None:
    """Time every engine that weft has; those it lacks are named."""
    missing = [tool for tool in ("opensm", "ibsim", "ibsim-run") if shutil.which(tool) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}")
        return
    spec = LARGE_FABRIC if os.environ.get(LARGE) else FABRIC
    fabric = weft.fabric(spec)
    print(f"{spec}: {fabric.num_hosts} hosts, {fabric.num_switches} switches")
    print("OpenSM routes in one thread; its cores below are those of its whole run, weft's of one")
    print(
        f"{'engine':26s} {'OpenSM s':>9s} {'weft s':>9s} {'ratio':>7s} "
        f"{'compile s':>9s} {'cores OpenSM':>12s} {'cores weft':>10s}"
    )
    for name in ENGINES:
        if name not in registry:
            print(f"{name:26s} weft has no such engine")
            continue
        qos = ("-Q",) if name in WITH_QOS else ()
        theirs = opensm_routing_phase(fabric, name, qos)
        if theirs.engine != name:
            print(f"{name:26s} OpenSM fell back to {theirs.engine}")
            continue
        same = registry[name].facts.get("as_opensm", name)
        for ours in dict.fromkeys((name, same)):
            try:
                took, cores = weft_routing_time(fabric, ours)
            except NotApplicable as reason:
                print(f"{ours:26s} {reason}")
                continue
            print(
                f"{ours:26s} {theirs.routing_s:9.3f} {took:9.3f} "
                f"{theirs.routing_s / took:6.1f}x {compile_time(ours):9.1f} "
                f"{theirs.processor_s / theirs.whole_s:12.1f} {cores:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
