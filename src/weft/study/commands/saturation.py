"""Studies of the load at which networks saturate, as `weft sweep --saturation` finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from weft.core.errors import InputError
from weft.core.settings import Number
from weft.sim.sweep import SATURATION_COLUMNS
from weft.sim.sweep.saturation import search
from weft.sim.sweep.settings import LOAD_STEP
from weft.study.checks import FABRIC_FILES, Files
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.measures import HOSTS, measures, values
from weft.study.open_loop import OpenLoopKeys, seeded
from weft.study.runs.task import RunResult

MEASURES = measures(
    {**SATURATION_COLUMNS, **HOSTS},
    first=("sustained_load", "saturation_load", "saturated_load", "accepted_load"),
    higher=("sustained_load", "saturation_load", "saturated_load", "accepted_load"),
    without=("size_bytes", "rate_gbps"),
)

_Load = Annotated[Number, Field(ge=LOAD_STEP, allow_inf_nan=False)]


class SaturationKeys(OpenLoopKeys):
    """A search for the load at which a network saturates.

    Parameters
    ----------
    resolution
        Width of the interval of loads at the end of the search.
    highest
        Load of the first run; the search ends there if this load does not saturate the network.
    """

    resolution: _Load = 0.01
    highest: _Load = 1.0


def points(keys: SaturationKeys, files: Files) -> list[Point]:
    """Return a search for each engine and policy, or routing."""
    keys.check(files)
    common = keys.model_dump(mode="json", exclude_none=True)
    return [Point(keys.axes(each), keys.parameters(each, common)) for each in keys.methods()]


@study_command(
    "saturation",
    keys=SaturationKeys,
    points=points,
    measures=MEASURES,
    tables={},
    files=(*FABRIC_FILES, "coefficients", "host_parameters"),
    seeded=seeded,
    example={
        "fabric": "xgft:2;4,4;1,2", "engine": "dmodk", "resolution": 0.2, "measure": "20us",
        "pattern": "random-permutation",
    },
)  # fmt: skip
def saturation(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Search for the load at which a network saturates, as `weft sweep --saturation` does."""
    keys, _ = keys_and_tables(SaturationKeys, parameters)
    series = keys.configuration(LAST)
    found = search(series, (0, (keys.highest, keys.resolution)), watch)
    if found["status"] == "failed":
        raise InputError(found["reason"])
    return RunResult(values(MEASURES, {**found, "hosts": series.fabric.num_hosts}))
