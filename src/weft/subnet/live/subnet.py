"""A live subnet: the real OpenSM on a fabric that ibsim simulates."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.core.files import write_text
from weft.core.registry import wrong_name
from weft.fabrics import Fabric, check_fabric
from weft.fabrics.formats import FormatWarning
from weft.routing.opensm.lft_lines import DUMP_BLOCK
from weft.routing.opensm.lfts import read_lfts
from weft.routing.opensm.lids import Lids, predict_lids, read_guid2lid
from weft.routing.opensm.osm_log import ENGINES, complaints
from weft.routing.opensm.tables_folder import GUID2LID, OpensmTables, read_tables
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.validate import validate
from weft.subnet.export import tables_for
from weft.subnet.live import guardian
from weft.subnet.live.processes import (
    Processes,
    check_limit,
    end_process,
    find_program,
    interrupts_left_to_the_command,
    orderly_signals,
    preload,
)
from weft.subnet.live.running import Running, sm_node
from weft.subnet.live.verify import differences, lids_of, verify

#: Time limit in seconds for the subnet to come up, and for each change.
TIMEOUT_S = 120.0
_HOP = re.compile(r"\[\d+\] -> \w+ port \{0x[0-9a-f]+\}\[\d+\] lid (\d+)-")


@contextmanager
def live(
    fabric: Fabric,
    engine: str | None = None,
    *,
    routes: Routes | None = None,
    tables: str | Path | None = None,
    lmc: int | None = None,
    qos: bool | None = None,
    sm_host: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
    keep: str | Path | None = None,
) -> Iterator[Subnet]:
    """Run the real OpenSM on a simulated fabric during a ``with`` block.

    Parameters
    ----------
    fabric
        Fabric to simulate. The ports have the fabric's LIDs when OpenSM starts.
    engine
        Engine of OpenSM; by default ``minhop``, unless `routes` or `tables` is given.
    routes
        Routes of weft, which OpenSM loads with its engine ``file``.
    tables
        A folder of ``weft opensm export`` or an LFT dump, which OpenSM loads in the same way.
    lmc
        OpenSM's LMC; by default the LMC of the tables, or 0 without tables.
    qos
        Whether OpenSM programs lanes; by default only if the engine or the routes need lanes.
    sm_host
        Host on which OpenSM runs, by name, GUID or node number, with a cable in port 1; by default
        the first such host.
    options
        Further settings of ``opensm.conf``, such as ``{"root_guid_file": "roots.guids"}``.
    timeout_s
        Time limit in seconds for the subnet to come up, for each change, and for each query.
    keep
        Working folder that is kept; by default a temporary folder that is removed.

    Yields
    ------
    Subnet
        The subnet, after a check of OpenSM's dumps: it has the cables of the fabric, each port has
        its expected LID, and the switches have the given tables. Host pairs without a path are in
        ``problems`` of the subnet.

    Raises
    ------
    NotApplicable
        If the engine refuses the fabric (OpenSM silently falls back to minhop), OpenSM cannot
        express the routes, hosts forward, or ibsim cannot simulate the port GUIDs.
    InputError
        If an engine or host is unknown, more than one of engine, routes and tables is given, the
        tables are of another fabric, or `lmc` is not the LMC of the tables.
    WeftError
        If a program is missing (the message names its Debian package), ends, or takes too long,
        or cables, LIDs or tables are not as expected.

    Notes
    -----
    A guardian process ends all programs and removes the folder, however the block or the process
    ends; see `weft.subnet.live.guardian`. In the main thread SIGTERM and SIGHUP raise `SystemExit`
    unless the program handles them.
    """
    check_fabric(fabric)
    if sum(given is not None for given in (engine, routes, tables)) > 1:
        raise InputError("only one of an engine of OpenSM, routes and tables can be given")
    own = sm_node(fabric, sm_host)
    loaded = None if tables is None else read_tables(Path(tables))
    if routes is not None:
        loaded, _ = tables_for(fabric, routes, sm_host=own)
    if engine is None:
        engine = "minhop" if loaded is None else loaded.settings["routing_engine"]
    if engine == "file" and loaded is None:
        # Without a file OpenSM routes by minhop, but reports the engine "file".
        raise InputError("OpenSM's engine file loads tables; specify routes or tables for it")
    if engine not in ENGINES:
        raise InputError(wrong_name("OpenSM has no routing engine", engine, ENGINES, "it has"))
    check_limit(timeout_s)
    forwarding = int(np.count_nonzero(fabric.forwards)) - fabric.num_switches
    if forwarding:
        raise NotApplicable(
            f"{forwarding} hosts of {fabric.name} forward packets, but InfiniBand's adapters cannot"
        )
    programs = {name: find_program(name) for name in ("ibsim", "opensm")}
    library = preload(timeout_s)
    with orderly_signals():
        processes = Processes(None if keep is None else Path(keep))
        try:
            subnet = Subnet(fabric, engine, processes, programs, library, timeout_s)
            subnet._start(own, loaded, lmc, qos, dict(options or {}))
            given = routes if isinstance(routes, TableRoutes) else subnet._given
            subnet._verify(subnet._expected, given)
            yield subnet
        finally:
            processes.close()


class Subnet(Running):
    """A simulated fabric with a running OpenSM; created by `live`.

    Attributes
    ----------
    initial_fabric
        The fabric that is simulated at the start, with all cables.
    engine
        The engine of OpenSM, ``file`` for loaded tables.
    environment
        Environment in which programs use the simulated fabric:
        ``subprocess.run(["ibnetdiscover"], env=subnet.environment)``.
    folder
        Folder of OpenSM's log and dumps.
    notes
        Texts about changes and additions by weft, such as a torus-2QoS.conf.
    pairs
        Number of ordered host pairs that are connected by cables; their paths in OpenSM's dump were
        checked.
    problems
        Text about host pairs that are connected by cables but have no path, as found at the start
        or by the last `reload`; empty if there are none.
    """

    # -- using -------------------------------------------------------------------------------

    def _verify(self, expected: Lids, given: TableRoutes | None) -> None:
        """Check OpenSM's dumps; see `weft.subnet.live.verify.verify`."""
        routes = verify(self.fabric, self.folder, self.sweep, expected, given)
        judged = validate(self.fabric, routes)
        hosts = self.fabric.num_hosts
        self.pairs = hosts * (hosts - 1) - judged.num_disconnected_pairs
        self.problems = ()
        pairs = judged.unrouted_connected_pairs
        if not judged.ok_where_connected and len(pairs):
            source, target = (self.fabric.host_names[int(host)] for host in pairs[0])
            self.problems = (
                f"{len(pairs):,} of {self.pairs:,} host pairs have no path, for "
                f"example {source} to {target}{complaints(self.sweep.errors)}",
            )

    def lids(self) -> Lids:
        """Return the LIDs of all ports of the fabric from OpenSM's guid2lid."""
        return lids_of(self.fabric, read_guid2lid(self.folder / GUID2LID))

    def lfts(self) -> TableRoutes:
        """Return the present tables of the switches, read by ``dump_fts``.

        It leaves out the highest LID if that is a multiple of 64; ibsim tells its entries.

        Raises
        ------
        WeftError
            If the program is missing or fails.
        """
        path = self.folder / "dump_fts.out"
        write_text(path, self.run(["dump_fts"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            routes = read_lfts(self.fabric, path, lids=(lids := self.lids()))
        last = lids.base + (1 << lids.lmc.astype(np.int64)) - 1
        end = int(np.argmax(last))
        if last[end] % DUMP_BLOCK == 0:
            line = (end << routes.lmc) + int(last[end] - lids.base[end])
            table = routes.table.copy()
            for switch, port in self._entries(int(last[end])).items():
                table[line, switch] = port
            routes = replace(routes, table=table)
        return replace(routes, engine=f"OpenSM's {self.engine}")

    def differences(
        self, wanted: TableRoutes, programmed: TableRoutes | None = None
    ) -> NDArray[np.int64]:
        """Return the table entries in which the switches differ from routes.

        Parameters
        ----------
        wanted
            Routes of `fabric`.
        programmed
            Tables of the switches, by default `lfts`.

        Returns
        -------
        NDArray
            int64 [entries, 2]: the indices of each entry in `TableRoutes.table`. LIDs that no port
            has are not compared: LIDs of unreachable ports and switches, and LIDs of switches at
            offsets above 0.
        """
        if programmed is None:
            programmed = self.lfts()
        if programmed.table.shape != wanted.table.shape:
            raise InputError(
                f"the subnet has LMC {programmed.lmc}, but the routes LMC {wanted.lmc}"
            )
        return differences(self.fabric, self.lids(), wanted, programmed)

    def trace(
        self, source: str | int, destination: str | int, *, offset: int = 0
    ) -> tuple[int, ...]:
        """Return the nodes on a path, both ends included, from ``ibtracert``.

        Parameters
        ----------
        source, destination
            Nodes, by number, name or GUID. If a node has several ports, the first port with a cable
            is used.
        offset
            Offset of the destination's LID from its base LID.

        Raises
        ------
        WeftError
            If there is no path.
        """
        lids = self.lids()
        ends = [self._destination(node) for node in (source, destination)]
        first, last = (int(lids.base[end]) for end in ends)
        if not 0 <= offset < 1 << int(lids.lmc[ends[1]]):
            raise InputError(f"{destination} has LID offsets 0 to {(1 << lids.lmc[ends[1]]) - 1}")
        output = self.run(["ibtracert", str(first), str(last + offset)])
        at = {lid: end for end, lid in enumerate(lids.base.tolist()) if lid}
        path = [ends[0]]
        for lid in _HOP.findall(output):
            path.append(at[int(lid)])
        return tuple(_node(self.fabric, end) for end in path)

    def _destination(self, name: str | int) -> int:
        fabric = self.fabric
        node = fabric.find_node(name) if isinstance(name, str) else int(name)
        if node < fabric.num_switches:
            return fabric.num_endpoints + node
        ports = np.flatnonzero(fabric.endpoint_node == node)
        if not len(ports):
            raise InputError(f"{fabric.node_names[node]} has no cable")
        return int(ports[0])

    def run(
        self, command: Sequence[str], *, timeout_s: float | None = None, check: bool = True
    ) -> str:
        """Run a program on the subnet and wait for its end.

        Parameters
        ----------
        command
            Program and arguments, such as ``["ibnetdiscover"]``.
        timeout_s
            Time limit in seconds, by default the time limit of the subnet.
        check
            Whether an exit status other than 0 is an error.

        Returns
        -------
        str
            Standard output of the program.

        Raises
        ------
        WeftError
            If the program is missing, takes too long, or fails, or the subnet has ended.
        """
        self._check_running()
        limit = self.timeout_s if timeout_s is None else timeout_s
        check_limit(limit)
        name = str(command[0])
        program = find_program(name)
        process = subprocess.Popen(
            [program, *map(str, command[1:])],
            env=self.environment,
            # Each client of ibsim creates a folder in its working folder.
            cwd=None if os.access(".", os.W_OK) else self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise WeftError(f"{name} did not end within {limit:g} s") from None
        finally:
            _end(process)
        if check and process.returncode:
            message = " / ".join(line for line in errors.split("\n") if line.strip())
            raise WeftError(f"{name} failed with status {process.returncode}: {message}")
        return output

    def run_in_terminal(self, command: Sequence[str], *, timeout_s: float | None = None) -> int:
        """Run a command with this process's standard input, output and error.

        While the command runs, Ctrl-C affects only the command.

        Returns
        -------
        int
            Exit status of the command, 128 + n if it was ended by signal n.

        Raises
        ------
        WeftError
            If the command is missing or exceeds its time limit, or the subnet has ended.
        """
        self._check_running()
        name = str(command[0])
        program = name if os.path.dirname(name) else find_program(name)
        with interrupts_left_to_the_command():
            try:
                process = subprocess.Popen([program, *command[1:]], env=self.environment)
            except OSError as error:
                raise WeftError(f"cannot run {name}: {error.strerror or error}") from None
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise WeftError(f"{name} did not end within {timeout_s:g} s") from None
            finally:
                _end(process)
        return status if status >= 0 else 128 - status

    # -- changing ----------------------------------------------------------------------------

    def reload(self, routes: Routes) -> None:
        """Load other routes, and wait until OpenSM has programmed them.

        Parameters
        ----------
        routes
            Routes of the present `fabric` or of `initial_fabric`, with the LMC of the subnet.

        Raises
        ------
        NotApplicable
            If OpenSM cannot express the routes.
        """
        if self.engine != "file":
            raise InputError(
                f"OpenSM routes with its own engine {self.engine}; start the subnet with routes"
            )
        tables, given = self._to_load(routes)
        for name, text in tables.files.items():
            if name != GUID2LID:
                write_text(self.folder / name, text)
        self.manager.sweep_again()
        self._verify(self._expect(read_guid2lid(self.folder / GUID2LID)), given)

    def _to_load(self, routes: Routes) -> tuple[OpensmTables, TableRoutes]:
        """Return routes as OpenSM's files, and the tables that the switches in reach then have."""
        whole = self.initial_fabric
        fabric = whole if routes.fabric_digest == whole.digest else self.fabric
        cache = read_guid2lid(self.folder / GUID2LID)
        lids = predict_lids(fabric, lmc=self._lmc, sm=self._own, cache=cache)
        tables, _ = tables_for(fabric, routes, lids=lids)
        assert isinstance(routes, TableRoutes)  # tables_for refuses other routes
        return tables, routes.on(fabric, self.fabric)

    def restart(self, routing: str | TableRoutes) -> None:
        """End OpenSM, start it with another engine or other routes, and wait for its sweep.

        Parameters
        ----------
        routing
            Engine of OpenSM, or routes that it loads, as for `reload`.

        Raises
        ------
        NotApplicable
            If OpenSM cannot express the routes, or the engine refuses the fabric: then `sweep` has
            the engine to which OpenSM fell back.
        """
        if isinstance(routing, str):
            given = None
            self._restart(routing, None)
        else:
            tables, given = self._to_load(routing)
            self._restart(tables.settings["routing_engine"], tables)
        self._verify(self._expect(read_guid2lid(self.folder / GUID2LID)), given)

    def unlink(self, *ports: str, sweep: bool = True) -> None:
        """Unplug the cables in ports, ``node[port]``; with `sweep`, let OpenSM route again."""
        for port in ports:
            cable = self.initial_fabric.find_cable(port)
            if cable in self._pulled:
                raise InputError(f"the cable in {port} is already unplugged")
            if self._own in self.initial_fabric.link_from[2 * cable : 2 * cable + 2]:
                raise InputError(
                    f"the cable in {port} leads to {self.initial_fabric.node_names[self._own]}, "
                    "on which OpenSM runs; start the subnet with another sm_host"
                )
            self._console(f"Unlink {self._end_of(cable)}")
            self._pulled[cable] = port
        if sweep:
            self.manager.sweep_again()

    def relink(self, *ports: str) -> None:
        """Plug in the cables of ports again, and let OpenSM route again."""
        for port in ports:
            cable = self.initial_fabric.find_cable(port)
            if cable not in self._pulled:
                raise InputError(f"the cable in {port} is not unplugged")
            self._console(f"ReLink {self._end_of(cable)}")
            del self._pulled[cable]
        self.manager.sweep_again()


def _end(process: subprocess.Popen[Any]) -> None:
    """End a client of ibsim if it still runs, and remove its leftovers from the folder."""
    end_process(process)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    guardian.remove_leftovers(".")


def _node(fabric: Fabric, destination: int) -> int:
    """Return the node of a destination."""
    if destination >= fabric.num_endpoints:
        return destination - fabric.num_endpoints
    return int(fabric.endpoint_node[destination])
