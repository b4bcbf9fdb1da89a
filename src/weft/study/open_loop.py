"""Keys and runs of studies of open-loop traffic, for `weft sweep` and the search for saturation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from weft.core.errors import InputError, NotApplicable
from weft.core.settings import settings
from weft.routing.routes import Routes
from weft.sim.flow import Sharing
from weft.sim.methods import methods
from weft.sim.options import Level, RunSettings, TimedLevel, listed
from weft.sim.sweep import TrafficSettings
from weft.sim.sweep.one_load import draws_destinations
from weft.sim.sweep.settings import OWN, LoadSeries, loads_of
from weft.study.checks import (
    Files,
    WrongKey,
    check_distinct,
    check_fabric,
    check_methods,
    check_models,
    check_policies,
    check_spec,
)
from weft.study.checks import seeded as with_usual_seeds
from weft.study.experiment.run import FabricCache
from weft.study.experiment.spec import (
    RUN,
    TABLES,
    AdapterPart,
    HardwarePart,
    Head,
    RouterPart,
    can_be,
    table_model,
)
from weft.workload.patterns import pattern as patterns

_RUN = [item for item in RUN if item.field not in OWN]


#: What `as_loads` takes.
LoadText = float | Annotated[str, Field(pattern=r"[:,$\d]")] | tuple[float, ...]


def as_loads(value: Any) -> Any:
    """Convert FIRST:LAST:STEP, or numbers with commas, to a list of loads."""
    if isinstance(value, str):
        try:
            return tuple(loads_of(value))
        except InputError as error:
            raise ValueError(error.message) from None
    return (value,) if isinstance(value, int | float) else value


def seeded(parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Put a seed into parameters; destinations are drawn with the seed of the run."""
    changed = with_usual_seeds(parameters, given, seed)
    if draws_destinations(parameters["pattern"]):
        changed["pattern"] = parameters["pattern"]
    return changed


def methods_of(
    keys: Any, levels: Sequence[Level], sharing: Sequence[Sharing | None] = (None,)
) -> list[dict[str, str]]:
    """Return every combination of the keys ``engine``, ``routing`` and ``policy``."""
    try:
        found = methods(levels, keys.engine, keys.routing, keys.policy, sharing)
    except InputError as error:
        raise WrongKey(error.message, ("policy",)) from None
    return [each.named() for each in found]


class OpenLoopHead(Head):
    """Fabric, engines and levels of open-loop traffic.

    Parameters
    ----------
    level
        Levels of detail: ``packet``, ``flow`` or ``flit``.
    """

    level: Annotated[tuple[TimedLevel, ...], BeforeValidator(listed), Field(min_length=1)] = (
        "packet",
    )


OpenLoopRuns: Any = table_model(
    "OpenLoopRuns", [*settings(TrafficSettings), *_RUN], base=OpenLoopHead
)


class OpenLoopKeys(OpenLoopRuns):  # type: ignore[misc]
    """Open-loop traffic. Each combination of the items of compared lists is a run.

    Parameters
    ----------
    hardware
        Properties of switches and adapters.
    router, adapter
        Properties of the routers and of the adapters of the flit level.
    """

    hardware: Annotated[HardwarePart, AfterValidator(can_be)] = HardwarePart()
    router: Annotated[RouterPart, AfterValidator(can_be)] = RouterPart()
    adapter: Annotated[AdapterPart, AfterValidator(can_be)] = AdapterPart()

    def check(self, files: Files) -> None:
        """Check the values as far as possible without running."""
        check_fabric(self, files)
        check_methods(self, files)
        check_distinct(self.sharing, "sharing")
        check_policies([level for level in self.level if level != "flow"], self.policy)
        check_spec(patterns, self.pattern, files, "pattern")
        check_models(self, self.sharing, files)

    def methods(self) -> list[dict[str, str]]:
        """Return engine or routing, level, and sharing model or policy of every combination."""
        return methods_of(self, self.level, self.sharing)

    def parameters(self, method: Mapping[str, str], common: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of one run: single values, and only settings that its level has."""
        keys = {
            name: value
            for name, value in common.items()
            if name not in ("engine", "routing", "level", "sharing", "policy")
        }
        for item in settings(RunSettings):
            if not item.of(method["level"]):
                keys.pop(item.key, None)
        if method.get("sharing") != "penalty":
            keys.pop("coefficients", None)
        return {**keys, **method}

    def axes(self, method: Mapping[str, str]) -> dict[str, str]:
        """Return the values of a combination, without a single policy or sharing model."""
        return {
            name: value
            for name, value in method.items()
            if name not in ("sharing", "policy") or len(getattr(self, name)) > 1
        }

    def configuration(self, loaded: FabricCache) -> LoadSeries:
        """Return the only configuration of these keys, ready to run."""
        (level,) = self.level
        fields = ("policy", "sharing", "seed", "coefficients")
        given = {item.field: getattr(self, item.key) for item in settings(TrafficSettings)}
        given |= {
            item.field: getattr(self, item.key)
            for item in _RUN if item.of(level) and item.field not in fields
        }  # fmt: skip
        given |= {
            item.field: getattr(self, item.field).instance
            for item in settings(RunSettings) if item.field in TABLES and item.of(level)
        }  # fmt: skip
        if level == "flow":
            (given["sharing"],) = self.sharing
            if self.coefficients is not None:
                given["coefficients"] = self.coefficients
        fabric = loaded.fabric(self)
        policy, routing = (None if not each else each[0] for each in (self.policy, self.routing))
        routes: Routes | NotApplicable | None = None
        if self.engine:
            routes = loaded.routes(fabric, self.engine[0], lambda doing: None)
        if isinstance(routes, NotApplicable):
            raise routes
        return LoadSeries.of(fabric, routes, level, policy, routing, self.seed, given)
