"""Function `simulate`: run a workload over routes at one of the levels of detail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError
from weft.core.settings import document
from weft.fabrics import Fabric, check_fabric
from weft.routing.routes import Routes
from weft.sim.common.progress import Forecast, Progress
from weft.sim.options import Level, RunSettings, check_level
from weft.workload import Workload
from weft.workload.placement import host_of_rank
from weft.workload.rolled import RolledWorkload

#: Operations, links and packets below which a run surely takes little time and memory.
SMALL = 2**18

if TYPE_CHECKING:
    from weft.sim.flit.workloads import FlitResult
    from weft.sim.flow.result import FlowResult, RolledResult
    from weft.sim.packet.result import PacketResult
    from weft.sim.static.phases import StaticWorkload

Watch = Callable[[Progress], None] | None
Told = Callable[[Forecast], None] | None


@runtime_checkable
class Result(Protocol):
    """Members common to the results of all levels."""

    @property
    def fabric(self) -> Fabric:
        """Fabric of the run."""

    @property
    def engine(self) -> str:
        """Name of the routes' engine."""

    @property
    def workload(self) -> Workload:
        """Workload of the run."""

    @property
    def host(self) -> Any:
        """Host of each rank, int32 [ranks]."""

    @property
    def makespan_ns(self) -> float | None:
        """End of the last operation or arrival; None at the static level, which has no time."""

    def messages(self) -> pl.DataFrame:
        """Return one row for each message, in the order of the workload."""

    def phases(self) -> pl.DataFrame:
        """Return one row for each phase."""

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link."""

    def summary(self) -> dict[str, Any]:
        """Return the main figures by name."""


@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear", *,
    level: Literal["flow"] = "flow", progress: Watch = None, expected: Told = None, **options: Any,
) -> FlowResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: RolledWorkload,
    placement: str | ArrayLike = "linear", *, level: Literal["flow"] = "flow",
    progress: Watch = None, expected: Told = None, **options: Any,
) -> RolledResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Literal["packet"], progress: Watch = None, expected: Told = None, **options: Any,
) -> PacketResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes | str, workload: Workload,
    placement: str | ArrayLike = "linear",
    *, level: Literal["flit"], progress: Watch = None, expected: Told = None, **options: Any,
) -> FlitResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Literal["static"], expected: Told = None, **options: Any,
) -> StaticWorkload: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes | str, workload: Workload,
    placement: str | ArrayLike = "linear",
    *, level: Level, progress: Watch = None, expected: Told = None, **options: Any,
) -> FlowResult | PacketResult | FlitResult | StaticWorkload: ...  # fmt: skip


def simulate(
    fabric: Fabric, routes: Routes | str, workload: Any, placement: str | ArrayLike = "linear",
    *, level: Level = "flow", progress: Watch = None, expected: Told = None, **options: Any,
) -> Any:  # fmt: skip
    """Run a workload over routes.

    The ``flow`` level treats messages as fluids that share links (docs/flow-level.md). The
    ``packet`` level simulates every packet with credits, lanes and arbitration
    (docs/packet-level.md). The ``flit`` level simulates routers cycle by cycle and moves every flit
    of every packet (docs/flit-level.md). The ``static`` level adds up the messages of each phase,
    without time.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes. At the flit level, `routes` may also be a routing by coordinates
        by name, such as ``dor`` or ``nca-adaptive``, with options (``weft list routings``).
    workload
        The workload; at the flow level also a `RolledWorkload`, whose result is a `RolledResult`.
    placement
        A placement by name, with options as in ``random:seed=3``, or the host number of each rank.
    level
        Level of detail: ``flow``, ``packet``, ``flit`` or ``static``.
    progress
        Function that is called several times a second with the progress of the run. At the packet
        and the flit level, the function may raise `weft.StopRun` to end the run; the result covers
        the time until then.
    expected
        Function that is called before the run with its `Forecast`, unless the run is surely short.

    Returns
    -------
    FlowResult, RolledResult, PacketResult, FlitResult or StaticWorkload
        Each is a `Result`. A result of the packet or the flit level is marked incomplete if the run
        was stopped by `max_time_ns`, a keyboard interrupt or `StopRun`.

    Raises
    ------
    InputError
        If the level does not have an option, a rank has no host, a pair of hosts has no path, a
        value is invalid, or the run deadlocks. The message about a deadlock names the ranks that
        wait for each other and their operations, or a cycle of full buffers.
    NotApplicable
        If the policy does not fit the routes, or the fabric or its routes do not fit the level.
    OutOfMemory
        If the run would need more memory than is available.
    IncompleteRun
        If a run at the flow level reaches `max_time_ns` before its end.
    """
    chosen, hosts = _prepared(fabric, routes, workload, placement, level, options)
    if level == "static" and progress is not None:
        raise InputError("the static level has no progress; the other levels do")
    if isinstance(workload, RolledWorkload):
        outlook, run = _rolled(chosen, level, fabric, routes, workload, hosts)
        if expected is not None:
            expected(outlook)
        return run(progress)
    size = workload.num_ops + fabric.num_links
    if level in ("packet", "flit"):
        size += int(workload.size_bytes.sum()) // chosen.hardware.mtu_bytes
    if size >= SMALL:
        from weft.sim.forecast import forecast_of

        outlook = forecast_of(chosen, level, fabric, routes, workload, hosts)
        outlook.check()
        if expected is not None:
            expected(outlook)
    if level == "flit":
        from weft.sim.flit.workloads import run_flits

        return run_flits(fabric, routes, workload, hosts, chosen.flit(routes), progress)
    assert isinstance(routes, Routes)
    if level == "static":
        from weft.sim.static.phases import analyse_workload

        return analyse_workload(fabric, routes, workload, hosts, ports=chosen.ports)
    keyed = None
    if (rules := chosen.keys) is not None:
        from weft.sim.keys.run import KeyRun

        keyed = KeyRun(fabric, routes, workload, hosts, rules, chosen.seed)
    if level == "flow":
        from weft.sim.flow.engine import run_flows

        return run_flows(fabric, routes, workload, hosts, chosen.flow, progress, keyed)
    from weft.sim.packet.engine import run_packets

    return run_packets(fabric, routes, workload, hosts, chosen.packet(routes), progress, keyed)


def forecast(
    fabric: Fabric, routes: Routes | str, workload: Workload | RolledWorkload,
    placement: str | ArrayLike = "linear", *, level: Level = "flow", **options: Any,
) -> Forecast:  # fmt: skip
    """Return the time and memory that a run is expected to take; docs/scaling.md has the model.

    Parameters and errors are those of `simulate`. A run that would not fit into memory is no error
    here: `Forecast.shortage` says what would fit. That of a rolled workload is made when its cells
    are known and its first window is laid, which needs memory.
    """
    from weft.sim.forecast import forecast_of

    chosen, hosts = _prepared(fabric, routes, workload, placement, level, options)
    if isinstance(workload, RolledWorkload):
        return _rolled(chosen, level, fabric, routes, workload, hosts)[0]
    return forecast_of(chosen, level, fabric, routes, workload, hosts)


def _rolled(
    chosen: RunSettings, level: Level, fabric: Fabric, routes: Any, workload: RolledWorkload,
    hosts: NDArray[np.int32],
) -> tuple[Forecast, Callable[[Watch], Any]]:  # fmt: skip
    """Return the forecast of a rolled workload, and the function that runs it."""
    if level == "flow":
        from weft.sim.flow.rolled import FlowWindows

        run = FlowWindows(fabric, routes, workload, hosts, chosen.flow)
        return run.forecast(), run.run
    from weft.sim.forecast import forecast_of
    from weft.sim.packet.engine import run_packets
    from weft.sim.packet.rolled import PacketWindows

    windows, options = PacketWindows(workload), chosen.packet(routes)
    outlook = forecast_of(chosen, level, fabric, routes, windows.piece, hosts, windows)
    return outlook, partial(run_packets, fabric, routes, windows, hosts, options)


def _prepared(
    fabric: Fabric, routes: Routes | str, workload: Workload | RolledWorkload,
    placement: str | ArrayLike, level: Level, options: dict[str, Any],
) -> tuple[RunSettings, NDArray[np.int32]]:  # fmt: skip
    """Check the arguments of `simulate`; return the settings and the host of each rank."""
    check_fabric(fabric)
    named = level == "flit" and isinstance(routes, str)
    rolled = isinstance(workload, RolledWorkload)
    for given, kind in ((routes, Routes), (workload, RolledWorkload if rolled else Workload)):
        if not isinstance(given, kind) and not (given is routes and named):
            raise InputError(f"expected {kind.__name__}, not {given!r}")
    chosen = RunSettings.at(check_level(level), options)
    if isinstance(workload, RolledWorkload):
        chosen.check_rolled(level)
        return chosen, host_of_rank(fabric, workload.num_ranks, placement)
    if level != "flit" and len(workload.multicast):
        raise InputError(
            f"{workload.name or 'the workload'} has hardware broadcasts or barriers, which the "
            f"{level} level does not; choose the flit level or another algorithm"
        )
    if level != "flow" and len(workload.tree):
        raise InputError(
            f"{workload.name or 'the workload'} has reductions in switches, which the {level} "
            "level does not; choose the flow level or another algorithm"
        )
    return chosen, host_of_rank(fabric, workload.num_ranks, placement)


document(simulate, RunSettings)
