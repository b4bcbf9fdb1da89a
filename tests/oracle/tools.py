"""Programs with which the oracle tests compare weft, and functions that run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.processes import PATIENCE_S, not_here

from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning, write_fabric

#: Debian's Python modules work only with this interpreter.
SYSTEM_PYTHON = "/usr/bin/python3"


def require_tools(*names: str) -> None:
    """Skip the test if one of these programs is not installed; under CI, fail the test instead."""
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    packages = "opensm ibsim-utils infiniband-diags openmpi-bin curl openssl"
    message = f"not installed: {', '.join(missing)} (Debian: {packages})"
    not_here(message)


def require_simgrid() -> None:
    """Skip the test if the system's Python has no SimGrid; under CI, fail the test instead."""
    python = shutil.which(SYSTEM_PYTHON)
    if python:
        done = subprocess.run(
            [python, "-c", "import simgrid"], capture_output=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode == 0:
            return
    message = f"{SYSTEM_PYTHON} cannot import simgrid (Debian: python3-simgrid)"
    not_here(message)


@contextmanager
def simulator(net: Path, fabric: Fabric) -> Iterator[dict[str, str]]:
    """Run ibsim on a net file; yield the environment in which clients connect to it."""
    environment = {**os.environ, "IBSIM_SOCKNAME": f"weft-{uuid.uuid4().hex[:12]}"}
    # -P is the number of ports of switches, including port 0, and of adapters.
    room = [fabric.num_nodes + 1, fabric.num_switches + 1]
    room.append(int(fabric.num_ports.sum()) + fabric.num_switches + 1)
    sizes = [
        text for flag, size in zip("NSP", room, strict=True) for text in (f"-{flag}", f"{size}")
    ]
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
        deadline = time.monotonic() + PATIENCE_S
        # ibsim prints this once it has built the net and listens.
        while "Network simulator ready" not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.02)
        yield environment
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_S)


def ndr_text(nodes: int = 4, rails: int = 4, *, lids: bool = False, mixed: bool = False) -> str:
    """Return ibnetdiscover's output for DGX-like nodes whose port GUIDs differ from node GUIDs.

    Each node has an adapter on every rail. A rail has one leaf switch, and two spines connect the
    leaf switches. With `lids`, ports have LIDs, as on a running subnet. With `mixed`, adapters of
    the first rail have two ports and a cable in port 2; adapters of the second rail have the port
    GUID that ibsim expects; adapters of the last rail have two functions of consecutive GUIDs.
    """
    spine = [0xFC6A1C0300A00000 + 64 * number for number in range(2)]
    leaf = [0xFC6A1C0300B00000 + 64 * number for number in range(rails)]
    lid = iter(range(1, 10_000)) if lids else iter([0] * 10_000)
    switch_lid = {guid: next(lid) for guid in (*spine, *leaf)}
    lines: dict[int, list[str]] = {guid: [] for guid in (*spine, *leaf)}
    for up, guid in enumerate(spine, 1):
        for number, low in enumerate(leaf, 1):
            ends = (low, number, guid, nodes * 2 + up), (guid, nodes * 2 + up, low, number)
            for here, port, there, other in ends:
                lines[here].append(
                    f'[{other}]\t"S-{there:016x}"[{port}]\t\t# "sw" lid {switch_lid[there]} 4xNDR'
                )
    adapters = []
    for node in range(nodes):
        for rail, low in enumerate(leaf):
            first = 0xA088C20300C00000 + 0x1000 * node + 0x10 * rail
            two = mixed and rail == rails - 1
            for function in range(1 + two):
                guid = first + function
                port, port_guid = 1, guid
                if mixed and rail < 2:
                    port, port_guid = ((2, guid + 8), (1, guid + 1))[rail]
                plug, own = 2 * node + function + 1, next(lid)
                name = f"dgx{node} mlx5_{rail + function}"
                lines[low].append(
                    f'[{plug}]\t"H-{guid:016x}"[{port}]({port_guid:x})\t\t# "{name}" '
                    f"lid {own} 4xNDR"
                )
                adapters.append(
                    f"vendid=0x2c9\ndevid=0x1021\nsysimgguid={first:#x}\ncaguid={guid:#x}\n"
                    f'Ca\t{port} "H-{guid:016x}"\t\t# "{name}"\n'
                    f'[{port}]({port_guid:x})\t"S-{low:016x}"[{plug}]\t\t# lid {own} lmc 0 '
                    f'"sw" lid {switch_lid[low]} 4xNDR\n'
                )
    switches = [
        f"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid={guid:#x}\nswitchguid={guid:#x}({guid:x})\n"
        f'Switch\t{2 * nodes + 2 + rails} "S-{guid:016x}"\t\t# "{name}" base port 0 '
        f"lid {switch_lid[guid]} lmc 0\n" + "\n".join(lines[guid]) + "\n"
        for name, guid in (
            *((f"spine{number}", guid) for number, guid in enumerate(spine)),
            *((f"leaf{number}", guid) for number, guid in enumerate(leaf)),
        )
    ]
    return "\n".join([*switches, *adapters])


def opensm_tables(
    fabric: Fabric, folder: Path, engine: str, *options: str, lmc: int = 0
) -> tuple[str, np.ndarray]:
    """Run one sweep of the real OpenSM; return the engine that it used and its tables.

    Tables have a row per destination and LID offset, and a column per switch; 255 means that there
    is no path. All offsets of a switch have the row of its only LID.
    """
    net = folder / "net.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        write_fabric(fabric, net, "ibsim")
    # ibsim connects its client to port 1 of a host, whether or not that port has a cable.
    by_port_one = fabric.host_endpoint[fabric.host_endpoint >= 0]
    by_port_one = by_port_one[fabric.endpoint_port[by_port_one] == 1]
    host = fabric.endpoint_node[by_port_one[0]]
    cache = folder / "cache"
    cache.mkdir()
    log = folder / "osm.log"
    with simulator(net, fabric) as environment:
        environment |= {
            "SIM_HOST": fabric.node_names[host],
            "OSM_CACHE_DIR": str(cache),
            "OSM_TMP_DIR": str(folder),
        }
        command = ["ibsim-run", "opensm", "-o", "-e", "-f", str(log), "-D", "0x43"]
        subprocess.run(
            [*command, "--dump_files_dir", str(folder), "-R", engine, "-l", str(lmc), *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
    used = re.findall(r"(\S+) tables configured", log.read_text(errors="replace"))
    return used[-1], _read_dump(fabric, (folder / "opensm-lfts.dump").read_text(), lmc)


def _read_dump(fabric: Fabric, dump: str, lmc: int) -> np.ndarray:
    node_of = {int(guid): switch for switch, guid in enumerate(fabric.node_guid)}
    slots = fabric.port_offset[fabric.endpoint_node] + fabric.endpoint_port - 1
    column = {int(guid): number for number, guid in enumerate(fabric.port_guid[slots])}
    for switch in range(fabric.num_switches):
        column[int(fabric.node_guid[switch])] = fabric.num_endpoints + switch
    table = np.full((fabric.num_destinations << lmc, fabric.num_switches), 255, dtype=np.uint8)
    switch, known = -1, Counter[int]()
    for line in dump.splitlines():
        if header := re.match(r"Unicast lids .* guid (0x[0-9a-f]+)", line):
            switch, known = node_of[int(header[1], 16)], Counter()
        elif row := re.match(r"0x[0-9a-f]+\s+(\d+)\s+#.*portguid (0x[0-9a-f]+)", line):
            destination = column[int(row[2], 16)]
            first = destination << lmc
            if destination < fabric.num_endpoints:
                table[first + known[destination], switch] = int(row[1])
                known[destination] += 1
            else:
                table[first : first + (1 << lmc), switch] = int(row[1])
    return table
