"""Studies of `weft place-io`: hosts for I/O nodes, and for the jobs beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from weft.advice.io_nodes.place import place_io
from weft.advice.io_nodes.result import CANDIDATE_COLUMNS
from weft.advice.io_nodes.settings import IoSettings
from weft.core.settings import Option, settings
from weft.routing import engine as engines
from weft.study.checks import FABRIC_FILES, Files, check_fabric, check_spec, check_specs
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.experiment.spec import FabricKeys, Names, NumberOrText, table_model
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft.workload.patterns import pattern as patterns
from weft.workload.placement import placement as placements

MEASURES = measures(
    CANDIDATE_COLUMNS,
    first=("confirmed_io_gbps", "confirmed_compute_gbps", "write_gbps", "read_gbps"),
    higher=[name for name in CANDIDATE_COLUMNS if name.endswith("_gbps")],
    lower=[name for name in CANDIDATE_COLUMNS if name.endswith("interference")],
)

_Settings: Any = table_model("PlaceIoSettings", settings(IoSettings), base=FabricKeys)


class PlaceIoKeys(_Settings):  # type: ignore[misc]
    """A search for hosts of I/O nodes.

    Parameters
    ----------
    engine
        Routing engines in order of preference: the first that fits is used.
    io_nodes
        Number of I/O nodes to place, or their hosts, such as ``io[1-4]``.
    compute, clients
        Hosts of the compute job and of the I/O job: a number to place, or a host list.
    """

    engine: Annotated[
        Names | None, Option(usual="minhop, or nue if minhop's routes can deadlock")
    ] = None
    io_nodes: NumberOrText
    compute: Annotated[NumberOrText | None, Option(usual="all hosts without another role")] = None
    clients: Annotated[NumberOrText | None, Option(usual="the hosts that compute leaves")] = None


def points(keys: PlaceIoKeys, files: Files) -> list[Point]:
    """Return the only run, which compares all candidates."""
    check_fabric(keys, files)
    check_specs(engines, keys.engine, files, "engine")
    check_spec(patterns, keys.pattern, files, "pattern")
    check_specs(placements, keys.placements, files, "placements")
    check_specs(placements, keys.compute_placements, files, "compute_placements")
    return [Point({}, keys.model_dump(mode="json", exclude_none=True))]


@study_command(
    "place-io",
    keys=PlaceIoKeys,
    points=points,
    measures=MEASURES,
    tables={"candidates": CANDIDATE_COLUMNS},
    files=FABRIC_FILES,
    example={
        "fabric": "xgft:2;4,4;1,2", "io_nodes": 2, "moves": 2, "randoms": 1, "finalists": 1,
        "repeats": 1,
    },
)  # fmt: skip
def place_io_nodes(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Choose hosts for I/O nodes, as `weft place-io` does; measure the best placement."""
    keys, wanted = keys_and_tables(PlaceIoKeys, parameters)
    options = {item.field: getattr(keys, item.key) for item in settings(IoSettings)}
    result = place_io(LAST.fabric(keys), options.pop("io_nodes"), keys.engine, **options)
    row = result.table.row(0, named=True)
    tables = {"candidates": result.table} if "candidates" in wanted else {}
    return RunResult(values(MEASURES, row), tables)
