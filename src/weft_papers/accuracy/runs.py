"""The machines that were measured, and one predicted figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2
from typing import Any, Literal

import polars as pl

from weft.advice.expect.fit import fit
from weft.advice.expect.programs import program_of
from weft.fabrics import Fabric
from weft.fabrics.load import fabric
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import HostParameters
from weft.sim.packet.hardware import Hardware
from weft.sim.simulate import simulate
from weft.study.runs.typed import typed_run


@dataclass(frozen=True)
class MeasuredMachine:
    """What is public about a machine that was measured."""

    #: Fabric as a spec with the fields ``nodes`` and ``leaves`` (of 16 machines each).
    spec: str
    #: Data rate of an adapter.
    gbps: float
    #: Model of the inside of machines; empty: not known.
    node: str = ""
    #: Ranks on each machine, where logs do not say it, and MPI libraries that may have run.
    ranks: int = 1
    libraries: tuple[str, ...] = ("",)
    #: Latencies of data sheets: that of a switch, and half of that of two adapters.
    switch_ns: float = 100.0
    adapter_ns: float = 0.0


_RAILS = "leaf-spine:leaves=8,spines=5,cables=2,hosts={nodes},rate="
_TWO_TIERS = "leaf-spine:leaves={leaves},spines=4,cables=4,hosts=16,rate="
#: System as measurements name it -> its machine; logs of nccl-tests name none.
MACHINES = {
    "": MeasuredMachine(_RAILS + "NDR", 400, "dgx-h100"),
    "azure/cyclecloud": MeasuredMachine(
        _TWO_TIERS + "HDR", 200, "", 96, ("openmpi-5",),
        switch_ns=130, adapter_ns=300,
    ),
    "on-premises/dane": MeasuredMachine(
        _TWO_TIERS + "200", 200, "", 112, ("openmpi-5", "mvapich2", "mpich"),
        switch_ns=110, adapter_ns=300,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Prediction:
    """A figure to predict.

    The first nine are values of a row of `Measurements.frame`. `library`: MPI library; empty for
    NCCL, and for figures of two ranks. `parameters`: fitted parameters of hosts, as JSON; empty:
    values of data sheets.
    """

    system: str
    benchmark: str
    program: str
    operation: str
    size_bytes: int
    ranks: int | None
    nodes: int
    pairs: int
    window: int | None
    library: str
    level: Literal["flow", "packet"] = "flow"
    parameters: str = ""


@lru_cache(maxsize=8)
def routed(system: str, nodes: int) -> tuple[Fabric, Routes]:
    """Return the fabric of some machines of a system, and its routes."""
    machine = MACHINES[system]
    spec = machine.spec.format(nodes=nodes, leaves=ceil(nodes / 16))
    built = fabric(spec, node=machine.node or None)
    return built, route(built, "minhop")


@typed_run
def predict(_: None, task: Prediction, watch: Callable[[Any], None]) -> dict[str, Any]:
    """Predict a figure in ns or Gb/s as `weft expect` does; also return what the library chose."""
    watch(None)
    machine = MACHINES[task.system]
    built, routes = routed(task.system, task.nodes)
    row = {**vars(task), "from_machine": "", "to_machine": "", "source": task.system, "line": None}
    program = program_of(built, row, task.library, machine.ranks)
    hardware = Hardware(switch_latency_ns=machine.switch_ns, adapter_latency_ns=machine.adapter_ns)
    options: dict[str, Any] = {"hardware": hardware}
    if task.parameters:
        options["hardware"] = Hardware(switch_latency_ns=machine.switch_ns)
        options["host_parameters"] = HostParameters.model_validate_json(task.parameters)
    result = simulate(built, routes, program.workload, program.hosts, level=task.level, **options)
    return {"value": program.figure(result), "choice": "; ".join(program.workload.notes)}


def fitted(system: str, pairs: pl.DataFrame) -> str:
    """Return parameters of hosts from the point-to-point figures of a system, as JSON.

    The runs on the fewest machines are fitted, so that the others test the result.
    """
    fewest = pairs.filter(pl.col("nodes") == pl.col("nodes").min())
    hardware = Hardware(switch_latency_ns=MACHINES[system].switch_ns)
    found = fit(*routed(system, fewest["nodes"][0]), fewest, hardware=hardware)
    return found.parameters.model_dump_json(exclude_none=True)


def rule_of_thumb(row: Mapping[str, Any]) -> float:
    """Return what people calculate on paper for a row with a `ping_ns`, in ns or Gb/s.

    A message takes the latency of the machine's own ping of 8 bytes, and its bytes at the rate of
    an adapter. The bus bandwidth of NCCL is the rate of the adapters in use. An allreduce of MPI
    takes recursive doubling or Rabenseifner's algorithm, whichever is faster.
    """
    name, size, ranks = str(row["operation"]), int(row["size_bytes"]), int(row["ranks"])
    rate, ping_ns = MACHINES[row["system"]].gbps / 8, float(row["ping_ns"] or 0)
    if row["benchmark"] == "nccl-tests":
        moved = {"allreduce": 2 * (ranks - 1) / ranks, "sendrecv": 1}.get(name, 1 - 1 / ranks)
        return moved * size / rate / (1 if name in ("sendrecv", "alltoall") else int(row["each"]))
    one = ping_ns + size / rate
    if name == "allreduce":
        steps = ceil(log2(ranks))
        return min(steps * one, 2 * steps * ping_ns + 2 * size / rate)
    return 8 * size / one if name == "bandwidth" else one
