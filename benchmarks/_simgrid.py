"""Random flows of a fabric, run by SimGrid: python3-simgrid in the system's own Python."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.routes import TableRoutes
from weft.sim.static.loads import host_flows
from weft.workload import Workload, WorkloadBuilder

#: Debian's module is for the system's Python only.
PYTHON = "/usr/bin/python3"

# One actor starts every flow, so that no time goes into changing between actors. Hosts and links
# have no names that mean anything; every directed link is a shared one, without latency.
PROGRAM = r"""
import json, sys, time
from simgrid import Actor, Comm, Engine, Host, LinkInRoute, NetZone, this_actor

with open(sys.argv[1]) as stream:
    case = json.load(stream)
began = time.perf_counter()
options = [
    "network/model:CM02", "network/crosstraffic:0", "network/weight-S:0",
    "network/bandwidth-factor:1", "network/latency-factor:1", "network/TCP-gamma:0",
    "network/loopback-lat:0",
] + case["options"]
engine = Engine(["flows", "--log=root.thres:error"] + ["--cfg=" + text for text in options])
zone = NetZone.create_full_zone("zone")
hosts = [zone.create_host(str(host), 1e9) for host in range(case["hosts"])]
links = [
    zone.create_link("l%d" % number, speed).set_latency(0).seal()
    for number, speed in enumerate(case["bytes_per_s"])
]
pairs = set()
for source, destination, path in zip(case["source"], case["destination"], case["path"]):
    if (source, destination) not in pairs:
        pairs.add((source, destination))
        zone.add_route(
            hosts[source].get_netpoint(), hosts[destination].get_netpoint(), None, None,
            [LinkInRoute(links[link]) for link in path], False,
        )
zone.seal()

comms = []

def start():
    for place in sorted(range(len(case["start_s"])), key=case["start_s"].__getitem__):
        if case["start_s"][place] > Engine.get_clock():
            this_actor.sleep_until(case["start_s"][place])
        comms.append((place, Comm.sendto_async(
            hosts[case["source"][place]], hosts[case["destination"][place]], case["bytes"][place]
        )))
    Comm.wait_all([comm for _, comm in comms])

Actor.create("start", hosts[0], start)
built = time.perf_counter()
if case["until_s"] is None:
    engine.run()
else:
    engine.run_until(case["until_s"])
ran = time.perf_counter()
finish = [0.0] * len(comms)
for place, comm in comms:
    finish[place] = comm.finish_time if comm.finish_time > 0 else None
with open(sys.argv[2], "w") as stream:
    json.dump({"finish_s": finish, "build_s": built - began, "run_s": ran - built}, stream)
"""


@dataclass(frozen=True)
class Flows:
    """Flows between hosts of a fabric.

    Parameters
    ----------
    fabric, routes
        Where they go.
    source, destination
        Hosts.
    size_bytes
        int64.
    start_ns
        float64.
    """

    fabric: Fabric
    routes: TableRoutes
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    start_ns: NDArray[np.float64]

    def workload(self) -> Workload:
        """The same flows as one-sided messages, each between two ranks of its own.

        SimGrid runs all flows of two hosts at once; messages of one pair of ranks would wait for
        each other.
        """
        builder = WorkloadBuilder(2 * len(self.source), name="flows")
        ranks = np.arange(0, 2 * len(self.source), 2)
        builder.put(ranks, ranks + 1, self.size_bytes, release_ns=self.start_ns)
        return builder.build()

    def placement(self) -> NDArray[np.int64]:
        """Hosts of the ranks."""
        return np.column_stack([self.source, self.destination]).ravel()

    def paths(self) -> list[list[int]]:
        """Directed links of each flow."""
        ends = host_flows(self.fabric, self.source, self.destination, lmc=self.routes.lmc)
        offset, link = self.routes.links(self.fabric, ends)
        assert np.diff(offset).all()
        return [run.tolist() for run in np.split(link, offset[1:-1])]


def random_flows(
    fabric: Fabric, routes: TableRoutes, count: int, *, seed: int = 0, spread_ns: float = 0.0
) -> Flows:
    """Flows between random hosts, of 1 to 100 MB, that start within a time."""
    random = np.random.default_rng(seed)
    source = random.integers(0, fabric.num_hosts, count)
    destination = random.integers(0, fabric.num_hosts - 1, count)
    return Flows(
        fabric,
        routes,
        source,
        destination + (destination >= source),
        random.integers(1_000_000, 100_000_000, count),
        random.random(count) * spread_ns,
    )


@dataclass(frozen=True)
class SimgridRun:
    """What SimGrid says: completion times (NaN when it was stopped before), and its own times."""

    finish_ns: NDArray[np.float64]
    build_s: float
    run_s: float


def run_simgrid(
    flows: Flows, *, options: list[str] | None = None, until_ns: float = 0
) -> SimgridRun:
    """Run flows by SimGrid's max–min sharing (CM02), links without latency."""
    case: dict[str, Any] = {
        "hosts": flows.fabric.num_hosts,
        "bytes_per_s": (flows.fabric.link_rate_gbps / 8 * 1e9).tolist(),
        "source": flows.source.tolist(),
        "destination": flows.destination.tolist(),
        "path": flows.paths(),
        "bytes": flows.size_bytes.tolist(),
        "start_s": (flows.start_ns * 1e-9).tolist(),
        "options": options or [],
        "until_s": until_ns * 1e-9 if until_ns else None,
    }
    with tempfile.TemporaryDirectory() as folder:
        program, given, taken = (Path(folder) / name for name in ("run.py", "in", "out"))
        program.write_text(PROGRAM)
        given.write_text(json.dumps(case))
        done = subprocess.run(
            [PYTHON, str(program), str(given), str(taken)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"SimGrid's run failed:\n{done.stdout}{done.stderr}")
        result = json.loads(taken.read_text())
    finish = np.array([np.nan if end is None else end * 1e9 for end in result["finish_s"]])
    return SimgridRun(finish, result["build_s"], result["run_s"])
