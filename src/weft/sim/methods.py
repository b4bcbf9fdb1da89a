"""Which engines, routings, policies and sharing models are combined at which level of detail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from weft.sim.flow.sharing import Sharing
from weft.sim.options import Level

#: Engine if neither an engine nor a routing is given.
USUAL_ENGINE = "minhop"


class Method(NamedTuple):
    """An engine's routes or, at the flit level, a routing by coordinates; and how they are run."""

    #: An engine by name, or its routes; None for a routing.
    engine: Any
    routing: str | None
    level: Level
    sharing: Sharing | None = None
    policy: str | None = None

    def named(self) -> dict[str, Any]:
        """Return what the method has, by name."""
        return {name: each for name, each in self._asdict().items() if each is not None}


def methods(
    levels: Iterable[Level],
    engines: Sequence[Any] | None,
    routings: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    sharing: Sequence[Sharing | None] = (None,),
) -> Iterator[Method]:
    """Yield every combination, by level.

    The flow level has sharing models, the packet and the flit level have policies. Routings, which
    take no policy, are those of the flit level; it has no usual engine if there are any.

    Parameters
    ----------
    engines, policies
        None for the usual one.
    """
    for level in levels:
        named = (routings or ()) if level == "flit" else ()
        used = (() if named else (USUAL_ENGINE,)) if engines is None else engines
        for engine in used:
            if level == "flow":
                yield from (Method(engine, None, level, sharing=each) for each in sharing)
            else:
                yield from (
                    Method(engine, None, level, policy=each) for each in policies or (None,)
                )
        yield from (Method(None, each, level) for each in named)
