"""`weft serve` beside the real OpenSM: keys in the switches, and a cable that is pulled."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S, wait_for
from tests.serve_runs import serving

import weft
from weft.cli import main
from weft.client import Client
from weft.routing.opensm.lfts import lft_dump
from weft.sim.keys.tables import installed_tables
from weft.subnet.live.subnet import Subnet, live
from weft.subnet.service import installer
from weft.subnet.service.makers import base_routes
from weft.subnet.service.models import Change, GrantSummary

pytestmark = pytest.mark.oracle

SPEC = "xgft:3;6,6,6;1,6,6"


def attached(subnet: Subnet) -> tuple[str, ...]:
    """Return the options with which `weft serve` uses the OpenSM of a subnet."""
    return (
        "--opensm", str(subnet.folder / "opensm.conf"), "--opensm-pid", str(subnet.pid),
        "--opensm-cache", str(subnet.folder),
    )  # fmt: skip


def wait(done: Callable[[], bool]) -> float:
    """Wait until something is so; return the seconds."""
    start = time.monotonic()
    wait_for(done)
    return time.monotonic() - start


def all_ready(client: Client, names: list[str]) -> bool:
    """Return whether all keys of some applications are ready; none may have failed."""
    keys = [key for name in names for key in client.application(name).keys]
    assert not [key.reason for key in keys if key.state == "failed"]
    return all(key.state == "ready" for key in keys)


def changes_after(client: Client, name: str, version: int) -> list[Change]:
    """Wait for changes of an application, and return them."""
    wait_for(lambda: client.changes(name, version).changes)
    return client.changes(name, version).changes


def check_paths(subnet: Subnet, client: Client, application: str, phase: str, most: int) -> int:
    """Compare the paths of all alternatives of a key with ibtracert; return their number."""
    fabric = subnet.initial_fabric
    hosts = client.application(application).hosts
    lids = subnet.lids().base
    checked = 0
    for alternative in client.key(application, phase).alternatives_paths:
        flows: dict[tuple[int, int], int] = {}
        for path in alternative.paths[:most]:
            source, destination = hosts[path.source], hosts[path.destination]
            host = fabric.find_node(destination) - fabric.num_switches
            assert path.dlid == int(lids[fabric.host_endpoint[host]]) + path.path_bits
            # No link carries two flows of one key, those at hosts included.
            for link in pairwise(subnet.trace(source, destination, offset=path.path_bits)):
                flows[link] = flows.get(link, 0) + 1
            checked += 1
        assert max(flows.values(), default=1) == 1
    return checked


def cable_of(subnet: Subnet, client: Client, application: str, phase: str, number: int) -> str:
    """Return a port of a cable to a top switch that an alternative of a key uses."""
    fabric = subnet.fabric
    hosts = client.application(application).hosts
    for path in client.key(application, phase).alternatives_paths[number].paths:
        ends = hosts[path.source], hosts[path.destination]
        trace = subnet.trace(*ends, offset=path.path_bits)
        if len(trace) == 7:
            for link in range(fabric.num_links):
                if (fabric.link_from[link], fabric.link_to[link]) == trace[2:4]:
                    port = int(fabric.link_from_port[link])
                    return f"{fabric.node_names[int(fabric.link_from[link])]}[{port}]"
    raise AssertionError("no path uses a top switch")


@pytest.mark.slow
def test_six_applications_keep_their_keys_while_a_cable_is_pulled(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibtracert")
    fabric = weft.fabric(SPEC)
    tables = installed_tables(fabric, base_routes(fabric, ("dmodk", "updn")), [], 4, fabric)
    hosts = np.random.default_rng(5).permutation(216).reshape(6, 36)
    names = [f"app{number}" for number in range(6)]
    with weft.live(fabric, routes=tables) as subnet:
        with serving(SPEC, tmp_path, *attached(subnet)) as served, served.client() as client:
            for name, mine in zip(names, hosts, strict=True):
                client.place(
                    name, hosts=[fabric.host_names[host] for host in mine],
                    workload="cartesian:keys=true",
                )  # fmt: skip
            installed_s = wait(lambda: all_ready(client, names))
            phases = [key.phase for key in client.application("app0").keys]
            assert len(phases) == 6
            traced = sum(
                check_paths(subnet, client, name, phases[number], 36 if number == 0 else 6)
                for number, name in enumerate(names)
            )
            assert traced == 36 * 4 + 5 * 6 * 4
            grants = {name: client.request(name, phases[0]) for name in names}
            state = client.state()
            assert 1 <= state.contention <= state.base_contention

            port = cable_of(subnet, client, "app0", phases[0], grants["app0"].alternative)
            version = client.changes("app0").version
            start = time.monotonic()
            subnet.unlink(port)
            swept_s = time.monotonic() - start
            told = changes_after(client, "app0", version)
            assert (phases[0], "withdrawn") in {(each.phase, each.kind) for each in told}
            assert "cables without connection" in told[0].reason
            wait(lambda: all_ready(client, names))
            again_s = time.monotonic() - start
            state = client.state()
            assert not state.subnet.problem
            assert len(state.subnet.missing_cables) == 1
            kept = {each.application: each.alternative for each in state.grants}
            assert "app0" not in kept
            assert all(grants[name].alternative == number for name, number in kept.items())

            # What the switches hold now routes all pairs, without a deadlock.
            judged = weft.validate(subnet.fabric, subnet.lfts())
            assert judged.num_unrouted_pairs == 0
            assert judged.deadlock == "no"
            client.request("app0", phases[0])
            assert check_paths(subnet, client, "app0", phases[0], 36) >= 36
            before = client.state().grants
            served.process.kill()
            served.process.wait()
        with serving(SPEC, tmp_path, *attached(subnet)) as served, served.client() as client:
            check_after_kill(subnet, client, before, port, phases)
    print(
        f"installed in {installed_s:.1f} s, {traced} paths traced; cable pulled: OpenSM swept in "
        f"{swept_s:.2f} s, all keys again after {again_s:.2f} s"
    )


def check_after_kill(
    subnet: Subnet, client: Client, before: list[GrantSummary], port: str, phases: list[str]
) -> None:
    """Check a service that was killed and started again: grants, a cable that is back, OpenSM."""
    state = client.state()
    assert len(state.subnet.missing_cables) == 1
    found = {(each.application, each.phase): each for each in state.grants}
    assert len(found) == len(before)
    for old in before:
        grant = found[old.application, old.phase]
        assert (grant.alternative, grant.since_ns) == (old.alternative, old.since_ns)
        assert grant.until_ns >= old.until_ns
    assert check_paths(subnet, client, "app1", phases[0], 6) >= 6
    reloads = state.subnet.reloads
    subnet.relink(port)
    wait(lambda: client.state().subnet.reloads > reloads)
    assert not client.state().subnet.missing_cables
    assert weft.validate(subnet.fabric, subnet.lfts()).num_unrouted_pairs == 0
    # Without OpenSM, keys that are installed are still granted; new ones fail with a reason.
    os.kill(subnet.pid, signal.SIGKILL)
    wait(lambda: "OpenSM does not run" in str(client.health().problems))
    client.request("app1", phases[1])
    client.remove("app2")
    client.place("late", num_hosts=4, workload="cartesian:keys=true")
    wait(lambda: {key.state for key in client.application("late").keys} == {"failed"})
    assert "OpenSM does not run" in client.application("late").keys[0].reason


def test_exported_tables_are_enough_to_begin(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibtracert")
    fabric, folder = "xgft:2;4,4;1,4", tmp_path / "export"
    assert main(["opensm", "export", fabric, "-e", "dmodk", "--lmc", "2", "-o", str(folder)]) == 0
    with (
        weft.live(weft.fabric(fabric), tables=folder) as subnet,
        serving(fabric, tmp_path, *attached(subnet)) as served,
        served.client() as client,
    ):
        client.place("a", num_hosts=8, phases={"halo": "shift:offset=4"})
        served.wait_ready("a")
        assert client.request("a", "halo").alternative == 0
        # With an LMC of 2 there are three further LIDs.
        assert len(client.key("a", "halo").alternatives_paths) == 3
        assert check_paths(subnet, client, "a", "halo", 8) == 3 * 8


@pytest.mark.slow
def test_cables_of_a_simulated_subnet_are_unplugged_as_the_documentation_says(
    tmp_path: Path,
) -> None:
    require_tools("curl", "opensm", "ibsim")
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    section = page.partition("## Without hardware")[2].partition("\n## ")[0]
    start, unlink, relink, _ = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    command = re.search(r"weft serve '(.*)' (--ibsim) --tokens", start)
    assert command
    with (
        serving(command[1], tmp_path, command[2], tokens=True) as served,
        served.client() as client,
    ):

        def typed(text: str) -> object:
            auth = 'auth="Authorization: Bearer $WEFT_TOKEN" json="Content-Type: application/json"'
            run = subprocess.run(
                ["sh", "-ec", f"{auth}\n{text}"], env=served.environment, capture_output=True,
                text=True, timeout=PATIENCE_S, check=True,
            )  # fmt: skip
            return json.loads(run.stdout)

        placed = client.place("cfd", num_hosts=16, phases={"halo": "bit-reversal"})
        served.wait_ready("cfd")
        version = client.changes("cfd").version
        assert typed(unlink) == {"unplugged": ["s1-0[5]"]}
        change, *_ = changes_after(client, "cfd", version)
        assert (change.kind, change.phase) == ("withdrawn", "halo")
        assert client.state().subnet.missing_cables == ["s1-0[5] -- s2-0[1]"]
        served.wait_ready("cfd")
        assert typed(relink) == {"unplugged": []}
        wait(lambda: not client.state().subnet.missing_cables)

        for token, port, status in (
            (placed.token, "s1-0[5]", 403), (served.admin_token, "s1-0[9]", 422)
        ):  # fmt: skip
            answer = httpx.post(
                f"{served.url}/v1/ibsim/unlink", json={"port": port},
                headers={"Authorization": f"Bearer {token}"},
            )  # fmt: skip
            assert answer.status_code == status, answer.text


def test_tables_that_somebody_else_loads_are_noticed() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    ours, other = (
        installed_tables(fabric, base_routes(fabric, (engine,)), [], 2, fabric)
        for engine in ("dmodk", "updn")
    )
    with live(fabric, routes=ours) as subnet:
        conf, pid = subnet.folder / "opensm.conf", str(subnet.manager.process.pid)
        place = installer.Attachment(conf, pid, subnet.folder, None, PATIENCE_S)
        installer._attach(fabric, place, ("dmodk",))
        assert installer._look() == installer.Seen((), restarted=False)
        installer._install([], ())
        assert installer._look() is None
        subnet.manager.sweep_again()
        assert installer._look() == installer.Seen((), restarted=False)
        text = lft_dump(fabric, other, lids=subnet.manager.lids())
        subnet.manager.files.lfts.write_text(text)
        subnet.manager.sweep_again()
        assert installer._look() == installer.Seen((), restarted=False, intact=False)
        installer._install([], ())
        assert installer._look() is None
