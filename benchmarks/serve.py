"""The routing-key scheduler: decisions of its core, and requests through HTTP on loopback.

The core is compared with the scheduler's free choice of switches in the same run, and HTTP with an
empty answer of the same server. Work: XGFT(3;12,12,12;1,12,12) with 1,728 hosts, applications of
108 ranks with the six phases of `cartesian`, four alternatives each. Each client requests and
returns the keys of its application's phases in turn.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import numpy as np

import weft
from weft.sim.keys.alternatives import alternatives
from weft.sim.keys.network import key_network
from weft.sim.keys.scheduler import Done, Place, Request, Scheduler
from weft.subnet.service.ledger import Announced, KeyGivenBack, Ledger, Made, Requested
from weft.subnet.service.makers import MakerSettings, expand, initialise, make

SPEC = "xgft:3;12,12,12;1,12,12"
CLIENTS = 8
RANKS = 108
SECONDS = 5.0
BIG = 800


def main() -> None:
    """Print rates and latencies."""
    core()
    http()


def core() -> None:
    """Print decisions per second of the scheduler and of the ledger, with one process."""
    fabric = weft.fabric(SPEC)
    network = key_network(fabric)
    hosts = np.random.default_rng(0).permutation(fabric.num_hosts).astype(np.int32)
    phases = expand(RANKS, None, "cartesian:keys=true")
    groups = [hosts[at : at + RANKS] for at in range(0, len(hosts) - RANKS + 1, RANKS)]
    rates: dict[str, float] = {}
    for choice in ("installed", "shift", "optimum"):
        state = Scheduler(network, choice=choice, keep_log=False)
        for number, mine in enumerate(groups):
            for name, ends in phases.items():
                sources, destinations = (mine[end] for end in ends)
                key = weft.keys(
                    fabric, sources, destinations, first="random", name=f"{number}/{name}",
                    seed=number,
                )  # fmt: skip
                state.handle(Place(0.0, key, tuple(alternatives(key, 4))))
        names = list(state.keys)
        rates[choice] = _rate(
            lambda at, name, state=state: state.handle(Request(float(at), name)),
            lambda at, name, state=state: state.handle(Done(float(at), name)),
            names,
        )
        print(f"core, choice {choice:9}: {rates[choice]:8,.0f} grants and returns per second")
    initialise(fabric, MakerSettings(lmc=4))
    ledger = Ledger(network)
    names = []
    for number, mine in enumerate(groups):
        application = f"A{number}"
        ledger.handle(Announced(0, application, tuple(mine.tolist()), phases))
        ends = {name: (mine[a], mine[b]) for name, (a, b) in phases.items()}
        for each in make(ends, (), number):
            ledger.handle(Made(0, application, each.phase, each.key, each.base))
            names.append((application, each.phase))
    rate = _rate(
        lambda at, name: ledger.handle(Requested(at, *name, 10**12)),
        lambda at, name: ledger.handle(KeyGivenBack(at, *name)),
        names,
    )
    print(f"ledger               : {rate:8,.0f} grants and returns per second")
    print(f"free choice of switches takes {rates['installed'] / rates['shift']:.1f} times as long")


def _rate(ask, give_back, names) -> float:
    """Return events per second for random requests and returns."""
    random = np.random.default_rng(1)
    order = random.integers(0, len(names), 40_000).tolist()
    held: set[int] = set()
    for at, which in enumerate(order[:200]):
        (give_back if which in held else ask)(at, names[which])
        held ^= {which}
    start = time.perf_counter()
    for at, which in enumerate(order[200:], 200):
        (give_back if which in held else ask)(at, names[which])
        held ^= {which}
    return (len(order) - 200) / (time.perf_counter() - start)


def http() -> None:
    """Print requests per second and latencies of several clients."""
    with socket.socket() as stream:
        stream.bind(("127.0.0.1", 0))
        port = int(stream.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        program = Path(sys.executable).with_name("weft")
        process = subprocess.Popen(
            [program, "serve", SPEC, "--store", f"{folder}/store", "--port", str(port)],
            stderr=subprocess.DEVNULL,
        )
        try:
            _http(port)
        finally:
            process.terminate()
            process.wait()


def _http(port: int) -> None:
    def call(method: str, path: str, body: object = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = HttpRequest(f"http://127.0.0.1:{port}/v1{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=300) as answer:
            return json.loads(answer.read() or b"{}")

    def ready(name: str) -> None:
        while any(key["state"] != "ready" for key in call("GET", f"/applications/{name}")["keys"]):
            time.sleep(0.1)

    while True:
        try:
            call("GET", "/health")
            break
        except OSError:
            time.sleep(0.1)
    names = [f"A{number}" for number in range(CLIENTS)]
    for name in names:
        body = {"name": name, "num_hosts": RANKS, "workload": "cartesian:keys=true"}
        call("POST", "/applications", body)
    for name in names:
        ready(name)
    phases = [key["phase"] for key in call("GET", "/applications/A0")["keys"]]

    def calls(name: str) -> list[bytes]:
        paths = [
            f"/v1/applications/{name}/keys/{p}/{w}" for p in phases for w in ("request", "done")
        ]
        return [_call("POST", path) for path in paths]

    empty = _load(port, [[_call("GET", "/v1/health")] for _ in names])
    print(f"HTTP, empty answer   : {empty.text}")
    alone = _load(port, [calls(name) for name in names])
    print(f"HTTP, keys           : {alone.text}, {alone.rate / empty.rate:.2f} of the empty answer")
    made = [0]
    over = threading.Event()

    def make_keys() -> None:
        body = {"name": "big", "num_hosts": BIG, "workload": "cartesian:keys=true"}
        while not over.is_set():
            call("POST", "/applications", body)
            ready("big")
            call("DELETE", "/applications/big")
            made[0] += 1

    maker = threading.Thread(target=make_keys)
    maker.start()
    while_made = _load(port, [calls(name) for name in names])
    over.set()
    maker.join()
    print(f"while keys of {BIG} ranks are made, {made[0]} times: {while_made.text}")


class _Load:
    """Latencies of requests."""

    def __init__(self, seconds: list[float], elapsed_s: float, refused: int) -> None:
        self.rate = len(seconds) / elapsed_s
        p50, p99 = (np.percentile(seconds, q) * 1e3 for q in (50, 99))
        self.text = (
            f"{self.rate:7,.0f} requests per second, p50 {p50:.1f} ms, p99 {p99:.1f} ms, largest "
            f"{max(seconds) * 1e3:.0f} ms, {refused} refused"
        )


def _call(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()


def _load(port: int, calls: list[list[bytes]]) -> _Load:
    """Send the calls of each client in turn for some seconds, all clients at once."""
    seconds: list[float] = []
    refused = [0]

    def client(mine: list[bytes]) -> None:
        with socket.create_connection(("127.0.0.1", port)) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            took: list[float] = []
            end = time.perf_counter() + SECONDS
            # Whole rounds, so that every key is given back.
            while time.perf_counter() < end:
                for call in mine:
                    start = time.perf_counter()
                    stream.sendall(call)
                    answer = _answer(stream)
                    took.append(time.perf_counter() - start)
                    refused[0] += not answer.startswith(b"HTTP/1.1 200")
            seconds.extend(took)

    threads = [threading.Thread(target=client, args=(mine,)) for mine in calls]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _Load(seconds, time.perf_counter() - start, refused[0])


def _answer(stream: socket.socket) -> bytes:
    """Return one answer with a content-length."""
    data = b""
    while True:
        data += stream.recv(65536)
        head = data.find(b"\r\n\r\n")
        if head < 0:
            continue
        at = data.lower().find(b"content-length: ")
        length = int(data[at + 16 : data.find(b"\r\n", at)])
        if len(data) >= head + 4 + length:
            return data


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
