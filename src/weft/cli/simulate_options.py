"""Options of `weft simulate`: one for each setting of a job, of runs and of the output."""

from __future__ import annotations

from typing import Any

from weft.cli.options import options_of
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.sim.flit.adapter import parse_adapter
from weft.sim.flit.router import parse_router
from weft.sim.options import RunSettings
from weft.sim.packet.hardware import check_known, parse_hardware
from weft.study.experiment.spec import Experiment, Head, JobPart, OutputPart

#: Settings that are tables in files -> function that parses their words NAME=VALUE.
WORDS = {"hardware": parse_hardware, "router": parse_router, "adapter": parse_adapter}
JOB, _OUTPUT = settings(JobPart), settings(OutputPart)
_OWN = [item for item in settings(Experiment) if item.key == "max_seconds"]
_SETTINGS = (*settings(Head), *settings(RunSettings), *_OWN)
_Options: Any = options_of("RunOptions", [*JOB, *_SETTINGS, *_OUTPUT])


class RunOptions(_Options):  # type: ignore[misc]
    """Options of a job, of runs and of the output."""

    def keys(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the given keys of the job, of the experiment and of its output."""
        given = self.given()
        job, run, output = (
            {item.key: self.value(name) for name, item in given.items() if item in of}
            for of in (JOB, _SETTINGS, _OUTPUT)
        )
        for key, parse in WORDS.items():
            if key in run:
                try:
                    run[key] = parse(run[key])
                except InputError as error:
                    raise InputError(f"--{key}: {error.message}") from None
        return job, run, output

    def check_levels(self, levels: tuple[str, ...]) -> None:
        """Refuse options that no level of the experiment has."""
        for item in self.given().values():
            if not any(map(item.of, levels)):
                raise InputError(f"{item.flag} requires --level {' or '.join(item.option.levels)}")
        check_known(parse_hardware(self.value("hardware")), levels)


NO_OPTIONS = RunOptions()
