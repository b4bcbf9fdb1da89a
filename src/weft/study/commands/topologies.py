"""Studies of `weft topologies`: machines of every family, sized for a number of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from weft.advice.machine_room import Prices
from weft.core.errors import InputError
from weft.core.settings import File, Group, Option, Seed, Whole
from weft.core.units import Bytes, Count
from weft.fabrics.topology import topology
from weft.fabrics.topology.sizing import machines_for, ports_of
from weft.routing import engine as engines
from weft.sim.options import TimedLevel
from weft.study.checks import WORKLOADS as RANDOM_WORKLOADS
from weft.study.checks import (
    Files,
    WrongKey,
    check_distinct,
    check_file,
    check_spec,
    check_with,
    seeded,
    with_seed,
)
from weft.study.command_registry import Point, Watch, study_command
from weft.study.experiment.spec import Names, Part
from weft.study.machines import (
    HIGHER,
    LOWER,
    MACHINE_COLUMNS,
    WORKLOADS,
    MachineRun,
    Routing,
    describe_machine,
)
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft.workload import load_workload
from weft.workload.placement import placement as placements

#: Keys of the file that every run has.
RUN_KEYS = ("placement", "level", "routing", "engine", "prices", "seed")
#: Why a class of routing is not taken with an engine.
ONE_OF = "an engine has its class of routing: give one of the two"
MEASURES = measures(MACHINE_COLUMNS, lower=LOWER, higher=HIGHER, first=(*LOWER[:3], *HIGHER))


class RandomFaults(Part):
    """Random faults of each machine.

    Parameters
    ----------
    random_cables
        Number, or share such as ``2%``, of random cables between switches that are missing; parts
        and costs include them. A share is rounded to the nearest number, and is at least one.
    seed
        Seed of the random faults.
    """

    GROUP: ClassVar[Group] = "fabric"

    random_cables: Count = 0
    seed: Annotated[Seed, Option(flag="fault_seed")] = 0


class TopologyKeys(Part):
    """Machines of every family, each of which is a run with each workload.

    Parameters
    ----------
    hosts
        Number of hosts.
    rate
        Rate of all cables, by name or in Gb/s.
    radix
        Number of ports of a switch; by default that of a usual switch of the rate.
    family
        Machines, such as ``dragonfly``, ``fat-tree-2:1``, or ``fat-tree`` for all fat trees; by
        default all. Those that do not fit are left out.
    workload
        Workloads with one rank per host.
    placement
        Placement of the ranks, such as ``random:seed=1``.
    level
        Level of detail of the workloads.
    saturation
        Level of detail of a search for saturation under uniform traffic, which is a run more and
        may take minutes; by default there is none.
    routing
        Class of routing of all machines; by default static. ``static``: one path per pair, by the
        static engine that suits the family, else dfsssp. ``adaptive``: a choice among minimal and
        non-minimal paths (ugal) on low-diameter networks, and among all minimal paths (ecmp) on
        others.
    engine
        Routing engine of all machines, instead of a class.
    eager
        Size of the largest message that is sent without a rendezvous, as ``16KiB``.
    prices
        A price file; without it, there are no costs.
    seed
        Seed of bisections and simulations; random specs have seeds of their own.
    faults
        Random faults of each machine, whose parts and costs are those without faults.
    """

    hosts: Annotated[Whole, Field(ge=2)]
    rate: Annotated[str, Option(group="first")] = "4xNDR"
    radix: Annotated[Whole, Field(ge=2)] | None = None
    family: Annotated[Names | None, Option(compared="texts", plural="families", group="first")] = (
        None
    )
    workload: Annotated[Names, Option(compared="texts", plural="workloads", group="first")] = (
        WORKLOADS
    )
    placement: Annotated[str, Option(group="workload")] = "linear"
    level: Annotated[TimedLevel, Option(group="levels")] = "flow"
    saturation: Annotated[TimedLevel | None, Option(group="levels")] = None
    routing: Annotated[Routing | None, Option(group="routing")] = None
    engine: Annotated[str | None, Option(group="routing")] = None
    eager: Annotated[Bytes | None, Option(group="levels")] = None
    prices: Annotated[File | None, Option(group="room")] = None
    seed: Seed = 0
    faults: RandomFaults = RandomFaults()


def points(keys: TopologyKeys, files: Files) -> list[Point]:
    """Return a run for each machine and workload, and for each search for saturation."""
    check_with(("rate",), ports_of, keys.rate)
    radix = ports_of(keys.rate) if keys.radix is None else keys.radix
    try:
        machines, refused = machines_for(keys.hosts, radix, keys.rate, keys.family)
    except InputError as error:
        raise WrongKey.of(error, keys) from None
    if not machines:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise WrongKey(f"no machine fits: {reasons}", ("hosts",))
    check_distinct(keys.workload, "workload")
    for number, name in enumerate(keys.workload):
        check_with(("workload", number), load_workload, files.find(name) or name, keys.hosts)
    check_spec(placements, keys.placement, files, "placement")
    if keys.engine is not None and keys.routing is not None:
        raise WrongKey(ONE_OF, ("routing",))
    if keys.engine is not None:
        check_spec(engines, keys.engine, files, "engine")
    if keys.prices is not None:
        check_file(files, keys.prices, "prices")
        check_with(("prices",), Prices.read, files.find(keys.prices))
    common = keys.model_dump(mode="json", include=set(RUN_KEYS), exclude_none=True)
    if keys.eager is not None:
        common["eager_bytes"] = keys.eager
    if keys.faults.seed and not keys.faults.random_cables:
        raise WrongKey("seed requires random_cables", ("faults", "seed"))
    if keys.faults.random_cables:
        common["faults"] = keys.faults.model_dump()
    kinds = [(name, {"workload": name}) for name in keys.workload]
    if keys.saturation is not None:
        kinds.append(("saturation", {"saturation": keys.saturation}))
    return [
        Point({"machine": each.name, "workload": name}, {**common, "spec": each.spec, **kind})
        for each in machines
        for name, kind in kinds
    ]


def _seeded(parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Put a seed into the topology, workload and placement, too, where these are random."""
    changed = seeded(parameters, given, seed)
    for key, registries in (
        ("spec", (topology,)), ("workload", RANDOM_WORKLOADS), ("placement", (placements,)),
    ):  # fmt: skip
        if key in changed:
            changed[key] = with_seed(changed[key], seed, *registries)
    return changed


def draws(parameters: Mapping[str, Any]) -> list[str]:
    """Return the measures of random bisections and, where paths are drawn, of simulations."""
    timed = ["makespan_ns", "throughput_gbps"] if parameters["level"] != "flow" else []
    return ["bisection", "ebb", "saturation", *timed]


@study_command(
    "topologies",
    keys=TopologyKeys,
    points=points,
    measures=MEASURES,
    tables={},
    files=("prices", "workload"),
    details={
        "spec": "Spec of the fabric",
        **{
            name: MACHINE_COLUMNS[name].meaning
            for name in ("routing", "engine", "faults", "not_computed")
        },
    },
    seeded=_seeded,
    draws=draws,
    example={
        "hosts": 12,
        "radix": 8,
        "family": "torus",
        "workload": "shift",
        "placement": "random",
    },
)
def machine(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Measure a machine under a workload, as `weft topologies` does."""
    given = {key: value for key, value in parameters.items() if key not in ("tables", "faults")}
    if faults := parameters.get("faults"):
        given |= {"random_cables": faults["random_cables"], "fault_seed": faults["seed"]}
    if "prices" in given:
        given["prices"] = Prices.read(given["prices"])
    row = describe_machine(MachineRun(**given))
    names = {name: value for name, value in row.items() if isinstance(value, str)}
    lacking = row["not_computed"]
    return RunResult(
        {**values(MEASURES, row), **names}, {}, "partial" if lacking else "complete", lacking or ""
    )
