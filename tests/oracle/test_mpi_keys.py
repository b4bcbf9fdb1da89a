"""MPI programs that request routing keys of a real `weft serve`, run by a real mpirun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S
from tests.serve_runs import Served, free_port, serving

import weft

pytestmark = pytest.mark.oracle

SPEC = "xgft:2;4,4;1,4"
EXAMPLE = Path(__file__).parents[2] / "examples" / "mpi_routing_keys.py"
PHASES = ("x+", "x-", "y+", "y-", "z+", "z-")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without a subnet manager, with tokens."""
    require_tools("mpirun")
    with serving(SPEC, tmp_path_factory.mktemp("serve"), tokens=True) as service:
        yield service


def mpirun(
    processes: int, *words: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    start = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]
    if os.geteuid() == 0:
        start.insert(1, "--allow-run-as-root")
    return subprocess.run(
        [*start, sys.executable, *words],
        env=environment | {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def example_agrees_with_the_service(
    served: Served, application: str, folder: Path
) -> list[tuple[str, int, int | None]]:
    """Run the example as a new application, and compare what its ranks got with the keys.

    Returns the host of the peer, path bits and LID of each rank in each phase.
    """
    report = folder / "report.json"
    words = ["--application", application]
    placing = mpirun(1, str(EXAMPLE), *words, "--place", "8", environment=served.environment)
    assert placing.returncode == 0, placing.stderr
    served.wait_ready(application)
    # The job has the token of its application only.
    given = dict(word.split("=", 1) for word in placing.stdout.split()[1:])
    assert given["WEFT_APPLICATION"] == application
    assert given["WEFT_TOKEN"] not in (None, served.admin_token)
    with served.client() as client:
        version = client.state().version
        run = mpirun(
            8, str(EXAMPLE), "--report", str(report), environment=served.environment | given
        )
        assert run.returncode == 0, run.stderr
        told = json.loads(report.read_text())
        assert len(told) == 8
        # 8 ranks in a 2 x 2 x 2 grid: the neighbours in both directions are the same.
        strides = {"x": 4, "y": 2, "z": 1}
        offsets = set()
        for place, phase in enumerate(PHASES):
            key = client.key(application, phase)
            assert key.state == "ready"
            (number,) = {rank[place][1] for rank in told}
            paths = {(p.source, p.destination): p for p in key.alternatives_paths[number].paths}
            for rank, mine in enumerate(told):
                name, _, peer, bits, dlid = mine[place]
                assert (name, peer) == (phase, rank ^ strides[phase[0]])
                assert (bits, dlid) == (paths[rank, peer].path_bits, paths[rank, peer].dlid)
                offsets.add(bits)
        assert len(offsets) > 1  # some flows leave the base routes
        state = client.state()
        assert not state.grants
        # A request and a return of each phase, and nothing else.
        assert state.version - version == 2 * len(PHASES)
        hosts = client.application(application).hosts
        client.remove(application)
    return [(hosts[peer], bits, dlid) for mine in told for _, _, peer, bits, dlid in mine]


def test_every_rank_gets_the_lids_of_the_granted_key(served: Served, tmp_path: Path) -> None:
    used = example_agrees_with_the_service(served, "stencil", tmp_path)
    assert {dlid for _, _, dlid in used} == {None}  # without a subnet manager


@pytest.mark.slow
def test_lids_are_those_of_the_subnet_manager(tmp_path: Path) -> None:
    require_tools("mpirun", "opensm", "ibsim")
    fabric = weft.fabric(SPEC)
    with serving(SPEC, tmp_path, "--ibsim", "--lmc", "2") as service:
        used = example_agrees_with_the_service(service, "stencil", tmp_path)
        _, _, rest = (tmp_path / "serve.log").read_text().partition("OpenSM of ")
        folder = Path(rest.partition("/opensm.conf")[0])
        lines = [line.split() for line in (folder / "guid2lid").read_text().splitlines() if line]
    lids = {int(guid, 16): (int(low, 16), int(high, 16)) for guid, low, high in lines}
    for name, bits, dlid in used:
        host = fabric.host_names.index(name)
        endpoint = fabric.host_endpoint[host]
        slot = fabric.port_offset[fabric.endpoint_node[endpoint]]
        low, high = lids[int(fabric.port_guid[slot + fabric.endpoint_port[endpoint] - 1])]
        assert high - low == 3
        assert dlid == low + bits
        assert low <= dlid <= high


PROGRAM = """
import sys, warnings
from mpi4py import MPI
import weft.mpi
from weft.client import RoutesWarning
world = MPI.COMM_WORLD

def outcome(function):
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def printed(title, value):
    values = world.gather(value)
    if values:
        print(title, "|", " | ".join(map(str, values)), flush=True)
"""


def lines_of(
    program: str, *words: str, processes: int, environment: dict[str, str]
) -> dict[str, list[str]]:
    run = mpirun(processes, "-c", PROGRAM + program, *words, environment=environment)
    assert run.returncode == 0, run.stderr
    parts = [line.split(" | ") for line in run.stdout.splitlines()]
    return {title: values for title, *values in parts}


def test_errors_of_the_first_rank_are_raised_on_all(served: Served) -> None:
    with served.client() as client:
        client.place("small", num_hosts=2, phases={"a": [(0, 1)]})
        served.wait_ready("small")
    found = lines_of(
        """
ask = lambda *names, **named: outcome(lambda: weft.mpi.request(*names, **named))
printed("no phase", ask(world, "b", application="small", rank=world.rank % 2))
printed("too many", ask(world, "a", application="small"))
import os
os.environ["WEFT_HOST"] = "nowhere"
printed("no host", ask(world, "a", application="small"))
del os.environ["WEFT_HOST"]
printed("no token", ask(world, "a", application="small", token="wrong"))
printed("no service", ask(world, "a", url="http://127.0.0.1:9", application="small"))
printed("not begun", outcome(lambda: weft.mpi.done(world, "a")))
""",
        processes=3,
        environment=served.environment,
    )
    expected = {
        "no phase": "ServiceError: application small has no phase b",
        "too many": "InputError: rank 2 of the communicator would be rank 2 of application small, "
        "which has only 2 ranks, one per host; if several processes share a host, give each the "
        "name of its host (host= or WEFT_HOST)",
        "no host": "InputError: rank 0 of the communicator is on host nowhere, which is not "
        "a host of application small",
        "no token": "ServiceError: this token does not give the right to this",
        "not begun": "InputError: key a is not held on this communicator: call request before done",
    }
    for title, error in expected.items():
        assert found[title] == [error] * 3
    assert len(set(found["no service"])) == 1
    assert found["no service"][0].startswith("WeftError: cannot reach weft serve at http://127")
    with served.client() as client:
        assert not client.state().grants
        client.remove("small")


@pytest.mark.slow
def test_sub_communicators_and_several_processes_on_a_host(served: Served) -> None:
    hosts = ["h0", "h4", "h8", "h12"]  # on leaf switches of their own
    with served.client() as client:
        client.place("halves", hosts=hosts, phases={"a": [(2, 3), (0, 1)]})
        served.wait_ready("halves")
        first, *_ = client.key("halves", "a").alternatives_paths[0].paths
        assert (first.source, first.destination) == (2, 3)
        assert (bits := first.path_bits) > 0
        found = lines_of(
            """
half = world.Split(world.rank // 2, key=-world.rank)  # ranks in the opposite order
if world.rank >= 2:
    routes = weft.mpi.request(half, "a", application="halves")
    told = half.rank, routes.path_bits(1 - half.rank), routes.path_bits(half.rank)
    weft.mpi.done(half, "a")
else:
    told = None
printed("upper half", told)
hosts = sys.argv[1:]
import os
mine = hosts[2 + world.rank % 2]
os.environ["WEFT_HOST"] = mine if world.rank < 2 else "nowhere"
host = mine if world.rank >= 2 else None
routes = weft.mpi.request(world, "a", application="halves", host=host)
printed("two on a host", [routes.path_bits(peer) for peer in range(4)])
weft.mpi.done(world, "a")
""",
            *hosts,
            processes=4,
            environment=served.environment,
        )
        assert not client.state().grants
        client.remove("halves")
    # World rank 3 is rank 0 of the half, and has no flow.
    assert found["upper half"] == ["None", "None", f"(1, {bits}, 0)", "(0, 0, 0)"]
    assert found["two on a host"] == [str([0, bits, 0, bits]), str([0] * 4)] * 2


@pytest.mark.slow
def test_a_key_is_held_until_the_last_rank_is_done(served: Served) -> None:
    with served.client() as client:
        client.place("long", num_hosts=2, phases={"a": [(0, 1)]})
        served.wait_ready("long")
        found = lines_of(
            """
import time
warnings.simplefilter("error", RoutesWarning)
from weft.client import Client
weft.mpi.request(world, "a", application="long", lease_s=3)
time.sleep(7 * world.rank)
held = Client().application("long").keys[0].granted if world.rank else None
finished = outcome(lambda: weft.mpi.done(world, "a"))  # rank 0 has waited in its barrier
printed("held", held)
printed("done", finished)
""",
            processes=2,
            environment=served.environment,
        )
        client.remove("long")
    assert found == {"held": ["None", "True"], "done": ["None", "None"]}


@pytest.mark.slow
def test_a_program_outlives_the_service_with_fallback(tmp_path: Path) -> None:
    require_tools("mpirun")
    with serving("xgft:2;2,2;1,2", tmp_path, port=(port := free_port())) as service:
        with service.client() as client:
            client.place("brave", num_hosts=2, phases={"a": [(0, 1)]})
            service.wait_ready("brave")
        found = lines_of(
            """
import os, signal
warnings.simplefilter("always")
def told(function):
    with warnings.catch_warnings(record=True) as warned:
        result = outcome(function)
    return result, [str(each.message).partition(":")[0] for each in warned]
ask = lambda: weft.mpi.request(world, "a", application="brave", timeout_s=5, fallback=True)
printed("first", outcome(lambda: ask().base))
if world.rank == 0:
    os.kill(int(sys.argv[1]), signal.SIGKILL)
printed("done", told(lambda: weft.mpi.done(world, "a")))
printed("second", told(lambda: (lambda r: (r.base, r.path_bits(1), r.dlid(1)))(ask())))
printed("done again", told(lambda: weft.mpi.done(world, "a")))
""",
            str(service.process.pid),
            processes=2,
            environment=service.environment,
        )
    assert str(port) in service.url
    assert found["first"] == ["False", "False"]
    lost = "key a could not be given back; its grant ends with its lease"
    assert found["done"] == [f"(None, ['{lost}'])", "(None, [])"]
    away = "((True, 0, None), {})"
    assert found["second"] == [
        away.format(["phase a uses the base routes"]), away.format([])
    ]  # fmt: skip
    assert found["done again"] == ["(None, [])", "(None, [])"]
