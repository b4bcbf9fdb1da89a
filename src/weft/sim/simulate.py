"""`simulate`: run a workload over routes, at one of the levels of detail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, overload, runtime_checkable

import polars as pl
from numpy.typing import ArrayLike

from weft.core.errors import InputError
from weft.core.settings import document
from weft.fabrics import Fabric, check_fabric
from weft.routes import Routes
from weft.sim.flow import FlowResult, Progress, run_flows
from weft.sim.flow.engine import host_of_rank
from weft.sim.options import Level, RunSettings, check_level
from weft.sim.packet import PacketResult, run_packets
from weft.sim.static.phases import StaticWorkload, analyse_workload
from weft.workload import Workload

Watch = Callable[[Progress], None]


@runtime_checkable
class Result(Protocol):
    """What every level's result has."""

    @property
    def fabric(self) -> Fabric:
        """What ran on it."""

    @property
    def engine(self) -> str:
        """The engine that made the routes."""

    @property
    def workload(self) -> Workload:
        """What ran."""

    @property
    def host(self) -> Any:
        """int32 [ranks]: the host of each rank."""

    @property
    def makespan_ns(self) -> float | None:
        """End of the last operation or arrival; None at the static level, which knows no time."""

    def messages(self) -> pl.DataFrame:
        """One row a message, in the order of the workload."""

    def phases(self) -> pl.DataFrame:
        """One row a phase."""

    def links(self) -> pl.DataFrame:
        """One row a directed link."""

    def summary(self) -> dict[str, Any]:
        """The figures that matter, by name."""


@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Literal["flow"] = "flow", progress: Watch | None = None, **options: Any,
) -> FlowResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Literal["packet"], progress: Watch | None = None, **options: Any,
) -> PacketResult: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Literal["static"], **options: Any,
) -> StaticWorkload: ...  # fmt: skip
@overload
def simulate(
    fabric: Fabric, routes: Routes, workload: Workload, placement: str | ArrayLike = "linear",
    *, level: Level, progress: Watch | None = None, **options: Any,
) -> FlowResult | PacketResult | StaticWorkload: ...  # fmt: skip


def simulate(
    fabric: Fabric,
    routes: Routes,
    workload: Workload,
    placement: str | ArrayLike = "linear",
    *,
    level: Level = "flow",
    progress: Watch | None = None,
    **options: Any,
) -> FlowResult | PacketResult | StaticWorkload:
    """Run a workload over routes.

    The ``flow`` level has messages as fluids that share links (docs/flow-level.md), the ``packet``
    level every packet with credits, lanes and arbitration (docs/packet-level.md), the ``static``
    level the messages of each phase as if all were there at once, and no time.

    Parameters
    ----------
    fabric, routes
        Where, and by which way.
    workload
        What the ranks do.
    placement
        A placement by name, with options as in ``random:seed=3``, or the host number of each rank.
    level
        Level of detail: ``flow``, ``packet`` or ``static``.
    progress
        Called several times a second with how far the run has come. At the packet level it may
        raise `weft.StopRun`, which ends the run with what is known until then.

    Returns
    -------
    FlowResult, PacketResult or StaticWorkload
        Each a `Result`. One of the packet level is marked incomplete after `max_time_ns`, an
        interrupt from the keyboard, or `StopRun`.

    Raises
    ------
    InputError
        On an option that the level does not know, a rank without a host, a pair of hosts without a
        path, a wrong value, or a run in which nothing moves any more: ranks that wait for each
        other, named with what they wait for, or a circle of full buffers, named too.
    NotApplicable
        When policy and routes do not go together.
    IncompleteRun
        At the flow level, when `max_time_ns` passed before the end.
    """
    check_fabric(fabric)
    for given, kind in ((routes, Routes), (workload, Workload)):
        if not isinstance(given, kind):
            raise InputError(f"expected {kind.__name__}, not {given!r}")
    chosen = RunSettings.at(check_level(level), options)
    if level == "static" and progress is not None:
        raise InputError("the static level has no progress; the flow and the packet level have it")
    hosts = host_of_rank(fabric, workload, placement)
    if level == "static":
        return analyse_workload(fabric, routes, workload, hosts, ports=chosen.ports)
    if level == "flow":
        return run_flows(fabric, routes, workload, hosts, chosen.flow, progress)
    return run_packets(fabric, routes, workload, hosts, chosen.packet(routes), progress)


document(simulate, RunSettings)
