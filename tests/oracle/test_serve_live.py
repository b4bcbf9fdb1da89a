"""`weft serve` beside the real OpenSM: keys in the switches, and a cable that is pulled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from tests.oracle.tools import require_tools

import weft
from weft.opensm.live.subnet import Subnet
from weft.routing_keys.tables import installed_tables
from weft.service.makers import base_routes

pytestmark = pytest.mark.oracle

WEFT = str(Path(sys.executable).with_name("weft"))
ENGINES = ("dmodk", "updn")
#: Seconds for keys to be made and installed, compile included, on a loaded machine.
LIMIT_S = 240.0


class Api:
    """The HTTP interface."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.root = f"http://127.0.0.1:{port}/v1"
        self.process = process

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.root + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=LIMIT_S) as answer:
                text = answer.read()
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from None
        return json.loads(text) if text else None

    def ready(self, names: list[str], within_s: float = LIMIT_S) -> float:
        """Wait until all keys of some applications are ready; return the seconds."""
        start = time.monotonic()
        while time.monotonic() - start < within_s:
            keys = [key for name in names for key in self("GET", f"/applications/{name}")["keys"]]
            failed = [key for key in keys if key["state"] == "failed"]
            assert not failed, failed[0]["reason"]
            if all(key["state"] == "ready" for key in keys):
                return time.monotonic() - start
            time.sleep(0.1)
        raise AssertionError(f"keys are not ready after {within_s} s")


def free_port() -> int:
    import socket

    with socket.socket() as stream:
        stream.bind(("127.0.0.1", 0))
        return int(stream.getsockname()[1])


@contextmanager
def serve(spec: str, subnet: Subnet, store: Path) -> Iterator[Api]:
    """Run `weft serve` beside the OpenSM of a subnet."""
    port = free_port()
    log = (store.parent / "serve.log").open("ab")
    process = subprocess.Popen(
        [
            WEFT, "serve", spec, "--store", str(store), "--port", str(port),
            "--opensm", str(subnet.folder / "opensm.conf"),
            "--opensm-pid", str(subnet.manager.process.pid),
            "--opensm-cache", str(subnet.folder),
        ],
        stdout=log, stderr=log,
    )  # fmt: skip
    api = Api(port, process)
    try:
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                api("GET", "/health")
                break
            except OSError:
                assert process.poll() is None, (store.parent / "serve.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
        yield api
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def check_paths(
    fabric: weft.Fabric, subnet: Subnet, api: Api, application: str, phase: str, most: int
) -> int:
    """Compare paths of all alternatives of a key with ibtracert; return the number of paths."""
    hosts = api("GET", f"/applications/{application}")["hosts"]
    key = api("GET", f"/applications/{application}/keys/{phase}")
    lids = subnet.lids().base
    checked = 0
    for alternative in key["alternatives_paths"]:
        middles: dict[tuple[int, int], int] = {}
        for path in alternative["paths"][:most]:
            ends = [hosts[path[end]] for end in ("source", "destination")]
            node = fabric.find_node(ends[1])
            base = int(lids[fabric.host_endpoint[node - fabric.num_switches]])
            assert path["dlid"] == base + path["path_bits"]
            trace = subnet.trace(*ends, offset=path["path_bits"])
            # No link carries two flows of one key, those at hosts included.
            for link in pairwise(trace):
                middles[link] = middles.get(link, 0) + 1
            checked += 1
        assert max(middles.values(), default=1) == 1
    return checked


def after_kill(
    fabric: weft.Fabric,
    subnet: Subnet,
    api: Api,
    before: dict[tuple[str, str], Any],
    cable: int,
    phases: list[str],
) -> None:
    """Check a service that was killed and started again: grants, a cable that is back, OpenSM."""
    state = api("GET", "/state")
    assert len(state["subnet"]["missing_cables"]) == 1
    found = {(each["application"], each["phase"]): each for each in state["grants"]}
    assert found.keys() == before.keys()
    for at, grant in found.items():
        assert grant["alternative"] == before[at]["alternative"]
        assert grant["since_ns"] == before[at]["since_ns"]
        assert grant["until_ns"] >= before[at]["until_ns"]
    assert check_paths(fabric, subnet, api, "app1", phases[0], 6) >= 6
    subnet.relink(fabric.link_name(2 * cable).partition(" ")[0])
    wait(lambda: not api("GET", "/state")["subnet"]["missing_cables"])
    wait(lambda: weft.validate(subnet.fabric, subnet.lfts()).num_unrouted_pairs == 0)
    # Without OpenSM, keys that are installed are still granted; new ones fail with a reason.
    os.kill(subnet.manager.process.pid, signal.SIGKILL)
    wait(lambda: "OpenSM does not run" in str(api("GET", "/health")["problems"]))
    api("POST", f"/applications/app1/keys/{phases[1]}/request")
    api("DELETE", "/applications/app2")
    api(
        "POST", "/applications", {"name": "late", "num_hosts": 4, "workload": "cartesian:keys=true"}
    )
    wait(lambda: {key["state"] for key in api("GET", "/applications/late")["keys"]} == {"failed"})
    reason = api("GET", "/applications/late")["keys"][0]["reason"]
    assert "OpenSM does not run" in reason


def wait(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    start = time.monotonic()
    while not done():
        assert time.monotonic() - start < LIMIT_S
        time.sleep(0.1)


def test_six_applications_keep_their_keys_while_a_cable_is_pulled(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibtracert")
    spec = "xgft:3;6,6,6;1,6,6"
    fabric = weft.fabric(spec)
    tables = installed_tables(fabric, base_routes(fabric, ENGINES), [], 4, fabric)
    hosts = np.random.default_rng(5).permutation(216).reshape(6, 36)
    names = [f"app{number}" for number in range(6)]
    with weft.live(fabric, routes=tables) as subnet, serve(spec, subnet, tmp_path / "s") as api:
        for name, mine in zip(names, hosts, strict=True):
            body = {
                "name": name,
                "hosts": [fabric.host_names[host] for host in mine],
                "workload": "cartesian:keys=true",
            }
            assert api("POST", "/applications", body)["token"]
        installed_s = api.ready(names)
        phases = [key["phase"] for key in api("GET", "/applications/app0")["keys"]]
        assert len(phases) == 6
        traced = sum(
            check_paths(fabric, subnet, api, name, phases[number % 6], 36 if number == 0 else 6)
            for number, name in enumerate(names)
        )
        assert traced >= 36 * 4
        grants = {
            name: api("POST", f"/applications/{name}/keys/{phases[0]}/request") for name in names
        }
        contention = api("GET", "/state")["contention"]
        assert 1 <= contention <= api("GET", "/state")["base_contention"]

        # Pull a cable that a granted key uses.
        begin = api("GET", f"/applications/app0/keys/{phases[0]}")
        path = begin["alternatives_paths"][grants["app0"]["alternative"]]["paths"]
        app_hosts = api("GET", "/applications/app0")["hosts"]
        trace = next(
            found
            for each in path
            if len(
                found := subnet.trace(
                    app_hosts[each["source"]], app_hosts[each["destination"]],
                    offset=each["path_bits"],
                )
            )
            == 7
        )  # fmt: skip
        cable = next(
            c
            for c in range(fabric.num_cables)
            if {int(fabric.link_from[2 * c]), int(fabric.link_to[2 * c])} == set(trace[2:4])
        )
        version = api("GET", "/applications/app0/changes")["version"]
        start = time.monotonic()
        subnet.unlink(fabric.link_name(2 * cable).partition(" ")[0])
        swept_s = time.monotonic() - start
        told = api("GET", f"/applications/app0/changes?after={version}&wait_s=60")["changes"]
        assert (phases[0], "withdrawn") in {(each["phase"], each["kind"]) for each in told}
        assert "cables without connection" in told[0]["reason"]
        api.ready(names)
        again_s = time.monotonic() - start
        state = api("GET", "/state")
        assert not state["subnet"]["problem"]
        assert len(state["subnet"]["missing_cables"]) == 1
        kept = {each["application"]: each["alternative"] for each in state["grants"]}
        assert "app0" not in kept
        for name, alternative in kept.items():
            assert grants[name]["alternative"] == alternative

        # What the switches hold now routes all pairs, without a deadlock.
        held = subnet.lfts()
        judged = weft.validate(subnet.fabric, held)
        assert judged.num_unrouted_pairs == 0
        assert judged.deadlock == "no"
        api("POST", f"/applications/app0/keys/{phases[0]}/request", {"wait_s": 60})
        assert check_paths(fabric, subnet, api, "app0", phases[0], 36) >= 36
        before = {
            (each["application"], each["phase"]): each for each in api("GET", "/state")["grants"]
        }
        api.process.kill()
        api.process.wait()
        with serve(spec, subnet, tmp_path / "s") as again:
            after_kill(fabric, subnet, again, before, cable, phases)
        print(
            f"installed in {installed_s:.1f} s, {traced} paths traced; cable pulled: OpenSM swept "
            f"in {swept_s:.2f} s, all keys again after {again_s:.2f} s"
        )
