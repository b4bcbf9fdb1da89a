"""A live subnet: the real OpenSM, running on the fabric as ibsim simulates it."""

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
from weft.core.registry import did_you_mean
from weft.fabrics import Fabric, check_fabric
from weft.fabrics.formats import FormatWarning
from weft.opensm.export import tables_for
from weft.opensm.files.lfts import read_lfts
from weft.opensm.files.lids import Lids, read_guid2lid
from weft.opensm.files.osm_log import ENGINES, complaints
from weft.opensm.files.tables_folder import GUID2LID, read_tables
from weft.opensm.live import guardian
from weft.opensm.live.processes import (
    Processes,
    check_limit,
    find_program,
    interrupts_left_to_the_command,
    orderly_signals,
    preload,
)
from weft.opensm.live.running import Running, sm_node
from weft.opensm.live.verify import differences, remembered_lids, verify
from weft.routes import Routes, TableRoutes
from weft.routing.validation.validate import validate

#: Seconds that the subnet may take to come up, and so may each change.
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
    """Run the real OpenSM on a simulated fabric, for as long as the ``with`` block lasts.

    Parameters
    ----------
    fabric
        What to simulate. LIDs that it has are what its ports have when OpenSM starts.
    engine
        OpenSM's own engine, ``minhop`` when neither this nor `routes` nor `tables` is given.
    routes
        Routes of weft, which OpenSM loads with its engine ``file``.
    tables
        A folder of ``weft opensm export``, or an LFT dump, loaded likewise.
    lmc
        OpenSM's LMC; that of the tables when left out.
    qos
        Let OpenSM program lanes; left out, when the engine or the routes need it.
    sm_host
        Host that OpenSM runs on, by name, GUID or node number; it needs a cable in port 1. The
        first that has one when left out.
    options
        More settings of ``opensm.conf``, such as ``{"root_guid_file": "roots.guids"}``.
    timeout_s
        Limit in seconds for the subnet to come up, for each change, and for each query.
    keep
        Folder to work in and leave behind; left out, a temporary one that is removed.

    Yields
    ------
    Subnet
        After OpenSM's dumps were read back: the cables are those of the fabric, each port has its
        LID, and the switches hold the tables that were given. Host pairs without a path are in
        its ``problems``.

    Raises
    ------
    NotApplicable
        When the engine refuses the fabric, where OpenSM itself would fall back to minhop in
        silence; when OpenSM cannot carry the routes; when hosts forward; or when ibsim cannot
        give the ports the GUIDs that they have.
    InputError
        On an unknown engine or host, more than one of engine, routes and tables, tables of
        another fabric, or an LMC that is not theirs.
    WeftError
        When a program is missing (with the Debian package that has it), ends, or takes too long,
        or cables, LIDs or tables are not what they should be.

    Notes
    -----
    Nothing stays behind, whatever ends the block or the process: a guardian process ends all
    programs and removes the folder; see `weft.opensm.live.guardian`. In the main thread SIGTERM and
    SIGHUP leave as `SystemExit` unless the program handles them.
    """
    check_fabric(fabric)
    if sum(given is not None for given in (engine, routes, tables)) > 1:
        raise InputError("give one of an engine of OpenSM, routes, and tables")
    own = sm_node(fabric, sm_host)
    loaded = None if tables is None else read_tables(Path(tables))
    if routes is not None:
        loaded, _ = tables_for(fabric, routes, sm_host=own)
    if engine is None:
        engine = "minhop" if loaded is None else loaded.settings["routing_engine"]
    if engine == "file" and loaded is None:
        # Without a file OpenSM computes minhop and calls it "file".
        raise InputError("OpenSM's engine file routes by tables; give routes or tables for it")
    if engine not in ENGINES:
        raise InputError(
            f"OpenSM has no routing engine {engine!r}{did_you_mean(engine, ENGINES)}; it has "
            f"{', '.join(ENGINES)}"
        )
    check_limit(timeout_s)
    forwarding = int(np.count_nonzero(fabric.forwards)) - fabric.num_switches
    if forwarding:
        raise NotApplicable(
            f"{forwarding} hosts of {fabric.name} forward packets, which InfiniBand's adapters "
            "do not"
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
    """A simulated fabric with a running OpenSM; made by `live`.

    Attributes
    ----------
    whole
        What was simulated first, with all cables.
    engine
        The engine of OpenSM, ``file`` for tables that were loaded.
    environment
        In which any program talks to the simulated fabric: ``subprocess.run(["ibnetdiscover"],
        env=subnet.environment)``.
    folder
        OpenSM's log and dumps.
    notes
        What weft added by itself, such as a torus-2QoS.conf.
    pairs
        Ordered pairs of hosts that cables connect, whose paths were walked in OpenSM's dump.
    problems
        What is wrong although LIDs and tables are as they should be: host pairs that cables
        connect and that have no path by the tables. As of the start, or of the last `reload`.
    """

    # -- using -------------------------------------------------------------------------------

    def _verify(self, expected: Lids, given: TableRoutes | None) -> None:
        """Read back what OpenSM did; see `weft.opensm.live.verify.verify`.

        Raises
        ------
        WeftError
            When cables, LIDs or tables are not those that they should be.
        """
        found = verify(self.fabric, self.folder, self.sweep, expected, given)
        judged = validate(self.fabric, found)
        hosts = self.fabric.num_hosts
        self.pairs = hosts * (hosts - 1) - judged.num_disconnected_pairs
        self.problems = ()
        if not judged.ok_where_connected and len(judged.lost_pairs):
            source, target = (self.fabric.host_names[int(host)] for host in judged.lost_pairs[0])
            self.problems = (
                f"{len(judged.lost_pairs):,} of {self.pairs:,} host pairs have no path, such as "
                f"{source} to {target}{complaints(self.sweep.errors)}",
            )

    def lids(self) -> Lids:
        """LIDs of all ports of the fabric, as OpenSM remembers them."""
        return remembered_lids(self.fabric, self.folder / GUID2LID)

    def lfts(self) -> TableRoutes:
        """The tables that the switches hold now, asked of each by ``dump_fts``.

        Raises
        ------
        WeftError
            When the program is missing or fails.
        """
        path = self.folder / "dump_fts.out"
        write_text(path, self.run(["dump_fts"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            found = read_lfts(self.fabric, path, lids=self.lids())
        return replace(found, engine=f"OpenSM's {self.engine}")

    def differences(
        self, wanted: TableRoutes, found: TableRoutes | None = None
    ) -> NDArray[np.int64]:
        """Entries of tables that the switches hold otherwise.

        Parameters
        ----------
        wanted
            Routes of `fabric`.
        found
            What to compare with, `lfts` when left out.

        Returns
        -------
        NDArray
            int64 [entries, 2]: line of the table and switch. LIDs that nobody has count for
            nothing: those of ports and switches out of reach, and the further LIDs that the
            tables of an LMC have for switches.
        """
        if found is None:
            found = self.lfts()
        if found.table.shape != wanted.table.shape:
            raise InputError(f"the subnet has LMC {found.lmc}, and the routes LMC {wanted.lmc}")
        return differences(self.fabric, self.lids(), wanted, found)

    def trace(
        self, source: str | int, destination: str | int, *, offset: int = 0
    ) -> tuple[int, ...]:
        """Nodes on the way of a packet, both ends included, as ``ibtracert`` finds them.

        Parameters
        ----------
        source, destination
            Nodes, by number, name or GUID; of several ports the first with a cable.
        offset
            Which of the destination's LIDs it is sent to.

        Raises
        ------
        InputError
            When there is no such node, or it has no such LID.
        WeftError
            When there is no way.
        """
        lids = self.lids()
        ends = [self._destination(node) for node in (source, destination)]
        first, last = (int(lids.base[end]) for end in ends)
        if not 0 <= offset < 1 << int(lids.lmc[ends[1]]):
            raise InputError(f"{destination} has LID offsets 0 to {(1 << lids.lmc[ends[1]]) - 1}")
        output = self.run(["ibtracert", str(first), str(last + offset)])
        at = {lid: end for end, lid in enumerate(lids.base.tolist()) if lid}
        found = [ends[0]]
        for lid in _HOP.findall(output):
            found.append(at[int(lid)])
        return tuple(_node(self.fabric, end) for end in found)

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
        """Run a program on the subnet to its end.

        Parameters
        ----------
        command
            Program and arguments, such as ``["ibnetdiscover"]``.
        timeout_s
            Limit in seconds, that of the subnet when left out.
        check
            Take an exit status other than 0 for an error.

        Returns
        -------
        str
            Its standard output.

        Raises
        ------
        WeftError
            When it is missing, takes too long, or fails, or the subnet has ended.
        """
        self._check_running()
        limit = self.timeout_s if timeout_s is None else timeout_s
        check_limit(limit)
        name = str(command[0])
        program = find_program(name)
        process = subprocess.Popen(
            [program, *map(str, command[1:])],
            env=self.environment,
            # Each client of ibsim makes a folder where it runs.
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
            said = " / ".join(line for line in errors.split("\n") if line.strip())
            raise WeftError(f"{name} failed with status {process.returncode}: {said}")
        return output

    def run_in_terminal(self, command: Sequence[str], *, timeout_s: float | None = None) -> int:
        """Run a command with this process's own standard input, output and error.

        Ctrl-C is left to the command while it runs.

        Returns
        -------
        int
            Its exit status, 128 + n when signal n ended it.

        Raises
        ------
        WeftError
            When it is missing or exceeds its limit, or the subnet has ended.
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
            For `fabric` as it is now, with the LMC of the subnet.

        Raises
        ------
        InputError
            When OpenSM routes with an engine of its own, or the routes are for another fabric.
        NotApplicable
            When OpenSM cannot carry the routes.
        """
        if self.engine != "file":
            raise InputError(
                f"OpenSM routes with its own {self.engine} here; start the subnet with routes"
            )
        expected = self._expect(read_guid2lid(self.folder / GUID2LID))
        tables, _ = tables_for(self.fabric, routes, lids=expected)
        for name, text in tables.files.items():
            if name != GUID2LID:
                write_text(self.folder / name, text)
        self.sweep_again()
        assert isinstance(routes, TableRoutes)  # tables_for refuses what is none
        self._verify(expected, routes)

    def unlink(self, port: str) -> None:
        """Pull the cable in a port, ``node[port]``, and wait until OpenSM has routed around it.

        Raises
        ------
        InputError
            When no cable is there, it is pulled already, or OpenSM's own host hangs on it.
        """
        cable = self.whole.find_cable(port)
        if cable in self._pulled:
            raise InputError(f"the cable in {port} is pulled already")
        if self._own in self.whole.link_from[2 * cable : 2 * cable + 2]:
            raise InputError(
                f"the cable in {port} is that of {self.whole.node_names[self._own]}, which "
                "OpenSM runs on; start the subnet with another sm_host"
            )
        self._console(f"Unlink {self._end_of(cable)}")
        self._pulled[cable] = port
        self.sweep_again()

    def relink(self, port: str) -> None:
        """Plug the cable of a port in again, and wait until OpenSM has routed.

        Raises
        ------
        InputError
            When it was not pulled.
        """
        cable = self.whole.find_cable(port)
        if cable not in self._pulled:
            raise InputError(f"the cable in {port} is not pulled")
        self._console(f"ReLink {self._end_of(cable)}")
        del self._pulled[cable]
        self.sweep_again()


def _end(process: subprocess.Popen[Any]) -> None:
    """End a client of ibsim that may still run, and remove what it left in its folder."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(guardian.PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    guardian.remove_leftovers(".")


def _node(fabric: Fabric, destination: int) -> int:
    """Node of a destination."""
    if destination >= fabric.num_endpoints:
        return destination - fabric.num_endpoints
    return int(fabric.endpoint_node[destination])
