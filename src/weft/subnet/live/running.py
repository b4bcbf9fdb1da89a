"""Running ibsim and OpenSM: start, sweeps, and ibsim's console."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.core.files import read_text, write_text
from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning, write_fabric
from weft.fabrics.formats.ibsim import simulated
from weft.routing.opensm.lfts import read_lfts
from weft.routing.opensm.lids import Lids, predict_lids, read_guid2lid
from weft.routing.opensm.osm_log import NEED_QOS, Sweep, version
from weft.routing.opensm.tables_folder import FILES, GUID2LID, LFTS, POLICY, TORUS, OpensmTables
from weft.routing.routes import TableRoutes
from weft.subnet.live import guardian
from weft.subnet.live.daemon import DaemonFiles
from weft.subnet.live.manager import Manager
from weft.subnet.live.opensm_conf import check_settings, torus_text
from weft.subnet.live.processes import (
    Child,
    Processes,
    end_process,
    ending,
    log_text,
    search_path,
    tail,
    wait_for,
    write_all,
)
from weft.subnet.live.sweep_log import START

#: Settings of opensm.conf that weft sets.
_OURS = {
    "routing_engine", "sweep_interval", "sweep_on_trap", "log_file", "log_flags", "dump_files_dir",
    "force_log_flush", "accum_log_file", "daemon", "lfts_file", "lmc",
}  # fmt: skip
#: Maximum number of LIDs in ibsim's tables.
_MOST_LIDS = 49152
_HEAD = re.compile(r'^(?:Switch|Ca|Hca|Rt)\t\d+ "([^"]+)"', re.MULTILINE)
_PROMPT = "sim> "


class Running:
    """The programs of a `weft.subnet.live.subnet.Subnet`."""

    def __init__(
        self,
        fabric: Fabric,
        engine: str,
        processes: Processes,
        programs: Mapping[str, str],
        library: str,
        timeout_s: float,
    ):
        self.initial_fabric = fabric
        self.engine = engine
        self.folder = processes.folder
        self.timeout_s = timeout_s
        self.log = self.folder / "opensm.log"
        self._processes = processes
        self._programs = programs
        self._pulled: dict[int, str] = {}
        #: Tables that OpenSM loads.
        self._given: TableRoutes | None = None
        #: Texts for the user about changes and additions by weft.
        self.notes: list[str] = []
        self.pairs = 0
        #: Problems that do not prevent the subnet from coming up.
        self.problems: tuple[str, ...] = ()
        self.environment = {
            **os.environ,
            "PATH": search_path(),
            "LD_PRELOAD": library,
            "IBSIM_SOCKNAME": f"weft-{processes.token[:12]}",
            "OSM_CACHE_DIR": str(self.folder),
            "OSM_TMP_DIR": str(self.folder),
            guardian.MARK: processes.token,
        }

    @property
    def fabric(self) -> Fabric:
        """The simulated fabric without unplugged cables."""
        if not self._pulled:
            return self.initial_fabric
        return self.initial_fabric.without(cables=self._pulled)

    @property
    def manager_node(self) -> int:
        """Node of the host on which OpenSM runs."""
        return self._own

    def sim_host(self, host: int) -> str:
        """Return ibsim's name of a host: ``SIM_HOST`` of programs that run on it."""
        return str(self._ids[self.initial_fabric.num_switches + host])

    @property
    def unplugged(self) -> tuple[str, ...]:
        """A port of each cable that is unplugged, ``node[port]``."""
        return tuple(self._pulled.values())

    @property
    def version(self) -> str:
        """Version of OpenSM, such as ``3.3.23``."""
        return version(log_text(self.log))

    @property
    def ended(self) -> str:
        """Text that says which programs ended, and how; empty while ibsim and OpenSM run."""
        programs = {"ibsim": self._sim, "OpenSM": self._sm}
        status = {name: process.poll() for name, process in programs.items()}
        return " and ".join(
            f"{x} ended with {ending(n)}" for x, n in status.items() if n is not None
        )

    # -- starting ----------------------------------------------------------------------------

    def _start(
        self,
        own: int,
        tables: OpensmTables | None,
        lmc: int | None,
        qos: bool | None,
        options: dict[str, Any],
    ) -> None:
        settings: dict[str, Any] = {"lmc": 0}
        path = None
        if tables is not None:
            settings |= self._lay_out(tables)
            if LFTS in tables.files:
                path = tables.source or self.folder / LFTS
        if path is not None and tables is not None and "lmc" not in tables.settings:
            settings["lmc"] = read_lfts(self.fabric, path, lmc=lmc).lmc
        if lmc is not None:
            if tables is not None and lmc != int(settings["lmc"]):
                raise InputError(f"the tables are for LMC {settings['lmc']}, not {lmc}")
            settings["lmc"] = lmc
        for name in _OURS & options.keys():
            raise InputError(f"{name} is set by weft, and cannot be an option")
        check_settings(options, self._programs["opensm"])
        wanted = {} if qos is None else {"qos": str(qos).upper()}
        self._options = wanted | {name: _from_here(text) for name, text in options.items()}
        if self.engine == "torus-2QoS":
            self._configure_torus(str(options.get("torus_config", "")))
        self._simulate(own, int(settings["lmc"]))
        if path is not None:
            self._given = read_lfts(
                self.fabric, path, lids=self._expected, lmc=int(settings["lmc"])
            )
        self._manage(settings)

    def _restart(self, engine: str, tables: OpensmTables | None) -> None:
        """End OpenSM, and start it with another engine or with tables to load."""
        self._check_running()
        end_process(self._sm)
        self.engine = engine
        (self.folder / POLICY).unlink(missing_ok=True)
        laid_out = {} if tables is None else self._lay_out(tables)
        # The new OpenSM may not yet have replaced the log when it is read.
        self.log.unlink(missing_ok=True)
        self._manage({"lmc": self._lmc, **laid_out})

    def _lay_out(self, tables: OpensmTables) -> dict[str, str]:
        """Write the files of tables to OpenSM's folder; return the settings of opensm.conf."""
        for name, text in tables.files.items():
            write_text(self.folder / name, text)
        paths = {
            setting: str(self.folder / name)
            for setting, name in FILES.items()
            if name in tables.files
        }
        return {**tables.settings, **paths}

    def _configure_torus(self, conf: str) -> None:
        """Check or write the configuration that torus-2QoS needs."""
        path = self.folder / TORUS
        if conf:
            if not Path(conf).is_file():
                raise InputError("there is no such file for torus_config", file=conf)
        elif not path.exists():
            write_text(path, torus_text(self.fabric))
            self.notes.append(f"no torus_config was given; OpenSM uses {path}, which weft wrote")

    def _simulate(self, own: int, lmc: int) -> None:
        """Start ibsim."""
        fabric = self.fabric
        net = self.folder / "net.txt"
        shown = simulated(fabric)
        other = int(np.count_nonzero(shown.node_guid != fabric.node_guid))
        if other:
            self.notes.append(
                f"{other} adapters are simulated with other node GUIDs, from which ibsim derives "
                "their port GUIDs"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            write_fabric(shown, net, "ibsim")
        self._ids = _HEAD.findall(read_text(net))
        self._own = own
        self.environment["SIM_HOST"] = self._ids[own]
        memory = self.folder / GUID2LID
        self._lmc = lmc
        #: Expected LIDs of the ports. If OpenSM routes with an engine of its own, the check is only
        #: that each port has a LID.
        self._expected = self._expect(read_guid2lid(memory) if memory.exists() else {})
        # -P counts switch ports, port 0 of each switch, and adapter ports.
        ports = int(fabric.num_ports.sum()) + fabric.num_switches
        room = int(self._expected.base.max()) + (2 << lmc) + 64
        sizes = [f"-N{fabric.num_nodes + 1}", f"-S{fabric.num_switches + 1}", f"-P{ports + 1}"]
        sizes.append(f"-L{min(_MOST_LIDS, max(room, 1024))}")
        self._sim_log = self.folder / "ibsim.log"
        self._sim = self._processes.start(
            [self._programs["ibsim"], "-s", *sizes, str(net)],
            self._sim_log,
            {name: text for name, text in self.environment.items() if name != "LD_PRELOAD"},
            stdin=subprocess.PIPE,
        )
        wait_for(
            lambda: _PROMPT in log_text(self._sim_log),
            Child(self._sim).ended,
            [self._sim_log],
            self.timeout_s,
            f"ibsim did not load {fabric.name}",
        )

    def _expect(self, cache: Mapping[int, tuple[int, int]]) -> Lids:
        """Return the LIDs that OpenSM assigns to ports in reach if guid2lid contains `cache`."""
        return predict_lids(self.fabric, lmc=self._lmc, sm=self._own, cache=cache)

    def _manage(self, settings: Mapping[str, Any]) -> None:
        """Start OpenSM, and wait until it has programmed the tables."""
        folder = self.folder
        config = {
            "routing_engine": self.engine,
            # Sweep only at the start and at SIGHUP.
            "sweep_interval": 0,
            "sweep_on_trap": "FALSE",
            "log_file": self.log,
            "log_flags": "0x43",
            "force_log_flush": "TRUE",
            "accum_log_file": "FALSE",
            "dump_files_dir": folder,
            # Do not use the files of this machine's own subnet.
            "partition_config_file": folder / "partitions.conf",
            "per_module_logging_file": folder / "per-module-logging.conf",
            "prefix_routes_file": folder / "prefix-routes.conf",
            "qos_policy_file": folder / "qos-policy.conf",
            "torus_config": folder / "torus-2QoS.conf",
            "qos": str(self.engine in NEED_QOS).upper(),
            **settings,
            **self._options,
        }
        path = folder / "opensm.conf"
        write_text(path, "".join(f"{name} {value}\n" for name, value in config.items()))
        self._sm_output = folder / "opensm.out"
        self._sm = self._processes.start(
            [self._programs["opensm"], "-F", str(path)],
            self._sm_output,
            self.environment,
            stdin=subprocess.DEVNULL,
        )
        files = DaemonFiles(folder / LFTS, self.log, folder, folder / GUID2LID)
        self.manager = Manager(
            self.initial_fabric, files, Child(self._sm), lmc=int(settings["lmc"]),
            timeout_s=self.timeout_s, engine=self.engine,
        )  # fmt: skip
        what = f"OpenSM did not bring up {self.fabric.name}"
        self.manager.await_sweep(START, what, self._sm_output)

    @property
    def pid(self) -> int:
        """Process id of OpenSM."""
        return self._sm.pid

    @property
    def sweep(self) -> Sweep:
        """The last sweep of OpenSM that was awaited."""
        return self.manager.last_sweep

    # -- changing ----------------------------------------------------------------------------

    def _end_of(self, cable: int) -> str:
        """Return one end of a cable in the syntax of ibsim's console."""
        node = int(self.initial_fabric.link_from[2 * cable])
        return f'"{self._ids[node]}"[{int(self.initial_fabric.link_from_port[2 * cable])}]'

    def _check_running(self) -> None:
        """Check that the simulator still runs."""
        if self._sim.poll() is not None:
            raise WeftError(f"the subnet that simulated {self.initial_fabric.name} has ended")

    def _console(self, command: str) -> None:
        """Send a command that changes the fabric to ibsim, and wait until it is done."""
        complaints = re.findall(r"^# (.*)", self._answer(command), re.MULTILINE)
        if complaints:
            raise WeftError(f"ibsim refuses {command!r}: {complaints[0]}")

    def _entries(self, lid: int) -> dict[int, int]:
        """Return the entry of each switch for a LID, by the number of the switch, from ibsim."""
        entries = {}
        for block in self._answer("Dump").split("\nSwitch ")[1:]:
            entry = re.search(rf"\[{lid}\]([0-9A-F]+)", block)
            if entry:
                entries[self._ids.index(block.split('"')[1])] = int(entry[1], 16)
        return entries

    def _answer(self, command: str) -> str:
        """Send a command to ibsim, and return what it prints."""
        self._check_running()
        start = self._sim_log.stat().st_size
        assert self._sim.stdin
        try:
            write_all(self._sim.stdin, command)
        except OSError:
            raise WeftError(f"ibsim has ended{tail(self._sim_log)}") from None
        wait_for(
            lambda: _PROMPT in log_text(self._sim_log, start),
            Child(self._sim).ended,
            [self._sim_log],
            self.timeout_s,
            f"ibsim did not execute {command!r}",
        )
        return log_text(self._sim_log, start)


def _from_here(value: Any) -> Any:
    """Return a value; the path of a file becomes absolute, since OpenSM runs in another folder."""
    return (
        os.path.abspath(value) if isinstance(value, str | Path) and os.path.exists(value) else value
    )


def sm_node(fabric: Fabric, sm_host: str | int | None) -> int:
    """Return the node on which OpenSM runs: a host with a cable in port 1, as ibsim requires."""
    endpoints = fabric.host_endpoint[fabric.host_endpoint >= 0]
    usable = fabric.endpoint_node[endpoints[fabric.endpoint_port[endpoints] == 1]]
    if sm_host is None:
        if not len(usable):
            raise NotApplicable(
                f"{fabric.name} has no host with a cable in port 1, but ibsim runs OpenSM only on "
                "port 1"
            )
        return int(usable[0])
    node = fabric.find_node(sm_host) if isinstance(sm_host, str) else int(sm_host)
    if not fabric.num_switches <= node < fabric.num_switches + fabric.num_hosts:
        raise InputError(f"OpenSM runs on a host, not on {sm_host}")
    if node not in usable:
        raise InputError(
            f"{fabric.node_names[node]} has no cable in port 1, but ibsim runs OpenSM only on "
            "port 1"
        )
    return node
