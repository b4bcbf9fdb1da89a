"""Random flows on a fabric simulated by SimGrid (python3-simgrid in the system's Python)."""

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
from weft.routing.routes import TableRoutes
from weft.sim.static.loads import host_flows
from weft.workload import Workload, WorkloadBuilder

#: Debian installs the module for the system's Python only.
PYTHON = "/usr/bin/python3"

# One actor starts all flows, which avoids context switches between actors. Every directed link is a
# shared link without latency.
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
    for flow in sorted(range(len(case["start_s"])), key=case["start_s"].__getitem__):
        if case["start_s"][flow] > Engine.get_clock():
            this_actor.sleep_until(case["start_s"][flow])
        comms.append((flow, Comm.sendto_async(
            hosts[case["source"][flow]], hosts[case["destination"][flow]], case["bytes"][flow]
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
for flow, comm in comms:
    finish[flow] = comm.finish_time if comm.finish_time > 0 else None
with open(sys.argv[2], "w") as stream:
    json.dump({"finish_s": finish, "build_s": built - began, "run_s": ran - built}, stream)
"""


@dataclass(frozen=True)
class Flows:
    """Flows between hosts of a fabric.

    Parameters
    ----------
    fabric, routes
        Fabric and routes of the flows.
    source, destination
        Hosts, int64 [flows].
    size_bytes
        int64 [flows]: size of each flow.
    start_ns
        float64 [flows]: start of each flow.
    """

    fabric: Fabric
    routes: TableRoutes
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    start_ns: NDArray[np.float64]

    def workload(self) -> Workload:
        """Return the flows as one-sided messages, each between two ranks of its own.

        SimGrid runs all flows between two hosts at the same time, but messages of one pair of ranks
        are sent one after another.
        """
        builder = WorkloadBuilder(2 * len(self.source), name="flows")
        ranks = np.arange(0, 2 * len(self.source), 2)
        builder.put(ranks, ranks + 1, self.size_bytes, release_ns=self.start_ns)
        return builder.build()

    def placement(self) -> NDArray[np.int64]:
        """Return the hosts of the ranks."""
        return np.column_stack([self.source, self.destination]).ravel()

    def paths(self) -> list[list[int]]:
        """Return the directed links of each flow."""
        ends = host_flows(self.fabric, self.source, self.destination, lmc=self.routes.lmc)
        offset, link = self.routes.links(self.fabric, ends)
        assert np.diff(offset).all()
        return [run.tolist() for run in np.split(link, offset[1:-1])]


def random_flows(
    fabric: Fabric, routes: TableRoutes, count: int, *, seed: int = 0, spread_ns: float = 0.0
) -> Flows:
    """Draw flows of 1 to 100 MB between random hosts, with start times up to `spread_ns`."""
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
    """Completion time of each flow (NaN if not complete), and seconds that SimGrid took."""

    finish_ns: NDArray[np.float64]
    build_s: float
    run_s: float


def run_simgrid(
    flows: Flows, *, options: list[str] | None = None, until_ns: float = 0
) -> SimgridRun:
    """Simulate flows with SimGrid's max–min sharing (CM02), on links without latency."""
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
        program, input_, output = (Path(folder) / name for name in ("run.py", "in", "out"))
        program.write_text(PROGRAM)
        input_.write_text(json.dumps(case))
        done = subprocess.run(
            [PYTHON, str(program), str(input_), str(output)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"SimGrid failed:\n{done.stdout}{done.stderr}")
        result = json.loads(output.read_text())
    finish = np.array([np.nan if end is None else end * 1e9 for end in result["finish_s"]])
    return SimgridRun(finish, result["build_s"], result["run_s"])
